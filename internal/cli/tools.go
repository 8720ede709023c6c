// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newTools(in Inside) *cobra.Command {
	var (
		to             Target
		request        pb.ListToolsRequest
		asJSON, schema bool
		tokens, active bool
	)
	cmd := &cobra.Command{
		Use:   "tools [NAME...]",
		Short: "List tools; with one name, show all about it",
		Long: `tools lists the tools of a session. A NAME is a name, an alias or a glob such as
"read_*". With the name of one tool it shows its description, schema and
examples.`,
		ValidArgsFunction: completeTools(&to),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Names = args
			detailed := len(args) == 1 && !strings.ContainsAny(args[0], `*?[\@`)
			if detailed || schema || asJSON || tokens || request.Dialect != "" {
				request.View = pb.ToolView_TOOL_VIEW_FULL
			}
			if active {
				request.View = pb.ToolView_TOOL_VIEW_ACTIVE
			}
			request.ExactTokens = tokens && request.Dialect != ""
			client, err := to.Connect(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			response, err := client.ListTools(cmd.Context(), &request)
			if err != nil {
				return err
			}
			list := response.GetTools()
			if len(list) == 0 && len(args) > 0 {
				return &ExitError{ExitNoSuchTool, errors.New("no such tool: 'toolserver tools' lists them")}
			}
			out := NewStream(os.Stdout)
			switch {
			case tokens:
				return tokenTable(out, response)
			case request.Dialect != "":
				_, err := fmt.Fprintln(out, response.GetDefinitions())
				return err
			}
			return showTools(out, list, asJSON, schema, detailed)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.SessionId, "session", "", "session whose tools to list (default: your default session)")
	flags.StringVar(&request.Query, "query", "", "only those whose name, label or summary has this in it")
	flags.StringVar(&request.Persona, "persona", "", "as this agent system has them, such as claude-code (default: as the session does)")
	flags.StringVar(&request.Category, "category", "", "only those of this family")
	flags.BoolVar(&asJSON, "json", false, "print one tool a line, as JSON")
	flags.BoolVar(&schema, "schema", false, "print the schemas of their input only, one a line")
	flags.StringVar(&request.Dialect, "format", "", "print the definitions as a provider or a family of models has them, such as anthropic or openai")
	flags.BoolVar(&tokens, "tokens", false, "print what the definitions cost a model, about; with --format for that one, and exactly for openai")
	flags.BoolVar(&active, "active", false, "only those that are active in the session, of which its model is told everything")
	cmd.MarkFlagsMutuallyExclusive("json", "schema", "format")
	cmd.MarkFlagsMutuallyExclusive("json", "schema", "tokens")
	Complete(cmd, "format", toolcall.Names()...)
	to.AddFlags(cmd, in)
	return cmd
}

func showTools(out *Stream, list []*pb.Tool, asJSON, schema, detailed bool) error {
	switch {
	case asJSON:
		return writeLines(out, list)
	case schema:
		for _, tool := range list {
			if _, err := fmt.Fprintln(out, tool.GetInputSchema()); err != nil {
				return err
			}
		}
	case detailed:
		for _, tool := range list {
			describe(out, tool)
		}
	default:
		return toolTable(out, list)
	}
	return nil
}

func toolTable(out *Stream, list []*pb.Tool) error {
	t := NewTable(out, "NAME", "CATEGORY", "LEVEL", "SUMMARY")
	for _, tool := range list {
		summary := tool.GetSummary()
		if reason := tool.GetUnavailableReason(); reason != "" {
			summary += " (unavailable: it " + reason + ")"
		}
		t.Row(tool.GetName(), tool.GetCategory(), levelText(tool.GetLevel()), OneLine(summary))
	}
	return t.Flush()
}

// tokenTable shows what tools cost, the dearest first.
func tokenTable(out *Stream, response *pb.ListToolsResponse) error {
	list := slices.Clone(response.GetTools())
	slices.SortStableFunc(list, func(a, b *pb.Tool) int { return cmp.Compare(b.GetTokens(), a.GetTokens()) })
	t := NewTable(out, "NAME", "TOKENS", "SUMMARY")
	for _, tool := range list {
		t.Row(tool.GetName(), strconv.Itoa(int(tool.GetTokens())), OneLine(tool.GetSummary()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	total := response.GetTokens()
	sure := fmt.Sprintf("give or take %d %% (%s)", total.GetErrorPercent(), total.GetBasis())
	if total.GetErrorPercent() == 0 {
		sure = "counted with " + total.GetBasis()
	}
	_, err := fmt.Fprintf(out, "\n%d tokens for %d definitions, %s\n", total.GetTokens(), len(list), sure)
	return err
}

// describe shows all about a tool.
func describe(out io.Writer, tool *pb.Tool) {
	fmt.Fprintf(out, "%s: %s\n\n", tool.GetName(), tool.GetSummary())
	if text := strings.TrimSpace(tool.GetDescription()); text != "" {
		fmt.Fprintf(out, "%s\n\n", text)
	}
	if text := strings.TrimSpace(tool.GetHelp()); text != "" {
		fmt.Fprintf(out, "%s\n\n", text)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	row("Aliases", strings.Join(tool.GetAliases(), ", "))
	row("Category", tool.GetCategory())
	row("Level", levelText(tool.GetLevel()))
	if d := tool.GetDefaultTimeout(); d != nil {
		row("Timeout", d.AsDuration().String())
	}
	row("Needs", strings.Join(tool.GetRequiredCapabilities(), ", "))
	row("Unavailable", tool.GetUnavailableReason())
	table.Flush()

	fmt.Fprintf(out, "\nInput:\n%s\n", indented(tool.GetInputSchema()))
	if tool.GetResultSchema() != "" {
		fmt.Fprintf(out, "\nResult:\n%s\n", indented(tool.GetResultSchema()))
	}
	if len(tool.GetExamples()) > 0 {
		fmt.Fprint(out, "\nExamples:\n")
	}
	for _, e := range tool.GetExamples() {
		fmt.Fprintf(out, "  # %s\n  toolserver call %s %s\n", OneLine(e.GetSummary()), tool.GetName(), shellQuote(e.GetInputJson()))
	}
}

func indented(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		return text
	}
	return b.String()
}

// shellQuote makes one word of text for a shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
