// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of a client: it lists tools, calls them, follows
// and ends what runs, answers what waits for a person, and copies files. It speaks
// the contract and nothing else; the server in this process that commands without
// an address talk to is given to it.
package cli

import "github.com/spf13/cobra"

// Commands returns the commands that talk to a server.
func Commands(in Inside) []*cobra.Command {
	return []*cobra.Command{
		newTools(in), newParse(in), newCall(in), newWatch(), newAttach(), newInput(), newCancel(), newArtifact(), newCp(),
		newExecutions(), newMCP(in), newAgents(), newSessions(), newApprovals(), newGrants(), newStop(), newResume(), newStops(), newVersion(), newRecord(), newReplay(),
	}
}

// listsAlone has a command, given nothing below it, do what its list does.
func listsAlone(cmd, list *cobra.Command) {
	cmd.AddCommand(list)
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.RunE = list.RunE
}
