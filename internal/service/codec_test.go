// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestCodec proves that events are the same bytes whether they are written
// straight to the wire or through their message.
func TestCodec(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return strings.Repeat("xä", random.IntN(300)) }
	size := func() uint64 { return random.Uint64() >> random.IntN(64) }
	duration := func() time.Duration { return time.Duration(random.Int64() >> random.IntN(63)) }
	for i := range 300 {
		bodies := []executor.Body{
			executor.Accepted{
				SessionID: text(), CallID: text(), Tool: text(), Timeout: duration(),
				Verdict: policy.Verdict{Action: policy.Action(random.IntN(3)), Rule: text(), Reason: text()},
			},
			executor.Accepted{},
			executor.Accepted{Tool: text(), Access: &tools.Access{Confinement: tools.Named, Write: []string{text()}, Network: tools.NetworkLoopback}},
			executor.Started{},
			executor.Output{Stream: tools.Stream(1 + random.IntN(3)), Offset: size(), Data: []byte(text())},
			executor.Output{},
			executor.Output{Stream: tools.Stdout, Data: make([]byte, executor.MaxChunk)},
			executor.Finished{
				Outcome: executor.Succeeded, Waited: duration(), Ran: duration(), OutputBytes: size(), Tokens: random.IntN(1e6),
				Result: tools.Result{Content: []tools.Content{tools.Text(text()), tools.Text("")}, Details: []byte(text())},
			},
			executor.Finished{Outcome: executor.Succeeded},
			executor.Finished{Outcome: executor.Succeeded, Result: tools.Result{Warnings: []string{text()}}},
			executor.Finished{Outcome: executor.Succeeded, Hooks: []hook.Run{{Hook: text(), Point: hook.AfterCall, Outcome: hook.Passed, Took: duration()}}},
			executor.Finished{Outcome: executor.Failed, Result: tools.TextResult(text()), Failure: &executor.Failure{Code: text()}},
			executor.Finished{Outcome: executor.Succeeded, Result: tools.JSONResult([]byte(`{"a":1}`))},
			executor.Finished{Outcome: executor.Succeeded, Result: tools.TextResult(text()), TotalBytes: 10, KeptBytes: 2},
			executor.Progress{Message: text(), Done: 1, Total: 2, Unit: "ms"},
			executor.Partial{Content: []tools.Content{tools.Image{MediaType: "image/png", Data: []byte{1}}}},
			executor.UserMessage{Message: text(), Proactive: true, Attachments: []tools.Attachment{{Path: "a", Size: 1}}},
			executor.Heartbeat{},
			executor.Skipped{First: size()},
		}
		for _, body := range bodies {
			m := &eventMessage{
				execution: fmt.Sprint("x-", i),
				event:     executor.Event{Seq: size(), Time: time.Unix(random.Int64N(1<<33), random.Int64N(1e9)), Body: body},
			}
			buffers, err := newCodec().Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, message := range []interface {
				proto.Message
				GetEvent() *pb.Event
			}{new(pb.ExecuteToolResponse), new(pb.WatchExecutionResponse)} {
				if err := proto.Unmarshal(buffers.Materialize(), message); err != nil {
					t.Fatalf("%T %+v: %v", body, body, err)
				}
				if want := eventToProto(m.execution, m.event); !proto.Equal(message.GetEvent(), want) {
					t.Fatalf("%T is\n%v, want\n%v", body, message.GetEvent(), want)
				}
				if n := proto.Size(message); n != buffers.Len() {
					t.Fatalf("%T has %d bytes, want %d", body, buffers.Len(), n)
				}
			}
			if i >= 100 {
				continue // what a batch puts around them is small
			}
			m.of = &callOfBatch{number: size(), position: int(uint32(size())), callID: text()}
			if buffers, err = newCodec().Marshal(m); err != nil {
				t.Fatal(err)
			}
			for _, message := range []interface {
				proto.Message
				GetEvent() *pb.BatchEvent
			}{new(pb.ExecuteBatchResponse), new(pb.WatchBatchResponse)} {
				if err := proto.Unmarshal(buffers.Materialize(), message); err != nil {
					t.Fatalf("%T %+v: %v", body, body, err)
				}
				if want := m.batchMessage().GetEvent(); !proto.Equal(message.GetEvent(), want) {
					t.Fatalf("%T in a batch is\n%v, want\n%v", body, message.GetEvent(), want)
				}
				if n := proto.Size(message); n != buffers.Len() {
					t.Fatalf("%T in a batch has %d bytes, want %d", body, buffers.Len(), n)
				}
			}
		}
	}
}
