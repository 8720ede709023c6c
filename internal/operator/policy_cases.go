// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/strictyaml"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A caseFile is a call and what the policy must say to it, as it is written.
type caseFile struct {
	Name      string            `yaml:"name"`
	Tool      string            `yaml:"tool"`
	Input     any               `yaml:"input"`
	Command   string            `yaml:"command"`
	Mode      tools.Mode        `yaml:"mode"`
	Level     tools.Level       `yaml:"level"`
	Network   tools.Network     `yaml:"network"`
	Labels    map[string]string `yaml:"labels"`
	Principal string            `yaml:"principal"`
	Expect    policy.Action     `yaml:"expect"`
	Rule      string            `yaml:"rule"`
}

// A policyCase is a case that was read.
type policyCase struct {
	caseFile
	where string // such as "cases.yaml:12"
	input []byte // as JSON
}

func newPolicyTest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test CASES",
		Short: "Try a policy on calls with known verdicts",
		Long: `test judges a table of calls by a policy, in this process, and compares the
verdicts with those that are expected. Nothing runs. CASES is a YAML file:

  cases:
    - name: secrets are asked about
      tool: read_file
      input: {path: .env}
      expect: ask               # allow, ask or deny
      rule: secrets             # optional: what decided has this in it
    - name: nothing is changed while planning
      command: sort a | tee b   # instead of an input; the tool may be left out
      mode: plan                # of the session; as level, the server's default
      level: danger_full_access
      network: open             # how far commands reach; loopback unless named
      labels: {team: web}
      principal: alice          # who calls; "local" unless named
      expect: deny

It prints a line for each case that fails, and a summary. It exits with 0 if all
cases are as expected, with 1 if some are not, and with 2 if the cases or the
policy cannot be read.`,
		Example: `  toolserver policy test cases.yaml --policy policy.yaml`,
		Args:    cli.Arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := readCases(args[0])
			if err != nil {
				return err
			}
			c, offer, err := supposed(cmd)
			if err != nil {
				return err
			}
			t := &policyTester{config: c, offer: *offer, clients: make(map[tested]*cli.Client)}
			defer t.close()
			if t.policy, err = config.LoadPolicy(c.Policy.File); err != nil {
				return err
			}
			failed := 0
			out := cli.NewStream(os.Stdout)
			for i := range cases {
				if wrong, err := t.try(cmd.Context(), &cases[i]); err != nil {
					return err
				} else if wrong != "" {
					failed++
					fmt.Fprintf(out, "%s: %s: %s\n", cases[i].where, cli.Visible(cases[i].Name), wrong)
				}
			}
			fmt.Fprintf(out, "%d cases: %d passed, %d failed\n", len(cases), len(cases)-failed, failed)
			if failed > 0 {
				return &cli.ExitError{Code: cli.ExitFailed}
			}
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "workspace", "policy")
	return cmd
}

// readCases reads a file of cases. An error lists everything that is wrong.
func readCases(path string) ([]policyCase, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Cases []caseFile `yaml:"cases"`
	}
	r := strictyaml.NewReader(path, "file of cases")
	r.Read(text, &file)
	cases := make([]policyCase, len(file.Cases))
	for i := range cases {
		one, key := &cases[i], fmt.Sprintf("cases[%d]", i)
		one.caseFile, one.where = file.Cases[i], fmt.Sprintf("%s:%d", path, r.Line(key))
		one.Principal = cmp.Or(one.Principal, auth.Local.Name)
		switch {
		case one.Tool == "" && one.Command == "":
			r.Fault(key, "name the tool of the call, or give a command")
		case one.Command != "" && one.Input != nil:
			r.Fault(key+".input", "a command stands for the input: give one of them")
		}
		if one.Name == "" {
			one.Name = strings.TrimSpace(one.Tool + " " + one.Command)
		}
		if !r.Has(key + ".expect") {
			r.Fault(key+".expect", "say what is expected: allow, ask or deny")
		}
		if one.input = []byte("{}"); one.Input != nil {
			if one.input, err = json.Marshal(one.Input); err != nil {
				r.Fault(key+".input", "%v", err)
			}
		}
	}
	if len(cases) == 0 {
		r.Fault("cases", "there are none")
	}
	return cases, r.Err()
}

// A policyTester judges calls of several principals, each on a server of its
// own. Close it after use.
type policyTester struct {
	config  *config.Config
	offer   tools.Offer // of the sandbox that is supposed
	policy  *policy.Policy
	clients map[tested]*cli.Client
}

// tested is who calls, on a server whose commands reach so far.
type tested struct {
	principal string
	network   tools.Network
}

// try returns what is wrong with a case; nothing where it is as expected.
func (t *policyTester) try(ctx context.Context, one *policyCase) (wrong string, err error) {
	client, err := t.client(tested{one.Principal, cmp.Or(one.Network, tools.NetworkLoopback)})
	if err != nil {
		return "", err
	}
	if err := suppose(ctx, client, supposition{one.Mode, one.Level, one.Labels}); err != nil {
		return cli.StatusText(status.Convert(err)), nil
	}
	request := &pb.CheckCallRequest{Tool: one.Tool, Command: one.Command}
	if one.Command == "" {
		request.InputJson = one.input
	}
	response, err := judge(ctx, client, request, t.policy, one.Principal, one.Labels)
	if err != nil {
		return fmt.Sprintf("want %s, and it cannot be judged: %s", one.Expect, cli.Visible(cli.StatusText(status.Convert(err)))), nil
	}
	verdict := response.GetVerdict()
	switch {
	case cli.ActionText(verdict.GetAction()) != one.Expect.String():
		return fmt.Sprintf("want %s, got %s", one.Expect, cli.VerdictText(verdict)), nil
	case !strings.Contains(verdict.GetRule(), one.Rule):
		return fmt.Sprintf("want rule %s, got %s", cli.Visible(one.Rule), cli.VerdictText(verdict)), nil
	}
	return "", nil
}

// client returns a client that is taken for the principal, of a server that it calls from inside.
func (t *policyTester) client(by tested) (*cli.Client, error) {
	if client := t.clients[by]; client != nil {
		return client, nil
	}
	c, offer := *t.config, t.offer
	offer.Network = by.network
	conn, end, err := server.ConnectSupposed(&c, by.principal, &offer)
	if err != nil {
		return nil, err
	}
	t.clients[by] = cli.NewClient(conn, end)
	return t.clients[by], nil
}

func (t *policyTester) close() {
	for _, client := range t.clients {
		client.Close()
	}
}
