// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/soaktest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

// older is the commit that the servers of before are built of: the first with replicas.
const older = "12fe624"

// buildOlder builds the server of an older commit.
func buildOlder(t *testing.T) string {
	t.Helper()
	if built := os.Getenv("RESTART_TEST_OLDER"); built != "" {
		return built
	}
	dir := t.TempDir()
	build := exec.Command("bash", "-ec", `mkdir tree; git -C "$0" archive `+older+` | tar -x -C tree; cd tree; CGO_ENABLED=0 go build -o ../toolserver ./cmd/toolserver`, filepath.Join(workingDirectory(t), "../.."))
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", older, err, out)
	}
	return filepath.Join(dir, "toolserver")
}

func workingDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMixedVersions: replicas of an older version and of this one are one server, and replace each
// other one by one, there and back, without losing an end or a session.
func TestMixedVersions(t *testing.T) {
	if !soaktest.Long() {
		t.Skip("it builds a server of before, which takes minutes: make soak does")
	}
	t.Parallel()
	now, before := sdktest.Build(t), buildOlder(t)
	f := startFleetOf(t, []string{before, before, now}, shared(t)...)
	var workspaces []string
	for i := range 3 {
		workspaces = append(workspaces, f.at(i, "agent").session(&pb.CreateSessionRequest{SessionId: fmt.Sprint("s", i), Mode: pb.Mode_MODE_ALLOW}).GetWorkspace())
	}
	ends := make(map[string]*pb.Event)
	made := 0
	work := func(what string) { // calls of each session at each replica, and all that were before
		t.Helper()
		for i := range 9 {
			session, id := fmt.Sprint("s", i%3), fmt.Sprintf("%s %d", what, i)
			ends[id], _ = f.at(i/3, "agent").end(session, id, "bash", fmt.Sprintf(`{"command": "echo '%s' >> effects; echo said"}`, id))
			made++
		}
		for id, end := range ends {
			n := id[len(id)-1] - '0'
			for i := range 3 {
				again, finished := f.at(i, "agent").end(fmt.Sprint("s", n%3), id, "bash", fmt.Sprintf(`{"command": "echo '%s' >> effects; echo said"}`, id))
				if again.GetExecutionId() != end.GetExecutionId() || finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !proto.Equal(finished, end.GetFinished()) {
					t.Errorf("%s at replica %d: %v, want %v", id, i, again, end)
				}
			}
		}
	}
	work("side by side")
	for i, program := range []string{now, now, before} { // forth, and one back
		f.servers[i].Replace(program)
		work(fmt.Sprint("replaced ", i))
	}
	effects := make(map[string]int)
	for _, workspace := range workspaces {
		for id, n := range lines(t, filepath.Join(workspace, "effects")) {
			effects[id] += n
		}
	}
	for id := range ends {
		if effects[id] != 1 {
			t.Errorf("%s had its effect %d times", id, effects[id])
		}
	}
	t.Logf("%d calls", made)
}
