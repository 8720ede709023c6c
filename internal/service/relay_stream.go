// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/replica"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// errElsewhere ends a handler whose call is passed on.
var errElsewhere = errors.New("the call is for another replica")

// firstMessage is a stream whose first message decides where the call goes.
type firstMessage struct {
	grpc.ServerStream
	decide func(message any) error

	mu     sync.Mutex
	first  any
	passes bool // the call is passed on
	sent   bool // something, to the caller
}

func (s *firstMessage) SendMsg(message any) error {
	s.mu.Lock()
	s.sent = true
	s.mu.Unlock()
	return s.ServerStream.SendMsg(message)
}

// isTaken reports whether the call ended with nothing done, for another replica has what it
// is about by now.
func (s *firstMessage) isTaken(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(err, replica.ErrTaken) && s.first != nil && !s.sent
}

func (s *firstMessage) RecvMsg(message any) error {
	s.mu.Lock()
	first, passes := s.first == nil, s.passes
	s.mu.Unlock()
	if passes {
		return errElsewhere
	}
	if err := s.ServerStream.RecvMsg(message); err != nil || !first {
		return err
	}
	err := s.decide(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.passes = message, errors.Is(err, errElsewhere)
	return err
}

// isPassed returns the first message where the call is passed on.
func (s *firstMessage) isPassed() (message any, passes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, s.passes
}

func (r *relay) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx := stream.Context()
	var to *replica.Member
	first := &firstMessage{ServerStream: stream, decide: func(message any) (err error) {
		if methods[info.FullMethod].placed == whoHasIt {
			return nil
		}
		if to, err = r.route(ctx, info.FullMethod, message, false); err == nil && to != nil {
			err = errElsewhere
		}
		return err
	}}
	err := next(server, first)
	message, passes := first.isPassed()
	if methods[info.FullMethod].placed == whoHasIt && status.Code(toStatus(err)) == codes.NotFound {
		return r.searchStream(stream, info, message, err)
	}
	taken := !passes && first.isTaken(err)
	switch {
	case taken && isRelayed(ctx):
		stream.SetTrailer(elsewhere)
		return err
	case !passes && !taken:
		return err
	}
	for attempt := 1; ; attempt++ {
		if !taken {
			p := &passing{relay: r, stream: stream, info: info, to: to}
			if watch, ok := message.(*pb.WatchExecutionRequest); ok {
				p.at = eventPlace{watch.GetExecutionId(), watch.GetAfterSequence()}
			}
			err := p.run(ctx, message)
			if !p.elsewhere || attempt == relayAttempts {
				return err
			}
		}
		taken = false
		if info.IsClientStream { // what the caller sent after the first message is gone, and is still being read
			return withRetryInfo(status.New(codes.Unavailable, "the session has just moved to another replica, and nothing was done: call again"), time.Second).Err()
		}
		if to, err = r.route(ctx, info.FullMethod, message, true); err != nil {
			return err
		}
		if to == nil { // it is here by now
			return next(server, &replayed{ServerStream: stream, first: message})
		}
	}
}

// searchStream is search for a stream of which nothing was sent yet.
func (r *relay) searchStream(stream grpc.ServerStream, info *grpc.StreamServerInfo, message any, notFound error) error {
	silent := 0
	for _, other := range r.Others() {
		p := &passing{relay: r, stream: stream, info: info, to: &other}
		err := p.run(stream.Context(), message)
		switch {
		case p.sent || p.answered && status.Code(err) != codes.NotFound || stream.Context().Err() != nil:
			return err
		case !p.answered:
			silent++
		}
	}
	if silent > 0 {
		return mayBeKnown(silent)
	}
	return notFound
}

// passing is a stream that is passed on.
type passing struct {
	*relay
	stream    grpc.ServerStream
	info      *grpc.StreamServerInfo
	to        *replica.Member
	sent      bool // something, to the caller
	elsewhere bool // the other replica does not have the session
	answered  bool // the end is that of the other replica
	at        eventPlace
}

// run passes the stream on, with its first message. Where the other replica ends in the
// middle of an execution, the caller is told how that ended.
func (p *passing) run(ctx context.Context, first any) error {
	trailer, err := p.pump(ctx, p.info.FullMethod, first)
	if p.elsewhere = len(trailer.Get(elsewhereTrailer)) > 0; p.elsewhere {
		return err
	}
	for {
		if err == nil || len(trailer.Get(answeredTrailer)) > 0 || ctx.Err() != nil || p.server.closing.Err() != nil || !p.follows() {
			break
		}
		if p.Over(p.to.Run) {
			return p.rest(ctx)
		}
		select {
		case <-p.Changed():
		case <-time.After(p.Lease() / 50):
		case <-ctx.Done():
		}
		trailer, err = p.pump(ctx, pb.ToolService_WatchExecution_FullMethodName, &pb.WatchExecutionRequest{ExecutionId: p.at.execution, AfterSequence: p.at.sequence})
	}
	p.answered = err == nil || len(trailer.Get(answeredTrailer)) > 0
	p.stream.SetTrailer(passable(trailer))
	switch {
	case err == nil:
		return nil
	case p.server.closing.Err() != nil:
		return executor.ErrDraining
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return p.broken(p.to, trailer, err)
}

// follows reports whether the stream is one of an execution that is known by now.
func (p *passing) follows() bool {
	method := p.info.FullMethod
	return p.at.execution != "" && (method == pb.ToolService_ExecuteTool_FullMethodName || method == pb.ToolService_WatchExecution_FullMethodName)
}

// rest sends what is known of an execution whose replica has ended.
func (p *passing) rest(ctx context.Context) error {
	service := &toolService{server: p.server, executor: p.server.executor, sessions: p.server.config.Sessions}
	x, err := service.findFor(ctx, &pb.WatchExecutionRequest{ExecutionId: p.at.execution}, mayView)
	if err != nil {
		return err
	}
	return follow(p.stream, x, p.at.sequence)
}

// pump passes messages on in both directions until the other replica has ended the stream.
func (p *passing) pump(ctx context.Context, method string, first any) (metadata.MD, error) {
	ctx, leave, conn, err := p.enter(ctx, p.to)
	if err != nil {
		return nil, err
	}
	defer leave()
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err := out.SendMsg(first); err != nil && !errors.Is(err, io.EOF) {
		return out.Trailer(), err
	}
	if p.info.IsClientStream && method == p.info.FullMethod {
		go p.upstream(out) // until the RPC has ended, at the latest
	} else if err := out.CloseSend(); err != nil {
		return out.Trailer(), err
	}
	for {
		message := new(passed)
		if err := out.RecvMsg(message); errors.Is(err, io.EOF) {
			return out.Trailer(), nil
		} else if err != nil {
			return out.Trailer(), err
		}
		if !p.sent {
			if header, err := out.Header(); err == nil {
				p.stream.SetHeader(passable(header))
			}
		}
		p.at.note(message)
		p.sent = true
		if err := p.stream.SendMsg(message); err != nil {
			return metadata.Pairs(answeredTrailer, ""), err
		}
	}
}

// upstream passes on what the caller sends.
func (p *passing) upstream(out grpc.ClientStream) {
	for {
		message := new(passed)
		if err := p.stream.RecvMsg(message); err != nil {
			out.CloseSend()
			return
		}
		if out.SendMsg(message) != nil {
			return
		}
	}
}

// replayed is a stream whose first message was received already.
type replayed struct {
	grpc.ServerStream
	first any
}

func (s *replayed) RecvMsg(message any) error {
	if s.first == nil {
		return s.ServerStream.RecvMsg(message)
	}
	first := s.first
	s.first = nil
	data, err := newCodec().Marshal(first)
	if err != nil {
		return err
	}
	defer data.Free()
	return newCodec().Unmarshal(data, message)
}

// eventPlace is the last event of an execution that was passed on.
type eventPlace struct {
	execution string
	sequence  uint64
}

// note reads the place of an event from the beginning of its message: what is not one
// changes nothing.
func (e *eventPlace) note(message *passed) {
	var buffer [128]byte
	head := message.head(buffer[:])
	number, kind, n := protowire.ConsumeTag(head)
	if number != 1 || kind != protowire.BytesType || n < 0 {
		return
	}
	head = head[n:]
	if _, n = protowire.ConsumeVarint(head); n < 0 {
		return
	}
	head = head[n:]
	if number, kind, n = protowire.ConsumeTag(head); number != 1 || kind != protowire.BytesType || n < 0 {
		return
	}
	id, m := protowire.ConsumeString(head[n:])
	if m < 0 {
		return
	}
	head = head[n+m:]
	if number, kind, n = protowire.ConsumeTag(head); number != 2 || kind != protowire.VarintType || n < 0 {
		return // a heartbeat has none
	}
	if sequence, m := protowire.ConsumeVarint(head[n:]); m > 0 {
		e.execution, e.sequence = id, sequence
	}
}
