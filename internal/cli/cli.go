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
		newTools(in), newParse(in), newCall(in), newWatch(in), newAttach(in), newInput(in), newCancel(in), newArtifact(in), newCp(in),
		newExecutions(in), newMCP(in), newAgents(in), newSessions(in), newApprovals(in), newGrants(in), newStop(in), newResume(in), newStops(in), newVersion(in), newRecord(in), newReplay(),
	}
}
