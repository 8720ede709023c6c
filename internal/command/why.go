// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Finding is what exit status 1 says of a command that looks for something: it
// did what it was asked.
type Finding string

const (
	NothingFound Finding = "nothing was found"         // grep, rg, git grep
	TheyDiffer   Finding = "there are differences"     // diff, cmp
	NotSo        Finding = "the condition is not true" // test
)

// failure is a command that ended with an exit status, and what is known of why.
type failure struct {
	runner  *Runner
	env     tools.Env
	command *Command
	code    int
	said    string // the end of what it wrote
}

// maxSaid is how much of the end of an output is looked at.
const maxSaid = 8 << 10

// hint tells why a command failed, where that is known, and what would be right.
func (f *failure) hint() string {
	config := &f.runner.all.config
	switch sig := syscall.Signal(f.code - 128); {
	case sig == syscall.SIGXFSZ && config.Limits.FileSize > 0:
		return fmt.Sprintf(" A program wrote a file larger than the %s that a file may have, and was ended. Write less, or several files.", output.Size(uint64(config.Limits.FileSize)))
	case sig == syscall.SIGXCPU && config.Limits.CPU > 0:
		return fmt.Sprintf(" A program computed for more than the %s that a process may, and was ended. Split the work.", config.Limits.CPU)
	case f.code == 127:
		return f.notFound()
	case f.code == 126:
		return f.notExecutable()
	}
	if hint := f.network(); hint != "" {
		return hint
	}
	if refused.MatchString(f.said) {
		return f.closed()
	}
	if f.code > 128 && f.code < 128+65 {
		if name := signalName(syscall.Signal(f.code - 128)); name != "" {
			return " That is what bash says of a program that signal " + name + " ended."
		}
	}
	return ""
}

// closed tells what the command may write, where the sandbox keeps it from the rest.
func (f *failure) closed() string {
	may := "this command writes to the workspace, its home and $TMPDIR"
	switch f.command.Rights.Confinement {
	case tools.Reading:
		may = "this command was judged to read only, and writes to a temporary directory that goes with it"
	case tools.Named:
		may = "this command writes to what it was judged to write, its home and $TMPDIR"
	case tools.Unconfined:
		return ""
	}
	return " What was denied may be closed by the sandbox: " + may + ", and to nothing else."
}

// refused matches what programs say of what they may not do.
var refused = regexp.MustCompile(`(?i)permission denied|operation not permitted|read-only file system|EACCES|EPERM|EROFS`)

// unreachable matches what programs say of hosts that cannot be reached.
var unreachable = regexp.MustCompile(`(?i)could not resolve (host|proxy)|name resolution|name or service not known|network is unreachable|no route to host|` +
	`no such host|getaddrinfo|EAI_AGAIN|\bENOTFOUND|ENETUNREACH|unable to resolve host|nodename nor servname|failed to lookup address|` +
	`failed to establish a new connection|dial tcp|could not connect to server|unknownhost|Connection to .* failed`)

// network tells that a host could not be reached because there is no way to it.
func (f *failure) network() string {
	if f.command.Rights.Network == tools.NetworkOpen || !unreachable.MatchString(f.said) {
		return ""
	}
	reach := map[tools.Network]string{
		tools.NetworkNone:  "none",
		tools.NetworkHosts: "only its own loopback and the hosts that the server allows",
	}[f.command.Rights.Network]
	if reach == "" {
		reach = "only its own loopback, 127.0.0.1"
	}
	return fmt.Sprintf(" It could not reach a host. The network of this command is %s: trying again does not help. Use what is installed or in the workspace, or tell the user what has to be fetched.", reach)
}

// missing matches what shells say of a program that they do not find, with its name.
var missing = regexp.MustCompile(`(?m)([^\s:'"` + "`" + `]+): (?:command not found|not found|No such file or directory)$|env: [‘'](.+?)[’']: No such file`)

// notFound tells where a program is that the shell did not find, or which has a
// name like it.
func (f *failure) notFound() string {
	all := missing.FindAllStringSubmatch(f.said, -1)
	if len(all) == 0 {
		return " A program was not found."
	}
	last := all[len(all)-1]
	name := last[1] + last[2]
	if strings.Contains(name, "/") {
		return fmt.Sprintf(" There is no program %s. %s", name, tools.DidYouMean(effects.NearFiles(f.env, path.Join(f.command.Dir, name)), "Paths are relative to the directory that the command runs in."))
	}
	if places := f.inWorkspace(name); len(places) > 0 {
		return fmt.Sprintf(" The program %s is not in $PATH, but the workspace has it: call it as %s.", name, strings.Join(places, " or "))
	}
	near := nearest.Names(name, f.runner.all.programs())
	// Many machines have python and pip only as python3 and pip3: that is what was
	// meant, however many names are as near.
	if with := name + "3"; len(name) > 2 {
		if _, ok := f.runner.all.Find(with); ok && !slices.Contains(near, with) {
			near = append([]string{with}, near[:min(len(near), 2)]...)
		}
	}
	return fmt.Sprintf(" There is no program %s on this machine. %s", name, tools.DidYouMean(near, "Use another, or write what it would do as a script."))
}

// inWorkspace returns how a command of the workspace is called that has a name,
// relative to where the command ran.
func (f *failure) inWorkspace(name string) []string {
	var places []string
	for _, dir := range []string{".", "bin", "scripts", "node_modules/.bin", ".venv/bin", "venv/bin"} {
		at := path.Join(f.command.Dir, dir)
		for _, entry := range effects.Glance(f.env, at, 2000) {
			if entry.Name() == name && !entry.IsDir() {
				places = append(places, "./"+path.Join(dir, name))
			}
		}
	}
	return places[:min(len(places), 2)]
}

// denied matches what a shell says of a file that it may not execute.
var denied = regexp.MustCompile(`(?m)([^\s:'"]+): (?:Permission denied|Is a directory|cannot execute)`)

// notExecutable tells why a program that is there could not be executed.
func (f *failure) notExecutable() string {
	const known = " A program was found that cannot be executed, or that the sandbox does not let run."
	found := denied.FindStringSubmatch(f.said)
	if found == nil {
		return known
	}
	name := path.Join(f.command.Dir, found[1])
	if filepath.IsAbs(found[1]) {
		return known
	}
	for _, entry := range effects.Glance(f.env, path.Dir(name), 2000) {
		if entry.Name() != path.Base(name) {
			continue
		}
		info, err := entry.Info()
		switch {
		case entry.IsDir():
			return fmt.Sprintf(" %s is a directory, not a program.", found[1])
		case err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0:
			return fmt.Sprintf(" %s is not executable: run chmod +x %s first, or give it to its interpreter, as in bash %s.", found[1], found[1], found[1])
		}
	}
	return known
}

// programs returns the names of what is in $PATH.
func (r *Runners) programs() []string {
	var names []string
	for _, dir := range r.config.Path {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if !entry.IsDir() {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
