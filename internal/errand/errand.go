// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package errand makes calls for somebody who is not there: the steps of a workflow, what a
// schedule runs. Each goes through the chain of the server as the one it is for, and is judged
// there. No credentials are kept, and nothing is decided here.
package errand

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

var (
	// ErrAway: the server does not take calls now. This one may have begun: who makes it again
	// does so with the same id.
	ErrAway = errors.New("the server takes no calls now")
	// ErrNoSession: the session has ended.
	ErrNoSession = errors.New("the session has ended")
)

// Who is on whose behalf a call is made, as data: it can be stored.
type Who struct {
	Tenant     string     `json:"tenant,omitempty"`
	Principal  string     `json:"principal"`
	OnBehalfOf string     `json:"on_behalf_of,omitempty"`
	MaxMode    tools.Mode `json:"max_mode,omitempty"` // the most permissive mode; 0: that of the session
}

// Of returns who makes a call.
func Of(env tools.Env) Who {
	return Who{Tenant: env.Tenant, Principal: env.Principal, OnBehalfOf: env.OnBehalfOf, MaxMode: env.MaxMode}
}

// Owner is whose things are, as one text: the users that a principal acts for have their own.
func (w Who) Owner() string {
	owner := string(auth.NewOwner(w.Tenant, w.Principal))
	if w.OnBehalfOf == "" || w.OnBehalfOf == w.Principal {
		return owner
	}
	return owner + "\x00\x00" + w.OnBehalfOf // no name has such a byte
}

// Conn is a connection to the chain. Close it after use.
type Conn = interface {
	grpc.ClientConnInterface
	io.Closer
}

// An Event is what happens to a call.
type Event = pb.Event

// A Door makes calls. Its methods are safe for concurrent use.
type Door struct {
	mu      sync.Mutex
	connect func(auth.Principal) (Conn, error)
	takes   func() bool
}

// Connect says how a caller inside the process reaches the server, and what reports whether it
// takes calls.
func (d *Door) Connect(connect func(auth.Principal) (Conn, error), takes func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connect, d.takes = connect, takes
}

// Away reports whether the server takes no calls: it begins, or ends.
func (d *Door) Away() bool {
	d.mu.Lock()
	takes := d.takes
	d.mu.Unlock()
	return takes == nil || !takes()
}

func (d *Door) open(who Who) (Conn, error) {
	d.mu.Lock()
	connect := d.connect
	d.mu.Unlock()
	if connect == nil {
		return nil, ErrAway
	}
	return connect(auth.Principal{
		Name: who.Principal, Tenant: who.Tenant, OnBehalfOf: cmp.Or(who.OnBehalfOf, who.Principal), MaxMode: who.MaxMode, Roles: auth.Agent,
	})
}

// A Call is one call of a tool.
type Call struct {
	Session, ID, Tool string
	Input             json.RawMessage
	Timeout           time.Duration // 0: that of the tool
	Purpose           string
}

// Outcome is how a call ended, as far as whoever makes it again has to know.
type Outcome int

const (
	Succeeded Outcome = iota
	Failed            // it ran, or could not
	Refused           // by the policy, a person, or because the input or the tool is wrong: nothing ran
	Limited           // by a rate: nothing ran, and it may later
	Lost              // what it did is not known
	Unstarted         // the server ended, and the call did nothing: it may be made again
)

// An End is how a call ended.
type End struct {
	Outcome       Outcome
	Output        json.RawMessage // the JSON that it answered with, or its text
	Details       json.RawMessage
	Execution     string
	Code, Message string
	After         time.Duration // when it may be tried again, where that is known
}

// Text is what the call answered with: a text as it is, anything else as JSON.
func (e *End) Text() string {
	var text string
	if json.Unmarshal(e.Output, &text) == nil {
		return text
	}
	return string(e.Output)
}

// Call makes a call and waits for its end. A call id that is known answers with the end it
// had. It ends soon after ctx does. tell may be nil.
func (d *Door) Call(ctx context.Context, who Who, call Call, tell func(*pb.Event)) (*End, error) {
	conn, err := d.open(who)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request := &pb.ExecuteToolRequest{
		SessionId: call.Session, CallId: &call.ID, Tool: call.Tool, InputJson: call.Input, Purpose: call.Purpose,
		OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_CANCEL,
	}
	if call.Timeout > 0 {
		request.Timeout = durationpb.New(call.Timeout)
	}
	stream, err := pb.NewToolServiceClient(conn).ExecuteTool(ctx, request)
	if err != nil {
		return nil, failure(ctx, err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return nil, failure(ctx, err)
		}
		event := response.GetEvent()
		if tell != nil {
			tell(event)
		}
		if f := event.GetFinished(); f != nil {
			return ended(event.GetExecutionId(), f), nil
		}
	}
}

// failure tells apart why a call could not be made.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable, codes.Canceled:
		return fmt.Errorf("%w: %s", ErrAway, s.Message())
	case codes.NotFound:
		return fmt.Errorf("%w: %s", ErrNoSession, s.Message())
	}
	return errors.New(s.Message())
}

// ended returns the end of an execution.
func ended(id string, f *pb.Finished) *End {
	e := &End{Execution: id, Code: f.GetFailure().GetCode(), Message: f.GetFailure().GetMessage(), Output: outputOf(f), Details: json.RawMessage(f.GetDetailsJson()), After: f.GetFailure().GetRetryAfter().AsDuration()}
	switch f.GetOutcome() {
	case pb.Outcome_OUTCOME_SUCCEEDED:
		if code := f.GetExit().GetCode(); code != 0 { // which says something to a model, and is no success of a step
			e.Outcome, e.Code, e.Message = Failed, "exit_status", fmt.Sprintf("it exited with status %d", code)
		}
	case pb.Outcome_OUTCOME_INVALID_INPUT, pb.Outcome_OUTCOME_NO_SUCH_TOOL, pb.Outcome_OUTCOME_DENIED:
		e.Outcome = Refused
	case pb.Outcome_OUTCOME_RATE_LIMITED:
		e.Outcome = Limited
	case pb.Outcome_OUTCOME_LOST, pb.Outcome_OUTCOME_CANCELLED:
		e.Outcome = Lost
		if e.Code == "lost_without_effects" || e.Code == "cancelled_without_effects" {
			e.Outcome = Unstarted
		}
	default:
		e.Outcome = Failed
	}
	if e.Outcome != Succeeded && e.Message == "" {
		e.Message = cmp.Or(f.GetCancellation().GetReason(), textOf(f), "it ended without a reason")
	}
	if e.Outcome == Failed {
		if wrote := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(textOf(f)), e.Message)); wrote != "" && wrote != e.Message {
			e.Message = strings.TrimSuffix(e.Message, ".") + ". It wrote: " + ending(wrote)
		}
	}
	return e
}

// ending returns the end of a text, which tells most of why something failed.
func ending(text string) string {
	if len(text) > maxText {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxText:], "")
	}
	return text
}

// outputOf returns the JSON that a call answered with, or else its text as JSON.
func outputOf(f *pb.Finished) json.RawMessage {
	if list := f.GetContent(); len(list) == 1 && list[0].GetJson() != "" && json.Valid([]byte(list[0].GetJson())) {
		return json.RawMessage(list[0].GetJson())
	}
	text, err := json.Marshal(textOf(f))
	if err != nil {
		return json.RawMessage(`""`)
	}
	return text
}

func textOf(f *pb.Finished) string {
	var texts []string
	for _, c := range f.GetContent() {
		if text := cmp.Or(c.GetText(), c.GetJson()); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// A Preview is what the policy says to a call beforehand.
type Preview struct {
	Allowed, Asks bool
	Reason        string
}

// Check asks what the policy would say to a call. What is wrong with the call is an error.
func (d *Door) Check(ctx context.Context, who Who, session, tool string, input json.RawMessage) (Preview, error) {
	conn, err := d.open(who)
	if err != nil {
		return Preview{}, err
	}
	defer conn.Close()
	response, err := pb.NewPolicyServiceClient(conn).CheckCall(ctx, &pb.CheckCallRequest{SessionId: session, Tool: tool, InputJson: input})
	if err != nil {
		return Preview{}, failure(ctx, err)
	}
	v := response.GetVerdict()
	return Preview{v.GetAction() == pb.Action_ACTION_ALLOW, v.GetAction() == pb.Action_ACTION_ASK, v.GetReason()}, nil
}
