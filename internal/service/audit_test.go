// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// withAudit keeps an audit log, which read returns once the server was shut
// down.
func withAudit(t *testing.T, change func(*service.Config)) (option func(*service.Config), read func() []audit.Record) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(audit.Options{Config: audit.Config{File: path}})
	if err != nil {
		t.Fatal(err)
	}
	option = func(c *service.Config) {
		c.Audit = log
		if change != nil {
			change(c)
		}
	}
	read = func() []audit.Record {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v audit.Verifier
		if err := v.Read(path, strings.NewReader(string(text))); err != nil {
			t.Error(err)
		}
		if _, err := v.Report(); err != nil {
			t.Error(err)
		}
		var records []audit.Record
		for line := range strings.Lines(string(text)) {
			var r audit.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			records = append(records, r)
		}
		return records
	}
	return option, read
}

// TestAudit reads the steps of calls: one that a person allowed, one that was
// denied, one with an input that is not valid.
func TestAudit(t *testing.T) {
	option, read := withAudit(t, nil)
	s := serve(t, withTokens, withPolicy(t, askToRead), option)
	s.write("secret.txt", "hello")
	alice, carol := s.dial("alice-alice-alice"), s.dial("carol-carol-carol")
	stream, approval := alice.asked(asJSON("read_file", `{"path":"secret.txt"}`))
	carol.answer(&pb.ResolveApprovalRequest{
		ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE, Comment: "go on",
	})
	alice.end(stream)
	alice.run(asJSON("dangerous", `{}`))
	alice.run(asJSON("read_file", `{"pat":1}`))
	s.shutdown()

	steps := make(map[string][]audit.Record) // by execution
	for _, r := range read() {
		if r.ExecutionID != "" {
			steps[r.ExecutionID] = append(steps[r.ExecutionID], r)
		}
		if line, _ := json.Marshal(r); strings.Contains(string(line), "secret.txt") {
			t.Errorf("a record tells what the input says: %s", line)
		}
	}
	var lives []string
	for _, id := range []string{approval.GetExecutionId()} {
		var life []string
		for _, r := range steps[id] {
			life = append(life, string(r.Step))
			if r.Principal != "alice" || r.Tool != "read_file" || r.CallID == "" || r.SessionID != "default" {
				t.Errorf("%+v", r)
			}
		}
		lives = append(lives, strings.Join(life, " "))
	}
	if lives[0] != "proposed verdict approval started finished" {
		t.Errorf("the call that was allowed: %s", lives[0])
	}
	asked := steps[approval.GetExecutionId()]
	if p := asked[0]; p.InputDigest.IsZero() || p.InputBytes == 0 || p.InputShape == "" || p.Input != "" {
		t.Errorf("proposed %+v", p)
	}
	if v := asked[1]; v.Action != "ask" || v.Rule != "rule look" || v.Policy == "" || v.Reason == "" {
		t.Errorf("verdict %+v", v)
	}
	if a := asked[2]; a.Action != "allow_once" || a.By != "carol" || a.From == "" || a.Comment != "go on" {
		t.Errorf("approval %+v", a)
	}
	if f := asked[4]; f.Outcome != "succeeded" {
		t.Errorf("finished %+v", f)
	}
	refused := 0
	for _, life := range steps {
		if len(life) == 3 && life[1].Action == "deny" && life[2].Outcome == life[1].Outcome && life[2].Reason != "" {
			refused++
		}
	}
	if len(steps) != 3 || refused != 2 {
		t.Errorf("%d executions, %d of them refused: %v", len(steps), refused, steps)
	}
}

// TestAuditInputs: the operator may want to know what inputs say.
func TestAuditInputs(t *testing.T) {
	option, read := withAudit(t, func(c *service.Config) { c.AuditInputs = true })
	s := serve(t, option)
	s.dial("").run(asJSON("echo_number", `{"n":7}`))
	s.shutdown()
	for _, r := range read() {
		if r.Step == audit.Proposed && r.Input == `{"n":7}` {
			return
		}
	}
	t.Error("no record has the input")
}

// TestAuditOfBrokenInput: what a model did not write to its end is refused and recorded, without a
// shape, which could tell what is in it.
func TestAuditOfBrokenInput(t *testing.T) {
	for _, input := range []string{`{"n":7,"`, `{"n":7,"}`, `{"n"`, `{"n":`, `{"n":[1`, `{"`, `{`, `"{\"n\":`, `{"sk-live-456":1}`, `[{"a":1},"sk-live-123"]`} {
		option, read := withAudit(t, nil)
		s := serve(t, option)
		if end := s.dial("").run(asJSON("echo_number", input)); end.GetOutcome() != pb.Outcome_OUTCOME_INVALID_INPUT {
			t.Errorf("%s ended with %v", input, end)
		}
		s.shutdown()
		for _, r := range read() {
			if r.Step == audit.Proposed && (r.InputShape != "" || r.InputBytes != len(input)) {
				t.Errorf("%s is recorded as %+v", input, r)
			}
		}
	}
}

// TestAuditOfInput proves that what is sent to a call is recorded by its size.
func TestAuditOfInput(t *testing.T) {
	option, read := withAudit(t, nil)
	s := serve(t, option)
	c := s.dial("")
	stream, id := c.listening("shell")
	for _, request := range []*pb.WriteInputRequest{
		data(id, "my password", nil), signal(id, "INT"),
		{ExecutionId: id, Input: &pb.WriteInputRequest_End{End: &pb.EndOfInput{}}},
	} {
		if _, err := c.WriteInput(timeout(t), request); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rest(stream); err != nil {
		t.Fatal(err)
	}
	s.shutdown()
	var got []string
	for _, r := range read() {
		if r.Step == audit.Input && r.ExecutionID == id {
			got = append(got, fmt.Sprint(r.Action, r.InputBytes, r.Reason))
		}
		if line, _ := json.Marshal(r); strings.Contains(string(line), "my password") {
			t.Errorf("a record tells what was sent: %s", line)
		}
	}
	if want := []string{"data11", "signal0INT", "end0"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
