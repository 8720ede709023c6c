// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// unevenRules are rules by which a session with less may do what one with more may not: a
// verdict on the session of an agent alone would not do.
const unevenRules = `
explicit_only: [delete_file]
rules:
  - {name: red, action: deny, reads: [secrets/], labels: {team: red}}
  - {name: planners, action: deny, tools: [write_file], when: 'session.mode == "accept_edits"'}
  - {name: small, action: allow, writes: [notes/], when: 'session.level == "workspace_write" && session.mode == "ask"'}
  - {name: blue, action: allow, hosts: [example.com], labels: {team: blue}}
  - {name: readers, action: deny, tools: [count], when: 'session.level == "danger_full_access"'}
  - {name: careful, action: ask, reads: [sub/careful.txt]}
  - {name: make, action: allow, commands: [make], labels: {team: blue}}
`

// attempts are what sessions try; %s stands for a path.
var attempts = []struct{ tool, input, command, path string }{
	{tool: "read_file", input: `{"path":"%s"}`, path: "a.txt"},
	{tool: "read_file", input: `{"path":"%s"}`, path: "secrets/key.txt"},
	{tool: "read_file", input: `{"path":"%s"}`, path: "careful.txt"},
	{tool: "write_file", input: `{"path":"%s","content":"new"}`, path: "a.txt"},
	{tool: "write_file", input: `{"path":"%s","content":"new"}`, path: "notes/a.txt"},
	{tool: "delete_file", input: `{"path":"%s"}`, path: "none.txt"},
	{tool: "workspace_read", input: `{"path":"%s"}`, path: "secrets/key.txt"},
	{tool: "workspace_write", input: `{"path":"%s"}`, path: "notes/b.txt"},
	{tool: "count", input: `{}`},
	{tool: "dangerous", input: `{}`},
	{tool: "enter_plan_mode", input: `{}`},
	{tool: "exit_plan_mode", input: `{"plan":"go"}`},
	{tool: "todo_write", input: `{"todos":[]}`},
	{tool: "config", input: `{"setting":"mode","value":"plan"}`},
	{command: "cat %s", path: "secrets/key.txt"},
	{command: "rm -f %s", path: "a.txt"},
	{command: "touch %s", path: "notes/c.txt"},
	{command: "make"},
	{command: "python3 -c 'print(1)'"},
	{command: "curl https://example.com/"},
	{command: "curl http://127.0.0.1:1/"},
	{command: "cat /etc/shadow"},
	{command: "touch /var/lib/x"},
}

// chance makes families.
type chance struct{ *rand.Rand }

func one[T any](c chance, list ...T) T { return list[c.IntN(len(list))] }

func (c chance) level() pb.Level     { return pb.Level(1 + c.IntN(3)) }
func (c chance) mode() pb.Mode       { return pb.Mode(1 + c.IntN(5)) }
func (c chance) network() pb.Network { return pb.Network(1 + c.IntN(4)) }

func (c chance) labels() map[string]string {
	return one(c, nil, map[string]string{"team": "red"}, map[string]string{"team": "blue"})
}

func (c chance) tools() *pb.ToolSelection {
	return one(c, nil, nil, &pb.ToolSelection{Include: []string{"*_file", "count"}}, &pb.ToolSelection{Include: []string{"delete_file", "*"}},
		&pb.ToolSelection{Exclude: []string{"write_*", "workspace_*"}}, &pb.ToolSelection{Include: []string{"@builtin"}, Exclude: []string{"count", "config"}})
}

// TestBelowCanDoNoMore: whatever level, mode, network, tools, labels, workspace and grants a
// session and an agent below it have, the agent can do nothing without a person that its
// parent could not; also once the parent has less than when the agent began.
func TestBelowCanDoNoMore(t *testing.T) {
	f := withFamily(t, withPolicy(t, unevenRules), func(c *service.Config) {
		c.Offer = func() *tools.Offer {
			return &tools.Offer{Holds: true, Covers: true, Network: tools.NetworkOpen, Temporary: []string{"/tmp"}}
		}
	})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := chance{rand.New(rand.NewPCG(seed, 0))}
	compared := make(map[string]int)
	for i := range 30 {
		k := f.kin(c, fmt.Sprint("main", i))
		k.compare(compared, "as it began")
		k.grant(c)
		k.compare(compared, "with grants")
		k.lower(c)
		k.compare(compared, "with a parent that was lowered")
		if _, err := f.caller.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: k.parent}); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(compared)
	for _, verdict := range []string{"ACTION_ALLOW", "ACTION_ASK", "ACTION_DENY", "not there"} {
		if compared[verdict] < 100 {
			t.Errorf("only %d of what agents tried ended with %s: the test tells little", compared[verdict], verdict)
		}
	}
}

// kin are a session and one below it.
type kin struct {
	*family
	parent, child string
	below         string          // where the child works in the workspace of the parent
	granted       map[string]bool // ids of grants: whether the child has it
	exact         map[string]bool // those for one exact call, which is another one in another workspace
	setup         string          // how they were made
}

// kin makes a session and one below it, with whatever chance gives them.
func (f *family) kin(c chance, name string) *kin {
	f.t.Helper()
	parent := f.open(&pb.CreateSessionRequest{
		SessionId: name, Level: c.level(), Mode: one(c, pb.Mode_MODE_ASK, pb.Mode_MODE_ALLOW, pb.Mode_MODE_ACCEPT_EDITS), Labels: c.labels(),
	})
	for _, dir := range []string{"", "sub", "secrets"} {
		for _, a := range attempts {
			at := filepath.Join(parent.GetWorkspace(), dir, a.path)
			if a.tool != "read_file" {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				f.t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte("text"), 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	_, execution := f.works(name)
	f.update(&pb.Session{SessionId: name, Mode: c.mode(), Network: c.network(), Tools: c.tools()}, "mode", "network", "tools")
	k := &kin{family: f, parent: name, below: one(c, "", "", "sub", "secrets"), granted: make(map[string]bool), exact: make(map[string]bool)}
	for { // until it asks for no more than it may have
		request := below(name, execution, "agent")
		request.Level, request.Mode, request.Network = one(c, 0, c.level()), one(c, 0, c.mode()), one(c, 0, c.network())
		request.Labels, request.Tools, request.Workspace = c.labels(), c.tools(), filepath.Join(parent.GetWorkspace(), k.below)
		created, err := f.inside.CreateSession(timeout(f.t), request)
		if status.Code(err) == codes.PermissionDenied {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		k.child, k.setup = created.GetSession().GetSessionId(), fmt.Sprintf("parent %v\nchild %v", parent, request)
		return k
	}
}

func (f *family) update(to *pb.Session, paths ...string) {
	f.t.Helper()
	if _, err := f.caller.UpdateSession(timeout(f.t), &pb.UpdateSessionRequest{Session: to, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}); err != nil {
		f.t.Fatal(err)
	}
}

// attempt returns what one of the two tries. Both mean the same file.
func (k *kin) attempt(i int, in string) *pb.CheckCallRequest {
	a := attempts[i]
	at := a.path
	if in == k.parent {
		at = path.Join(k.below, at)
	}
	fill := func(text string) string { return strings.ReplaceAll(text, "%s", at) }
	request := &pb.CheckCallRequest{SessionId: in, Tool: a.tool, Command: fill(a.command)}
	if a.input != "" {
		request.InputJson = []byte(fill(a.input))
	}
	return request
}

// compare has both try everything.
func (k *kin) compare(compared map[string]int, when string) {
	k.t.Helper()
	for i := range attempts {
		request := k.attempt(i, k.child)
		child, err := k.inside.CheckCall(timeout(k.t), request)
		k.really(request, child, err)
		if err != nil {
			compared["not there"]++
			continue
		}
		action := child.GetVerdict().GetAction()
		compared[action.String()]++
		if action == pb.Action_ACTION_DENY {
			continue
		}
		parent, err := k.caller.CheckCall(timeout(k.t), k.attempt(i, k.parent))
		above := parent.GetVerdict().GetAction()
		switch {
		// A grant of one exact call does not count in another workspace (decision 0105): there
		// the rules below it judge, and they may ask, or allow where a person refused it above.
		case k.exact[strings.TrimPrefix(parent.GetVerdict().GetRule(), "grant ")] && (action == pb.Action_ACTION_ASK || above == pb.Action_ACTION_DENY):
		case err != nil || above == pb.Action_ACTION_DENY:
			k.t.Errorf("%s, the agent may %v (%v), and its parent may not: %v, %v\n%s", when, request, child.GetVerdict(), parent.GetVerdict(), err, k.setup)
		case action == pb.Action_ACTION_ALLOW && above == pb.Action_ACTION_ASK && !k.byItsGrant(child):
			k.t.Errorf("%s, the agent may %v (%v) without a person, and its parent may not: %v\n%s", when, request, child.GetVerdict(), parent.GetVerdict(), k.setup)
		case action == pb.Action_ACTION_ALLOW && child.GetVerdict().GetRights().GetConfinement() > parent.GetVerdict().GetRights().GetConfinement():
			k.t.Errorf("%s, %v has the rights %v, and that of its parent %v\n%s", when, request, child.GetVerdict().GetRights(), parent.GetVerdict().GetRights(), k.setup)
		}
	}
}

// byItsGrant reports whether a person allowed the agent what its parent would be asked about.
func (k *kin) byItsGrant(child *pb.CheckCallResponse) bool {
	return slices.ContainsFunc(child.GetEffects(), func(e *pb.JudgedEffect) bool {
		return k.granted[strings.TrimPrefix(e.GetVerdict().GetRule(), "grant ")]
	})
}

// really makes the call, where that leaves everything as it was: it ends as was said.
func (k *kin) really(request *pb.CheckCallRequest, said *pb.CheckCallResponse, err error) {
	k.t.Helper()
	if !slices.Contains([]string{"read_file", "count", "dangerous"}, request.GetTool()) || said.GetVerdict().GetAction() == pb.Action_ACTION_ASK {
		return
	}
	want := pb.Outcome_OUTCOME_DENIED
	switch {
	case err != nil:
		want = pb.Outcome_OUTCOME_NO_SUCH_TOOL
	case said.GetVerdict().GetAction() == pb.Action_ACTION_ALLOW:
		want = pb.Outcome_OUTCOME_SUCCEEDED
	}
	end := k.inside.run(&pb.ExecuteToolRequest{SessionId: k.child, Tool: request.GetTool(), InputJson: request.GetInputJson()})
	if end.GetOutcome() != want {
		k.t.Errorf("%v ended %v, and not with %s\n%s", request, end, want, k.setup)
	}
}

// grant has a person answer for always what the two are asked about, in one way or the other.
func (k *kin) grant(c chance) {
	k.t.Helper()
	carol := k.dial("carol-carol-carol")
	defer carol.conn.Close()
	for range 3 {
		in := one(c, k.parent, k.child)
		i := c.IntN(len(attempts))
		request := k.attempt(i, in)
		checked, err := k.inside.CheckCall(timeout(k.t), request)
		if err != nil || checked.GetVerdict().GetAction() != pb.Action_ACTION_ASK || len(checked.GetTiers()) == 0 ||
			request.GetTool() == "" || strings.HasPrefix(request.GetTool(), "workspace_") {
			continue
		}
		stream, asked := k.inside.asked(&pb.ExecuteToolRequest{SessionId: in, Tool: request.GetTool(), InputJson: request.GetInputJson()})
		tier := one(c, asked.GetTiers()...)
		answer := carol.answer(&pb.ResolveApprovalRequest{
			ApprovalId: asked.GetApprovalId(), Kind: one(c, pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS),
			TierId: tier.GetTierId(),
		})
		k.granted[answer.GetGrantId()] = in == k.child
		k.exact[answer.GetGrantId()] = k.below != "" && tier.GetKind() == pb.TierKind_TIER_KIND_CALL
		k.inside.end(stream)
	}
}

// lower takes something from the parent, and gives it other labels.
func (k *kin) lower(c chance) {
	k.t.Helper()
	now, err := k.caller.GetSession(timeout(k.t), &pb.GetSessionRequest{SessionId: k.parent})
	if err != nil {
		k.t.Fatal(err)
	}
	to := now.GetSession()
	to.Level, to.Network = min(to.GetLevel(), c.level()), min(to.GetNetwork(), c.network())
	to.Mode, to.Tools, to.Labels = c.mode(), c.tools(), c.labels()
	k.update(to, "level", "network", "mode", "tools", "labels")
	k.setup += fmt.Sprintf("\nthen the parent had %v", to)
}
