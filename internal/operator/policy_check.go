// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/strictyaml"
)

func newPolicyCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file without serving",
		Long: `check reads a policy file as "toolserver serve" would, tries its examples, and
says in short what is in it, or everything that is wrong, with the lines. Names
of tools that are not built in are a warning: a tool may come from elsewhere. It
exits with 0 or with 2.`,
		Args: cli.Arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			p, err := policy.Parse(args[0], text)
			if err != nil {
				return err
			}
			if err := p.Check(server.BuiltinSpecs()); err != nil {
				_, lines, _ := strings.Cut(err.Error(), "\n")
				fmt.Fprintf(cli.NewStream(os.Stderr), "warning: the policy names tools that are not built in:\n%s\n", lines)
			}
			fmt.Fprintln(os.Stdout, "OK")
			return summarizePolicy(cli.NewStream(os.Stdout), p, text)
		},
	}
}

// summarizePolicy writes what is in a policy with this text.
func summarizePolicy(to io.Writer, p *policy.Policy, text []byte) error {
	var file struct { // what a policy does not tell of itself
		Protected []string `yaml:"protected"`
		Rules     []struct {
			Action policy.Action `yaml:"action"`
		} `yaml:"rules"`
	}
	strictyaml.NewReader("", "").Read(text, &file) // it is valid
	count := make(map[policy.Action]int)
	for _, rule := range file.Rules {
		count[rule.Action]++
	}
	var limits []string
	for _, limit := range p.Limits() {
		limits = append(limits, limitText(limit))
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "rules\t%d: %d allow, %d ask, %d deny\n",
		len(file.Rules), count[policy.Allow], count[policy.Ask], count[policy.Deny])
	fmt.Fprintf(table, "protected\t.git/, .husky/, node_modules/%s\n", cli.AndMore(len(file.Protected)))
	fmt.Fprintf(table, "limits\t%s\n", cmp.Or(strings.Join(limits, "; "), "none"))
	fmt.Fprintf(table, "approvals\texpire after %s\n", p.Approvals().Expire)
	fmt.Fprintf(table, "version\t%s\n", p.Version())
	return table.Flush()
}

// limitText tells what a limit lets through.
func limitText(l limit.Limit) string {
	var parts []string
	if l.Rate > 0 {
		rate := cli.PlainNumber(l.Rate) + "/s"
		switch {
		case l.Rate < 1.0/60:
			rate = fmt.Sprintf("%.4g/h", l.Rate*3600)
		case l.Rate < 1:
			rate = fmt.Sprintf("%.4g/m", l.Rate*60)
		}
		parts = append(parts, fmt.Sprintf("%s, %d at once", rate, l.Burst))
	}
	if l.Concurrent > 0 {
		parts = append(parts, fmt.Sprintf("%d running", l.Concurrent))
	}
	if l.Shadow {
		parts = append(parts, "shadow")
	}
	return fmt.Sprintf("%s (%s per %s)", l.Name, strings.Join(parts, ", "), l.Per)
}
