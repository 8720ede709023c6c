// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestAgentTable shows agents of models and of runtimes.
func TestAgentTable(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	runtimes := func(count, most, running, waiting uint32) *pb.Agent_Runtimes {
		return &pb.Agent_Runtimes{Runtimes: &pb.Runtimes{Count: count, MaxTasks: most, Running: running, Waiting: waiting}}
	}
	err = agentTable(NewStream(file), []*pb.Agent{
		{Name: "one", Description: "Does one.", Worker: &pb.Agent_Endpoint{Endpoint: "main"}},
		{Name: "two", Principal: "alice", Worker: runtimes(1, 4, 2, 0)},
		{Name: "three", Principal: "bob", Tenant: "acme", Worker: runtimes(2, 8, 8, 3), UnavailableReason: "the operator has one"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME   OF            WORKER         TASKS           WHAT
one    the operator  endpoint main  -               Does one.
two    alice         1 runtime      2 of 4
three  acme/bob      2 runtimes     8 of 8, 3 wait  unavailable: the operator has one
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
