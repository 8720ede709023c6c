// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolserver/toolserver/internal/nearest"
)

// This file finds what was meant by commands, flags and variables that there
// are not.

// meant are other words for commands.
var meant = map[string][]string{
	"serve":      {"start", "server", "daemon", "up"},
	"call":       {"exec", "run", "execute", "invoke"},
	"executions": {"ps", "jobs", "ls"},
	"watch":      {"logs", "tail", "follow"},
	"cancel":     {"kill", "stop", "abort"},
	"attach":     {"connect", "enter"},
	"input":      {"send", "write", "stdin"},
	"sessions":   {"workspaces"},
	"approvals":  {"approve", "deny", "pending"},
	"doctor":     {"status", "check", "info"},
}

// CommandsOnly is what commands take for arguments that only have others below
// them, or that take none beside these.
func CommandsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	near := nearest.Names(args[0], names)
	for name, words := range meant {
		if slices.Contains(words, args[0]) && slices.Contains(names, name) {
			near = []string{name}
		}
	}
	help := fmt.Sprintf("\nRun '%s --help' to see what there is", cmd.CommandPath())
	switch {
	case !cmd.HasParent():
		help += fmt.Sprintf("; a tool is run by '%s call NAME'", cmd.CommandPath())
	case args[0] == "list" && cmd.Runnable():
		help = fmt.Sprintf(": '%s' alone lists them", cmd.CommandPath())
	}
	hint := cmp.Or(nearest.Hint(near), help)
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// Arguments refuses more or fewer arguments than the line of use names: X has to be given,
// [X] may be left out, and X... goes on.
func Arguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	least := slices.IndexFunc(names, func(name string) bool { return name[0] == '[' })
	if least < 0 {
		least = len(names)
	}
	use := strings.TrimSpace(cmd.CommandPath() + " " + strings.Join(names, " "))
	switch {
	case len(args) < least:
		return fmt.Errorf("%s is missing: want %s", strings.TrimSuffix(names[len(args)], "..."), use)
	case len(args) > len(names) && !(len(names) > 0 && strings.Contains(names[len(names)-1], "...")):
		return fmt.Errorf("%q is one argument too many: want %s%s", args[len(names)], use, joined(cmd, args[len(names)]))
	}
	return nil
}

// joined tells how a flag that may go without a value gets one, where word was meant to be it.
func joined(cmd *cobra.Command, word string) (hint string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.Type() != "bool" && f.Value.String() == f.NoOptDefVal {
			hint = fmt.Sprintf("; or do you mean --%s=%s?", f.Name, word)
		}
	})
	return hint
}

// FlagError adds to an error about flags what would be right.
func FlagError(cmd *cobra.Command, err error) error {
	help := fmt.Sprintf("\nRun '%s --help' to see what there is", cmd.CommandPath())
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("%w%s", err, help)
	}
	if before := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(before) > 0 {
		return CommandsOnly(cmd, before) // the flag may be one of the command that was meant
	}
	name := unknown.GetSpecifiedName()
	if near := nearFlags(cmd, name); len(near) > 0 {
		return fmt.Errorf("%w%s", err, nearest.Hint(near))
	}
	if cmd.HasSubCommands() {
		for _, c := range cmd.Commands() {
			if c.Flags().Lookup(name) != nil {
				return fmt.Errorf("%w; flags come behind the command: %s COMMAND --%s", err, cmd.CommandPath(), name)
			}
		}
	}
	return fmt.Errorf("%w%s", err, help)
}

func nearFlags(cmd *cobra.Command, name string) []string {
	var known []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	slices.Sort(known)
	near := nearest.Names(name, slices.Compact(known))
	for i := range near {
		near[i] = "--" + near[i]
	}
	return near
}

const envPrefix = "TOOLSERVER_"

// misspelt returns a hint where a variable of clients is not set, but one that
// looks like it.
func misspelt(name string) string {
	for _, pair := range os.Environ() {
		set, _, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(set, envPrefix)
		if ours && set != name && len(nearest.Names(rest, []string{strings.TrimPrefix(name, envPrefix)})) > 0 {
			return fmt.Sprintf(" (%s is set: did you mean %s?)", set, name)
		}
	}
	return ""
}
