// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// completionTime is how long a shell waits for completions of a server.
const completionTime = time.Second

type completer = cobra.CompletionFunc

// Complete lets the shell know the values of a flag.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails for flags there are not, and for a second time: neither is so here.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// ask connects to the target for the time a completion may take. Completions
// that cannot be had are none: the shell has no place for errors.
func ask(to *Target, cmd *cobra.Command, get func(context.Context, *Client) []string) []string {
	client, err := to.Connect(cmd)
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	return get(ctx, client)
}

// CompleteCall completes the name of a tool, and then the keys of its input.
func CompleteCall(to *Target) completer {
	names := completeTools(to)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return names(cmd, args, prefix)
		}
		if strings.ContainsAny(prefix, "=@{") {
			return nil, cobra.ShellCompDirectiveDefault // a value, perhaps a file
		}
		keys := ask(to, cmd, func(ctx context.Context, client *Client) []string {
			properties, err := client.Properties(ctx, "", args[0])
			if err != nil {
				return nil
			}
			var list []string
			for _, key := range slices.Sorted(maps.Keys(properties)) {
				if !slices.ContainsFunc(args, func(word string) bool { return strings.HasPrefix(word, key+"=") || strings.HasPrefix(word, key+":=") }) {
					list = append(list, cobra.CompletionWithDesc(key+"=", OneLine(properties[key].Description)))
				}
			}
			return list
		})
		return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTools completes names of tools.
func completeTools(to *Target) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := ask(to, cmd, func(ctx context.Context, client *Client) []string {
			response, err := client.ListTools(ctx, &pb.ListToolsRequest{})
			if err != nil {
				return nil
			}
			var list []string
			for _, tool := range response.GetTools() {
				list = append(list, cobra.CompletionWithDesc(tool.GetName(), OneLine(tool.GetSummary())))
			}
			return list
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeExecutions completes ids of executions in a state, of a server that
// an address is given for.
func completeExecutions(to *Target, state pb.ExecutionState) completer {
	return completeIDs(to, func(ctx context.Context, client *Client) ([]*pb.Execution, error) {
		list, _, err := client.list(ctx, &pb.ListExecutionsRequest{State: state}, 100)
		return list, err
	}, func(x *pb.Execution) (id, about string) {
		return x.GetExecutionId(), OneLine(x.GetTool() + " " + x.GetPurpose())
	})
}

// completeIDs completes ids of what a server has that an address is given for.
func completeIDs[T any](to *Target, list func(context.Context, *Client) ([]T, error), describe func(T) (id, about string)) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || to.Resolve() == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ids := ask(to, cmd, func(ctx context.Context, client *Client) (ids []string) {
			all, err := list(ctx, client)
			if err != nil {
				return nil
			}
			for _, one := range all {
				ids = append(ids, cobra.CompletionWithDesc(describe(one)))
			}
			return ids
		})
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeApprovals completes ids of what waits for an answer.
func completeApprovals(to *Target) completer {
	return completeIDs(to, func(ctx context.Context, client *Client) ([]*pb.Approval, error) {
		response, err := client.ListApprovals(ctx, &pb.ListApprovalsRequest{})
		return response.GetApprovals(), err
	}, func(a *pb.Approval) (id, about string) { return a.GetApprovalId(), approvalText(a) })
}

// completeGrants completes ids of grants.
func completeGrants(to *Target) completer {
	return completeIDs(to, func(ctx context.Context, client *Client) ([]*pb.Grant, error) {
		response, err := client.ListGrants(ctx, &pb.ListGrantsRequest{})
		return response.GetGrants(), err
	}, func(g *pb.Grant) (id, about string) { return g.GetGrantId(), grantText(g) })
}
