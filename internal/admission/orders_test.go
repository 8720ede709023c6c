// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// notData returns the fields of a type, at any depth, that are no data: what cannot be
// stored, or what would be lost when it is.
func notData(t reflect.Type, name string, seen map[reflect.Type]bool) []string {
	if seen[t] || t == reflect.TypeFor[time.Time]() {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr, reflect.Interface:
		return []string{fmt.Sprintf("%s is a %s", name, t.Kind())}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return notData(t.Elem(), name, seen)
	case reflect.Map:
		return append(notData(t.Key(), name, seen), notData(t.Elem(), name, seen)...)
	case reflect.Struct:
		var found []string
		for field := range t.Fields() {
			at := name + "." + field.Name
			if !field.IsExported() {
				found = append(found, at+" is not exported")
				continue
			}
			found = append(found, notData(field.Type, at, seen)...)
		}
		return found
	}
	return nil
}

// TestOrdersAreData: everything that an order, a question and an answer hold can be
// stored and sent. A job has what carries the order out, and cannot.
func TestOrdersAreData(t *testing.T) {
	for _, data := range []any{executor.Order{}, approval.Question{}, approval.Answer{}, approval.Grant{}} {
		of := reflect.TypeOf(data)
		for _, wrong := range notData(of, of.String(), make(map[reflect.Type]bool)) {
			t.Error(wrong)
		}
	}
	job := strings.Join(notData(reflect.TypeFor[executor.Job](), "Job", make(map[reflect.Type]bool)), "\n")
	for _, want := range []string{"Job.Call is a interface", "Job.Rights.Deny is a interface", "Job.Permit.limiter is not exported"} {
		if !strings.Contains(job, want) {
			t.Errorf("of a job, nobody finds that %s:\n%s", want, job)
		}
	}
}

// sent returns a value as it arrives elsewhere.
func sent[T any](t *testing.T, value T) T {
	t.Helper()
	var wire bytes.Buffer
	var got T
	if err := errors.Join(gob.NewEncoder(&wire).Encode(value), gob.NewDecoder(&wire).Decode(&got)); err != nil {
		t.Fatal(err)
	}
	var before, after bytes.Buffer
	if err := errors.Join(gob.NewEncoder(&before).Encode(value), gob.NewEncoder(&after).Encode(got)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before.Bytes(), after.Bytes()) {
		t.Errorf("%+v\narrives as\n%+v", value, got)
	}
	return got
}

// begin admits a request and starts it.
func begin(t *testing.T, a *admission.Admission, r *admission.Request) *executor.Execution {
	t.Helper()
	admitted, err := a.Admit(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.Executor.Start(context.Background(), admitted.Job)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// resume starts an order that comes from elsewhere.
func resume(t *testing.T, a *admission.Admission, order executor.Order) *executor.Execution {
	t.Helper()
	admitted, err := a.Resume(context.Background(), order)
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.Executor.Start(context.Background(), admitted.Job)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func outcome(x *executor.Execution) string {
	<-x.Done()
	end, _ := x.Finished()
	text := end.Outcome.String()
	for _, c := range end.Result.Content {
		text += fmt.Sprintf(" %v", c)
	}
	return text
}

var carol = approval.Viewer{Owner: "carol", Approver: true}

// TestOrdersAreSent has one server admit calls and another carry them out: at once,
// after an answer, after a grant that covers them, and not at all.
func TestOrdersAreSent(t *testing.T) {
	sessions := newSessions(t)
	here, there := newServer(t, sessions, ""), newServer(t, sessions, "")
	strict := newServer(t, sessions, "rules: [{name: no, action: deny, writes: [\"**\"]}]\n")
	s, err := sessions.Get("agent", "")
	if err != nil {
		t.Fatal(err)
	}
	dir := s.Workspace.Dir()
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("read me"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}

	admitted, err := here.Admit(t.Context(), request("Read", `"{\"file_path\":\"note.txt\"}"`))
	if err != nil {
		t.Fatal(err)
	}
	if string(admitted.Order.Input) != `{"path":"note.txt"}` {
		t.Errorf("the order has the input %s", admitted.Order.Input)
	}
	if got := outcome(resume(t, there, sent(t, admitted.Order))); !strings.HasPrefix(got, "succeeded") || !strings.Contains(got, "read me") {
		t.Errorf("a call that may run: %s", got)
	}

	bad, err := here.Admit(t.Context(), request("write_file", `{"pth":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome(resume(t, there, sent(t, bad.Order))); !strings.HasPrefix(got, "invalid_input") || !strings.Contains(got, "/pth") {
		t.Errorf("a refused call: %s", got)
	}

	// A question keeps its id, and the answer to it lets the call run.
	first := begin(t, here, request("write_file", `{"path":"a","content":"1"}`))
	order, question := sent(t, first.Order), sent(t, *here.Approvals.List(carol, "")[0])
	first.Cancel("sent elsewhere", "agent")
	if order.Question.ID != question.ID || question.Session != s.Ref() || question.OnBehalfOf != "alice" || question.ExecutionID != first.ID {
		t.Errorf("question %+v of order %+v", question, order)
	}
	x := resume(t, there, order)
	if written("a") != "" {
		t.Error("the call ran before the answer")
	}
	if _, err := there.Approvals.Resolve(carol, question.ID, approval.Answer{Kind: approval.AllowOnce, Digest: question.Digest}); err != nil {
		t.Fatal(err)
	}
	if got := outcome(x); !strings.HasPrefix(got, "succeeded") || written("a") != "1" {
		t.Errorf("a call that was allowed: %s; the file has %q", got, written("a"))
	}

	// A grant that is given there judges again what came from here.
	second := begin(t, here, request("write_file", `{"path":"a","content":"2"}`))
	order = sent(t, second.Order)
	second.Cancel("sent elsewhere", "agent")
	covered := resume(t, there, order)
	third := begin(t, there, request("write_file", `{"path":"a","content":"3"}`))
	never := approval.Answer{Kind: approval.DenyAlways, Tier: len(third.Order.Question.Tiers)} // to write the file
	if _, err := there.Approvals.Resolve(carol, third.Order.Question.ID, never); err != nil {
		t.Fatal(err)
	}
	if got := outcome(covered); !strings.HasPrefix(got, "denied carol") {
		t.Errorf("a call that a grant covers: %s", got)
	}
	outcome(third)

	if got := outcome(resume(t, strict, order)); !strings.HasPrefix(got, "denied") || !strings.Contains(got, "rule no") {
		t.Errorf("where another policy is in force: %s", got)
	}
}

// TestOrdersOfAnEndedSession: an order does not reach a later session with the id of
// its own.
func TestOrdersOfAnEndedSession(t *testing.T) {
	sessions := newSessions(t)
	a := newServer(t, sessions, "")
	create := func() {
		if _, err := sessions.Create("agent", session.Request{ID: "work"}); err != nil {
			t.Fatal(err)
		}
	}
	create()
	r := request("read_file", `{"path":"a"}`)
	r.SessionID = "work"
	admitted, err := a.Admit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Remove("agent", "work"); err != nil {
		t.Fatal(err)
	}
	create()
	if _, err := a.Resume(t.Context(), sent(t, admitted.Order)); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("it is resumed: %v", err)
	}
	if x, err := a.Executor.Start(t.Context(), admitted.Job); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("it is started: %v, %v", x, err)
	}
	if got := a.Rejudge(&admitted.Order, admitted.Call); got.Verdict.Rule != "session" {
		t.Errorf("it is judged: %+v", got)
	}
}

func newSessions(t *testing.T) *session.Store {
	t.Helper()
	sessions := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), MaxLevel: tools.WorkspaceWrite,
		Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk},
	})
	t.Cleanup(sessions.Close)
	return sessions
}
