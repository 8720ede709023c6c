// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
)

func newAdmission(t *testing.T, rules string) *admission.Admission {
	t.Helper()
	return newServer(t, newSessions(t), rules)
}

// steps has admission judge calls that wait.
type steps struct {
	executor.NoSteps
	admission *admission.Admission
}

func (s *steps) Rejudge(x *executor.Execution, call tools.Call) executor.Rejudged {
	return s.admission.Rejudge(&x.Order, call)
}

// newServer returns an admission with its own policy, approvals and executor.
func newServer(t *testing.T, sessions *session.Store, rules string) *admission.Admission {
	t.Helper()
	registry := new(tools.Registry)
	if err := registry.Replace("builtin", files.Tools(nil, nil)...); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("test", []byte("version: 1\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	approvals := approval.NewStore(approval.Config{Sessions: sessions})
	t.Cleanup(approvals.Close)
	inForce := admission.NewActivePolicy(approvals)
	if err := inForce.Replace(p); err != nil {
		t.Fatal(err)
	}
	watch := new(steps)
	run := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: sessions, Approvals: approvals, Steps: watch})
	t.Cleanup(func() {
		run.Drain(context.Background(), "end of test")
		run.Close()
	})
	watch.admission = admission.New(admission.Config{
		Registry: registry, Sessions: sessions, ActivePolicy: inForce, Approvals: approvals, Executor: run,
	})
	return watch.admission
}

func request(tool, input string) *admission.Request {
	return &admission.Request{
		Principal: auth.Principal{Name: "agent", OnBehalfOf: "alice"}, Tool: tool, Input: admission.Input{JSON: []byte(input)},
	}
}

// TestAdmit asks about calls without any gRPC: as a batch, a hook or a schedule does.
// What Check says is what Admit decides.
func TestAdmit(t *testing.T) {
	a := newAdmission(t, "rules: [{name: keys, action: deny, reads: [\"*.key\"]}]\n")
	for _, test := range []struct {
		tool, input string
		action      policy.Action
		outcome     executor.Outcome
	}{
		{"read_file", `{"path":"a"}`, policy.Allow, 0},
		{"Read", `"{\"file_path\":\"a\"}"`, policy.Allow, 0},
		{"write_file", `{"path":"a","content":"x"}`, policy.Ask, 0},
		{"read_file", `{"path":"a.key"}`, policy.Deny, executor.Denied},
		{"read_file", `{"pat":"a.key"}`, policy.Deny, executor.InvalidInput},
		{"raed_file", `{"path":"a"}`, policy.Deny, executor.NoSuchTool},
	} {
		for range 2 { // as after a rewrite
			admitted, err := a.Admit(context.Background(), request(test.tool, test.input))
			if err != nil {
				t.Fatal(err)
			}
			order := admitted.Job
			switch {
			case order.OnBehalfOf != "alice":
				t.Errorf("%s is on behalf of %q", test.tool, order.OnBehalfOf)
			case test.outcome == 0 && (order.Refusal != nil || order.Call == nil || order.Verdict.Action != test.action):
				t.Errorf("%s %s: %+v", test.tool, test.input, order)
			case test.outcome != 0 && (order.Refusal == nil || order.Refusal.Outcome != test.outcome):
				t.Errorf("%s %s: %+v, want %s", test.tool, test.input, order.Refusal, test.outcome)
			case (order.Question != nil) != (test.action == policy.Ask):
				t.Errorf("%s %s asks %+v", test.tool, test.input, order.Question)
			}
		}
		r := request(test.tool, test.input)
		checked, err := a.Check(admission.CheckRequest{Principal: r.Principal, Tool: r.Tool, Input: r.Input, HasInput: true})
		if test.outcome == executor.InvalidInput || test.outcome == executor.NoSuchTool {
			if !errors.Is(err, admission.ErrInvalid) {
				t.Errorf("%s %s: %v, want an error", test.tool, test.input, err)
			}
		} else if err != nil || checked.Decision.Action != test.action {
			t.Errorf("%s %s: checked %+v, %v", test.tool, test.input, checked, err)
		}
	}
}

// TestAdmitRefusesRequests: what the caller did wrong is an error.
func TestAdmitRefusesRequests(t *testing.T) {
	a := newAdmission(t, "")
	for says, change := range map[string]func(*admission.Request){
		"tool is empty":   func(r *admission.Request) { r.Tool = "" },
		"tool has 129":    func(r *admission.Request) { r.Tool = strings.Repeat("x", 129) },
		"call_id has 257": func(r *admission.Request) { r.CallID = strings.Repeat("x", 257) },
		"purpose has":     func(r *admission.Request) { r.Purpose = strings.Repeat("x", 5000) },
		"timeout must be": func(r *admission.Request) { r.Timeout = -1 },
	} {
		r := request("read_file", `{"path":"a"}`)
		change(r)
		if _, err := a.Admit(context.Background(), r); !errors.Is(err, admission.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestMaxMode has a caller judged in the mode that it may have at most, in a session
// that has a more permissive one: made by default, or before the caller was bounded.
func TestMaxMode(t *testing.T) {
	sessions := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), MaxLevel: tools.WorkspaceWrite,
		Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAllow},
	})
	t.Cleanup(sessions.Close)
	a := newServer(t, sessions, "")
	for most, want := range map[tools.Mode]policy.Action{0: policy.Allow, tools.ModeAllow: policy.Allow, tools.ModeAsk: policy.Ask, tools.ModeDeny: policy.Deny} {
		r := request("write_file", `{"path":"a","content":"x"}`)
		r.Principal.MaxMode = most
		admitted, err := a.Admit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got := admitted.Job.Verdict.Action
		if admitted.Job.Refusal != nil {
			got = admitted.Job.Refusal.Verdict.Action
		}
		if got != want {
			t.Errorf("at most %s: %s, want %s", most, got, want)
		}
	}
}

// decodes counts how often inputs of a tool are looked into.
type decodes struct {
	tools.Tool
	n int
}

func (d *decodes) Decode(env *tools.Env, input json.RawMessage) (tools.Call, error) {
	d.n++
	return d.Tool.Decode(env, input)
}

// TestRateIsFirst: a tenant that calls too often is refused before anything is made of
// its input, and a call is counted once, whatever becomes of it, and not at all where it
// is sent again.
func TestRateIsFirst(t *testing.T) {
	a := newAdmission(t, "rules: [{name: all, action: allow, tools: [\"*\"]}]\n")
	spec := tools.Spec{Name: "looked_into", Summary: "A tool for tests.", Level: tools.WorkspaceWrite}
	tool := &decodes{Tool: tools.New(spec, nil, func(context.Context, tools.Env, struct{}, tools.Sink) (tools.Result, error) {
		return tools.TextResult("done"), nil
	})}
	if err := a.Registry.Replace("test", tool); err != nil {
		t.Fatal(err)
	}
	counted, over := 0, error(nil)
	a.Rate = func(string) error { counted++; return over }
	replaced := false
	a.Room = func(string, *tools.Spec) error { // a policy is replaced while the call is judged
		if replaced {
			return nil
		}
		replaced = true
		p, err := policy.Parse("test", []byte("version: 1\nrules: [{name: other, action: allow, tools: [\"*\"]}]\n"))
		return errors.Join(err, a.ActivePolicy.Replace(p))
	}
	r := request("looked_into", "{}")
	r.CallID = "one"
	admitted, err := a.Admit(context.Background(), r)
	if err != nil || admitted.Job.Verdict.Rule != "rule other" || counted != 1 || tool.n != 2 {
		t.Fatalf("%+v, %v: counted %d times, decoded %d times", admitted.Job, err, counted, tool.n)
	}
	x, err := a.Executor.Start(context.Background(), admitted.Job)
	if err != nil {
		t.Fatal(err)
	}
	<-x.Done()
	over = errors.New("too many")
	if again, err := a.Admit(context.Background(), r); err != nil || !again.Known() || counted != 1 {
		t.Errorf("sent again: %+v, %v, counted %d times", again, err, counted)
	}
	tool.n = 0
	for _, name := range []string{"looked_into", "NotebookRead", "nothing"} {
		if _, err := a.Admit(context.Background(), request(name, "{}")); !errors.Is(err, over) || tool.n != 0 {
			t.Errorf("%s: %v, and it was decoded %d times", name, err, tool.n)
		}
	}
	checked := admission.CheckRequest{Principal: r.Principal, Tool: "looked_into", Input: r.Input, HasInput: true}
	if _, err := a.Check(checked); !errors.Is(err, over) || tool.n != 0 {
		t.Errorf("a check: %v, and it was decoded %d times", err, tool.n)
	}
}
