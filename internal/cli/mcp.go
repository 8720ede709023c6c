// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newMCP(in Inside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP clients, and look after MCP servers whose tools are offered",
		Long: `mcp serve has an MCP client use the tools of this server. The other commands are about
the servers of the section "mcp" of the configuration, and about other sources of tools.
Docs: docs/sources.md.`,
		Args: Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMCPServe(in), newMCPList(), newMCPLogs(), newMCPApprove(), newMCPRetry(), newMCPSignIn())
	return cmd
}

func newMCPList() *cobra.Command {
	var (
		to     Target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List sources of tools: how they are, and what waits for you",
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			response, err := client.ListSources(ctx, &pb.ListSourcesRequest{Names: args})
			if err != nil {
				return err
			}
			return printList(response.GetSources(), asJSON, sourceTable)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one source a line, as JSON")
	to.addOutsideFlags(cmd)
	return cmd
}

// sourceTable prints sources, and below each what an operator should know.
func sourceTable(to *Stream, list []*pb.Source) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKIND\tSTATE\tTOOLS\tRESTARTS\tWHAT")
	for _, s := range list {
		what := Visible(s.GetLocation())
		if s.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE {
			what = Visible(s.GetReason())
			if next := s.GetNextAttempt(); next != nil {
				what += "; tried again at " + next.AsTime().Local().Format(time.TimeOnly)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\n", Visible(s.GetName()), enumWord(s.GetKind(), "TOOL_KIND_"), enumWord(s.GetState(), "SOURCE_STATE_"), s.GetTools(), s.GetRestarts(), what)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		if at := s.GetSignInUrl(); at != "" {
			fmt.Fprintf(to, "\n%s: an operator has to sign in: toolserver mcp sign-in %s\n", Visible(s.GetName()), Visible(s.GetName()))
		}
		for _, c := range s.GetChangedTools() {
			fmt.Fprintf(to, "\n%s: %s was changed, and is withheld: toolserver mcp approve %s %s\n", Visible(s.GetName()), Visible(c.GetTool()), Visible(s.GetName()), Visible(c.GetTool()))
			fmt.Fprintf(to, "  approved: %s\n  now:      %s\n", Visible(cmp.Or(c.GetApprovedDescription(), "(nothing)")), Visible(cmp.Or(c.GetDescription(), "(nothing)")))
			if c.GetSchemaChanged() {
				fmt.Fprintln(to, "  its schema is another, too")
			}
		}
		for _, why := range s.GetRefused() {
			fmt.Fprintf(to, "\n%s: not offered: %s\n", Visible(s.GetName()), Visible(why))
		}
	}
	return nil
}

func newMCPLogs() *cobra.Command {
	var to Target
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the last lines of what a server said",
		Args:  Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			response, err := client.ReadSourceLog(ctx, &pb.ReadSourceLogRequest{Name: args[0]})
			if err != nil {
				return err
			}
			out := NewStream(os.Stdout)
			for _, line := range response.GetLines() {
				fmt.Fprintln(out, Visible(line))
			}
			return nil
		}),
	}
	to.addOutsideFlags(cmd)
	return cmd
}

func newMCPApprove() *cobra.Command {
	var to Target
	cmd := &cobra.Command{
		Use:   "approve NAME [TOOL...]",
		Short: "Offer tools again that their server changed",
		Long: `approve has tools offered as their server describes them now. A server can change what
a tool says after you have looked at it, and what a tool says is read by models: "mcp list"
shows what it said then and now. Without names of tools, all that wait are approved.`,
		Args: Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			response, err := client.ApproveTools(ctx, &pb.ApproveToolsRequest{Name: args[0], Tools: args[1:]})
			if err != nil {
				return err
			}
			out := NewStream(os.Stdout)
			for _, tool := range response.GetApproved() {
				fmt.Fprintln(out, Visible(tool), "approved")
			}
			if len(response.GetApproved()) == 0 {
				fmt.Fprintln(out, "nothing waits for an approval")
			}
			return nil
		}),
	}
	to.addOutsideFlags(cmd)
	return cmd
}

func newMCPRetry() *cobra.Command {
	var to Target
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Try at once to connect to a server that is unavailable",
		Args:  Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			if _, err := client.RetrySource(ctx, &pb.RetrySourceRequest{Name: args[0]}); err != nil {
				return err
			}
			list, err := client.ListSources(ctx, &pb.ListSourcesRequest{})
			if err != nil {
				return err
			}
			said := fmt.Sprintf("%s is tried now: toolserver mcp list %s tells what came of it", args[0], args[0])
			for _, one := range list.GetSources() {
				if one.GetName() == args[0] && one.GetState() == pb.SourceState_SOURCE_STATE_AVAILABLE {
					said = args[0] + " is available"
				}
			}
			fmt.Fprintln(NewStream(os.Stdout), said)
			return nil
		}),
	}
	to.addOutsideFlags(cmd)
	return cmd
}

func newMCPSignIn() *cobra.Command {
	var (
		to    Target
		paste string
	)
	cmd := &cobra.Command{
		Use:   "sign-in NAME",
		Short: "Sign in for a server that asks for OAuth",
		Long: `sign-in prints the link at which you sign in for a server with a browser. Where the
browser is sent to this machine in the end, the command waits for it there. Otherwise give
the address that the browser shows in the end with --redirected.`,
		Args: Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			out := NewStream(os.Stdout)
			if paste == "" {
				response, err := client.ListSources(ctx, &pb.ListSourcesRequest{Names: args})
				if err != nil {
					return err
				}
				if len(response.GetSources()) == 0 {
					return fmt.Errorf("there is no source named %s", args[0])
				}
				link := response.GetSources()[0].GetSignInUrl()
				if link == "" {
					return fmt.Errorf("nobody has to sign in for %s now", args[0])
				}
				fmt.Fprintf(out, "Sign in at\n\n  %s\n\n", Visible(link))
				if paste, err = waitForBrowser(ctx, link); err != nil {
					return fmt.Errorf("%w; once you have signed in, run this again with --redirected and the address that the browser shows", err)
				}
			}
			if _, err := client.CompleteSignIn(ctx, &pb.CompleteSignInRequest{Name: args[0], RedirectedUrl: paste}); err != nil {
				return err
			}
			fmt.Fprintln(out, "signed in")
			return nil
		}),
	}
	cmd.Flags().StringVar(&paste, "redirected", "", "the address that the browser was sent to in the end")
	to.addOutsideFlags(cmd)
	return cmd
}

// waitForBrowser waits until a browser comes to the address that a link names, if that is
// on loopback, and returns with what it came.
func waitForBrowser(ctx context.Context, link string) (string, error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	redirect, err := url.Parse(u.Query().Get("redirect_uri"))
	if err != nil || redirect.Scheme != "http" || net.ParseIP(redirect.Hostname()) == nil || !net.ParseIP(redirect.Hostname()).IsLoopback() {
		return "", fmt.Errorf("the browser is not sent to this machine")
	}
	listener, err := net.Listen("tcp", redirect.Host)
	if err != nil {
		return "", fmt.Errorf("the browser cannot be waited for: %w", err)
	}
	came := make(chan string, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != redirect.Path || r.URL.RawQuery == "" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, "toolserver has what it needs: you can close this page.\n")
		select {
		case came <- redirect.Scheme + "://" + redirect.Host + r.URL.RequestURI():
		default:
		}
	})}
	go server.Serve(listener)
	defer server.Shutdown(context.WithoutCancel(ctx))
	select {
	case at := <-came:
		return at, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
