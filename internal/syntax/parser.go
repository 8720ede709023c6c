// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// Why a text could not be parsed. Errors wrap one of these, or are of the
// sandbox or the context.
var (
	// ErrMissing says that there is no program that parses.
	ErrMissing = errors.New("the program toolserver-syntax is not there, which parses source code: `make build` makes it beside the server where there is a C compiler; or name one with syntax.program in the configuration")

	// ErrLanguage says that a file is of no language that is known.
	ErrLanguage = errors.New("there is no grammar for files like it")

	// ErrBinary says that a file is no text.
	ErrBinary = errors.New("it is a binary file, not source code")

	// ErrLimit says that a text takes more than it may.
	ErrLimit = errors.New("it is too large or too deep to be parsed here")

	// ErrCrashed says that the program ended while it had the text.
	ErrCrashed = errors.New("the program that parses ended before it was done")
)

// What one parse may take.
const (
	MaxText   = 8 << 20 // bytes of a text
	maxNodes  = 6 << 20
	maxTime   = 10 * time.Second
	maxMemory = 1 << 30 // of a process

	// maxProcesses is how many of all workspaces may wait for the next text.
	maxProcesses = 16

	// idleAfter is how long a process waits for the next text.
	idleAfter = time.Minute
)

// parsers are processes of toolserver-syntax that parse the texts of one
// workspace. Its methods are safe for concurrent use.
type parsers struct {
	sandbox    *sandbox.Sandbox
	program    string
	background bool
	slots      chan struct{} // one for each text that is being parsed

	mu       sync.Mutex
	pool     *Pool
	closed   bool
	idle     []*process
	timer    *time.Timer
	grammars map[string]*grammar
}

func newParsers(pool *Pool, processes int, background bool) *parsers {
	return &parsers{
		sandbox: pool.sandbox, program: pool.config.Program, background: background, pool: pool,
		slots: make(chan struct{}, processes), grammars: make(map[string]*grammar),
	}
}

// A parseRequest is a text to be parsed.
type parseRequest struct {
	text []byte
	only *excerpt // what is parsed of it; nil for all

	// places, if there are any, say which nodes are wanted: those that have one of
	// them, and so many levels below these. They are places of what is parsed.
	places []uint32
	levels uint32
}

// parse returns the tree of a text.
func (p *parsers) parse(ctx context.Context, l *language, text []byte) (*tree, error) {
	return p.do(ctx, l, parseRequest{text: text})
}

// skim returns a tree of a text that has all symbols.
func (p *parsers) skim(ctx context.Context, l *language, text []byte) (*tree, error) {
	if only, half := l.declarations(text); only != nil && len(only.pieces) > 0 {
		if t, err := p.do(ctx, l, parseRequest{text: text, only: only}); err != nil || half || !t.flawed() {
			return t, err
		}
	}
	return p.parse(ctx, l, text)
}

// do returns the tree of a task.
func (p *parsers) do(ctx context.Context, l *language, what parseRequest) (*tree, error) {
	if len(what.text) > MaxText {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are the most", ErrLimit, len(what.text), MaxText)
	}
	most := maxTime
	if p.background {
		most *= 6 // others come first
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%w: it took longer than %v", ErrLimit, most))
	defer cancel()
	var t *tree
	err := p.use(ctx, func(one *process) error {
		g, err := p.grammar(one, l)
		if err != nil {
			return err
		}
		body, err := one.ask(what.request(l.name))
		if err != nil {
			return err
		}
		t, err = newTree(g, what.text, what.only, body)
		return err
	})
	return t, err
}

// grammar returns the kinds of nodes of a language, which it asks for once.
func (p *parsers) grammar(one *process, l *language) (*grammar, error) {
	p.mu.Lock()
	g := p.grammars[l.name]
	p.mu.Unlock()
	if g != nil {
		return g, nil
	}
	body, err := one.ask(append([]byte{'k', byte(len(l.name))}, l.name...))
	if err != nil {
		return nil, err
	}
	if g, err = newGrammar(l, body); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grammars[l.name] = g
	return g, nil
}

// use lends a process. One that failed is not used again; a text that was not at
// fault is tried once more, for the process may have been at the end of its life.
func (p *parsers) use(ctx context.Context, do func(*process) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	one, fresh, err := p.take()
	if err != nil {
		return err
	}
	err = p.run(ctx, one, do)
	if errors.Is(err, ErrCrashed) && !fresh {
		if one, err = p.start(); err != nil {
			return err
		}
		err = p.run(ctx, one, do)
	}
	return err
}

func (p *parsers) run(ctx context.Context, one *process, do func(*process) error) error {
	stop := context.AfterFunc(ctx, one.kill)
	err := do(one)
	alive := stop() && (err == nil || errors.As(err, new(refusal)))
	if alive {
		p.give(one)
		return err
	}
	end := one.end()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case end.Reason == sandbox.OutOfMemory || end.Reason == sandbox.OutOfTime:
		return fmt.Errorf("%w: it needs more memory or time than it may", ErrLimit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCrashed
	}
	return err
}

// take returns a process that waits, or a new one.
func (p *parsers) take() (one *process, fresh bool, err error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		one = p.idle[n-1]
		p.idle = p.idle[:n-1]
	}
	p.mu.Unlock()
	if one != nil {
		return one, false, nil
	}
	one, err = p.start()
	return one, true, err
}

// give lets a process wait for the next text.
func (p *parsers) give(one *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.pool.alive.Load() > maxProcesses {
		one.end()
		return
	}
	p.idle = append(p.idle, one)
	if p.timer == nil {
		p.timer = time.AfterFunc(idleAfter, p.rest)
	} else {
		p.timer.Reset(idleAfter)
	}
}

// rest ends the processes that wait.
func (p *parsers) rest() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, one := range idle {
		one.end()
	}
}

func (p *parsers) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.rest()
}

// A process is a running toolserver-syntax. One text is parsed at a time.
type process struct {
	space   *sandbox.Space
	jail    *sandbox.Jail
	process *sandbox.Process
	in      *os.File
	out     *os.File
	answers *bufio.Reader
	pool    *Pool
}

// start starts a process, which sees no file but itself and, if it needs libraries, the system's.
func (p *parsers) start() (_ *process, err error) {
	if p.program == "" {
		return nil, ErrMissing
	}
	program, err := filepath.EvalSymlinks(p.program)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrMissing, err)
	}
	p.pool.alive.Add(1)
	one := &process{pool: p.pool, space: p.sandbox.Space(sandbox.SpaceConfig{Background: p.background})}
	defer func() {
		if err != nil {
			one.end()
		}
	}()
	read := []string{program} // each place more takes time to be shown
	if !isStatic(program) {
		read = append(sandbox.SystemPaths(), program)
	}
	one.jail, err = one.space.Jail(sandbox.Profile{View: sandbox.View{Read: read}})
	if err != nil {
		return nil, err
	}
	dir, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	theirIn, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	one.in = ours
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	one.out, one.answers = out, bufio.NewReaderSize(out, 64<<10)
	defer theirOut.Close()
	one.process, err = one.jail.Start(sandbox.Command{
		Path: program, Args: []string{"toolserver-syntax"}, Env: []string{"GOMAXPROCS=2", "GOGC=50"}, Dir: dir, Stdin: theirIn, Stdout: theirOut,
		Limits: sandbox.Limits{Memory: maxMemory, Processes: 32, OpenFiles: 64},
	})
	return one, err
}

// isStatic reports whether a program runs without any other file.
func isStatic(program string) bool {
	file, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer file.Close()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

func (one *process) kill() { one.process.Kill() }

// end kills the process and returns how it ended.
func (one *process) end() (end sandbox.End) {
	if one.process != nil {
		one.process.Kill()
		end, _ = one.process.Wait()
	}
	for _, file := range []*os.File{one.in, one.out} {
		if file != nil {
			file.Close()
		}
	}
	if one.jail != nil {
		one.jail.Close()
	}
	one.space.Close()
	one.pool.alive.Add(-1)
	one.pool.cpu.Add(int64(end.User + end.System))
	return end
}

// refusal is why the program did not do what it was asked for. It is fit for the
// next request.
type refusal struct{ why string }

func (r refusal) Error() string { return r.why }

func (r refusal) Unwrap() error { return ErrLimit }

// maxAnswer is the longest answer: all nodes that a tree may have.
const maxAnswer = 1 + maxNodes*nodeSize

// ask sends a request and returns the answer.
func (one *process) ask(request []byte) ([]byte, error) {
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(request)))
	if _, err := one.in.Write(head); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	if _, err := one.in.Write(request); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	var length [4]byte
	if _, err := io.ReadFull(one.answers, length[:]); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n == 0 || n > maxAnswer {
		return nil, fmt.Errorf("%w: an answer of %d bytes", ErrCrashed, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(one.answers, body); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	if body[0] != 0 {
		return nil, refusal{"it cannot be parsed: " + string(body[1:min(len(body), 200)])}
	}
	return body[1:], nil
}

// request is the request for the nodes of a task; see cmd/toolserver-syntax.
func (t *parseRequest) request(name string) []byte {
	text := t.text
	if t.only != nil {
		text = t.only.text
	}
	request := make([]byte, 0, 16+len(name)+4*len(t.places)+len(text))
	request = append(request, 'p', byte(len(name)))
	request = append(request, name...)
	for _, number := range [...]uint32{maxNodes, t.levels, uint32(len(t.places))} {
		request = binary.LittleEndian.AppendUint32(request, number)
	}
	for _, at := range t.places {
		request = binary.LittleEndian.AppendUint32(request, at)
	}
	return append(request, text...)
}
