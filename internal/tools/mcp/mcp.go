// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package mcp offers the tools of MCP servers: programs that it runs in the sandbox, and
// addresses. A server may say and do what it likes: what it says is bounded and never
// believed, and what it breaks are its own calls.
//
// Locks: that of a [Source] comes before that of its sign-in, that of a process before that of the journal. The
// others are taken alone.
//
// Goroutines: Serve has one that waits for the connection to end, and those of the
// go-sdk; all end before it returns. A connection over HTTP is made on one that ends with the context of Serve.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// Options are what sources use of the server.
type Options struct {
	// Runners run commands, Dir is where sources keep what outlives them.
	Runners *command.Runners
	Dir     string

	Logger *zap.Logger

	// Mask, if set, returns a text without the secrets in it.
	Mask func(text string) string

	// Version is what servers are told about this one.
	Version string

	// Starting, if set, is full while so many commands start at once that another waits,
	// for a while.
	Starting chan struct{}
}

// A Source offers the tools of one MCP server. Its methods are safe for concurrent use.
type Source struct {
	server  Server
	options Options
	log     *journal

	relist  chan struct{} // somebody said that the list of tools is another
	reoffer chan struct{} // what is offered of it is
	token   atomic.Int64  // of the last call
	oauth   *signIn       // nil where nobody signs in
	waiting atomic.Int32  // what the server has asked for, and was not answered

	mu      sync.Mutex
	pins    *pins // nil before the first connection
	current *connection
	calls   map[int64]*running
	last    []*sdk.Tool // that were listed
	refused []string
	changed []source.Change
}

var (
	_ source.Source   = (*Source)(nil)
	_ source.Detailed = (*Source)(nil)
	_ source.Approver = (*Source)(nil)
	_ source.Logged   = (*Source)(nil)
)

// New returns the source of a server, whose configuration was checked.
func New(server Server, options Options) *Source {
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	server.StartTimeout = cmp.Or(server.StartTimeout, defaultStartTimeout)
	s := &Source{
		server: server, options: options, calls: make(map[int64]*running),
		log:    &journal{name: server.Name, logger: options.Logger, mask: options.Mask},
		relist: make(chan struct{}, 1), reoffer: make(chan struct{}, 1),
	}
	if !server.OAuth.Off() {
		s.oauth = &signIn{source: s}
	}
	return s
}

// Name returns the name of the server.
func (s *Source) Name() string { return s.server.Name }

// Kind returns that of its tools.
func (s *Source) Kind() tools.Kind { return tools.MCP }

// Detail tells more of the source.
func (s *Source) Detail() source.Detail {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := source.Detail{At: s.server.URL, Refused: slices.Clone(s.refused), Changed: slices.Clone(s.changed)}
	if d.At == "" {
		d.At = output.Short(strings.Join(s.server.Command, " "), 200)
	}
	if s.oauth != nil {
		d.SignIn = s.oauth.link()
	}
	return d
}

// A connection is what calls go to, until it is lost.
type connection struct {
	*sdk.ClientSession
	why func(error) error // it was lost, by an error that somebody met
}

// A running is a call that runs.
type running struct {
	env      tools.Env
	out      tools.Sink
	asked    atomic.Int32 // how often the server has asked for it
	declined []string     // why it was not given what it asked for
}

// protocol is the version that is asked for; the server may choose an older one.
const protocol = "2025-11-25"

// Serve connects to the server and offers its tools until the connection is lost.
func (s *Source) Serve(ctx context.Context, offer func([]tools.Tool)) error {
	kept, err := openPins(filepath.Join(s.options.Dir, "pins", s.server.Name+".json"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.pins, s.last = kept, nil
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, finish, err := s.connect(ctx)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		c.Wait()
		close(ended)
	}()
	defer func() {
		s.mu.Lock()
		s.current = nil
		s.mu.Unlock()
		finish()
		<-ended
	}()
	s.mu.Lock()
	s.current = c
	s.mu.Unlock()
	if err := s.list(ctx, c); err != nil {
		return s.failed(c, ended, "its tools cannot be listed", err)
	}
	offer(s.offered(c))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return c.why(sdk.ErrConnectionClosed)
		case <-s.reoffer:
			offer(s.offered(c))
		case <-s.relist:
			before := s.listed()
			if err := s.list(ctx, c); err != nil {
				return s.failed(c, ended, "its tools cannot be listed", err)
			}
			if digest(before) != digest(s.listed()) {
				offer(s.offered(c))
			}
			select { // a server that says so all the time is asked once in a while
			case <-time.After(relistPause):
			case <-ended:
			case <-ctx.Done():
			}
		}
	}
}

const relistPause = time.Second

// failed returns why something failed: that the connection was lost, where it was.
func (s *Source) failed(c *connection, ended <-chan struct{}, doing string, err error) error {
	select {
	case <-ended:
		return c.why(err)
	default:
	}
	if lost(err) && !errors.Is(err, context.DeadlineExceeded) {
		return c.why(err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// lost reports whether an error is not what the server answered.
func lost(err error) bool {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	return !ok || answer.Code == codeNotSent
}

// codeNotSent is the code of what the SDK says where it could not send something.
const codeNotSent = -32005

// connect connects to the server. finish ends the connection, and waits for that.
func (s *Source) connect(ctx context.Context) (c *connection, finish func(), err error) {
	c = new(connection)
	var transport sdk.Transport
	begin := func() {}
	if s.server.URL == "" {
		started, err := s.turn(ctx)
		if err != nil {
			return nil, nil, err
		}
		defer started()
		p, err := s.start(ctx)
		if err != nil {
			return nil, nil, err
		}
		transport, c.why, finish = p, p.why, p.finish
	} else {
		at, err := s.reach(ctx)
		if err != nil {
			return nil, nil, err
		}
		transport, c.why, begin = at.transport, at.why, at.begin
		finish = func() {
			if c.ClientSession != nil {
				c.Close()
			}
			at.close()
		}
	}
	var alive time.Duration
	if s.server.URL != "" { // of a command it is seen that it has ended
		alive = keepAlive
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "toolserver", Version: s.options.Version}, &sdk.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		// Those of a command are taken before they get here.
		ElicitationHandler:     s.elicit,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.listChanged() },
		//lint:ignore SA1019 servers of today still log this way
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			s.said(string(r.Params.Level), r.Params.Logger, r.Params.Data)
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { s.progress(r.Params) },
		KeepAlive:                   alive,
		KeepAliveFailureThreshold:   3,
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
	})
	patience := s.server.StartTimeout
	if s.oauth != nil && s.server.OAuth.Grant == grantCode {
		patience = max(patience, signInTime)
	}
	start, cancel := context.WithTimeoutCause(ctx, patience, errLate)
	defer cancel()
	c.ClientSession, err = client.Connect(start, transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		late := context.Cause(start) == errLate
		finish()
		switch {
		case late:
			err = fmt.Errorf("it did not answer within %s", patience)
		case lost(err):
			err = c.why(err)
		default:
			wire, _ := errors.AsType[*jsonrpc.Error](err)
			err = fmt.Errorf("it refuses to begin: %s", output.Short(clean(wire.Message), 500))
		}
		return nil, nil, err
	}
	begin()
	return c, finish, nil
}

// turnTime is how long a command that starts keeps others from starting.
const turnTime = 2 * time.Second

// turn waits until the command may be started, and returns what says that it was.
func (s *Source) turn(ctx context.Context) (started func(), err error) {
	if s.options.Starting == nil {
		return func() {}, nil
	}
	select {
	case s.options.Starting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	leave := sync.OnceFunc(func() { <-s.options.Starting })
	late := time.AfterFunc(turnTime, leave)
	return func() {
		late.Stop()
		leave()
	}, nil
}

// keepAlive is how often it is looked whether a server at an address is still there.
const keepAlive = time.Minute

var errLate = errors.New("no answer in time")

// listChanged notes that the list of tools is another.
func (s *Source) listChanged() {
	select {
	case s.relist <- struct{}{}:
	default: // it is about to be read
	}
}

// Bounds of what a server may list.
const (
	maxTools     = 5001 // of which the keeper takes all but one, and says so
	maxPages     = 1000
	maxListBytes = 16 << 20
)

func (s *Source) listed() []*sdk.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// list asks the server for its tools.
func (s *Source) list(ctx context.Context, c *connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.server.StartTimeout, errLate)
	defer cancel()
	var list []*sdk.Tool
	if caps := c.InitializeResult().Capabilities; caps != nil && caps.Tools == nil && (caps.Resources != nil || caps.Prompts != nil) {
		s.mu.Lock()
		s.last = []*sdk.Tool{}
		s.mu.Unlock()
		return nil
	}
	cursor, size := "", 0
	for range maxPages {
		page, err := c.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			if context.Cause(ctx) == errLate {
				err = fmt.Errorf("it did not answer within %s: %w", s.server.StartTimeout, context.DeadlineExceeded)
			}
			return err
		}
		for _, tool := range page.Tools {
			text, _ := json.Marshal(tool)
			if size += len(text); size > 2*maxListBytes {
				return fmt.Errorf("they describe themselves in more than %d bytes", 2*maxListBytes)
			}
			list = append(list, tool)
		}
		if cursor = page.NextCursor; cursor == "" || len(list) > maxTools {
			break
		}
	}
	list = slices.DeleteFunc(list, func(t *sdk.Tool) bool { return t == nil })
	s.mu.Lock()
	s.last = list[:min(len(list), maxTools)]
	s.mu.Unlock()
	return nil
}

// begin notes a call that runs, for what the server says of it meanwhile.
func (s *Source) begin(env tools.Env, out tools.Sink) (token int64, call *running, c *connection, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0, nil, nil, nil, &tools.Failure{Code: "source_unavailable", Retryable: true, Message: fmt.Sprintf("%s is not connected: %v. Try again in a while.", s.server.Name, source.ErrGone)}
	}
	token = s.token.Add(1)
	call = &running{env: env, out: out}
	s.calls[token] = call
	return token, call, s.current, func() {
		s.mu.Lock()
		delete(s.calls, token)
		s.mu.Unlock()
	}, nil
}

// progress takes a notification of progress.
func (s *Source) progress(p *sdk.ProgressNotificationParams) {
	var token int64
	switch t := p.ProgressToken.(type) {
	case float64:
		token = int64(t)
	case int64:
		token = t
	}
	s.mu.Lock()
	call := s.calls[token]
	s.mu.Unlock()
	if call != nil {
		call.out.Emit(tools.Progress{Message: output.Short(clean(p.Message), 500), Done: p.Progress, Total: p.Total})
	}
}

// explain returns the error of a call as the model reads it.
func (s *Source) explain(ctx context.Context, c *connection, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return tools.Failf("mcp_error", "%s refused the call: %s", s.server.Name, output.Short(clean(wire.Message), 2000))
	}
	err = c.why(err)
	return &tools.Failure{Code: "source_lost", Retryable: true, Message: fmt.Sprintf(
		"The call failed: the connection to %s was lost: %s. It is connected again soon; whether the call did something is not known.", s.server.Name, output.Short(clean(err.Error()), 500))}
}
