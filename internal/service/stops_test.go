// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestEmergencyStop: what a stopped principal runs ends, with its questions and
// transfers; its calls are refused until the stop is lifted; others go on.
func TestEmergencyStop(t *testing.T) {
	option, read := withAudit(t, withRoles)
	halted := make(map[string]int)
	s := serve(t, option, withPolicy(t, askToRead), func(c *service.Config) {
		c.Halt = func(s *session.Session, user string) int {
			if user != "" {
				return 0
			}
			halted[s.Owner.Name()]++
			return 1
		}
	})
	s.write("secret.txt", "hello")
	ctx := timeout(t)
	alice, bob, oscar, vera := s.dial(tokens[0].Secret), s.dial(tokens[1].Secret), s.dial(operatorToken), s.dial(viewerToken)

	running, first := alice.begin(asJSON("sleep", `{"duration_ms":60000}`))
	waiting, _ := alice.asked(asJSON("read_file", `{"path":"secret.txt"}`))
	others, _ := bob.begin(asJSON("sleep", `{"duration_ms":60000}`))
	if _, err := alice.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "files", Mode: pb.Mode_MODE_ACCEPT_EDITS}); err != nil {
		t.Fatal(err)
	}
	workspace := pb.NewWorkspaceServiceClient(alice.conn)
	upload, err := workspace.WriteFile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	upload.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{SessionId: "files", Path: "new.txt", UploadId: "u", Size: proto.Uint64(5)}}})
	for active := false; !active && ctx.Err() == nil; {
		found, _ := workspace.GetUpload(ctx, &pb.GetUploadRequest{SessionId: "files", UploadId: "u"})
		active = found.GetUpload().GetActive()
	}

	for _, who := range []*client{alice, vera} {
		_, err := who.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "bob"})
		wantCode(t, err, codes.PermissionDenied, "a role of operator")
	}
	for _, wrong := range []*pb.StopPrincipalRequest{
		{}, {Principal: "server"}, {Principal: "a\nb"}, {Principal: strings.Repeat("x", 300)}, {Principal: "alice", Reason: strings.Repeat("x", 5000)},
	} {
		_, err := oscar.StopPrincipal(ctx, wrong)
		wantCode(t, err, codes.InvalidArgument)
	}
	stopped, err := oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "alice", Reason: "it runs wild"})
	if err != nil || stopped.GetCancelledExecutions() != 2 || stopped.GetEndedCalls() < 1 || stopped.GetEndedProcesses() != 2 || halted["alice"] != 2 || halted["bob"] != 0 {
		t.Fatalf("%v, %v, halted %v", stopped, err, halted)
	}
	if stop := stopped.GetStop(); stop.GetBy() != "oscar" || stop.GetDurable() {
		t.Errorf("%v", stop)
	}
	for _, stream := range []eventStream{running, waiting} {
		events, err := rest(stream)
		if err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1].GetFinished(); last.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !strings.Contains(last.String(), "stopped by oscar: it runs wild") {
			t.Errorf("%v", last)
		}
	}
	_, err = upload.CloseAndRecv()
	wantCode(t, err, codes.FailedPrecondition, "stopped by oscar: it runs wild", "toolserver resume alice")
	if list, err := oscar.ListApprovals(ctx, new(pb.ListApprovalsRequest)); err != nil || len(list.GetApprovals()) != 0 {
		t.Errorf("questions that wait: %v, %v", list, err)
	}

	// Nothing new begins, and what became of the calls is told.
	_, err = alice.call(asJSON("count", `{}`))
	wantCode(t, err, codes.FailedPrecondition, "stopped by oscar: it runs wild", "until an operator lifts the stop, one of the default tenant or of all tenants", "toolserver resume alice")
	_, err = alice.CreateSession(ctx, &pb.CreateSessionRequest{})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = alice.CheckCall(ctx, &pb.CheckCallRequest{Command: "ls"})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = alice.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "files"}) // it would take with it what is to be looked at
	wantCode(t, err, codes.FailedPrecondition)
	_, err = workspace.StatFile(ctx, &pb.StatFileRequest{Path: "secret.txt"})
	wantCode(t, err, codes.FailedPrecondition)
	got, err := alice.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: first.GetExecutionId()})
	if err != nil || got.GetExecution().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("%v, %v", got, err)
	}
	if end := bob.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("bob: %v", end)
	}

	// Again changes nothing; then everybody.
	again, err := oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "alice", Reason: "other"})
	if err != nil || again.GetStop().GetReason() != "it runs wild" || again.GetCancelledExecutions() != 0 {
		t.Errorf("%v, %v", again, err)
	}
	all, err := oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "*", Reason: "break-in"})
	if err != nil || all.GetCancelledExecutions() != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if events, err := rest(others); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("%v, %v", events, err)
	}
	_, err = bob.call(asJSON("count", `{}`))
	wantCode(t, err, codes.FailedPrecondition, "all callers were stopped by oscar: break-in", "toolserver resume --all")
	if list, err := vera.ListStops(ctx, new(pb.ListStopsRequest)); err != nil || len(list.GetStops()) != 2 || list.GetStops()[0].GetPrincipal() != "alice" {
		t.Errorf("%v, %v", list, err)
	}
	_, err = oscar.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "bob"})
	wantCode(t, err, codes.FailedPrecondition, `"bob" is not stopped by name, but all callers are`)
	resumed, err := oscar.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "*", Reason: "over"})
	if err != nil || resumed.GetStop().GetReason() != "break-in" || len(resumed.GetRemaining()) != 1 {
		t.Errorf("%v, %v", resumed, err)
	}
	if end := bob.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("bob: %v", end)
	}
	_, err = alice.call(asJSON("count", `{}`))
	wantCode(t, err, codes.FailedPrecondition)

	// An operator whom another stopped does not lift that; one who stopped itself does.
	root := s.dial(tokens[2].Secret)
	if _, err := oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "root"}); err != nil {
		t.Fatal(err)
	}
	_, err = root.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "root"})
	wantCode(t, err, codes.FailedPrecondition, "another operator")
	_, err = root.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "alice"})
	wantCode(t, err, codes.FailedPrecondition, "another operator")
	_, err = root.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "oscar"})
	wantCode(t, err, codes.FailedPrecondition, "you were stopped by oscar", "another operator")
	// A name that nobody has may be stopped, and who stops it is told.
	for name, unknown := range map[string]bool{"nix": true, "tenant/alice": true, "bob": false} {
		if stopped, err := oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: name}); err != nil || stopped.GetUnknown() != unknown {
			t.Errorf("stop %s: %v, %v", name, stopped, err)
		}
	}
	for _, name := range []string{"root", "alice", "alice", "nix", "nobody", "tenant/alice", "bob"} {
		if _, err := oscar.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: name}); err != nil {
			t.Errorf("resume %s: %v", name, err)
		}
	}
	if _, err := root.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "root"}); err != nil {
		t.Fatal(err)
	}
	if _, err := root.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "root"}); err != nil {
		t.Fatal(err)
	}
	// Its own stop does not keep that of another from counting.
	for _, who := range []*client{root, oscar} {
		if _, err := who.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "root"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = root.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "root"})
	wantCode(t, err, codes.FailedPrecondition, "you were stopped by oscar", "another operator")
	if _, err := oscar.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "root"}); err != nil {
		t.Fatal(err)
	}
	if end := alice.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("alice: %v", end)
	}

	s.shutdown()
	records := read()
	for _, want := range []audit.Record{
		{Step: audit.Stopped, Principal: "alice", By: "oscar", Reason: "it runs wild", Count: 2},
		{Step: audit.Stopped, Principal: "alice", By: "oscar", Reason: "it runs wild", Action: "again"},
		{Step: audit.Stopped, Principal: "*", By: "oscar", Reason: "break-in", Count: 1},
		{Step: audit.Resumed, Principal: "*", By: "oscar", Reason: "over"},
		{Step: audit.Resumed, Principal: "alice", By: "oscar"},
	} {
		if !slices.ContainsFunc(records, func(r audit.Record) bool {
			return r.Step == want.Step && r.Principal == want.Principal && r.By == want.By && r.Reason == want.Reason && r.Count == want.Count && r.Action == want.Action && r.From != ""
		}) {
			t.Errorf("no record is %+v", want)
		}
	}
	if !slices.ContainsFunc(records, func(r audit.Record) bool {
		return r.Step == audit.Cancelled && r.ExecutionID == first.GetExecutionId() && r.By == "oscar" && strings.Contains(r.Reason, "it runs wild")
	}) {
		t.Error("no record says who cancelled the call")
	}
}

// TestStopMissesNothing: calls that come while a stop is put in force are refused or
// cancelled, every one.
func TestStopMissesNothing(t *testing.T) {
	s := serve(t, withRoles)
	alice, oscar := s.dial(tokens[0].Secret), s.dial(operatorToken)
	begun := make(chan struct{}, 1000)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			var streams []eventStream
			for {
				stream, err := alice.ExecuteTool(timeout(t), asJSON("sleep", `{"duration_ms":60000}`))
				if err == nil {
					_, err = stream.Recv()
				}
				if status.Code(err) == codes.FailedPrecondition {
					break
				}
				if err != nil || len(streams) == cap(begun) {
					t.Errorf("after %d calls: %v", len(streams), err)
					break
				}
				streams = append(streams, stream)
				select {
				case begun <- struct{}{}:
				default:
				}
			}
			for _, stream := range streams {
				events, err := rest(stream)
				if err != nil || len(events) == 0 || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
					t.Errorf("%v, %v", events, err)
				}
			}
		})
	}
	for range 20 {
		<-begun
	}
	if _, err := oscar.StopPrincipal(timeout(t), &pb.StopPrincipalRequest{Principal: "alice"}); err != nil {
		t.Error(err)
	}
	callers.Wait()
}

// TestStopsOutliveTheServer: a stop that has a file is in force in the next server, and one
// that cannot be written is in force all the same, and says so.
func TestStopsOutliveTheServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "stops.json")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := func(c *service.Config) { c.StopFile = file }
	first := serve(t, withRoles, kept)
	oscar := first.dial(operatorToken)
	ctx := timeout(t)
	stopped, err := oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "alice", Reason: "why"})
	if err != nil || !stopped.GetStop().GetDurable() {
		t.Fatalf("%v, %v", stopped, err)
	}
	first.shutdown()

	second := serve(t, withRoles, kept)
	oscar = second.dial(operatorToken)
	_, err = second.dial(tokens[0].Secret).call(asJSON("count", `{}`))
	wantCode(t, err, codes.FailedPrecondition, "stopped by oscar: why")
	if err := os.Rename(filepath.Dir(file), filepath.Dir(file)+"-away"); err != nil { // as if the disk were full
		t.Fatal(err)
	}
	stopped, err = oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "bob"})
	if err != nil || stopped.GetStop().GetDurable() {
		t.Errorf("%v, %v", stopped, err)
	}
	_, err = second.dial(tokens[1].Secret).call(asJSON("count", `{}`))
	wantCode(t, err, codes.FailedPrecondition)
	_, err = oscar.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "alice"})
	wantCode(t, err, codes.Unavailable, "stays in force")
	if err := os.Rename(filepath.Dir(file)+"-away", filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if stopped, err = oscar.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "bob"}); err != nil || !stopped.GetStop().GetDurable() {
		t.Errorf("once it can be written: %v, %v", stopped, err)
	}
	if _, err = oscar.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "alice"}); err != nil {
		t.Error(err)
	}
	second.shutdown()

	for _, text := range []string{"", "{", `[{"by":"x"}]`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var config service.Config
		config.StopFile = file
		if _, err := service.New(config); err == nil || !strings.Contains(err.Error(), "stop_file: ") {
			t.Errorf("with %q it starts: %v", text, err)
		}
	}
}
