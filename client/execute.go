// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Execute runs a call and yields each of its events once, to the finished one. An
// error ends them: it is about the caller or the connection, and what the model did
// wrong is a result. Leaving early does not end the call; [Client.Cancel] does.
//
// A call whose server is gone ends with OUTCOME_LOST. One that no server has seen is
// sent until one has.
func (c *Client) Execute(ctx context.Context, call Call) iter.Seq2[*pb.Event, error] {
	request, err := call.request(c.session)
	if err != nil {
		return func(yield func(*pb.Event, error) bool) { yield(nil, err) }
	}
	return c.ExecuteRequest(ctx, request)
}

// ExecuteRequest is Execute for a call as it is sent, which has a call id.
func (c *Client) ExecuteRequest(ctx context.Context, request *pb.ExecuteToolRequest) iter.Seq2[*pb.Event, error] {
	return func(yield func(*pb.Event, error) bool) {
		f := &follower{client: c, call: request, callID: request.GetCallId(), watch: new(pb.WatchExecutionRequest)}
		f.follow(ctx, yield)
	}
}

// Watch yields the events of a call after a sequence, as Execute does; 0: from the
// first.
func (c *Client) Watch(ctx context.Context, callID string, after uint64) iter.Seq2[*pb.Event, error] {
	return c.WatchRequest(ctx, &pb.WatchExecutionRequest{SessionId: c.session, CallId: callID, AfterSequence: after})
}

// WatchRequest is Watch for an execution that is named in any way.
func (c *Client) WatchRequest(ctx context.Context, request *pb.WatchExecutionRequest) iter.Seq2[*pb.Event, error] {
	return func(yield func(*pb.Event, error) bool) {
		(&follower{client: c, callID: request.GetCallId(), watch: proto.CloneOf(request)}).follow(ctx, yield)
	}
}

// Result reads events to the end and returns the result.
func Result(events iter.Seq2[*pb.Event, error]) (*pb.Finished, error) {
	for event, err := range events {
		if err != nil {
			return nil, err
		}
		if finished := event.GetFinished(); finished != nil {
			return finished, nil
		}
	}
	return nil, errors.New("the events ended before the call did")
}

// A follower follows one call over as many streams as it takes.
type follower struct {
	client *Client
	callID string
	call   *pb.ExecuteToolRequest    // nil: it is only watched
	watch  *pb.WatchExecutionRequest // names the execution once an event came
	heard  bool                      // an event came

	// sentTo is the server that was sent the call, and doubt says that it may have
	// taken it, for all that was heard.
	sentTo string
	doubt  bool
}

func (f *follower) follow(ctx context.Context, yield func(*pb.Event, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := f.client.retries(); ; {
		receive, err := f.open(ctx)
		for err == nil {
			var event *pb.Event
			if event, err = receive(); err != nil {
				break
			}
			r.reset()
			f.heard = true
			if event.GetSequence() <= f.watch.AfterSequence {
				continue // a heartbeat, which has no number of its own
			}
			f.watch = &pb.WatchExecutionRequest{ExecutionId: event.GetExecutionId(), AfterSequence: event.GetSequence()}
			if !yield(event, nil) || event.GetFinished() != nil {
				return
			}
		}
		other := f.client.replaced(err)
		switch {
		case other && f.doubt, f.heard && status.Code(err) == codes.NotFound:
			yield(lost(f.watch.ExecutionId, f.watch.AfterSequence, f.callID), nil)
			return
		case !other && !lostConnection(err):
			yield(nil, err)
			return
		}
		f.doubt = f.doubt || f.sentTo != "" && !other && !notTaken(err)
		absent := f.client.failFast && !f.heard && !f.doubt && !other
		if absent || !r.wait(ctx) {
			if f.call != nil && (f.heard || f.doubt) {
				err = fmt.Errorf("the connection was lost, and call %s may have run: %w", f.callID, err)
			}
			yield(nil, err)
			return
		}
	}
}

// open opens the next stream. A call that a server may have taken is sent again to
// that server alone, which knows its id.
func (f *follower) open(ctx context.Context) (func() (*pb.Event, error), error) {
	tools := f.client.Tools
	if f.call == nil || f.watch.ExecutionId != "" {
		stream, err := tools.WatchExecution(ctx, f.watch)
		return receiver[*pb.Event](stream, err)
	}
	if !f.doubt {
		var err error
		if f.sentTo, err = f.client.server(ctx); err != nil {
			return nil, err
		}
		if refused := f.client.tooLarge(f.call); refused != nil {
			return func() (*pb.Event, error) { return refused, nil }, nil
		}
	}
	stream, err := tools.ExecuteTool(addressed(ctx, f.sentTo), f.call)
	return receiver[*pb.Event](stream, err)
}

// receiver returns what receives the events of a stream.
func receiver[E any, R interface{ GetEvent() E }](stream interface {
	grpc.ClientStream
	Recv() (R, error)
}, err error) (func() (E, error), error) {
	if err != nil {
		return nil, err
	}
	return func() (E, error) {
		response, err := stream.Recv()
		return response.GetEvent(), endOf(stream, err)
	}, nil
}

// lost is the ending of a call whose server is gone.
func lost(executionID string, last uint64, callID string) *pb.Event {
	const message = "The result is not known: the server that was sent the call is gone. " +
		"The call may have run, wholly or in part: look at what it changed before you make it again."
	return &pb.Event{
		ExecutionId: executionID, Sequence: last + 1, Time: timestamppb.Now(),
		Kind: &pb.Event_Finished{Finished: &pb.Finished{
			Outcome: pb.Outcome_OUTCOME_LOST,
			Content: textContent(message),
			Failure: &pb.Failure{Code: "server_gone", Message: fmt.Sprintf("call %s: the server that was sent it is gone", cmp.Or(callID, executionID))},
		}},
	}
}
