// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/output"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Bounds of what a runtime says of a task.
const (
	maxUpdate = 64 << 10 // bytes of a text
	maxReport = 1 << 20  // of a report, and of its result
	maxReason = 4 << 10
)

// ServeStream is the stream of AgentService.Serve.
type ServeStream = grpc.BidiStreamingServer[pb.ServeRequest, pb.ServeResponse]

// Serve has a runtime of an owner serve agents, until its stream ends. begun is called with what
// it offers once that was taken.
func (r *Runtimes) Serve(owner auth.Owner, stream ServeStream, begun func(*pb.AgentOffer)) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return invalid("there was no message: begin with offer, which names the agents")
	}
	if err != nil {
		return err
	}
	if first.GetOffer() == nil {
		return invalid("the first message is not offer: begin with offer, which names the agents")
	}
	one, err := r.offer(owner, first.GetOffer())
	if err != nil {
		return err
	}
	begun(first.GetOffer())
	ended := make(chan error, 2)
	go func() { ended <- r.receive(owner, one, stream) }() // until the handler has returned, at the latest
	go func() { ended <- r.send(one, stream) }()
	select {
	case err = <-ended:
	case <-one.gone:
		err = one.lost.error
	case <-stream.Context().Done():
		err = context.Cause(stream.Context())
	}
	r.withdraw(owner, one, errLeft(err))
	return err
}

// errLeft is why a runtime serves no more.
func errLeft(err error) error {
	if err == nil {
		return errors.New("it ended its stream")
	}
	return err
}

// send sends what a runtime is told.
func (r *Runtimes) send(one *runtime, stream ServeStream) error {
	if err := stream.Send(&pb.ServeResponse{Kind: &pb.ServeResponse_Offered{Offered: &pb.AgentsOffered{}}}); err != nil {
		return err
	}
	for {
		var next outgoing
		select {
		case <-one.gone:
			return one.lost.error
		case <-one.stir:
		case next = <-one.out:
		}
		for _, m := range r.due(one, next) {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
}

// due returns what a runtime is told now: first which tasks have ended, then the next message,
// if there is one and it is still of use.
func (r *Runtimes) due(one *runtime, next outgoing) (messages []*pb.ServeResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages, one.ends = one.ends, nil
	if next.ServeResponse == nil || next.job != nil && next.job.left {
		return messages
	}
	if next.job != nil {
		next.job.delivered = true
	}
	return append(messages, next.ServeResponse)
}

// say has something sent to a runtime, and waits while it does not listen.
func (one *runtime) say(ctx context.Context, m outgoing) error {
	select {
	case one.out <- m:
		return nil
	case <-one.gone:
		return one.lost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// receive takes what a runtime says, until the end. What is wrong with a task is told, and
// ends nothing else.
func (r *Runtimes) receive(owner auth.Owner, one *runtime, stream ServeStream) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, wrong, err := check(m)
		if err != nil {
			return err
		}
		if wrong == "" {
			wrong = r.take(owner, one, id, m)
		}
		if wrong != "" {
			refused := &pb.ServeRefused{TaskId: output.Short(id, maxName), Message: wrong}
			if err := one.say(stream.Context(), outgoing{ServeResponse: &pb.ServeResponse{Kind: &pb.ServeResponse_Refused{Refused: refused}}}); err != nil {
				return err
			}
		}
	}
}

// check returns the id of the task that a message is about, and what is wrong with the message. The error
// is not nil where the whole stream has to end.
func check(m *pb.ServeRequest) (id, wrong string, err error) {
	long := func(what, text string, most int) {
		if len(text) > most && wrong == "" {
			wrong = fmt.Sprintf("%s has %d bytes: at most %d", what, len(text), most)
		}
	}
	var usage *pb.LoopUsage
	switch kind := m.GetKind().(type) {
	case *pb.ServeRequest_Offer:
		return "", "", invalid("offer came twice: it is the first message and no other. Offer other agents in another stream")
	case *pb.ServeRequest_Update:
		id, usage = kind.Update.GetTaskId(), kind.Update.GetTurn().GetUsage()
		long("text", kind.Update.GetText(), maxUpdate)
		if kind.Update.GetKind() == nil {
			wrong = "the update is empty: set text or turn"
		}
	case *pb.ServeRequest_Report:
		id, usage = kind.Report.GetTaskId(), kind.Report.GetUsage()
		long("text", kind.Report.GetText(), maxReport)
		long("result", kind.Report.GetResult(), maxReport)
	case *pb.ServeRequest_Failure:
		id, usage = kind.Failure.GetTaskId(), kind.Failure.GetUsage()
		long("reason", kind.Failure.GetReason(), maxReason)
	default:
		return "", "", invalid("the message is empty: set update, report or failure")
	}
	for _, n := range []uint64{uint64(usage.GetTurns()), usage.GetInputTokens(), usage.GetCachedTokens(), usage.GetOutputTokens()} {
		if n > 1<<40 {
			wrong = fmt.Sprintf("usage has %d, which nobody can have used", n)
		}
	}
	if d := usage.GetDollars(); math.IsNaN(d) || d < 0 || d > 1e9 {
		wrong = "usage.dollars is no amount of money: want 0 or more"
	}
	return id, wrong, nil
}

// take passes on what a runtime says of a task, and returns what is wrong with that.
func (r *Runtimes) take(owner auth.Owner, one *runtime, id string, m *pb.ServeRequest) (wrong string) {
	ends := m.GetUpdate() == nil
	r.mu.Lock()
	j := one.jobs[id]
	switch {
	case j == nil:
		wrong = fmt.Sprintf("this runtime has no task %.64q: it was never given it, or has answered it already", id)
	case j.left && ends:
		r.free(owner, one, j)
		fallthrough
	case j.left: // it learns of the cancel by and by
		j = nil
	case j.answered:
		wrong = fmt.Sprintf("the task %s was answered already", id)
	default:
		j.answered = ends
	}
	r.mu.Unlock()
	if j == nil || wrong != "" {
		return wrong
	}
	select {
	case j.requests <- m:
	case <-j.over:
	case <-one.gone:
	}
	return ""
}

// lostError is why a runtime is gone.
type lostError struct{ error }

// why says that in words for a model.
func (e *lostError) why() string {
	switch s := status.Convert(e.error); {
	case s.Code() != codes.Unknown:
		return fmt.Sprintf("its connection ended (%s: %s)", s.Code(), output.Short(s.Message(), maxText))
	case errors.Is(e.error, context.Canceled):
		return "its connection ended"
	}
	return e.Error()
}
