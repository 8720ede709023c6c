// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// modelRunner has a model work on tasks.
type modelRunner struct{ model model.Model }

// work is a task while a model works on it.
type work struct {
	*Task
	model    model.Model
	tell     func(*Update)
	limits   Limits
	client   pb.ToolServiceClient
	tools    []toolcall.Tool
	messages []model.Message
	report   Report
	idle     int // turns in a row that brought nothing
	said     int // bytes of messages
}

// maxIdle is how many turns in a row may bring nothing: neither a call nor a text that is whole.
const maxIdle = 3

// Run asks the model and makes its calls until it reports, or a limit is reached.
func (r *modelRunner) Run(ctx context.Context, task *Task, tell func(*Update)) (_ Report, err error) {
	w := &work{Task: task, model: r.model, tell: tell, limits: task.Agent.Limits.withDefaults(), client: pb.NewToolServiceClient(task.Conn)}
	defer w.survive(&err)
	if w.Before != "" && w.Summarize {
		if err := w.digest(ctx); err != nil {
			return w.report, err
		}
	}
	w.messages = []model.Message{{Text: w.prompt()}}
	done := false
	for !done {
		if err := w.spent(); err != nil {
			return w.report, err
		}
		var err error
		if done, err = w.turn(ctx); err != nil {
			return w.report, err
		}
	}
	return w.report, nil
}

// spent returns the failure of a loop that has used up what it may.
func (w *work) spent() error {
	used, name := &w.report, w.Agent.Name
	switch l := w.limits; {
	case used.Turns >= l.Turns:
		return tools.Failf("turn_limit", "The agent %s was not done after %d turns, which is as many as it may take. Give it a smaller task, or do the rest yourself.", name, used.Turns)
	case w.said > maxConversation:
		return tools.Failf("conversation_limit", "The agent %s was not done when its conversation had %d bytes: it may have %d. Give it a smaller task, or do the rest yourself.", name, w.said, maxConversation)
	case l.Tokens > 0 && used.Usage.Input+used.Usage.Output >= int64(l.Tokens):
		return tools.Failf("token_limit", "The agent %s was not done after %d tokens: it may use %d. Give it a smaller task, or do the rest yourself.", name, used.Usage.Input+used.Usage.Output, l.Tokens)
	case l.Dollars > 0 && used.Usage.Dollars >= float64(l.Dollars):
		return tools.Failf("dollar_limit", "The agent %s was not done after %.4f dollars: it may use %.4f. Give it a smaller task, or do the rest yourself.", name, used.Usage.Dollars, float64(l.Dollars))
	}
	return nil
}

// prompt is the first thing that the model is told.
func (w *work) prompt() string {
	prompt := w.Prompt
	if w.Before != "" {
		prompt = "(What was said before, where this task comes from:)\n\n" + w.Before + "\n\n(The task:)\n\n" + prompt
	}
	if w.ResultSchema == nil {
		return prompt
	}
	return prompt + "\n\nThe result has to be a JSON value that fits this JSON Schema: " + string(w.ResultSchema) +
		"\nHand it over with the tool " + agent.SummaryName + ", as result; or, without that tool, end with the JSON value and nothing else."
}

// turn asks the model once, and reports whether the task is done.
func (w *work) turn(ctx context.Context) (done bool, err error) {
	if err := w.list(ctx); err != nil {
		return false, err
	}
	w.hear()
	w.Said(w.messages)
	w.tell(&Update{Kind: &pb.Nested_Turn{Turn: &pb.TurnBegun{Turn: uint32(w.report.Turns + 1), Usage: usageOf(&w.report)}}})
	t := newTurn(ctx, w)
	defer t.end()
	answer, err := w.model.Ask(ctx, &model.Request{
		System: w.Agent.Prompt, Tools: w.tools, Messages: w.messages, Principal: w.Principal,
		Accepts: func(string) bool { return true }, // the server tells what there is not
	}, t.take)
	w.report.Turns++
	w.report.Usage.Add(answer.Usage)
	if err != nil {
		return false, w.unanswered(ctx, err)
	}
	calls, results, err := t.results()
	w.report.Calls += t.made
	if err != nil {
		return false, err
	}
	text := t.text.String()
	if strings.TrimSpace(text) != "" {
		w.report.Text = strings.TrimSpace(text)
	}
	w.messages = append(w.messages, model.Message{FromModel: true, Text: text, Calls: calls})
	w.said += sizeOf(&w.messages[len(w.messages)-1])
	heard, summary := w.Steering()
	if summary != nil {
		w.report.Text, w.report.Result = summary.Text, summary.Result
		return true, nil
	}
	next := model.Message{Results: results, Text: t.unread.String()}
	switch {
	case answer.Stop == model.Refused:
		return false, tools.Failf("model_refused", "The provider of the model did not let it answer. Put the task in other words, or do it yourself.")
	case len(calls) > 0 || next.Text != "":
		w.idle = 0
	case answer.Stop == model.TooLong:
		next.Text, err = w.nudge("answer_too_long", "The agent %s wrote answers that were cut off at the limit of its model, and did not become shorter.",
			"(Your message was cut off, for it was too long. Go on in smaller steps.)")
	case strings.TrimSpace(text) == "":
		next.Text, err = w.nudge("agent_silent", "The agent %s said nothing, again and again.", "(You said nothing. Go on with the task, or say what came of it.)")
	case len(heard) > 0: // it did not know that when it ended
	default:
		s := agent.Summary{Text: w.report.Text, Result: resultIn(text)}
		wrong := w.Accept(s)
		if wrong == nil {
			if w.ResultSchema != nil {
				w.report.Result = s.Result
			}
			return true, nil
		}
		next.Text = wrong.Error()
	}
	if err == nil {
		err = ctx.Err()
	}
	w.said += sizeOf(&next)
	w.messages = append(w.messages, next)
	w.say(heard)
	return false, err
}

// sizeOf returns how many bytes a message has.
func sizeOf(m *model.Message) int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.Tool) + len(c.Input)
	}
	for _, r := range m.Results {
		for _, c := range r.Content {
			switch c := c.(type) {
			case toolcall.Text:
				n += len(c)
			case toolcall.Image:
				n += len(c.Data)
			}
		}
	}
	return n
}

// survive makes a panic an error: what a model or a provider sent ends its loop and nothing
// else.
func (w *work) survive(err *error) {
	if reason := recover(); reason != nil {
		w.Broken(reason)
		*err = tools.Failf("internal", "The agent %s broke down by a mistake of the server. The operator finds the reason in the server's log under %s.", w.Agent.Name, w.ID)
	}
}

// nudge returns what a model is told that brought nothing, or the failure of one that does
// so again and again.
func (w *work) nudge(code, failure, reminder string) (string, error) {
	if w.idle++; w.idle >= maxIdle {
		return "", tools.Failf(code, failure, w.Agent.Name)
	}
	return reminder, nil
}

// hear has the model told what was said to the agent meanwhile, and that its time is over soon.
func (w *work) hear() {
	heard, _ := w.Steering()
	w.say(heard)
	if w.limits.Turns > 1 && w.report.Turns == w.limits.Turns-1 {
		w.add("(This is your last turn: call no more tools, and say what you have found and done, and what is left.)")
	}
}

func (w *work) say(heard []string) {
	for _, message := range heard {
		w.tell(&Update{Kind: &pb.Nested_Heard{Heard: output.Short(message, maxText)}})
		w.add("(A message of who gave you the task:)\n" + message)
	}
}

// add adds to what the model is told next.
func (w *work) add(text string) {
	last := &w.messages[len(w.messages)-1]
	if last.Text != "" {
		text = last.Text + "\n\n" + text
	}
	last.Text = text
}

// unanswered is the failure of a model that did not answer.
func (w *work) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &tools.Failure{Code: "model_failed", Message: fmt.Sprintf("The agent %s stopped in turn %d: its model did not answer. %v", w.Agent.Name, w.report.Turns, err), Retryable: true}
}

// list asks which tools the model is told of: those that are active in the session. The
// others it finds with tool_search.
func (w *work) list(ctx context.Context) error {
	active, err := w.listed(ctx, &pb.ListToolsRequest{SessionId: w.ID, View: pb.ToolView_TOOL_VIEW_ACTIVE})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(active, func(t toolcall.Tool) bool { return t.Name == agent.SummaryName }) {
		summary, err := w.listed(ctx, &pb.ListToolsRequest{SessionId: w.ID, View: pb.ToolView_TOOL_VIEW_FULL, Names: []string{agent.SummaryName}})
		if err != nil {
			return err
		}
		active = append(active, summary...)
	}
	w.tools = active
	return nil
}

func (w *work) listed(ctx context.Context, request *pb.ListToolsRequest) (list []toolcall.Tool, err error) {
	for {
		response, err := w.client.ListTools(ctx, request)
		if err != nil {
			return nil, w.lost(ctx, err)
		}
		for _, t := range response.GetTools() {
			if t.GetUnavailableReason() == "" {
				list = append(list, toolcall.Tool{Name: t.GetName(), Description: t.GetDescription(), Schema: []byte(t.GetInputSchema())})
			}
		}
		if request.PageToken = response.GetNextPageToken(); request.PageToken == "" {
			return list, nil
		}
	}
}

// lost is the failure of a loop whose session is gone, or whose server is.
func (w *work) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded { // which the server may notice before we do
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	if s.Code() == codes.NotFound {
		return tools.Failf("session_ended", "The session that the agent worked in has ended: %s", s.Message())
	}
	return tools.Failf("agent_failed", "The agent %s could not go on: %s", w.Agent.Name, s.Message())
}
