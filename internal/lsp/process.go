// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.lsp.dev/jsonrpc2"
	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// capabilities are what a server may expect of us.
//
//go:embed capabilities.json
var capabilities []byte

// endTime is how long a server has to end when it is asked to.
const endTime = 2 * time.Second

// A process is a language server that runs.
type process struct {
	server  *Server
	files   *workspace.Workspace
	timeout time.Duration
	memory  uint64
	deny    tools.Denial // what it does not see

	x       *command.Running
	conn    jsonrpc2.Conn
	remote  protocol.Server
	said    output.Tail
	failed  atomic.Pointer[error] // why it was ended, where we did
	asking  atomic.Int64          // questions that it has not answered
	settled atomic.Bool           // it has answered a question

	can      protocol.ServerCapabilities
	encoding encoding

	changes *subscription
	client  *client

	// questions is held for reading by questions, and for writing by one that gives the
	// server texts that files do not have. It is taken before commanding, and that before mu.
	questions sync.RWMutex

	commanding sync.Mutex // held while a command runs, whose edits are collected

	mu       sync.Mutex
	docs     map[string]*document // by path
	read     map[string]*text     // of other files that answers were about, until they change
	readSize int                  // bytes of them
	opened   int                  // ever, and every version of a text
	unknown  bool                 // there are files whose changes it is not told of
	changed  time.Time            // when it was last told of a change
}

var errClosed = errors.New("it closed its standard output")

// start starts a server. A server that dies meanwhile is a [*death].
func (s *slot) start(ctx context.Context, env tools.Env) (*process, error) {
	set := s.place.set
	p := &process{
		server: s.server, files: env.Workspace, timeout: set.config.Timeout, memory: uint64(set.config.Memory),
		docs: make(map[string]*document), read: make(map[string]*text), deny: s.deny,
	}
	p.client = newClient(s.server)
	variables, read := s.place.modules(s.server)
	program := s.program
	if real, err := filepath.EvalSymlinks(program); err == nil && set.config.Beside != "" && filepath.Dir(program) == set.config.Beside {
		program, read = real, append(slices.Clip(read), real)
	}
	outputs, closed := make(chan *os.File, 1), make(chan struct{})
	x, err := s.place.runner.Start(ctx, command.Command{
		Path: program, Args: s.server.Command[1:], Dir: ".", Env: variables,
		Input: true, MaxOutput: math.MaxInt64, Unmasked: true, Lasting: true,
		// What reads messages reads the pipe: nobody hands them on.
		Read: func(out *os.File) {
			outputs <- out
			<-closed
		},
		Rights: tools.Rights{Confinement: tools.Reading, Network: tools.NetworkNone, Read: read, Deny: s.deny, Aside: true},
		Limits: sandbox.Limits{Memory: p.memory},
	}, func(_ tools.Stream, data []byte) { p.said.Add(data) })
	if err != nil {
		set.programs.Delete(s.server.Name)
		return nil, err
	}
	p.x = x
	stdout := <-outputs
	stream := newWire(stdout, x.Offer, func(data []byte) error {
		_, err := x.Write(context.Background(), data) // it ends with the server
		return err
	}, func() { _ = stdout.SetReadDeadline(time.Now()) })
	p.conn = jsonrpc2.NewConn(stream, jsonrpc2.WithCodec(codec{}))
	p.conn.Go(context.Background(), protocol.ClientHandler(p.client, jsonrpc2.MethodNotFoundHandler))
	p.remote = protocol.ServerDispatcher(p.conn)
	go func() { // what cannot be understood any more is not left running
		<-p.conn.Done()
		close(closed)
		if err := p.conn.Err(); err != nil && !errors.Is(err, io.EOF) {
			p.end(err)
		}
		p.awaitExit()
		p.end(errClosed)
	}()
	p.changes = s.place.files.subscribe() // before it reads anything
	if err := p.initialize(ctx, s.program); err != nil {
		gone := p.wasClosed(err) || p.isGone()
		p.stop(err)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case gone:
			return nil, &death{how: p.ending(), stderr: p.said.String()}
		case errors.Is(err, context.DeadlineExceeded):
			return nil, &death{how: fmt.Sprintf("did not answer within %s", p.timeout), stderr: p.said.String()}
		}
		return nil, &death{how: "refused to begin: " + err.Error(), stderr: p.said.String()}
	}
	return p, nil
}

// codec is that of package protocol, which its unions need and which has no name there.
type codec struct{}

func (codec) Marshal(v any) ([]byte, error) {
	if raw, ok := v.(jsonrpc2.RawMessage); ok && raw != nil {
		return raw, nil
	}
	return protocol.Marshal(v)
}

func (codec) Unmarshal(data []byte, v any) error {
	if raw, ok := v.(*jsonrpc2.RawMessage); ok {
		*raw = bytes.Clone(data)
		return nil
	}
	return protocol.Unmarshal(data, v)
}

// initialize tells a server where it is, and learns what it can do.
func (p *process) initialize(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	root := uri.File(p.files.Dir())
	params := &protocol.InitializeParams{
		ClientInfo: protocol.ClientInfo{Name: "toolserver"},
		//lint:ignore SA1019 older servers know no folders
		RootURI: &root,
		WorkspaceFoldersInitializeParams: protocol.WorkspaceFoldersInitializeParams{
			WorkspaceFolders: protocol.NewNullable([]protocol.WorkspaceFolder{{URI: root, Name: "workspace"}}),
		},
	}
	if err := protocol.Unmarshal(capabilities, &params.Capabilities); err != nil {
		return err
	}
	options, err := p.server.options(program)
	if err != nil {
		return err
	}
	if options != nil {
		text, err := json.Marshal(options)
		if err != nil {
			return err
		}
		params.InitializationOptions = text
	}
	p.client.folder = protocol.WorkspaceFolder{URI: root, Name: "workspace"}
	result, err := p.remote.Initialize(ctx, params)
	if err != nil {
		return err
	}
	if result == nil {
		return errors.New("it did not tell what it can do")
	}
	p.can = result.Capabilities
	if p.encoding, err = encodingOf(p.can.PositionEncoding); err != nil {
		return err
	}
	if err := p.remote.Initialized(ctx, &protocol.InitializedParams{}); err != nil {
		return err
	}
	settings, err := json.Marshal(p.server.Settings)
	if err != nil {
		return err
	}
	return p.remote.DidChangeConfiguration(ctx, &protocol.DidChangeConfigurationParams{Settings: settings})
}

// isGone reports whether the server has ended, or is being ended.
func (p *process) isGone() bool {
	select {
	case <-p.x.Done():
		return true
	case <-p.conn.Done():
		return true
	default:
		return p.failed.Load() != nil
	}
}

// wasClosed reports whether an answer is missing because the server closed its output. The
// connection has ended then.
func (p *process) wasClosed(err error) bool {
	if !errors.Is(err, io.EOF) {
		return false
	}
	<-p.conn.Done()
	return true
}

// end ends the server for a reason. The first one counts.
func (p *process) end(cause error) {
	if p.failed.CompareAndSwap(nil, &cause) {
		p.x.Stop(cause)
	}
}

// awaitExit gives a server that closed its standard output, as one that dies does, the time
// to be gone: how it ended is its own.
func (p *process) awaitExit() {
	select {
	case <-p.conn.Done():
	default:
		return
	}
	if p.failed.Load() != nil {
		return
	}
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-p.x.Done():
	case <-timer.C:
	}
}

// stop ends the server, which is asked to, and returns when it is gone.
func (p *process) stop(cause error) {
	p.changes.end()
	if !p.isGone() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		if p.remote.Shutdown(ctx) == nil {
			_ = p.remote.Exit(ctx)
		}
		cancel()
	}
	p.awaitExit()
	p.end(cause)
	<-p.x.Done()
	<-p.conn.Done()
}

// ending says how a server that is gone has ended, in words that go on after its name.
func (p *process) ending() string {
	cause := p.failed.Load()
	select {
	case <-p.x.Done():
	default:
		if cause != nil {
			return "was ended: " + (*cause).Error()
		}
	}
	outcome, err := p.x.Wait()
	exit := outcome.Exit
	switch {
	case err != nil:
		return "never ran: " + err.Error()
	case exit.Reason == tools.OutOfMemory:
		return fmt.Sprintf("was ended: it used more than the %s of memory it may", output.Size(p.memory))
	case exit.Reason == tools.Exited && outcome.Ran > 0 && !p.stopped():
		return fmt.Sprintf("ended with exit status %d", exit.Code)
	case exit.Signal != "" && !p.stopped():
		return "was ended by signal " + exit.Signal
	case exit.Message != "":
		return strings.TrimSuffix(strings.TrimPrefix(exit.Message, "The command "), ".")
	case cause != nil:
		return "was ended: " + (*cause).Error()
	}
	return fmt.Sprintf("ended with exit status %d", exit.Code)
}

// stopped reports whether the server was ended for what it said, rather than ended by itself.
func (p *process) stopped() bool {
	cause := p.failed.Load()
	return cause != nil && !errors.Is(*cause, io.EOF) && !errors.Is(*cause, io.ErrUnexpectedEOF) && !errors.Is(*cause, errClosed)
}
