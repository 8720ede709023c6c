// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Runner returns the runner that has the runtimes of an owner work on tasks.
func (r *Runtimes) Runner(owner auth.Owner) Runner { return &servedRunner{r, owner} }

type servedRunner struct {
	runtimes *Runtimes
	owner    auth.Owner
}

// serving is a task while a runtime works on it.
type serving struct {
	*Task
	runtime *runtime
	job     *assignment
	tell    func(*Update)
	report  Report
}

// Run hands a task to a runtime, and waits for its report.
func (s *servedRunner) Run(ctx context.Context, task *Task, tell func(*Update)) (Report, error) {
	message, err := taskMessage(ctx, task)
	if err != nil {
		return Report{}, err
	}
	j := &assignment{
		id: task.ID, agent: strings.ToLower(task.Agent.Name), given: make(chan *runtime, 1),
		requests: make(chan *pb.ServeRequest), over: make(chan struct{}),
	}
	one, err := s.runtimes.assign(ctx, s.owner, j)
	if err != nil {
		return Report{}, err
	}
	reason := "it was cancelled"
	defer func() { s.runtimes.leave(s.owner, one, j, reason) }()
	w := &serving{Task: task, runtime: one, job: j, tell: tell}
	calls := follow(ctx, task, tell)
	err = w.say(ctx, &pb.ServeResponse{Kind: &pb.ServeResponse_Task{Task: message}})
	for done := false; err == nil && !done; {
		done, err = w.next(ctx, s.runtimes)
	}
	w.report.Calls = calls.end()
	if err == nil {
		reason = "its report was taken"
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
		reason = err.Error()
	} else if lost, ok := errors.AsType[*lostError](err); ok {
		err = &tools.Failure{Code: "agent_gone", Message: fmt.Sprintf("The runtime that worked on the task for the agent %s is gone: %s. What it did until then stays done.", task.Agent.Name, lost.why()), Retryable: true}
	}
	return w.report, err
}

// say has something sent to the runtime about the task.
func (w *serving) say(ctx context.Context, m *pb.ServeResponse) error {
	return w.runtime.say(ctx, outgoing{m, w.job})
}

// next waits for the next thing that happens, and reports whether the task is done.
func (w *serving) next(ctx context.Context, r *Runtimes) (done bool, err error) {
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-w.runtime.gone:
		return false, w.runtime.lost
	case <-w.News:
		return w.hear(ctx)
	case m := <-w.job.requests:
		switch kind := m.GetKind().(type) {
		case *pb.ServeRequest_Update:
			w.update(kind.Update)
		case *pb.ServeRequest_Failure:
			w.used(kind.Failure.GetUsage())
			reason := strings.TrimSpace(kind.Failure.GetReason())
			if reason == "" {
				reason = "it gave no reason"
			}
			return false, &tools.Failure{Code: "agent_failed", Message: fmt.Sprintf("The agent %s could not do it: %s", w.Agent.Name, reason), Retryable: kind.Failure.GetRetryable()}
		case *pb.ServeRequest_Report:
			return w.reported(ctx, r, kind.Report)
		}
	}
	return false, nil
}

// hear passes on what was said to the agent. A report that the tool summary took is the end.
func (w *serving) hear(ctx context.Context) (done bool, err error) {
	heard, summary := w.Steering()
	if summary != nil {
		w.report.Text, w.report.Result = summary.Text, summary.Result
		return true, nil
	}
	for _, text := range heard {
		w.tell(&Update{Kind: &pb.Nested_Heard{Heard: output.Short(text, maxText)}})
		if err := w.say(ctx, &pb.ServeResponse{Kind: &pb.ServeResponse_Message{Message: &pb.TaskMessage{TaskId: w.ID, Text: text}}}); err != nil {
			return false, err
		}
	}
	return false, nil
}

// update tells what the runtime does.
func (w *serving) update(u *pb.TaskUpdate) {
	switch kind := u.GetKind().(type) {
	case *pb.TaskUpdate_Text:
		w.report.Text = output.Short(kind.Text, maxOutput) // where there is no other in the end
		w.tell(&Update{Kind: &pb.Nested_Text{Text: output.Short(kind.Text, maxOutput)}})
	case *pb.TaskUpdate_Turn:
		w.used(kind.Turn.GetUsage())
		w.report.Turns = max(w.report.Turns, int(kind.Turn.GetTurn()))
		w.tell(&Update{Kind: &pb.Nested_Turn{Turn: kind.Turn}})
	}
}

// used notes what the runtime says that it used so far.
func (w *serving) used(u *pb.LoopUsage) {
	if u == nil {
		return
	}
	w.report.Turns = max(w.report.Turns, int(u.GetTurns()))
	w.report.Usage = model.Usage{
		Input: int64(u.GetInputTokens()), Cached: int64(u.GetCachedTokens()), Output: int64(u.GetOutputTokens()),
		Dollars: u.GetDollars(), Estimated: u.GetEstimated(),
	}
}

// reported takes a report, or has the runtime correct it.
func (w *serving) reported(ctx context.Context, r *Runtimes, report *pb.TaskReport) (done bool, err error) {
	w.used(report.GetUsage())
	summary := agent.Summary{Text: strings.TrimSpace(report.GetText()), Result: resultIn(report.GetResult())}
	if summary.Result == nil && w.ResultSchema != nil {
		summary.Result = resultIn(report.GetText())
	}
	wrong := w.Accept(summary)
	if wrong == nil {
		w.report.Text, w.report.Result = summary.Text, summary.Result
		return true, nil
	}
	r.mu.Lock()
	w.job.answered = false
	r.mu.Unlock()
	if ctx.Err() != nil { // it was wrong before, too
		return false, context.Cause(ctx)
	}
	return false, w.say(ctx, &pb.ServeResponse{Kind: &pb.ServeResponse_Rejected{Rejected: &pb.ReportRejected{TaskId: w.ID, Message: wrong.Error()}}})
}

// taskMessage returns a task as a runtime is told of it.
func taskMessage(ctx context.Context, task *Task) (*pb.AgentTask, error) {
	m := &pb.AgentTask{
		TaskId: task.ID, Agent: task.Agent.Name, Description: task.Description, Prompt: task.Prompt, Before: task.Before, Summarize: task.Summarize,
		ResultSchema: string(task.ResultSchema), OnBehalfOf: task.OnBehalfOf,
	}
	if deadline, ok := ctx.Deadline(); ok {
		m.Deadline = timestamppb.New(deadline)
	}
	sessions := pb.NewSessionServiceClient(task.Conn)
	for id := task.ID; id != ""; {
		response, err := sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: id})
		if err != nil {
			return nil, err
		}
		s := response.GetSession()
		if id = s.GetParentSessionId(); id != "" {
			m.Chain = append(m.Chain, &pb.AgentLink{Agent: s.GetAgent(), SessionId: s.GetSessionId(), ParentSessionId: id, ExecutionId: s.GetParentExecutionId()})
		}
	}
	slices.Reverse(m.Chain)
	return m, nil
}
