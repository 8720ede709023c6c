// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// Capability is what a machine must offer to run commands.
const Capability = "commands"

// shellPath is the shell that runs scripts.
const shellPath = "/bin/bash"

// A Script is a command in the language of bash.
type Script struct {
	Command        // without Path and Args
	Text    string // what to run

	// KeepDir has later scripts begin in the directory in which this one ends.
	KeepDir bool
}

// maxArgument is how long the kernel lets one argument be, and a little less.
const maxArgument = 128<<10 - 16

// What is put around a script: where it ends is told, or it comes from a file.
const (
	tellDir  = `trap 'pwd -P >"$TOOLSERVER_DIR"' EXIT; `
	fromFile = `TOOLSERVER_SCRIPT=$(<"$0"); rm -f -- "$0"; eval "$TOOLSERVER_SCRIPT"`
)

// RunScript runs a script to its end and returns the result for the model. What
// it writes is reported as it comes. A script that is stopped returns what there
// is by then.
func (r *Runner) RunScript(ctx context.Context, env tools.Env, s Script, out tools.Sink) (tools.Result, error) {
	var endsIn *os.File
	if s.KeepDir {
		var err error
		if s.jail, err = r.jailFor(ctx, &s.Command); err != nil {
			return tools.Result{}, err
		}
		defer s.jail.close()
		if endsIn, err = os.CreateTemp(s.jail.temp, "dir-*"); err != nil {
			return tools.Result{}, noSpace(err)
		}
		defer os.Remove(endsIn.Name())
		defer endsIn.Close()
		s.Env = append(slices.Clip(s.Env), "TOOLSERVER_DIR="+r.seen(endsIn.Name()))
		s.Text = tellDir + s.Text
	}
	c, cleanup, err := r.prepareScript(s)
	if err != nil {
		return tools.Result{}, err
	}
	defer cleanup()
	r.all.mu.Lock()
	r.scripts = true
	r.all.mu.Unlock()
	result, err := r.follow(ctx, env, c, out, func(ctx context.Context, take Taker) (*Running, error) {
		if readyFits(s) && r.traceEnv(ctx) == nil { // which is in no environment yet
			if x, ok := r.beginReady(ctx, s, take); ok {
				return x, nil
			}
		}
		return r.begin(ctx, c, take)
	})
	if endsIn != nil && result.Exit != nil {
		if remark := r.keep(endsIn); remark != "" {
			result.Content = append(result.Content, tools.Text(remark))
		}
	}
	return result, err
}

// StartScript starts a script that nobody follows. Its output goes to take until it has
// ended.
func (r *Runner) StartScript(ctx context.Context, s Script, take Taker) (*Running, error) {
	c, cleanup, err := r.prepareScript(s)
	if err != nil {
		return nil, err
	}
	return r.start(ctx, c, take, cleanup)
}

// prepareScript returns the command that runs a script. Call cleanup when it has
// ended.
func (r *Runner) prepareScript(s Script) (c Command, cleanup func(), err error) {
	c = s.Command
	c.rebases = rebases(s.Text)
	c.Path, c.Args = shellPath, []string{"-c", s.Text}
	if len(s.Text) <= maxArgument {
		return c, func() {}, nil
	}
	path, err := r.file(s.Text)
	if err != nil {
		return c, nil, err
	}
	c.Args = []string{"-c", fromFile, r.seen(path)}
	return c, func() { os.Remove(path) }, nil
}

// file writes a script that is too long for an argument to a file.
func (r *Runner) file(text string) (path string, err error) {
	file, err := os.CreateTemp(r.temp(), "script-*")
	if err != nil {
		return "", noSpace(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		os.Remove(file.Name())
		return "", noSpace(err)
	}
	return file.Name(), nil
}

// noSpace says what to do where a disk is full.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return tools.Failf("disk_full", "Nothing was run: the disk is full, and the server needs a file for this command. Free some space, or use a shorter command, without keep_workdir.")
	}
	return err
}

// keep makes the directory that a script told the one that calls work in, or says
// that it is outside of the workspace and therefore not kept. The file is the one
// the server made, whatever the script has put in its place.
func (r *Runner) keep(endsIn *os.File) (remark string) {
	var text [4096]byte
	n, _ := endsIn.ReadAt(text[:], 0)
	dir := strings.TrimSuffix(string(text[:n]), "\n")
	if dir == "" {
		return ""
	}
	path, inside := r.workspace.Resolve(dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !inside {
		return fmt.Sprintf("(Later calls begin in %s as before: %s, where this one ended, is outside of the workspace.)", filepath.Join(r.workspace.Dir(), r.dir), output.Clean([]byte(dir)))
	}
	r.dir = path
	return ""
}
