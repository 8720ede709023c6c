// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/executor"
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

// codec is gRPC's own, but for output, which is not copied: it goes to the wire from the log, and
// is released when it was sent.
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
	switch m := v.(type) {
	case *passed:
		return m.data, nil
	case *eventMessage:
		if output, ok := m.event.Body.(executor.Output); ok && len(output.Data) > 0 {
			return m.output(&output)
		}
		if m.of != nil {
			return c.CodecV2.Marshal(m.batchMessage())
		}
		return c.CodecV2.Marshal(m.message())
	}
	return c.CodecV2.Marshal(v)
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

// output writes an event with output. Its data is the last field of the last field, and so on, of
// the message: in front of it come the other fields of each, from the innermost out.
func (m *eventMessage) output(body *executor.Output) (mem.BufferSlice, error) {
	type layer struct {
		fields protobuf.Message
		last   protowire.Number
	}
	layers := []layer{
		{&pb.Output{Stream: pb.OutputStream(body.Stream), Offset: body.Offset}, 3},
		{&pb.Event{ExecutionId: m.execution, Sequence: m.event.Seq, Time: timestamppb.New(m.event.Time)}, 6},
		{new(pb.ExecuteToolResponse), 1},
	}
	if of := m.of; of != nil {
		layers = slices.Insert(layers, 2,
			layer{&pb.BatchCallEvent{Position: uint32(of.position), CallId: of.callID}, 3},
			layer{&pb.BatchEvent{Sequence: of.number}, 3})
	}
	var head []byte
	for _, l := range layers {
		outer, err := protobuf.Marshal(l.fields)
		if err != nil {
			return nil, err
		}
		outer = protowire.AppendTag(outer, l.last, protowire.BytesType)
		outer = protowire.AppendVarint(outer, uint64(len(head)+len(body.Data)))
		head = append(outer, head...)
	}
	return mem.BufferSlice{mem.SliceBuffer(head), mem.NewBuffer(&body.Data, outputPool{body})}, nil
}

// outputPool is where the transport returns the data of an output to.
type outputPool struct{ *executor.Output }

// Get is of no use: the data comes from the log.
func (outputPool) Get(int) *[]byte { return nil }

// Put says that the transport has sent the data.
func (p outputPool) Put(*[]byte) { p.Release() }
