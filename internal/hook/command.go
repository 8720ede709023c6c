// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// blockStatus is the exit status with which a program blocks.
const blockStatus = 2

// Bounds of the paths that a script has as arguments, in number and bytes.
const (
	maxArgs     = 1000
	maxArgBytes = 64 << 10
)

// changes reports whether the command of the hook is there to change files. All others
// decide, or tell somebody, and nothing that a call can write may change how they run.
func (hook *Hook) changes() bool {
	return hook.Point == FileChanged || hook.Point == SessionStart || hook.Point == SessionEnd
}

// rights returns what the command of a hook may touch.
func (hook *Hook) rights(where Where) tools.Rights {
	r := tools.Rights{Confinement: tools.Reading, Network: hook.Network, Deny: where.Deny, Aside: true}
	if hook.changes() {
		r.Confinement = where.Writes
	}
	if r.Confinement == tools.Named {
		r.Write = []string{"."}
	}
	if filepath.IsAbs(hook.Run[0]) {
		r.Read = []string{hook.Run[0]}
		if real, err := filepath.EvalSymlinks(hook.Run[0]); err == nil && real != hook.Run[0] {
			r.Read = append(r.Read, real)
		}
	}
	return r
}

// run runs the command of a hook to its end.
func (h *Hooks) run(ctx context.Context, hook *Hook, where Where, text []byte, paths []string) (Answer, error) {
	if program := hook.Run[0]; filepath.IsAbs(program) {
		if _, err := os.Stat(program); err != nil {
			return Answer{}, &detailed{"its program is gone", err.Error()}
		}
	}
	runner, err := h.options.Runners.Of(where.Env)
	if err != nil {
		return Answer{}, err
	}
	c := command.Command{
		Path: hook.Run[0], Args: hook.Run[1:], Dir: ".", Input: true, Rights: hook.rights(where), Restrictions: where.Env.Restrictions,
		MaxOutput: int64(hook.MaxOutput), Apart: !hook.changes(),
		Env: []string{"TOOLSERVER_HOOK=" + hook.Name, "TOOLSERVER_HOOK_POINT=" + string(hook.Point)},
	}
	if hook.Run.script() {
		c.Args = append(c.Args[:len(c.Args):len(c.Args)], arguments(paths)...)
	}
	var stdout, stderr, all strings.Builder
	x, err := runner.Start(ctx, c, func(stream tools.Stream, data []byte) {
		all.Write(data)
		if stream == tools.Stderr {
			stderr.Write(data)
		} else {
			stdout.Write(data)
		}
	})
	if err != nil {
		return Answer{}, err
	}
	defer context.AfterFunc(ctx, func() { x.Stop(context.Cause(ctx)) })()
	x.Write(ctx, text) // a program need not read it
	x.CloseInput()
	end, err := x.Wait()
	if err != nil {
		return Answer{}, err
	}
	if found := x.Found(); len(found) > 0 {
		return Answer{}, fmt.Errorf("it did what no command may, and that was taken back: %s", strings.Join(found, "; "))
	}
	said := output.Clean([]byte(all.String()))
	if ctx.Err() != nil && end.Exit.Reason != tools.Exited {
		return hook.findings(said), hook.late(ctx, "")
	}
	switch {
	case end.Exit.Reason == tools.OutputLimit:
		return hook.findings(said), fmt.Errorf("it wrote more than the %s it may", hook.MaxOutput)
	case end.Exit.Reason != tools.Exited:
		return hook.findings(said), fmt.Errorf("it was ended: %s", strings.TrimSpace(end.Exit.Reason.String()+" "+end.Exit.Signal+" "+end.Exit.Message))
	case end.Exit.Code == 0 && hook.Point == FileChanged && !strings.HasPrefix(strings.TrimSpace(stdout.String()), "{"):
		return hook.findings(said), nil
	case end.Exit.Code == 0:
		return parseAnswer(hook.Point, stdout.String())
	case hook.Point == FileChanged: // a linter tells by its status that there is something
		return hook.findings(said), nil
	case end.Exit.Code == blockStatus:
		return hook.blocked(strings.TrimSpace(output.Clean([]byte(stderr.String()))))
	}
	return hook.findings(said), &detailed{fmt.Sprintf("it ended with exit status %d", end.Exit.Code), saying(stderr.String())}
}

// findings returns what a hook wrote as an answer, at points where that is for the model.
func (hook *Hook) findings(said string) (a Answer) {
	if hook.Point == FileChanged {
		a.Context = strings.TrimSpace(said)
	}
	return a
}

// blocked returns the answer of a program that blocks.
func (hook *Hook) blocked(reason string) (Answer, error) {
	if reason == "" {
		reason = "It gave no reason."
	}
	switch hook.Point {
	case BeforeCall, AfterCall:
		return Answer{Block: &Reason{reason}}, nil
	case BeforeUpdate:
		return Answer{Suppress: true}, nil
	}
	return Answer{}, &detailed{fmt.Sprintf("it ended with exit status %d, and there is nothing to block at %s", blockStatus, hook.Point), saying(reason)}
}

// saying returns the last line of what a program wrote, for the log.
func saying(text string) string {
	lines := strings.Split(strings.TrimSpace(output.Clean([]byte(text))), "\n")
	return output.Short(lines[len(lines)-1], 200)
}

// arguments returns the paths that a script has as arguments. None looks like an option.
func arguments(paths []string) (args []string) {
	left := maxArgBytes
	for _, path := range paths {
		if strings.HasPrefix(path, "-") {
			path = "./" + path
		}
		if left -= len(path) + 1; left < 0 || len(args) == maxArgs {
			break
		}
		args = append(args, path)
	}
	return args
}
