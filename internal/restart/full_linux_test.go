// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestStateCannotBeWritten fills the disk that the state is on: what could break a promise
// is refused, with when to try again, before it does anything; reads go on; and all is well
// once there is room.
func TestStateCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := startIn(t, filepath.Join(dir, "state"))
	agent := w.as("agent")
	session := agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	agent.end("s", "before", "bash", `{"command": "echo before >> effects"}`)

	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	refused := map[string]func() error{
		"a call": func() error {
			_, err := agent.call("s", "during", "bash", `{"command": "echo during >> effects"}`)
			return err
		},
		"a session": func() error {
			_, err := agent.sessions.CreateSession(agent.ctx, &pb.CreateSessionRequest{SessionId: "new", Mode: pb.Mode_MODE_ALLOW})
			return err
		},
		"a change": func() error { return agent.mode("s", pb.Mode_MODE_ASK) },
	}
	for what, try := range refused {
		begin := time.Now()
		err := try()
		if status.Code(err) != codes.Unavailable || retryInfo(err) <= 0 {
			t.Errorf("%s: %v, want UNAVAILABLE with RetryInfo", what, err)
		}
		if strings.Contains(err.Error(), dir) {
			t.Errorf("%s tells where the state is: %v", what, err)
		}
		t.Logf("%s was refused after %v: %v", what, time.Since(begin), err)
	}
	if got := agent.state("s"); got.GetMode() != pb.Mode_MODE_ALLOW {
		t.Errorf("the mode is %v: it changed and was not stored", got.GetMode())
	}
	if _, read := agent.end("s", "", "list_dir", `{}`); read.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("a call that only reads: %v", read)
	}
	if _, again := agent.end("s", "before", "bash", `{"command": "echo before >> effects"}`); again.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("a call id of before: %v", again)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for {
		events, err := agent.call("s", "during", "bash", `{"command": "echo during >> effects"}`)
		if status.Code(err) == codes.Unavailable {
			<-time.After(retryInfo(err)) // as it said
			continue
		}
		if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatalf("once there was room: %v, %v", events, err)
		}
		break
	}
	w.again()
	for _, id := range []string{"before", "during"} {
		if _, end := w.as("agent").end("s", id, "bash", fmt.Sprintf(`{"command": "echo %s >> effects"}`, id)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("%s after a restart: %v", id, end)
		}
	}
	if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["before"] != 1 || got["during"] != 1 {
		t.Errorf("effects: %v", got)
	}
}

// fill takes all room of a file system.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			size /= 2
		}
	}
}

// retryInfo returns when a status says to try again; 0 where it does not.
func retryInfo(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
