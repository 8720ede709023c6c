// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/wholefile"
)

func newState() *cobra.Command {
	cmd := group("state", "Check, back up and restore what a server keeps", newStateCheck(), newStateBackup(), newStateRestore())
	cmd.Long = `state works on the directory in which a server keeps sessions, calls, grants and
logs. The server must be stopped.

Each command exits with 0 if all is well, with 1 if the state is damaged, and with
2 if it could not be looked at.`
	return cmd
}

func newStateCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check [DIR]",
		Short: "Say what is in a directory, and whether it is as it was written",
		Long: `check looks at a directory; without one, at that of a server with the configuration of
this environment. It changes nothing there.`,
		Example: `  toolserver state check /var/lib/toolserver/state`,
		Args:    cli.Arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				dir, err := configuredState(cmd)
				if err != nil {
					return err
				}
				fmt.Fprintln(os.Stderr, dir)
				args = []string{dir}
			}
			report, err := state.Check(args[0])
			if err != nil {
				return damagedState(err)
			}
			if len(report.Damages) > 0 {
				return damagedState(fmt.Errorf("%w:\n%s", state.ErrDamaged, strings.Join(report.Damages, "\n")))
			}
			fmt.Fprintln(os.Stdout, "OK")
			return summarizeState(cli.NewStream(os.Stdout), report)
		},
	}
}

// configuredState returns where a server of this configuration would keep its state.
func configuredState(cmd *cobra.Command) (string, error) {
	c, err := config.Load(cmd.Flags(), (*config.Config).ValidateInside)
	if err == nil {
		err = c.FillIn()
	}
	if err != nil {
		return "", err
	}
	if c.State.Off() || c.State.Dir == "" {
		return "", errors.New("by this configuration nothing is kept in a directory: name the one to check")
	}
	return c.State.Dir, nil
}

func newStateBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR FILE",
		Short: "Write a directory to a file",
		Long: `backup checks a directory and writes it to a new file, a compressed tar that only
its owner may read: it has what callers were answered. "-" is standard output.

Files are not in it: workspaces, documents and artifacts of sessions are below
sessions.workspace_root and artifacts.dir. Back them up like other files, at the
same time: a session whose workspace is missing is not brought back.`,
		Example: `  toolserver state backup /var/lib/toolserver/state state.tar.zst`,
		Args:    cli.Arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			if args[1] == "-" {
				return damagedState(state.Backup(args[0], os.Stdout))
			}
			return damagedState(backupTo(args[0], args[1]))
		},
	}
}

// backupTo leaves a whole backup, or none.
func backupTo(dir, name string) error {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s exists: name a new file", name)
	}
	return wholefile.Write(name, func(to io.Writer) error { return state.Backup(dir, to) })
}

func newStateRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE DIR",
		Short: "Make a directory of a backup",
		Long: `restore reads a backup, checks it, and makes a directory of it, which must be new or
empty. Nothing is left there if the backup is not whole. "-" is standard input.`,
		Example: `  toolserver state restore state.tar.zst /var/lib/toolserver/state`,
		Args:    cli.Arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			from := os.Stdin
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				from = file
			}
			report, err := state.Restore(from, args[1])
			if err != nil {
				return damagedState(err)
			}
			return summarizeState(cli.NewStream(os.Stdout), report)
		},
	}
}

// damagedState gives damage the exit code of a check that failed.
func damagedState(err error) error {
	if errors.Is(err, state.ErrDamaged) {
		return &cli.ExitError{Code: cli.ExitFailed, Err: err}
	}
	return err
}

func summarizeState(to io.Writer, report state.Report) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, space := range report.Spaces {
		kind := "bucket"
		if space.Log {
			kind = "log"
		}
		fmt.Fprintf(table, "%s\t%s\t%d records\t%d bytes\n", kind, space.Name, space.Records, space.Bytes)
	}
	end := "closed in good order"
	if !report.Clean {
		end = "not closed: the server was killed"
	}
	fmt.Fprintf(table, "end\t%s\n", end)
	return table.Flush()
}
