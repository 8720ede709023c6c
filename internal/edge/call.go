// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/output"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// cancelTime is how long a call that was cancelled may take to end.
const cancelTime = 30 * time.Second

// call is one call of a tool.
type call struct {
	*session
	ctx       context.Context // of the client: ends when it cancels, or is gone
	outgoing  context.Context // of RPCs: with credentials, and never ends by the client
	peer      *mcp.ServerSession
	token     any           // of progress; nil where the client wants none
	known     chan struct{} // closed when execution is set
	execution string
	task      string // that the call is; empty where its client waits for it

	telling    sync.Mutex // guards progress
	progress   float64
	reportedAt time.Time // of output
	asking     map[string]context.CancelFunc
}

// call runs a tool, and tells the client how it goes.
func (s *session) call(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	outgoing := context.WithoutCancel(ctx)
	if who := requestOf(r); who != nil {
		outgoing = metadata.NewOutgoingContext(outgoing, who.headers)
		defer context.AfterFunc(who.gone, func() { cancel(errLost) })()
	}
	outgoing, hangUp := context.WithCancel(outgoing)
	defer hangUp()
	c := &call{session: s, ctx: ctx, outgoing: outgoing, peer: r.Session, token: r.Params.GetProgressToken(), known: make(chan struct{})}
	stream, err := s.tools.ExecuteTool(outgoing, &pb.ExecuteToolRequest{SessionId: s.sessionID(), Tool: r.Params.Name, InputJson: r.Params.Arguments})
	if err != nil {
		return nil, errorOf(err)
	}
	defer context.AfterFunc(ctx, func() { c.stop(hangUp) })()
	return c.follow(func() (*pb.Event, error) {
		response, err := stream.Recv()
		return response.GetEvent(), err
	})
}

// follow tells the client what happens until the call has ended, and returns its result.
func (c *call) follow(next func() (*pb.Event, error)) (mcp.Result, error) {
	for {
		event, err := next()
		if err != nil {
			return nil, errorOf(err)
		}
		if c.execution == "" {
			c.execution = event.GetExecutionId()
			close(c.known)
		}
		if finished := event.GetFinished(); finished != nil {
			c.endAsking()
			meta := mcp.Meta{"toolserver/execution": c.execution}
			maps.Copy(meta, c.related())
			return resultOf(meta, finished), nil
		}
		c.event(event)
	}
}

// stop ends the call, whose client has cancelled it, closed its session or gone. Of one
// that has gone, the call is left to the server, which waits for it a while.
func (c *call) stop(hangUp func()) {
	cause := context.Cause(c.ctx)
	select {
	case <-c.known:
	case <-c.outgoing.Done():
		return // it has ended
	}
	if cause == errLost { //nolint:errorlint // it is the cause itself
		hangUp()
		return
	}
	reason := "The MCP client has cancelled the call."
	if cause == errClosed { //nolint:errorlint // it is the cause itself
		reason = "The MCP client has closed its session."
	}
	ctx, cancel := context.WithTimeout(c.outgoing, cancelTime)
	defer cancel()
	if _, err := c.tools.Cancel(ctx, &pb.CancelRequest{ExecutionId: c.execution, Reason: reason}); err != nil && status.Code(err) != codes.Canceled {
		hangUp()
	}
}

// event tells the client what happened.
func (c *call) event(event *pb.Event) {
	agent := "" // whose call the event is of, where it is not of this one
	for event.GetNested().GetCall().GetEvent() != nil {
		agent = event.GetNested().GetAgent()
		call := event.GetNested().GetCall()
		if input := call.GetInput(); input != "" {
			c.tell(0, 0, fmt.Sprintf("%s: %s %.200s", agent, call.GetTool(), lastLine([]byte(input))))
		}
		event = call.GetEvent()
	}
	switch kind := event.GetKind().(type) {
	case *pb.Event_Nested:
		if text := strings.TrimSpace(kind.Nested.GetText()); text != "" {
			c.tell(0, 0, kind.Nested.GetAgent()+": "+lastLine([]byte(text)))
		}
	case *pb.Event_Progress:
		p := kind.Progress
		text := p.GetMessage()
		if p.GetUnit() != "" && p.GetTotal() > 0 {
			text = strings.TrimSpace(fmt.Sprintf("%s (%g of %g %s)", text, p.GetDone(), p.GetTotal(), p.GetUnit()))
		}
		if agent != "" { // how far a step is says nothing of the whole
			c.tell(0, 0, agent+": "+text)
			return
		}
		c.tell(p.GetDone(), p.GetTotal(), text)
	case *pb.Event_Output:
		if data := kind.Output.GetData(); c.token != nil && time.Since(c.reportedAt) >= outputPause {
			c.reportedAt = time.Now()
			if agent != "" {
				c.tell(0, 0, agent+": "+lastLine(data))
				return
			}
			c.tell(float64(kind.Output.GetOffset())+float64(len(data)), 0, lastLine(data))
		}
	case *pb.Event_UserMessage:
		c.log(kind.UserMessage.GetMessage())
	case *pb.Event_ApprovalRequested:
		c.ask(kind.ApprovalRequested.GetApproval())
	case *pb.Event_ApprovalResolved:
		id := kind.ApprovalResolved.GetApprovalId()
		if end, ok := c.asking[id]; ok {
			end()
			delete(c.asking, id)
		}
		answer := kind.ApprovalResolved.GetAnswer()
		c.say("Approval " + id + ": " + strings.ToLower(strings.TrimPrefix(answer.GetKind().String(), "ANSWER_KIND_")) + " by " + answer.GetBy())
	}
}

// outputPause is the least time between two notifications of output.
const outputPause = 100 * time.Millisecond

// lastLine returns the last line of an output that has something in it, at most 200
// bytes of it.
func lastLine(data []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(data), "�"))
	return output.Short(text[strings.LastIndexByte(text, '\n')+1:], 200)
}

// leastProgress is by how much progress grows where a tool does not say: so little that
// what it says later is still more.
const leastProgress = 1. / 1024

// tell sends progress, if the client wants it. The protocol has it grow each time.
func (c *call) tell(done, total float64, text string) {
	if c.token == nil {
		return
	}
	c.telling.Lock()
	c.progress = max(done, c.progress+leastProgress)
	progress := c.progress
	c.telling.Unlock()
	if total < progress {
		total = 0
	}
	c.peer.NotifyProgress(c.notifying(), &mcp.ProgressNotificationParams{ProgressToken: c.token, Progress: progress, Total: total, Message: text})
}

// say sends a text as progress and to the log.
func (c *call) say(text string) {
	c.tell(0, 0, text)
	c.log(text)
}

// notifying is the context of notifications: of the request they are about, also when
// that was cancelled.
func (c *call) notifying() context.Context { return context.WithoutCancel(c.ctx) }

func (c *call) endAsking() {
	for _, end := range c.asking {
		end()
	}
}
