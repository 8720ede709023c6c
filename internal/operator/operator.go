// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package operator is the command line of whoever runs a server: it checks
// configurations and policies, explains and tests what a policy says, tries the
// sandbox, tells what commands find on this machine, verifies audit logs and state, and makes
// tokens.
package operator

import (
	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
)

// Commands returns the commands for the machine of a server.
func Commands(in cli.Inside) []*cobra.Command {
	return []*cobra.Command{newPolicy(in), newConfig(), newAudit(), newState(), newSandbox(), newDoctor(), newToken()}
}
