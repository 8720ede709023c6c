// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of what a server may write. A line is one message.
const (
	maxLine     = 8 << 20
	maxLongLine = 64 << 20 // of which all but the ends is thrown away
	maxJunk     = 1 << 20  // of lines that are no messages, in all
	maxAsking   = 32       // requests of the server that wait for an answer
)

// A process is a server that was started, and the connection to it: messages are lines on
// its standard input and output. It implements [sdk.Transport] and [sdk.Connection].
type process struct {
	source *Source
	x      *command.Running
	end    func() // lets go of where it ran

	lines    lines
	incoming chan jsonrpc.Message
	closed   chan struct{}
	closing  sync.Once
	reason   atomic.Pointer[error] // why it was closed here; nil: it ended by itself

	writing chan struct{} // has one element while nobody writes

	mu      sync.Mutex
	asked   map[jsonrpc.ID]bool // what this side waits for
	asking  int                 // what the server waits for
	strange int                 // answers to what nobody asked
}

var errClosed = errors.New("the connection was closed")

// start starts the command of a server in the sandbox.
func (s *Source) start(ctx context.Context) (*process, error) {
	dir := filepath.Join(s.options.Dir, "work", s.server.Name)
	own := command.Own{Name: "mcp:" + s.server.Name, Dir: dir, Read: s.server.Read, Write: s.server.Write}
	if program := s.server.Command[0]; filepath.IsAbs(program) {
		own.Read = append(slices.Clip(own.Read), program)
	}
	runner, closeIt, err := s.options.Runners.Own(own)
	if err != nil {
		return nil, err
	}
	p := &process{
		source: s, end: closeIt, incoming: make(chan jsonrpc.Message, 16), closed: make(chan struct{}),
		writing: make(chan struct{}, 1), asked: make(map[jsonrpc.ID]bool),
	}
	p.writing <- struct{}{}
	rights := tools.Rights{Confinement: tools.SessionWide, Network: max(s.server.Network, tools.NetworkNone)}
	for _, host := range s.server.Hosts {
		if at, err := hostPort(host); err == nil { // which was checked
			rights.Hosts = append(rights.Hosts, at)
		}
	}
	env, err := s.environ()
	if err != nil {
		closeIt()
		return nil, err
	}
	p.x, err = runner.Start(ctx, command.Command{
		Path: s.server.Command[0], Args: s.server.Command[1:], Dir: ".", Env: env, Rights: rights,
		Input: true, MaxOutput: math.MaxInt64, Unmasked: true, Lasting: true,
	}, p.take)
	if err != nil {
		closeIt()
		if program := s.server.Command[0]; filepath.IsAbs(program) { // which is there, or the runner would not be
			err = fmt.Errorf("%w. The sandbox shows the program itself, and what \"read\" names: name its folder there", err)
		}
		return nil, err
	}
	return p, nil
}

// environ returns the variables of the command.
func (s *Source) environ() ([]string, error) {
	env := append([]string(nil), s.server.Env...)
	for name, file := range s.server.Secrets {
		value, err := source.Secret(file)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// Connect returns the connection.
func (p *process) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID returns nothing: there is one session.
func (p *process) SessionID() string { return "" }

// take takes what the server writes.
func (p *process) take(stream tools.Stream, data []byte) {
	if stream == tools.Stderr {
		p.source.log.write(data)
		return
	}
	p.lines.split(data, p.message, p.tooLong)
}

// message takes one line.
func (p *process) message(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	decoded, err := jsonrpc.DecodeMessage(bytes.Clone(line))
	if err != nil {
		p.junk(line)
		return
	}
	switch m := decoded.(type) {
	case *jsonrpc.Response:
		if !p.answers(m.ID) {
			return
		}
	case *jsonrpc.Request:
		if !p.accepts(m) {
			return
		}
	}
	p.give(decoded)
}

func (p *process) give(m jsonrpc.Message) {
	select {
	case p.incoming <- m:
	case <-p.closed:
	}
}

// junk takes a line that is no message: some programs greet, or log there.
func (p *process) junk(line []byte) {
	p.source.log.add(zapcore.DebugLevel, "(no message) "+string(line[:min(len(line), maxLogLine)]))
	if p.lines.junk += len(line); p.lines.junk > maxJunk {
		p.fail(fmt.Errorf("it wrote more than %d bytes to its standard output that are no messages of MCP", maxJunk))
	}
}

// answers reports whether somebody waits for an answer with this id.
func (p *process) answers(id jsonrpc.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[id] {
		delete(p.asked, id)
		return true
	}
	if p.strange++; p.strange == 1 {
		p.source.log.printf("it answered what nobody asked, with id %v", id.Raw())
	}
	return false
}

// accepts reports whether a message of the server goes to the client. Notifications end
// here: none of them waits in a queue, however many there are.
func (p *process) accepts(m *jsonrpc.Request) bool {
	if m.IsCall() {
		p.mu.Lock()
		p.asking++
		tooMany := p.asking > maxAsking
		p.mu.Unlock()
		if tooMany {
			p.fail(fmt.Errorf("it waited for more than %d answers at once", maxAsking))
		}
		return !tooMany
	}
	switch m.Method {
	case "notifications/progress":
		var params sdk.ProgressNotificationParams
		if json.Unmarshal(m.Params, &params) == nil {
			p.source.progress(&params)
		}
	case "notifications/message":
		var params struct {
			Level, Logger string
			Data          any
		}
		if json.Unmarshal(m.Params, &params) == nil {
			p.source.said(params.Level, params.Logger, params.Data)
		}
	case "notifications/tools/list_changed":
		p.source.listChanged()
	case "notifications/cancelled":
		return true
	}
	return false
}

// lastID finds the id of a message at its end.
var lastID = regexp.MustCompile(`"id"\s*:\s*(\d{1,18}|"[^"\\]{0,100}")\s*\}\s*$`)

// tooLong takes a line of which only the ends are known. An answer fails what it answers.
func (p *process) tooLong(head, tail []byte, whole bool) {
	why := fmt.Errorf("it wrote a message of more than %d bytes", maxLine)
	var raw any
	if found := lastID.FindSubmatch(tail); whole && found != nil {
		json.Unmarshal(found[1], &raw)
	} else if whole {
		raw = firstID(head)
	}
	if id, err := jsonrpc.MakeID(raw); raw != nil && err == nil && p.answers(id) {
		p.give(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the answer was thrown away: " + why.Error()}})
		return
	}
	p.fail(why)
}

// firstID returns the id of a message at its beginning; nil where there is none.
func firstID(head []byte) (id any) {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		value, err := d.Token()
		if _, nested := value.(json.Delim); err != nil || nested {
			return nil
		}
		if key == "id" {
			return value
		}
	}
}

// Read returns the next message.
func (p *process) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-p.incoming:
		return m, nil
	default:
	}
	select {
	case m := <-p.incoming:
		return m, nil
	case <-p.x.Done(): // and all it wrote was taken
		select {
		case m := <-p.incoming:
			return m, nil
		default:
			return nil, io.EOF
		}
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message.
func (p *process) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case <-p.writing:
	case <-p.closed:
		return io.ErrClosedPipe
	case <-p.x.Done():
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.writing <- struct{}{} }()
	p.mu.Lock()
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.IsCall() {
			p.asked[m.ID] = true
		}
	case *jsonrpc.Response:
		p.asking--
	}
	p.mu.Unlock()
	n, err := p.x.Write(ctx, append(text, '\n'))
	if err != nil && n > 0 && n <= len(text) { // the next one would begin within this one
		p.fail(errors.New("it did not read what it was sent"))
	}
	return err
}

// fail closes the connection for a reason.
func (p *process) fail(why error) {
	p.reason.CompareAndSwap(nil, &why)
	p.Close()
}

// Close ends the server and everything it started. It does not wait.
func (p *process) Close() error {
	p.closing.Do(func() {
		closed := errClosed
		p.reason.CompareAndSwap(nil, &closed)
		close(p.closed)
		p.x.Stop(errClosed)
	})
	return nil
}

// patience is how long a call waits to hear why the server ended.
const patience = 5 * time.Second

// why returns why the connection was lost, once that is known.
func (p *process) why(error) error {
	select {
	case <-p.x.Done():
	case <-time.After(patience):
	}
	if reason := p.reason.Load(); reason != nil && *reason != errClosed {
		return *reason
	}
	select {
	case <-p.x.Done():
	default:
		return errClosed
	}
	end, err := p.x.Wait()
	if err != nil {
		return err
	}
	text := "it ended"
	switch exit := end.Exit; {
	case exit.Reason == tools.Exited:
		text = fmt.Sprintf("it ended with exit status %d", exit.Code)
	case exit.Reason != tools.Cancelled:
		text = "it was ended: " + strings.TrimSpace(exit.Reason.String()+" "+exit.Signal+" "+exit.Message)
	}
	if last := p.source.log.last(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// finish ends the server, and waits until nothing of it runs.
func (p *process) finish() {
	p.Close()
	<-p.x.Done()
	p.end()
}

// lines takes a stream apart.
type lines struct {
	buffer []byte
	long   int // of a line that is too long: its bytes so far
	head   []byte
	tail   []byte
	junk   int
}

const (
	keptHead = 4 << 10
	keptTail = 512
)

// split calls take with each whole line, and tooLong with the ends of one that is too
// long; whole says that its end was seen.
func (l *lines) split(data []byte, take func([]byte), tooLong func(head, tail []byte, whole bool)) {
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		switch {
		case l.long > 0:
			l.long += len(line)
			l.keepTail(line)
			if over := l.long > maxLongLine; whole || over {
				head, tail := l.head, l.tail
				l.head, l.tail = nil, nil
				if l.long = 0; over {
					l.long = 1 // what follows belongs to nothing
				}
				tooLong(head, tail, whole)
			}
		case len(l.buffer)+len(line) > maxLine:
			l.head = append(append([]byte(nil), l.buffer[:min(len(l.buffer), keptHead)]...), line[:min(len(line), keptHead)]...)
			l.long = len(l.buffer) + len(line)
			l.keepTail(l.buffer[max(0, len(l.buffer)-keptTail):])
			l.keepTail(line)
			l.buffer = nil
			if whole {
				head, tail := l.head, l.tail
				l.long, l.head, l.tail = 0, nil, nil
				tooLong(head, tail, true)
			}
		case whole && len(l.buffer) == 0:
			take(line)
		case whole:
			l.buffer = append(l.buffer, line...)
			take(l.buffer)
			if l.buffer = l.buffer[:0]; cap(l.buffer) > 1<<20 {
				l.buffer = nil
			}
		default:
			l.buffer = append(l.buffer, line...)
		}
	}
}

func (l *lines) keepTail(data []byte) {
	l.tail = append(l.tail, data[max(0, len(data)-keptTail):]...)
	if over := len(l.tail) - keptTail; over > 0 {
		l.tail = append([]byte(nil), l.tail[over:]...)
	}
}
