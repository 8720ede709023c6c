// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// session names one of a principal.
type session struct{ tenant, principal, id string }

// A loop is an agent with a task.
type loop struct {
	agents     *Agents
	id         string // of its session, too
	definition *Definition
	task       agent.Task
	parent     session // that began it
	depth      int
	who        auth.Principal
	conn       Conn
	schema     *schema.Schema // nil where the result is a text
	began      time.Time
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when nothing of it runs
	news       chan struct{} // has room for one; filled when steering has something
	withheld   string        // files that its git worktree does not have, as git lists them

	mu        sync.Mutex
	messages  []string // that were said to it, and not heard yet
	summary   *agent.Summary
	rejected  int // results that did not fit the schema
	followers []tools.Sink
	doing     string
	report    Report // so far
	said      []model.Message
	err       error
	ended     time.Time
}

// Bounds of what is said to an agent before it hears it.
const (
	maxHeard   = 100
	closeGrace = 30 * time.Second // for the calls of a loop to end
)

// run has a runner work on the task, and closes the session after it.
func (l *loop) run(ctx context.Context, runner Runner, task *Task) {
	defer l.cancel(nil)
	l.tell(&Update{Kind: &pb.Nested_Begun{Begun: &pb.LoopBegun{Description: l.task.Description, Depth: uint32(l.depth)}}})
	report, err := runner.Run(ctx, task, l.tell)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer done()
	// What fails is a session that is gone already: it ends with its parent, and with the server.
	pb.NewSessionServiceClient(l.conn).CloseSession(closing, &pb.CloseSessionRequest{SessionId: l.id})
	if l.task.Isolation == agent.Worktree {
		var note string
		if report.Branch, note = l.settle(closing, err == nil); note != "" {
			report.Text = strings.TrimSpace(report.Text + "\n\n" + note)
		}
	}
	l.tell(&Update{Kind: &pb.Nested_Finished{Finished: &pb.LoopFinished{Outcome: agent.Outcome(err), Usage: usageOf(&report)}}})
	l.mu.Lock()
	l.report, l.err, l.ended, l.doing, l.said, l.followers = report, err, time.Now(), "", nil, nil
	l.mu.Unlock()
	l.agents.leave(l)
	close(l.done)
}

// tell notes an update, and passes it on to those who follow the loop.
func (l *loop) tell(u *Update) {
	u.ChildLoopId, u.Agent, u.Stage = l.id, l.definition.Name, l.task.Stage
	l.mu.Lock()
	l.note(u)
	followers := l.followers
	l.mu.Unlock()
	if len(followers) == 0 {
		return
	}
	if mask := l.agents.options.Mask; mask != nil {
		switch kind := u.GetKind().(type) { // the rest went through the door, and is masked there
		case *pb.Nested_Text:
			kind.Text = mask(kind.Text)
		case *pb.Nested_Call:
			kind.Call.Input, kind.Call.Error = mask(kind.Call.Input), mask(kind.Call.Error)
		}
	}
	encoded, err := proto.Marshal(u)
	if err != nil {
		return // some text of a model that is no text
	}
	for _, out := range followers {
		out.Emit(tools.Nested(encoded))
	}
}

// note keeps what the loop does, for its status.
func (l *loop) note(u *Update) {
	switch kind := u.GetKind().(type) {
	case *pb.Nested_Turn:
		l.doing = fmt.Sprintf("asks its model, turn %d", kind.Turn.GetTurn())
		l.report.Turns = int(kind.Turn.GetTurn())
	case *pb.Nested_Call:
		switch event := kind.Call.GetEvent(); {
		case event.GetAccepted() != nil:
			l.doing = "runs " + kind.Call.GetTool()
		case event.GetApprovalRequested() != nil:
			l.doing = "waits for a person to approve " + kind.Call.GetTool()
		case event.GetFinished() != nil:
			l.doing = "has run " + kind.Call.GetTool()
			l.report.Calls++
		}
	}
}

// Follow has out told what happens, until stop is called.
func (l *loop) Follow(out tools.Sink) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers = append(l.followers[:len(l.followers):len(l.followers)], out)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		var others []tools.Sink
		for _, o := range l.followers {
			if o != out {
				others = append(others, o)
			}
		}
		l.followers = others
	}
}

// Wait waits for the end of the loop. What is said to the call that waits is said to the agent.
func (l *loop) Wait(ctx context.Context, out tools.Sink) (Report, error) {
	for {
		select {
		case message := <-out.Messages():
			l.Send(message) // one that comes too late is nobody's
		case <-l.done:
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.report, l.err
		case <-ctx.Done():
			return l.Status().Report, context.Cause(ctx)
		}
	}
}

// Send says something to the agent.
func (l *loop) Send(message string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.ended.IsZero():
		return tools.Failf("agent_ended", "The agent %s has ended and hears nothing any more: give it a new task.", l.id)
	case len(l.messages) >= maxHeard:
		return &tools.Failure{Code: "agent_busy", Message: fmt.Sprintf("The agent %s has %d messages that it has not heard yet: wait until its next turn.", l.id, maxHeard), Retryable: true}
	}
	l.messages = append(l.messages, message)
	l.wake()
	return nil
}

// wake says that steering has something.
func (l *loop) wake() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Stop ends the loop and waits for its end.
func (l *loop) Stop(ctx context.Context, reason string) error {
	l.cancel(tools.Failf("agent_stopped", "The agent was stopped: %s", reason))
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Status tells how the loop is.
func (l *loop) Status() agent.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return agent.Status{
		ID: l.id, Agent: l.definition.Name, Description: l.task.Description, Running: l.ended.IsZero(),
		Doing: l.doing, Began: l.began, Ended: l.ended, Report: l.report, Err: l.err,
	}
}

func (l *loop) endedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// remember is [Task.Said].
func (l *loop) remember(said []model.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = said[:len(said):len(said)]
}

// steering is [Task.Steering].
func (l *loop) steering() (heard []string, summary *agent.Summary) {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard, l.messages = l.messages, nil
	return heard, l.summary
}

// summarize takes the report of the agent.
func (l *loop) summarize(s agent.Summary) error {
	if err := l.accept(s); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summary = &s
	l.wake()
	return nil
}

// maxRejected is how often a result may be wrong: once, and once more after it was told.
const maxRejected = 2

// accept is [Task.Accept].
func (l *loop) accept(s agent.Summary) error {
	if l.schema == nil {
		return nil
	}
	wrong := errors.New("it is missing: the caller wants a JSON value as the result")
	if len(s.Result) > 0 {
		wrong = l.schema.ValidateText(s.Result)
	}
	if wrong == nil {
		return nil
	}
	l.mu.Lock()
	l.rejected++
	last := l.rejected >= maxRejected
	l.mu.Unlock()
	if last {
		l.cancel(tools.Failf("result_invalid", "The agent handed over a result that does not fit the schema, and did so again when it was told: %.2000v\nIt was: %.2000s", wrong, s.Result))
	}
	return tools.Failf("result_invalid", "The result does not fit the schema that the caller gave: %.4000v\nThe schema: %s", wrong, l.schema.Text)
}

// resultIn returns the JSON value in what an agent wrote: all of it, or what is in a fence.
func resultIn(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if _, rest, ok := strings.Cut(text, "```"); ok && !json.Valid([]byte(text)) {
		_, rest, _ = strings.Cut(rest, "\n")
		text, _, _ = strings.Cut(rest, "```")
	}
	if !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(strings.TrimSpace(text))
}
