// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// batch is a client of one batch.
type batch struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]
	cancel context.CancelFunc
	events []*pb.BatchEvent
}

// batch begins a batch.
func (c *client) batch(start *pb.BatchStart) *batch {
	c.t.Helper()
	ctx, cancel := context.WithCancel(timeout(c.t))
	stream, err := c.ExecuteBatch(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	b := &batch{t: c.t, stream: stream, cancel: cancel}
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: start}})
	return b
}

func (b *batch) send(message *pb.ExecuteBatchRequest) {
	b.t.Helper()
	if err := b.stream.Send(message); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a call; without an id, the server gives one.
func (b *batch) call(id, tool, input string) {
	b.t.Helper()
	request := asJSON(tool, input)
	if id != "" {
		request.CallId = proto.String(id)
	}
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: request}})
}

func (b *batch) interrupt(reason string) {
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Interrupt{Interrupt: &pb.BatchInterrupt{Reason: reason}}})
}

func (b *batch) cancelCall(id, reason string) {
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Cancel{Cancel: &pb.BatchCancel{CallId: id, Reason: reason}}})
}

// next returns the next event.
func (b *batch) next() *pb.BatchEvent {
	b.t.Helper()
	response, err := b.stream.Recv()
	if err != nil {
		b.t.Fatalf("after %d events: %v", len(b.events), err)
	}
	b.events = append(b.events, response.GetEvent())
	return response.GetEvent()
}

// until reads up to the event that is wanted.
func (b *batch) until(wanted func(*pb.BatchEvent) bool) *pb.BatchEvent {
	b.t.Helper()
	for {
		if event := b.next(); wanted(event) {
			return event
		}
	}
}

func isStarted(id string) func(*pb.BatchEvent) bool {
	return func(e *pb.BatchEvent) bool {
		return e.GetCall().GetCallId() == id && e.GetCall().GetEvent().GetStarted() != nil
	}
}

func isSteering(e *pb.BatchEvent) bool { return e.GetSteeringPoint() != nil }

// end says that no call follows, and reads to the end.
func (b *batch) end() *pb.BatchFinished {
	b.t.Helper()
	if err := b.stream.CloseSend(); err != nil {
		b.t.Fatal(err)
	}
	finished := b.until(func(e *pb.BatchEvent) bool { return e.GetFinished() != nil }).GetFinished()
	if _, err := b.stream.Recv(); !errors.Is(err, io.EOF) {
		b.t.Fatalf("after the end: %v", err)
	}
	checkBatch(b.t, b.events, 0)
	return finished
}

// status reads to the status that the stream ends with.
func (b *batch) status() error {
	b.t.Helper()
	for {
		response, err := b.stream.Recv()
		if err != nil {
			return err
		}
		b.events = append(b.events, response.GetEvent())
	}
}

// checkBatch fails unless the events of a batch are numbered on from after without a
// gap, and those of each call, with one ending each. The last is the end.
func checkBatch(t *testing.T, events []*pb.BatchEvent, after uint64) {
	t.Helper()
	ended, last := map[uint32]bool{}, map[uint32]uint64{}
	for i, event := range events {
		if event.GetSequence() != after+uint64(i)+1 {
			t.Fatalf("event %d has number %d: %v", i, event.GetSequence(), event)
		}
		if (event.GetFinished() != nil) != (i == len(events)-1) {
			t.Fatalf("event %d of %d: %v", i, len(events), event)
		}
		if call := event.GetCall(); call != nil {
			seq := call.GetEvent().GetSequence()
			if before, known := last[call.GetPosition()]; (known || after == 0) && seq != before+1 {
				t.Fatalf("call %d has event %d after %d", call.GetPosition(), seq, before)
			}
			last[call.GetPosition()] = seq
			if ended[call.GetPosition()] {
				t.Fatalf("call %d has an event after its end: %v", call.GetPosition(), event)
			}
			ended[call.GetPosition()] = call.GetEvent().GetFinished() != nil
		}
	}
	for position, is := range ended {
		if !is {
			t.Errorf("call %d has no end", position)
		}
	}
}

// results returns how the calls of a batch ended, by their ids.
func (b *batch) results() map[string]*pb.Finished {
	results := make(map[string]*pb.Finished)
	for _, event := range b.events {
		if finished := event.GetCall().GetEvent().GetFinished(); finished != nil {
			results[event.GetCall().GetCallId()] = finished
		}
	}
	return results
}

// refused returns what was refused, by call id.
func (b *batch) refused() map[string]*pb.BatchCallRefused {
	refused := make(map[string]*pb.BatchCallRefused)
	for _, event := range b.events {
		if r := event.GetRefused(); r != nil {
			refused[r.GetCallId()] = r
		}
	}
	return refused
}

// TestBatch: the events of all calls come on one stream, and one call that fails, is
// denied or malformed costs no other its result.
func TestBatch(t *testing.T) {
	s := serve(t)
	s.write("a.txt", "hello\n")
	b := s.dial("").batch(&pb.BatchStart{BatchId: proto.String("turn-1")})
	b.call("read", "read_file", `{"path":"a.txt"}`)
	b.call("fails", "read_file", `{"path":"missing.txt"}`)
	b.call("panics", "panics", `{}`)
	b.call("panics-early", "panics_early", `{}`)
	b.call("denied", "dangerous", `{}`)
	b.call("unknown", "no_such_tool", `{}`)
	b.call("malformed", "read_file", `{"path":`)
	b.call("", "count", `{}`)
	b.call("read", "count", `{}`) // an id that came before
	b.call("long"+strings.Repeat("ä", 200), "count", `{}`)
	nowhere := asJSON("count", `{}`)
	nowhere.CallId, nowhere.SessionId = proto.String("session"), "other"
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: nowhere}})
	finished := b.end()

	if first := b.events[0].GetStarted(); first.GetBatchId() != "turn-1" || first.GetSessionId() != "default" {
		t.Errorf("it began with %v", b.events[0])
	}
	results, refused := b.results(), b.refused()
	if got := text(results["read"]); !strings.Contains(got, "hello") {
		t.Errorf("read %q", got)
	}
	for id, want := range map[string]pb.Outcome{
		"read": pb.Outcome_OUTCOME_SUCCEEDED, "fails": pb.Outcome_OUTCOME_FAILED, "panics": pb.Outcome_OUTCOME_FAILED,
		"denied": pb.Outcome_OUTCOME_DENIED, "unknown": pb.Outcome_OUTCOME_NO_SUCH_TOOL, "malformed": pb.Outcome_OUTCOME_INVALID_INPUT,
	} {
		if got := results[id].GetOutcome(); got != want {
			t.Errorf("%s ended with %v, want %v", id, got, want)
		}
	}
	for id, want := range map[string]struct {
		code codes.Code
		word string
	}{
		"panics-early": {codes.Internal, "internal error"},
		"read":         {codes.AlreadyExists, "a new id"},
		"session":      {codes.InvalidArgument, "leave it out"},
	} {
		if got := refused[id]; codes.Code(got.GetCode()) != want.code || !strings.Contains(got.GetMessage(), want.word) {
			t.Errorf("%s was refused with %v, want %v", id, got, want)
		}
	}
	if len(results) != 7 || len(refused) != 4 || len(finished.GetCalls()) != 11 {
		t.Errorf("%d results, %d refused, %d in the summary", len(results), len(refused), len(finished.GetCalls()))
	}
	for i, call := range finished.GetCalls() {
		if taken := call.GetExecutionId() != ""; taken != (call.GetOutcome() != 0) || call.GetTool() == "" || call.GetCallId() == "" {
			t.Errorf("call %d in the summary: %v", i+1, call)
		}
	}
}

// TestBatchStrategies: which calls run at the same time.
func TestBatchStrategies(t *testing.T) {
	s := serve(t)
	for _, test := range []struct {
		start *pb.BatchStart
		calls []string // those that begin with S are sleeps, which only read
		runs  []string // those that run when all have come, while all sleep
	}{
		{&pb.BatchStart{}, []string{"S1", "S2", "w", "S3"}, []string{"S1", "S2"}},
		{&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL}, []string{"S1", "S2", "w"}, []string{"S1"}},
		{&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_BATCHED, Parallel: 2}, []string{"S1", "S2", "S3"}, []string{"S1", "S2"}},
		{&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_PARALLEL}, []string{"S1", "S2", "w", "S3"}, []string{"S1", "S2", "w", "S3"}},
	} {
		t.Run(test.start.GetStrategy().String(), func(t *testing.T) {
			c := s.dial("")
			c.t = t
			b := c.batch(test.start)
			for _, call := range test.calls {
				id := test.start.GetStrategy().String() + call
				if call[0] == 'S' {
					b.call(id, "sleep", `{"duration_ms":600000}`)
				} else {
					b.call(id, "count", `{}`)
				}
			}
			var runs []string
			seen := make(map[string]bool)
			note := func(e *pb.BatchEvent) {
				id := strings.TrimPrefix(e.GetCall().GetCallId(), test.start.GetStrategy().String())
				if e.GetCall() != nil {
					seen[id] = true
				}
				if e.GetCall().GetEvent().GetStarted() != nil {
					runs = append(runs, id)
				}
			}
			for len(seen) < len(test.calls) || len(runs) < len(test.runs) {
				note(b.next())
			}
			// All have come. Whatever would run has begun when another call has, from its
			// beginning to its end, and an order that follows is answered behind it.
			if _, err := c.call(asJSON("list_dir", `{}`)); err != nil {
				t.Fatal(err)
			}
			b.cancelCall("none", "")
			b.until(func(e *pb.BatchEvent) bool { note(e); return e.GetRefused() != nil })
			if slices.Sort(runs); !slices.Equal(runs, slices.Sorted(slices.Values(test.runs))) {
				t.Errorf("at first %v run, want %v", runs, test.runs)
			}
			// One after the other they end, and those that wait have their turn.
			for _, call := range test.calls {
				if call[0] == 'S' {
					b.cancelCall(test.start.GetStrategy().String()+call, "enough")
				}
			}
			finished := b.end()
			for i, call := range finished.GetCalls() {
				want := pb.Outcome_OUTCOME_CANCELLED
				if test.calls[i][0] != 'S' {
					want = pb.Outcome_OUTCOME_SUCCEEDED
				}
				if call.GetOutcome() != want {
					t.Errorf("%s ended with %v", call.GetCallId(), call.GetOutcome())
				}
			}
		})
	}
}

// acceptsEdits has calls that write run without a question.
func acceptsEdits(c *service.Config) {
	c.Sessions = session.NewStore(session.Config{
		DefaultWorkspace: c.Sessions.Config().DefaultWorkspace, WorkspaceRoot: c.Sessions.Config().WorkspaceRoot,
		Default:  session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAcceptEdits},
		MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
	})
}

// TestBatchKeepsTheOrderOfWrites: with AUTO, what comes after a write sees it, and writes
// come one after the other, although their tools are concurrency-safe.
func TestBatchKeepsTheOrderOfWrites(t *testing.T) {
	s := serve(t, acceptsEdits)
	b := s.dial("").batch(&pb.BatchStart{})
	const writes = 20
	for i := range writes {
		b.call(fmt.Sprint("write-", i), "write_file", fmt.Sprintf(`{"path":"f.txt","content":"%d\n"}`, i))
		for j := range 3 {
			b.call(fmt.Sprint("read-", i, "-", j), "read_file", `{"path":"f.txt"}`)
		}
	}
	b.end()
	results := b.results()
	for i := range writes {
		if got := results[fmt.Sprint("write-", i)]; got.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatalf("write %d: %v", i, got)
		}
		for j := range 3 {
			got := text(results[fmt.Sprint("read-", i, "-", j)])
			if want := fmt.Sprint(i); !strings.Contains(got, want+"\n") && !strings.HasSuffix(strings.TrimSpace(got), want) {
				t.Errorf("after write %d it read %q", i, got)
			}
		}
	}
	content, err := os.ReadFile(filepath.Join(s.workspace, "f.txt"))
	if err != nil || string(content) != fmt.Sprintf("%d\n", writes-1) {
		t.Errorf("at the end %q, %v", content, err)
	}
}

// TestBatchProtocol: what ends a batch with a status, and says what would be right.
func TestBatchProtocol(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	start := func(b *pb.BatchStart) *pb.ExecuteBatchRequest {
		return &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: b}}
	}
	call := &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: asJSON("count", `{}`)}}
	taken := c.batch(&pb.BatchStart{BatchId: proto.String("taken")})
	taken.next()
	for _, test := range []struct {
		name     string
		messages []*pb.ExecuteBatchRequest
		code     codes.Code
		word     string
	}{
		{"nothing", nil, codes.InvalidArgument, "begin the batch with start"},
		{"a call before start", []*pb.ExecuteBatchRequest{call}, codes.InvalidArgument, "begin the batch with start"},
		{"an empty message first", []*pb.ExecuteBatchRequest{{}}, codes.InvalidArgument, "begin the batch with start"},
		{"an empty message", []*pb.ExecuteBatchRequest{start(nil), {}}, codes.InvalidArgument, "set call, interrupt"},
		{"a second start", []*pb.ExecuteBatchRequest{start(nil), call, start(nil)}, codes.InvalidArgument, "another stream"},
		{"a strategy that does not exist", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{Strategy: 99})}, codes.InvalidArgument, "AUTO"},
		{"parallel without BATCHED", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{Parallel: 3})}, codes.InvalidArgument, "leave it out"},
		{"BATCHED without parallel", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_BATCHED})}, codes.InvalidArgument, "1 to 1000"},
		{"parallel out of range", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_BATCHED, Parallel: 4e9})}, codes.InvalidArgument, "1 to 1000"},
		{"an empty id", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{BatchId: proto.String("")})}, codes.InvalidArgument, "leave it out"},
		{"a long id", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{BatchId: proto.String(strings.Repeat("x", 257))})}, codes.InvalidArgument, "at most 256"},
		{"an id that is taken", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{BatchId: proto.String("taken")})}, codes.AlreadyExists, "a new id"},
		{"no such session", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{SessionId: "nowhere"})}, codes.NotFound, "nowhere"},
		{"an unknown end", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{OnDisconnect: 77})}, codes.InvalidArgument, "unknown"},
		{"a small answer", []*pb.ExecuteBatchRequest{start(&pb.BatchStart{Answer: &pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: 3}}})}, codes.InvalidArgument, "out of range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream, err := c.ExecuteBatch(timeout(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, message := range test.messages {
				if err := stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			stream.CloseSend()
			b := &batch{t: t, stream: stream}
			wantCode(t, b.status(), test.code, test.word)
		})
	}
	taken.end()
}

// TestBatchSteering: an interrupt skips what waits and lets what runs end; messages reach
// tools; between the calls the server tells that it is a steering point.
func TestBatchSteering(t *testing.T) {
	s := serve(t)
	b := s.dial("").batch(&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL})
	b.interrupt("nothing runs") // which changes nothing
	b.call("first", "sleep", `{"duration_ms":600000}`)
	b.call("second", "count", `{}`)
	b.call("asks", "writes", `{}`)
	b.call("last", "count", `{}`)
	b.until(isStarted("first"))
	b.cancelCall("nobody", "why not")
	b.until(func(e *pb.BatchEvent) bool { return e.GetRefused() != nil })
	b.interrupt("the user wants something else")
	for range 3 {
		event := b.until(func(e *pb.BatchEvent) bool { return e.GetCall().GetEvent().GetFinished() != nil })
		if finished := event.GetCall().GetEvent().GetFinished(); finished.GetOutcome() != pb.Outcome_OUTCOME_SKIPPED ||
			!strings.Contains(text(finished), "the user wants something else") {
			t.Fatalf("after the interrupt: %v", event)
		}
	}
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Message{Message: &pb.BatchMessage{Text: "wake up"}}})
	if point := b.until(isSteering).GetSteeringPoint(); point.GetCalls() != 4 {
		t.Errorf("a steering point of %v", point)
	}
	b.call("next", "count", `{}`)
	b.until(isSteering)
	b.interrupt(strings.Repeat("x", 5000))
	if refused := b.next().GetRefused(); codes.Code(refused.GetCode()) != codes.InvalidArgument || refused.GetPosition() != 0 {
		t.Errorf("a long reason: %v", refused)
	}
	b.end()
	results := b.results()
	if got := results["first"]; got.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(text(got), "wake up") {
		t.Errorf("the call that ran ended with %v", got)
	}
	if results["next"].GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("the call after the interrupt ended with %v", results["next"])
	}
	if got := codes.Code(b.refused()["nobody"].GetCode()); got != codes.NotFound {
		t.Errorf("a cancel of no call: %v", got)
	}
	// Nobody is asked any more.
	list, err := s.dial("").ListApprovals(timeout(t), &pb.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestBatchCancelAll ends all calls, and none begins for the end of another.
func TestBatchCancelAll(t *testing.T) {
	s := serve(t)
	b := s.dial("").batch(&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL})
	before := runs.Load()
	b.call("first", "sleep", `{"duration_ms":600000}`)
	for range 50 {
		b.call("", "count", `{}`)
	}
	b.until(isStarted("first"))
	b.cancelCall("", "all of it")
	for i, call := range b.end().GetCalls() {
		if call.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
			t.Errorf("call %d ended with %v", i+1, call.GetOutcome())
		}
	}
	if n := runs.Load() - before; n != 0 {
		t.Errorf("%d calls ran", n)
	}
}

// TestBatchWaitsForApproval: what came after a call that waits for a person waits too,
// where the two do not go together, and reads go on.
func TestBatchWaitsForApproval(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	s.write("a.txt", "hello\n")
	b := c.batch(&pb.BatchStart{})
	b.call("read", "read_file", `{"path":"a.txt"}`)
	b.call("asks", "writes", `{}`)
	b.call("after", "read_file", `{"path":"a.txt"}`)
	requested := b.until(func(e *pb.BatchEvent) bool { return e.GetCall().GetEvent().GetApprovalRequested() != nil })
	id := requested.GetCall().GetEvent().GetApprovalRequested().GetApproval().GetApprovalId()
	b.until(func(e *pb.BatchEvent) bool {
		return e.GetCall().GetCallId() == "after" && e.GetCall().GetEvent().GetAccepted() != nil
	})
	if _, err := c.ResolveApproval(timeout(t), &pb.ResolveApprovalRequest{ApprovalId: id, Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}); err != nil {
		t.Fatal(err)
	}
	b.end()
	var order []string
	for _, event := range b.events {
		if call := event.GetCall(); call.GetEvent().GetStarted() != nil {
			order = append(order, call.GetCallId())
		}
	}
	if got := strings.Join(order, " "); got != "read asks after" {
		t.Errorf("they ran as %s", got)
	}
}

// TestBatchOfTenThousand: a batch has a bound, and what is beyond it is refused, call by
// call, and costs nothing else.
func TestBatchOfTenThousand(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.MaxBatchCalls = 500 })
	c := s.dial("")
	info, err := c.GetServerInfo(timeout(t), &pb.GetServerInfoRequest{})
	if err != nil || info.GetLimits().GetMaxBatchCalls() != 500 {
		t.Fatalf("%v, %v", info.GetLimits(), err)
	}
	b := c.batch(&pb.BatchStart{})
	go func() {
		for range 10_000 {
			if b.stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: asJSON("count", `{}`)}}) != nil {
				return
			}
		}
		b.stream.CloseSend()
	}()
	finished := b.until(func(e *pb.BatchEvent) bool { return e.GetFinished() != nil }).GetFinished()
	checkBatch(t, b.events, 0)
	refused := 0
	for _, event := range b.events {
		if r := event.GetRefused(); r != nil {
			if refused++; codes.Code(r.GetCode()) != codes.ResourceExhausted || r.GetPosition() != uint32(500+refused) || !strings.Contains(r.GetMessage(), "another batch") {
				t.Fatalf("refused %v", r)
			}
		}
	}
	if len(finished.GetCalls()) != 500 || len(b.results()) != 500 || refused != 9500 {
		t.Errorf("%d calls, %d results, %d refused", len(finished.GetCalls()), len(b.results()), refused)
	}
}
