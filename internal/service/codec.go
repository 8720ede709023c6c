// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"time"
	"unsafe"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// eventMessage is an event on its way to a client. It is what both
// ExecuteToolResponse and WatchExecutionResponse are on the wire: a message
// whose only field is an event.
type eventMessage struct {
	execution string // its id
	event     executor.Event
	of        *callOfBatch // nil for a call by itself
}

// callOfBatch is what a batch puts around the event of a call. With it, the message is
// what both ExecuteBatchResponse and WatchBatchResponse are on the wire.
type callOfBatch struct {
	number   uint64 // of the event of the batch
	position int
	callID   string
}

// codec is gRPC's own, but for events: those that every call has and those that
// carry its output are written from the values of the log straight to the wire.
// Output is not copied: it is released when it was sent.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*passed); ok {
		data.Ref() // until it is sent
		m.data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*passed); ok {
		return m.data, nil
	}
	if m, ok := v.(*eventMessage); ok {
		if wire := m.wire(); wire != nil {
			return wire, nil
		}
		if m.of != nil {
			return c.CodecV2.Marshal(m.batchMessage())
		}
		return c.CodecV2.Marshal(m.message())
	}
	return c.CodecV2.Marshal(v)
}

// wire returns an event that is written here; nil for others.
func (m *eventMessage) wire() mem.BufferSlice {
	switch body := m.event.Body.(type) {
	case executor.Accepted:
		if body.Access == nil {
			return m.accepted(&body)
		}
	case executor.Started:
		return m.started()
	case executor.Output:
		return m.output(&body)
	case executor.Finished:
		if body.Outcome == executor.Succeeded && body.TotalBytes == 0 && onlyText(body.Result.Content) &&
			body.Result.Exit == nil && body.Result.Usage == nil && len(body.Result.Warnings)+len(body.Hooks) == 0 {
			return m.succeeded(&body)
		}
	}
	return nil
}

// message returns an event as gRPC's codec wants it. It is not inlined, since a
// waiting call keeps the deepest stack it ever had, and that codec has the deepest.
//
//go:noinline
func (m *eventMessage) message() *pb.ExecuteToolResponse {
	return &pb.ExecuteToolResponse{Event: eventToProto(m.execution, m.event)}
}

// batchMessage is message for a call of a batch.
func (m *eventMessage) batchMessage() *pb.ExecuteBatchResponse {
	call := &pb.BatchCallEvent{Position: uint32(m.of.position), CallId: m.of.callID, Event: eventToProto(m.execution, m.event)}
	return &pb.ExecuteBatchResponse{Event: &pb.BatchEvent{Sequence: m.of.number, Kind: &pb.BatchEvent_Call{Call: call}}}
}

func onlyText(content []tools.Content) bool {
	for _, c := range content {
		if _, ok := c.(tools.Text); !ok {
			return false
		}
	}
	return true
}

// frame is the most bytes that an event needs around its own fields.
const frame = 160

func (m *eventMessage) accepted(body *executor.Accepted) mem.BufferSlice {
	w := m.newBackward(frame + 64 + len(body.SessionID) + len(body.CallID) + len(body.Tool) +
		len(body.Verdict.Rule) + len(body.Verdict.Reason) + len(body.Policy))
	w.duration(5, body.Timeout)
	end := w.at
	w.text(4, body.Policy)
	w.text(3, body.Verdict.Reason)
	w.text(2, body.Verdict.Rule)
	w.number(1, uint64(actionToProto[body.Verdict.Action]))
	w.message(4, end)
	w.text(3, body.Tool)
	w.text(2, body.CallID)
	w.text(1, body.SessionID)
	return m.close(&w, 4)
}

func (m *eventMessage) started() mem.BufferSlice {
	w := m.newBackward(frame)
	return m.close(&w, 5)
}

func (m *eventMessage) output(body *executor.Output) mem.BufferSlice {
	w := m.newBackward(frame)
	if w.behind = len(body.Data); w.behind > 0 {
		w.messageOf(3, w.behind)
	}
	w.number(2, body.Offset)
	w.number(1, uint64(body.Stream))
	return append(m.close(&w, 6), mem.NewBuffer(&body.Data, outputPool{body}))
}

// outputPool is where the transport returns the data of an output to.
type outputPool struct{ *executor.Output }

// Get is of no use: the data comes from the log.
func (outputPool) Get(int) *[]byte { return nil }

// Put says that the transport has sent the data.
func (p outputPool) Put(*[]byte) { p.Release() }

// succeeded writes the last content behind everything else, so that it need not
// be copied.
func (m *eventMessage) succeeded(body *executor.Finished) mem.BufferSlice {
	content, last := body.Result.Content, tools.Text("")
	size := frame + 64 + len(body.Result.Details)
	if n := len(content) - 1; n >= 0 {
		content, last = content[:n], content[n].(tools.Text)
	}
	for _, c := range content {
		size += len(c.(tools.Text)) + 16
	}
	w := m.newBackward(size)
	if w.behind = len(last); len(content) < len(body.Result.Content) {
		w.messageOf(1, w.behind)
		w.message(2, len(w.buf))
	}
	w.number(70, uint64(body.Tokens))
	end := w.at
	w.number(3, body.OutputBytes)
	w.duration(2, body.Ran)
	w.duration(1, body.Waited)
	w.messageOf(8, end-w.at)
	w.text(3, string(body.Result.Details))
	for i := len(content) - 1; i >= 0; i-- {
		end := w.at
		w.oneofText(1, string(content[i].(tools.Text)))
		w.message(2, end)
	}
	w.number(1, uint64(pb.Outcome(body.Outcome)))
	return append(m.close(&w, 12), mem.SliceBuffer(unsafe.Slice(unsafe.StringData(string(last)), len(last))))
}

// close puts the fields that every event has around a body, whose field in
// Event is kind.
func (m *eventMessage) close(w *backward, kind protowire.Number) mem.BufferSlice {
	w.message(kind, len(w.buf))
	end := w.at
	w.number(2, uint64(m.event.Time.Nanosecond()))
	w.number(1, uint64(m.event.Time.Unix()))
	w.messageOf(3, end-w.at)
	w.number(2, m.event.Seq)
	w.text(1, m.execution)
	if of := m.of; of != nil {
		w.message(3, len(w.buf))
		w.text(2, of.callID)
		w.number(1, uint64(of.position))
		w.message(3, len(w.buf))
		w.number(1, of.number)
	}
	w.message(1, len(w.buf))
	buffers := make(mem.BufferSlice, 1, 2) // where something is behind, it comes to it
	buffers[0] = mem.SliceBuffer(w.buf[w.at:])
	return buffers
}

// backward writes protobuf from its end to its beginning, where the length of
// a message is known when its head is written. Fields with their default value
// are left out, as protobuf does.
type backward struct {
	buf    []byte
	at     int // where what is written begins
	behind int // bytes that follow buf, in every message that reaches its end
}

// newBackward returns what writes the event in so many bytes at most, and what a batch
// puts around it.
func (m *eventMessage) newBackward(size int) backward {
	if m.of != nil {
		size += 64 + len(m.of.callID)
	}
	return backward{buf: make([]byte, size), at: size}
}

func (w *backward) varint(v uint64) {
	w.at -= protowire.SizeVarint(v)
	protowire.AppendVarint(w.buf[w.at:w.at], v)
}

func (w *backward) number(field protowire.Number, v uint64) {
	if v != 0 {
		w.varint(v)
		w.varint(protowire.EncodeTag(field, protowire.VarintType))
	}
}

func (w *backward) text(field protowire.Number, s string) {
	if s != "" {
		w.oneofText(field, s)
	}
}

// oneofText writes a string that is there also when it is empty.
func (w *backward) oneofText(field protowire.Number, s string) {
	w.at -= len(s)
	copy(w.buf[w.at:], s)
	w.messageOf(field, len(s))
}

// message writes the head of a message that reaches from here to end.
func (w *backward) message(field protowire.Number, end int) {
	size := end - w.at
	if end == len(w.buf) {
		size += w.behind
	}
	w.messageOf(field, size)
}

func (w *backward) messageOf(field protowire.Number, size int) {
	w.varint(uint64(size))
	w.varint(protowire.EncodeTag(field, protowire.BytesType))
}

func (w *backward) duration(field protowire.Number, d time.Duration) {
	end := w.at
	w.number(2, uint64(d%time.Second))
	w.number(1, uint64(d/time.Second))
	w.messageOf(field, end-w.at)
}
