// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Bounds of what a model writes in one turn, and of all that was said in a loop: no provider
// takes more.
const (
	maxCalls        = 200
	maxWritten      = 1 << 20 // bytes of text
	maxConversation = 32 << 20
)

// A turn is one answer of a model, and what came of its calls. Each call is sent when it is
// complete, while the model goes on writing. Its methods are for one goroutine, but for
// those that receive.
type turn struct {
	*work
	ctx    context.Context
	cancel context.CancelFunc
	text   strings.Builder // that the model wrote
	unread strings.Builder // what is wrong with calls that cannot be told from text
	calls  []*called
	made   int // that were sent
	wrong  int // calls that are in unread

	pending  strings.Builder // text that nobody was told yet
	reported time.Time

	mu       sync.Mutex
	sent     map[string]*called // by id
	stream   grpc.BidiStreamingClient[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]
	received chan error // how the stream ended
	err      error      // that a call could not be sent
}

// called is a call that is made for an agent.
type called struct {
	toolcall.Call
	id     string // in the session
	result toolcall.Result
	shown  bool // the caller was shown its input
	room   int  // bytes of output that the caller is still told
}

func newTurn(ctx context.Context, w *work) *turn {
	t := &turn{work: w, sent: make(map[string]*called)}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// end ends what still runs.
func (t *turn) end() {
	t.cancel()
	if t.stream != nil {
		<-t.received
	}
}

// take has a piece of what the model writes.
func (t *turn) take(piece toolcall.Piece) {
	switch piece := piece.(type) {
	case toolcall.Text:
		if room := maxWritten - t.text.Len(); len(piece) > room {
			piece = piece[:max(room, 0)]
		}
		t.text.WriteString(string(piece))
		t.pending.WriteString(string(piece))
		if t.pending.Len() >= maxText/4 || strings.Contains(string(piece), "\n") || time.Since(t.reported) > textPause {
			t.flush()
		}
	case toolcall.Call:
		t.flush()
		t.call(piece)
	case toolcall.Broken:
		t.flush()
		t.broken(piece)
	}
}

// textPause is how long text may wait for more of its line.
const textPause = 200 * time.Millisecond

// flush tells the text that nobody was told yet.
func (t *turn) flush() {
	if strings.TrimSpace(t.pending.String()) != "" {
		text := strings.ToValidUTF8(t.pending.String(), "\uFFFD")
		t.pending.Reset()
		t.reported = time.Now()
		t.tell(&Update{Kind: &pb.Nested_Text{Text: text}})
	}
}

// call sends a call.
func (t *turn) call(c toolcall.Call) {
	made := &called{Call: c, id: fmt.Sprintf("%d.%d", t.report.Turns+1, len(t.calls)+1), room: maxOutput}
	made.result = toolcall.Result{CallID: c.ID, Tool: c.Tool, Failed: true}
	if len(t.calls) >= 2*maxCalls {
		return // it does not read what it is told
	}
	t.calls = append(t.calls, made)
	if len(t.calls) > maxCalls {
		t.refuse(made, fmt.Sprintf("Nothing was run: you made more than %d calls at once. Make fewer.", maxCalls))
		return
	}
	if t.stream == nil && t.err == nil {
		t.err = t.begin()
	}
	if t.err == nil {
		t.mu.Lock()
		t.sent[made.id] = made
		t.mu.Unlock()
		t.err = t.stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: &pb.ExecuteToolRequest{
			CallId: &made.id, Tool: c.Tool, InputJson: c.Input, Purpose: output.Short(t.Description, 200),
		}}})
		t.made++
	}
}

// refuse answers a call that is not sent.
func (t *turn) refuse(c *called, why string) {
	c.result.Content = []toolcall.Content{toolcall.Text(why)}
	t.tell(&Update{Kind: &pb.Nested_Call{Call: &pb.NestedCall{CallId: c.id, Tool: output.Short(c.Tool, maxName), Input: output.Short(string(c.Input), maxText), Error: output.Short(why, maxText)}}})
}

// broken answers a call that cannot be read, so that the model can correct it.
func (t *turn) broken(b toolcall.Broken) {
	if b.ID == "" { // its dialect has none: it is part of the text
		t.text.WriteString(b.Raw[:min(len(b.Raw), max(0, maxWritten-t.text.Len()))])
		if t.wrong++; t.wrong > maxCalls {
			return // it does not read what it is told
		}
		t.unread.WriteString(output.Short(b.Message, maxText) + "\n")
		t.tell(&Update{Kind: &pb.Nested_Call{Call: &pb.NestedCall{Tool: output.Short(b.Tool, maxName), Input: output.Short(b.Raw, maxText), Error: output.Short(b.Message, maxText)}}})
		return
	}
	name := b.Tool
	if name == "" {
		name = "unknown"
	}
	c := &called{Call: toolcall.Call{ID: b.ID, Tool: name, Input: []byte("{}")}, id: fmt.Sprintf("%d.%d", t.report.Turns+1, len(t.calls)+1)}
	c.result = toolcall.Result{CallID: b.ID, Tool: name, Failed: true}
	if len(t.calls) >= 2*maxCalls {
		return
	}
	t.calls = append(t.calls, c)
	c.Input = []byte(b.Raw) // for those who watch
	t.refuse(c, b.Message)
	c.Input = []byte("{}")
}

// begin opens the stream of the calls of the turn.
func (t *turn) begin() error {
	stream, err := t.client.ExecuteBatch(t.ctx)
	if err != nil {
		return err
	}
	t.stream, t.received = stream, make(chan error, 2)
	go func() {
		t.received <- t.receive()
		close(t.received)
	}()
	return stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: &pb.BatchStart{
		SessionId: t.ID, OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_CANCEL,
	}}})
}

// receive takes what happens to the calls, until all have ended.
func (t *turn) receive() (err error) {
	defer t.survive(&err)
	for {
		response, err := t.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind := response.GetEvent().GetKind().(type) {
		case *pb.BatchEvent_Call:
			c := t.of(kind.Call.GetCallId())
			if c == nil {
				continue
			}
			if f := kind.Call.GetEvent().GetFinished(); f != nil {
				c.result.Failed, c.result.Content = f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED, contentOf(f)
			}
			c.pass(kind.Call.GetEvent(), t.tell)
		case *pb.BatchEvent_Refused:
			if c := t.of(kind.Refused.GetCallId()); c != nil {
				t.refuse(c, "Nothing was run: "+kind.Refused.GetMessage())
			}
		}
	}
}

func (t *turn) of(id string) *called {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent[id]
}

// results waits for the end of all calls, and returns them with what came of them.
func (t *turn) results() ([]toolcall.Call, []toolcall.Result, error) {
	t.flush()
	if t.stream != nil {
		t.stream.CloseSend()
		if err := <-t.received; err != nil {
			return nil, nil, t.lost(t.ctx, err)
		}
	} else if t.err != nil {
		return nil, nil, t.lost(t.ctx, t.err)
	}
	var calls []toolcall.Call
	var results []toolcall.Result
	for _, c := range t.calls {
		calls, results = append(calls, c.Call), append(results, c.result)
	}
	return calls, results, nil
}
