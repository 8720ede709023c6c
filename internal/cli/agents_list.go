// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newAgents() *cobra.Command {
	var (
		to     Target
		of     ownerFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List agents: who works for them, and which cannot be given a task",
		Long: `agents lists those whom the tool "agent" gives tasks: agents of the operator, which the
server runs with a model, and agents that runtimes of yours serve.`,
		Args: Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, _ []string) error {
			response, err := client.calls.Agents.ListAgents(ctx, &pb.ListAgentsRequest{Principal: of.principal, Tenant: of.tenant})
			if err != nil {
				return err
			}
			return printList(response.GetAgents(), asJSON, agentTable)
		}),
	}
	of.addFlags(cmd, "those of this principal, or * for everybody's, instead of yours")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one agent a line, as JSON")
	to.addOutsideFlags(cmd)
	return cmd
}

// agentTable prints agents.
func agentTable(out *Stream, list []*pb.Agent) error {
	t := NewTable(out, "NAME", "OF", "WORKER", "TASKS", "WHAT")
	for _, a := range list {
		worker, tasks := "a model", "-"
		if name := a.GetEndpoint(); name != "" {
			worker = "endpoint " + Visible(name)
		}
		if r := a.GetRuntimes(); r != nil {
			worker = counted(uint64(r.GetCount()), "runtime", "runtimes")
			tasks = fmt.Sprintf("%d of %d", r.GetRunning(), r.GetMaxTasks())
			if r.GetWaiting() > 0 {
				tasks += fmt.Sprintf(", %d wait", r.GetWaiting())
			}
		}
		what := Visible(a.GetDescription())
		if why := a.GetUnavailableReason(); why != "" {
			what = "unavailable: " + Visible(why)
		}
		t.Row(Visible(a.GetName()), cmp.Or(ownerText(a.GetTenant(), a.GetPrincipal()), "the operator"), worker, tasks, what)
	}
	return t.Flush()
}
