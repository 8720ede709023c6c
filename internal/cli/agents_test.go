// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestAgentsOfApprovals: a person sees who asked whom for what waits.
func TestAgentsOfApprovals(t *testing.T) {
	a := &pb.Approval{SessionId: "s2", Principal: "alice", Chain: []*pb.AgentLink{
		{Agent: "lead", SessionId: "s1", ParentSessionId: "main", ExecutionId: "x1"},
		{Agent: "worker", SessionId: "s2", ParentSessionId: "s1", ExecutionId: "x2"},
	}}
	if got := sessionText(a); got != "s2 (lead > worker)" {
		t.Errorf("in a list: %q", got)
	}
	shown := ourStyles.ReplaceAllString(strings.Join(wrapAll(newCard(a).rows(), 100), "\n"), "")
	for _, want := range []string{"lead in session s1, asked by call x1 of session main", "worker in session s2, asked by call x2 of session s1"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the card does not say %q:\n%s", want, shown)
		}
	}
}

// TestSessionsAsTree: sessions of agents are below who began them, also where others have the
// same ids.
func TestSessionsAsTree(t *testing.T) {
	list := []*pb.Session{
		{SessionId: "main", Principal: "alice"}, {SessionId: "main", Principal: "bob"}, {SessionId: "other", Principal: "alice"},
		{SessionId: "s1", Principal: "alice", ParentSessionId: "main", Agent: "lead"}, {SessionId: "s1", Principal: "bob", ParentSessionId: "main", Agent: "b"},
		{SessionId: "s2", Principal: "alice", ParentSessionId: "s1", Agent: "worker"}, {SessionId: "lost", Principal: "bob", ParentSessionId: "gone", Agent: "c"},
	}
	var names []string
	for _, row := range asTree(list) {
		names = append(names, row.name)
	}
	if want := []string{"main", "└ s1 (lead)", "  └ s2 (worker)", "main", "└ s1 (b)", "other", "lost (c)"}; !slices.Equal(names, want) {
		t.Errorf("the tree is %q, want %q", names, want)
	}
}
