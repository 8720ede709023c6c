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
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

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
	agent.session(&pb.CreateSessionRequest{SessionId: "asks", Mode: pb.Mode_MODE_ASK})
	agent.session(&pb.CreateSessionRequest{SessionId: "ends", Mode: pb.Mode_MODE_ALLOW})
	person := w.as("person")
	granted(agent, person, "asks")
	grant := person.grants()[0].GetGrantId()
	agent.end("s", "before", "bash", `{"command": "echo before >> effects"}`)

	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	refused := []struct {
		what string
		try  func() error
	}{
		{"a session", func() (err error) { // comes first: the last page of a file may have room for some
			for i := 0; err == nil && i < 100; i++ {
				_, err = agent.sessions.CreateSession(agent.ctx, &pb.CreateSessionRequest{SessionId: fmt.Sprint("new-", i), Mode: pb.Mode_MODE_ALLOW})
			}
			return err
		}},
		{"a change", func() error { return agent.mode("asks", pb.Mode_MODE_ALLOW) }},
		{"a call", func() error {
			_, err := agent.call("s", "during", "bash", `{"command": "echo during >> effects"}`)
			return err
		}},
	}
	for _, r := range refused {
		what, begin := r.what, time.Now()
		err := r.try()
		if status.Code(err) != codes.Unavailable || retryInfo(err) <= 0 {
			t.Errorf("%s: %v, want UNAVAILABLE with RetryInfo", what, err)
		}
		if strings.Contains(status.Convert(err).Message(), dir) {
			t.Errorf("%s tells where the state is: %v", what, err)
		}
		t.Logf("%s was refused after %v: %v", what, time.Since(begin), err)
	}
	if got := agent.state("asks"); got.GetMode() != pb.Mode_MODE_ASK {
		t.Errorf("the mode is %v: it changed and was not stored", got.GetMode())
	}
	agent.serves(false)
	// Rights are lowered all the same.
	if lowered, err := agent.sessions.UpdateSession(agent.ctx, &pb.UpdateSessionRequest{
		Session: &pb.Session{SessionId: "s", Mode: pb.Mode_MODE_ASK}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode"}},
	}); err != nil || !lowered.GetNotYetStored() || agent.state("s").GetMode() != pb.Mode_MODE_ASK {
		t.Errorf("a stricter mode: %v, %v", lowered, err)
	}
	if revoked, err := person.approvals.RevokeGrant(person.ctx, &pb.RevokeGrantRequest{GrantId: grant}); err != nil || !revoked.GetNotYetStored() || len(person.grants()) != 0 {
		t.Errorf("a grant is revoked: %v, %v", revoked, err)
	}
	if _, err := agent.sessions.CloseSession(agent.ctx, &pb.CloseSessionRequest{SessionId: "ends"}); err != nil {
		t.Errorf("a session is closed: %v", err)
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
	agent.serves(true)
	for {
		raised, err := agent.sessions.UpdateSession(agent.ctx, &pb.UpdateSessionRequest{
			Session: &pb.Session{SessionId: "s", Mode: pb.Mode_MODE_ALLOW}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode"}},
		})
		if err == nil && !raised.GetNotYetStored() {
			break // and what was to be stored is
		}
		<-time.After(max(retryInfo(err), 10*time.Millisecond))
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
	<-time.After(time.Second) // what could not be stored is tried again every second
	agent.flushed("s")
	w.again()
	if got := w.as("person").grants(); len(got) != 0 {
		t.Errorf("the grant is there again: %v", got)
	}
	if _, err := w.as("agent").sessions.GetSession(w.as("agent").ctx, &pb.GetSessionRequest{SessionId: "ends"}); status.Code(err) != codes.NotFound {
		t.Errorf("the closed session: %v", err)
	}
	for _, id := range []string{"before", "during"} {
		if _, end := w.as("agent").end("s", id, "bash", fmt.Sprintf(`{"command": "echo %s >> effects"}`, id)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("%s after a restart: %v", id, end)
		}
	}
	if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["before"] != 1 || got["during"] != 1 {
		t.Errorf("effects: %v", got)
	}
}

// serves waits until the health of the server tells whether it takes all calls.
func (c *caller) serves(all bool) {
	c.t.Helper()
	want := healthpb.HealthCheckResponse_NOT_SERVING
	if all {
		want = healthpb.HealthCheckResponse_SERVING
	}
	stream, err := c.health.Watch(c.ctx, &healthpb.HealthCheckRequest{})
	for got := healthpb.HealthCheckResponse_UNKNOWN; got != want; {
		var response *healthpb.HealthCheckResponse
		if err == nil {
			response, err = stream.Recv()
		}
		if err != nil {
			c.t.Fatal(err)
		}
		got = response.GetStatus()
	}
	if service, err := c.health.Check(c.ctx, &healthpb.HealthCheckRequest{Service: pb.ToolService_ServiceDesc.ServiceName}); err != nil || service.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		c.t.Errorf("those who call are told %v, %v: they could read", service, err)
	}
	info, err := c.tools.GetServerInfo(c.ctx, &pb.GetServerInfoRequest{})
	if err != nil || info.GetFeatures()["state_writable"] != all {
		c.t.Errorf("%v, %v", info.GetFeatures(), err)
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
