// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An Agent is one that this program serves: sessions of the same principal give it tasks with
// the tool "agent".
type Agent struct {
	Name        string
	Description string // for models: when to give it a task

	// Tools, Level and Mode are those of its sessions; nothing: those of its caller. It never has
	// more than its caller.
	Tools *pb.ToolSelection
	Level pb.Level
	Mode  pb.Mode

	// Work does a task, and says what came of it. It ends soon after ctx does. An error says
	// in words for a model why the task was not done.
	Work func(ctx context.Context, task *Task) (Report, error)
}

// A Task is one for an agent that this program serves.
type Task struct {
	*pb.AgentTask

	// Client calls in the session of the task, for the user whom the task is for.
	Client *Client

	// Rejected is what is wrong with the last report, where its result does not fit the schema:
	// Work is called once more then.
	Rejected string

	serving *serving
	end     context.CancelCauseFunc
	answer  chan answer // to a report

	mu    sync.Mutex
	heard []string
}

// An answer to a report says that it was taken, or what is wrong with it.
type answer struct {
	taken bool
	wrong string
}

// A Report is what came of a task.
type Report struct {
	Text   string
	Result string        // as JSON, where the task has a result schema
	Usage  *pb.LoopUsage // what it took, as far as that is known
}

// Heard returns what was said to the agent since it was last asked.
func (t *Task) Heard() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard := t.heard
	t.heard = nil
	return heard
}

// maxPiece is how many bytes of text are told at once.
const maxPiece = 64 << 10

// Tell tells who gave the task what the model writes.
func (t *Task) Tell(text string) {
	for text = strings.ToValidUTF8(text, "\uFFFD"); text != ""; {
		piece := text[:min(len(text), maxPiece)]
		if len(piece) < len(text) {
			piece = strings.ToValidUTF8(piece, "") // whose last character may be cut
		}
		t.serving.send(&pb.ServeRequest{Kind: &pb.ServeRequest_Update{Update: &pb.TaskUpdate{TaskId: t.TaskId, Kind: &pb.TaskUpdate_Text{Text: piece}}}})
		text = text[len(piece):]
	}
}

// Turn tells who gave the task that the model is asked again: the number of the turn, from 1,
// and what was used before it, which may be nil.
func (t *Task) Turn(number int, usage *pb.LoopUsage) {
	t.serving.send(&pb.ServeRequest{Kind: &pb.ServeRequest_Update{Update: &pb.TaskUpdate{
		TaskId: t.TaskId, Kind: &pb.TaskUpdate_Turn{Turn: &pb.TurnBegun{Turn: uint32(number), Usage: usage}},
	}}})
}

// Serving is what a program serves.
type Serving struct {
	Agents []Agent
	Tasks  int    // at once, for all agents together; 0: 1
	Ready  func() // is called when the agents are there, if it is set: again after a lost connection
}

// Serve serves agents. It goes on until ctx ends, which is no error. A lost connection is
// made anew; the tasks that were under way have failed then, and their contexts end.
func (c *Client) Serve(ctx context.Context, what Serving) error {
	offer := &pb.AgentOffer{MaxTasks: uint32(what.Tasks)}
	work := make(map[string]Agent)
	for _, a := range what.Agents {
		offer.Agents = append(offer.Agents, &pb.OfferedAgent{Name: a.Name, Description: a.Description, Tools: a.Tools, Level: a.Level, Mode: a.Mode})
		work[strings.ToLower(a.Name)] = a
	}
	r := c.retries()
	for {
		err := c.serve(ctx, r, offer, work, what.Ready)
		again := (lostConnection(err) || status.Code(err) == codes.Aborted) && r.wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !again {
			return err
		}
	}
}

// serving is one stream that serves agents.
type serving struct {
	stream grpc.BidiStreamingClient[pb.ServeRequest, pb.ServeResponse]
	sends  sync.Mutex

	mu    sync.Mutex
	tasks map[string]*Task
	each  sync.WaitGroup
}

// serve is Serve for one connection. It returns when no task is under way.
func (c *Client) serve(ctx context.Context, r *retries, offer *pb.AgentOffer, agents map[string]Agent, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.Agents.Serve(ctx)
	if err != nil {
		cancel()
		return err
	}
	s := &serving{stream: stream, tasks: make(map[string]*Task)}
	defer s.each.Wait()
	defer cancel()
	s.send(&pb.ServeRequest{Kind: &pb.ServeRequest_Offer{Offer: offer}})
	for {
		m, err := stream.Recv()
		if err != nil {
			return endOf(stream, err)
		}
		r.reset()
		switch kind := m.GetKind().(type) {
		case *pb.ServeResponse_Offered:
			if ready != nil {
				ready()
			}
		case *pb.ServeResponse_Task:
			s.begin(ctx, c, kind.Task, agents)
		case *pb.ServeResponse_Message:
			s.with(kind.Message.GetTaskId(), func(t *Task) {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.heard = append(t.heard, kind.Message.GetText())
			})
		case *pb.ServeResponse_Rejected:
			s.with(kind.Rejected.GetTaskId(), func(t *Task) { t.hear(answer{wrong: kind.Rejected.GetMessage()}) })
		case *pb.ServeResponse_Taken:
			s.with(kind.Taken.GetTaskId(), func(t *Task) { t.hear(answer{taken: true}) })
		case *pb.ServeResponse_Cancelled:
			s.with(kind.Cancelled.GetTaskId(), func(t *Task) { t.end(errors.New(kind.Cancelled.GetReason())) })
		case *pb.ServeResponse_Refused:
			s.with(kind.Refused.GetTaskId(), func(t *Task) { t.end(errors.New(kind.Refused.GetMessage())) })
		}
	}
}

// send sends a message. One that cannot be sent is for a stream that is lost.
func (s *serving) send(m *pb.ServeRequest) {
	s.sends.Lock()
	defer s.sends.Unlock()
	s.stream.Send(m)
}

// with does something to a task, if it is there.
func (s *serving) with(id string, do func(*Task)) {
	s.mu.Lock()
	t := s.tasks[id]
	s.mu.Unlock()
	if t != nil {
		do(t)
	}
}

// begin begins to work on a task.
func (s *serving) begin(ctx context.Context, c *Client, task *pb.AgentTask, agents map[string]Agent) {
	t := &Task{AgentTask: task, Client: c.In(task.GetTaskId()).OnBehalfOf(task.GetOnBehalfOf()), serving: s, answer: make(chan answer, 1)}
	ctx, t.end = context.WithCancelCause(ctx)
	s.mu.Lock()
	s.tasks[task.GetTaskId()] = t
	s.mu.Unlock()
	s.each.Go(func() {
		if err := t.work(ctx, agents[strings.ToLower(task.GetAgent())]); err != nil {
			s.send(&pb.ServeRequest{Kind: &pb.ServeRequest_Failure{Failure: &pb.TaskFailure{TaskId: t.TaskId, Reason: shortened(err.Error())}}})
		}
		t.end(nil)
		s.mu.Lock()
		delete(s.tasks, t.TaskId)
		s.mu.Unlock()
	})
}

// work works on a task until its report was taken.
func (t *Task) work(ctx context.Context, a Agent) error {
	if a.Work == nil {
		return fmt.Errorf("nobody here works for the agent %s", t.Agent)
	}
	for {
		report, err := a.Work(ctx, t)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		t.serving.send(&pb.ServeRequest{Kind: &pb.ServeRequest_Report{Report: &pb.TaskReport{
			TaskId: t.TaskId, Text: strings.ToValidUTF8(report.Text, "\uFFFD"), Result: report.Result, Usage: report.Usage,
		}}})
		select {
		case a := <-t.answer:
			if a.taken {
				return nil
			}
			t.Rejected = a.wrong
		case <-ctx.Done(): // also where the report was too long, in words
			return context.Cause(ctx)
		}
	}
}

// hear passes on an answer. One that nobody waits for is dropped, so that no server can hold up
// the stream with it.
func (t *Task) hear(a answer) {
	select {
	case t.answer <- a:
	default:
	}
}

// shortened returns a reason as long as one may be.
func shortened(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), 4096)], "")
}
