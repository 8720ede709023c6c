// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// noLongContent is a condition over the input.
const noLongContent = `
rules:
  - {name: short, action: deny, tools: [write_file], when: has(input.content) && size(input.content) > 10}
`

// TestQuotedInput: a condition judges what runs, however the input is written.
func TestQuotedInput(t *testing.T) {
	s := serve(t, withPolicy(t, noLongContent))
	c := s.dial("")
	for _, input := range []string{
		`{"path":"a","content":"more than ten"}`,
		`"{\"path\":\"a\",\"content\":\"more than ten\"}"`,
		`"{\"file_path\":\"a\",\"content\":\"more than ten\"}"`,
		` "{ \"content\":\"more than t\\u0065n\", \"path\":\"a\" }"`,
	} {
		end := c.run(asJSON("write_file", input))
		if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || end.GetVerdict().GetRule() != "rule short" {
			t.Errorf("%s ended with %v", input, end)
		}
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "a")); err == nil {
		t.Error("it was written")
	}
}

// TestSameCallSpelledOtherwise: what makes a call another call is its input, not how
// it is written.
func TestSameCallSpelledOtherwise(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	id := "one"
	call := func(tool, input string) (string, error) {
		events, err := c.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input), CallId: &id})
		if err != nil {
			return "", err
		}
		return events[0].GetExecutionId(), nil
	}
	s.write("a.txt", "hello")
	first, err := call("read_file", `{"path":"a.txt","limit":5}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range [][2]string{
		{"read_file", `{"limit":5,"path":"a.txt"}`},
		{"read_file", " {\n \"path\": \"a.txt\", \"limit\": 5.0, \"offset\": null }"},
		{"read_file", `{"file_path":"\u0061.txt","limit":5}`},
		{"Read", `"{\"path\":\"a.txt\",\"limit\":5}"`},
	} {
		if again, err := call(same[0], same[1]); err != nil || again != first {
			t.Errorf("%s is execution %s, %v; want %s", same, again, err, first)
		}
	}
	for _, other := range [][2]string{
		{"read_file", `{"path":"a.txt","limit":6}`},
		{"read_file", `{"path":"a.txt"}`},
		{"read_file", `{"path":`},
		{"count", `{}`},
		{"nothing_like_it", `{"path":"a.txt","limit":5}`},
	} {
		_, err := call(other[0], other[1])
		wantCode(t, err, codes.AlreadyExists, "read_file", first)
	}
}

// TestNewPolicyForWaitingCall: a call that waited is judged and run by the policy
// that is in force when it is allowed, also for what lies within a tree that it names.
func TestNewPolicyForWaitingCall(t *testing.T) {
	for name, test := range map[string]struct {
		replace string
		outcome pb.Outcome
	}{
		"as before":           {"", pb.Outcome_OUTCOME_SUCCEEDED},
		"about something":     {"rules: [{name: keep, action: deny, writes: [other/]}]\n", pb.Outcome_OUTCOME_SUCCEEDED},
		"about what is in it": {"rules: [{name: keep, action: deny, writes: [build/kept/]}]\n", pb.Outcome_OUTCOME_DENIED},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			kept := filepath.Join(s.workspace, "build", "kept")
			if err := os.MkdirAll(kept, 0o755); err != nil {
				t.Fatal(err)
			}
			s.write("build/kept/file", "precious")
			c := s.dial("")
			stream, approval := c.asked(asJSON("delete_file", `{"path":"build","recursive":true}`))
			replacePolicy(t, s, test.replace)
			c.answer(&pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
			end := c.end(stream)
			if end.GetOutcome() != test.outcome {
				t.Errorf("it ended with %v", end)
			}
			_, err := os.Stat(filepath.Join(kept, "file"))
			if gone := err != nil; gone != (test.outcome == pb.Outcome_OUTCOME_SUCCEEDED) {
				t.Errorf("%v: gone %v", end, gone)
			}
		})
	}
}

// TestLedElsewhereMeanwhile: what a person allowed is not run elsewhere.
func TestLedElsewhereMeanwhile(t *testing.T) {
	s := serve(t)
	s.write("a", "a")
	s.write("b", "b")
	link := filepath.Join(s.workspace, "link")
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	c := s.dial("")
	stream, approval := c.asked(asJSON("write_file", `{"path":"link","content":"new"}`))
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", link); err != nil {
		t.Fatal(err)
	}
	replacePolicy(t, s, "rules: [{name: x, action: deny, writes: [other]}]\n")
	c.answer(&pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	end := c.end(stream)
	if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || !strings.Contains(text(end), "elsewhere") {
		t.Errorf("it ended with %v", end)
	}
	for name, want := range map[string]string{"a": "a", "b": "b"} {
		if got, err := os.ReadFile(filepath.Join(s.workspace, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}
