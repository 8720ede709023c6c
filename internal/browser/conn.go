// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/chromedp/cdproto/target"
	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a connection to a browser.
const (
	maxMessage = 128 << 20 // bytes; a screenshot is the largest that is wanted
	maxQueued  = 64 << 20  // bytes that the browser has not taken yet
)

// errLost is why commands fail when the browser is gone.
var errLost = errors.New("the browser is gone")

// A message is one of the DevTools protocol, either way.
type message struct {
	ID        int64            `json:"id,omitzero"`
	SessionID target.SessionID `json:"sessionId,omitzero"`
	Method    string           `json:"method,omitzero"`
	Params    jsontext.Value   `json:"params,omitzero"`
	Result    jsontext.Value   `json:"result,omitzero"`
	Error     *protocolError   `json:"error,omitzero"`
}

// A protocolError is what the browser says of a command that it did not do.
type protocolError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

func (e *protocolError) Error() string { return e.Message }

// conn speaks the DevTools protocol. Its methods are safe for concurrent use. Events are
// handed over one at a time, in order, by whoever calls receive: a handler sends what it
// has to, and waits for nothing.
type conn struct {
	write  func([]byte) error // one message; called by one goroutine
	handle func(session target.SessionID, method string, params jsontext.Value)

	mu      sync.Mutex
	next    int64
	pending map[int64]chan *message
	queue   [][]byte
	queued  int
	wake    chan struct{} // holds a value when there is something to write
	lost    chan struct{} // closed when the browser is gone
}

func newConn(write func([]byte) error) *conn {
	return &conn{write: write, pending: make(map[int64]chan *message), wake: make(chan struct{}, 1), lost: make(chan struct{})}
}

// send writes what is queued, until the connection is lost.
func (c *conn) send() {
	for {
		select {
		case <-c.wake:
		case <-c.lost:
			return
		}
		c.mu.Lock()
		queue := c.queue
		c.queue, c.queued = nil, 0
		c.mu.Unlock()
		for _, data := range queue {
			if c.write(data) != nil {
				c.close()
				return
			}
		}
	}
}

// close has all commands fail, now and later.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.lost:
	default:
		close(c.lost)
	}
}

// receive takes one message of the browser.
func (c *conn) receive(data []byte) error {
	m := new(message)
	if err := json.Unmarshal(data, m, jsontext.AllowInvalidUTF8(true)); err != nil {
		return err
	}
	if m.ID == 0 {
		c.handle(m.SessionID, m.Method, m.Params)
		return nil
	}
	c.mu.Lock()
	answer := c.pending[m.ID]
	delete(c.pending, m.ID)
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
	return nil
}

// post sends a command whose answer nobody waits for.
func (c *conn) post(session target.SessionID, method string, params any) error {
	_, err := c.begin(session, method, params, nil)
	return err
}

// begin sends a command.
func (c *conn) begin(session target.SessionID, method string, params any, answer chan *message) (id int64, err error) {
	m := message{SessionID: session, Method: method}
	if params != nil {
		if m.Params, err = json.Marshal(params); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	m.ID = c.next
	data, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	if c.queued += len(data); c.queued > maxQueued {
		return 0, errors.New("the browser does not read what it is sent")
	}
	if answer != nil {
		c.pending[m.ID] = answer
	}
	c.queue = append(c.queue, data)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return m.ID, nil
}

// An executor sends commands to one target of the browser: "" is the browser itself.
type executor struct {
	conn    *conn
	session target.SessionID
}

// Execute sends a command and waits for its answer.
func (e executor) Execute(ctx context.Context, method string, params, result any) error {
	answer := make(chan *message, 1)
	id, err := e.conn.begin(e.session, method, params, answer)
	if err != nil {
		return err
	}
	var m *message
	select {
	case m = <-answer:
	case <-e.conn.lost:
		return errLost
	case <-ctx.Done():
		e.conn.mu.Lock()
		delete(e.conn.pending, id)
		e.conn.mu.Unlock()
		return context.Cause(ctx)
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %w", method, m.Error)
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	return json.Unmarshal(m.Result, result, jsontext.AllowInvalidUTF8(true))
}

// framed cuts a stream into messages that end with NUL.
type framed struct {
	take func([]byte) error
	rest []byte
}

func (f *framed) write(data []byte) error {
	for {
		end := bytes.IndexByte(data, 0)
		if end < 0 {
			if len(f.rest)+len(data) > maxMessage {
				return errors.New("the browser sent more in one message than it may")
			}
			f.rest = append(f.rest, data...)
			return nil
		}
		message := data[:end]
		if len(f.rest) > 0 {
			message = append(f.rest, message...)
		}
		if err := f.take(message); err != nil {
			return err
		}
		f.rest, data = f.rest[:0], data[end+1:]
	}
}
