// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// An interpreter takes code and its name on standard input, and marks where the
// output of that code ends, on both of its streams. The name is a number nobody
// can guess, so that code does not write the mark by chance:
//
//	standard error   output  NUL name 0|1 NUL
//	standard output  output  NUL name v NUL  value  NUL name 0|1 NUL
//
// 1 says that the code failed. Who has no driver, but reads lines, is given a
// statement behind the code that writes a line with the name and 0; its streams
// are one.

//go:embed drivers/python.py
var pythonDriver string

//go:embed drivers/node.js
var nodeDriver string

//go:embed drivers/bash.sh
var bashDriver string

// A Language is what an interpreter understands.
type Language struct {
	Name    string
	Program string

	args    []string
	prelude string
	request func(name, code string) string
	mark    func(name string) string // asks for the mark again; nil where it is never lost
	status  bool                     // the value is an exit status
	lines   bool                     // it has no driver
}

// framed is the request of a driver.
func framed(name, code string) string { return name + "\x00" + code + "\x00" }

// Driven returns a language that a program with a driver of its own speaks: it
// keeps to the protocol that examples/repl.pl explains.
func Driven(name string, line []string) Language {
	return Language{Name: name, Program: line[0], args: line[1:], request: framed}
}

// MarkName is what stands for the text that ends the output in the mark of
// [Lines].
const MarkName = "{mark}"

// Lines returns a language of a program that reads lines and runs them one after
// the other. begin is what it reads first; mark has it write a line that is
// [MarkName].
func Lines(name string, line []string, begin, mark string) Language {
	l := Language{Name: name, Program: line[0], args: line[1:], lines: true}
	if begin != "" {
		l.prelude = begin + "\n"
	}
	l.request = func(name, code string) string {
		return code + "\n" + strings.ReplaceAll(mark, MarkName, name+"0") + "\n"
	}
	return l
}

// Languages returns those there are.
func (r *Rooms) Languages() []Language { return append(languages(), r.config.Languages...) }

// languages returns those that need no configuration.
func languages() []Language {
	mark := func(name string) string { return "__toolserver_end " + name + "\n" }
	return []Language{
		{Name: "python", Program: "python3", args: []string{"-c", pythonDriver}, request: framed},
		{Name: "node", Program: "node", args: []string{"-e", nodeDriver}, request: framed},
		{
			// An interactive shell goes on after an interrupt. What it says of that it
			// has no terminal is nobody's business.
			Name: "bash", Program: "bash",
			args:    []string{"-c", `exec {TOOLSERVER_ERR}>&2 2>/dev/null; export TOOLSERVER_ERR; exec bash --norc --noprofile --noediting +H -i`},
			prelude: bashDriver,
			request: func(name, code string) string {
				return "eval '" + strings.ReplaceAll(code, "'", `'\''`) + "' </dev/null\n" + mark(name)
			},
			mark:   mark,
			status: true,
		},
	}
}

const (
	// interruptPatience is how long an interpreter has to come back when it is
	// interrupted.
	interruptPatience = 4 * time.Second

	// maxValue is how long a value may be. Drivers send less.
	maxValue = 1 << 20

	// maxBetween is how much is kept of what is written between two calls.
	maxBetween = 64 << 10
)

var errIdle = errors.New("not used for a long time")

// interpreter is a process that runs one piece of code after the other.
type interpreter struct {
	x      *Running
	expiry *time.Timer // guarded by the slot

	unsettled bool // it was interrupted; guarded by the slot

	mu      sync.Mutex
	current *evaluation // nil between calls
	between []byte
}

// slot is where the interpreter of a language is, or is not yet. Who holds it
// uses it.
type slot struct {
	held chan struct{}
	it   *interpreter
	lost string // how the last one ended between two calls, until that is told
}

func (s *slot) acquire(ctx context.Context) error {
	select {
	case s.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) release() { <-s.held }

// slotKey names the interpreter of a language for calls with these rights: what
// runs with other rights is another one.
func slotKey(l Language, rights tools.Rights) string {
	if rights.Confinement == tools.SessionWide {
		return l.Name
	}
	return l.Name + " " + rights.Confinement.String()
}

// slotOf returns the slot of a language.
func (r *Room) slotOf(language string) *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.interpreters[language]
	if s == nil {
		if r.interpreters == nil {
			r.interpreters = make(map[string]*slot)
		}
		s = &slot{held: make(chan struct{}, 1)}
		r.interpreters[language] = s
	}
	return s
}

// stopInterpreters ends the interpreters of a room that is closed: no call uses
// them any more.
func (r *Room) stopInterpreters() {
	r.mu.Lock()
	list := r.interpreters
	r.interpreters = nil
	r.mu.Unlock()
	for _, s := range list {
		s.held <- struct{}{}
		s.stop(errSessionEnds)
		s.release()
	}
}

// stop ends the interpreter, if there is one, and returns when it is gone.
func (s *slot) stop(cause error) {
	if s.it == nil {
		return
	}
	s.it.expiry.Stop()
	s.it.x.Stop(cause)
	s.it.x.CloseInput() // an interactive shell does not mind being asked to end, but ends here
	<-s.it.x.Done()
	s.it = nil
}

// Evaluate runs code with the interpreter of a language, which keeps what the
// code defined for the next call; restart begins with a new one. The result has
// the output of the code and the value of its last expression. When ctx is done
// the code is interrupted; an interpreter that does not come back is ended.
func (r *Room) Evaluate(ctx context.Context, env tools.Env, l Language, code string, restart bool, out tools.Sink) (tools.Result, error) {
	s := r.slotOf(slotKey(l, env.Rights))
	if err := s.acquire(ctx); err != nil {
		return tools.Result{}, err
	}
	defer s.release()
	if restart {
		s.stop(context.Canceled)
		s.lost = ""
	}
	started, err := r.ensure(ctx, s, l, env.Rights)
	if err != nil {
		return tools.Result{}, err
	}
	it := s.it
	it.expiry.Stop()
	e := newEvaluation(r, env, l, out)
	mark := r.keeper.Begin(integrity.Writer{Protection: *r.protection.Load(), Rebases: rebases(code)})
	found := it.x.mark.Told()
	result, err := it.evaluate(ctx, e, code)
	r.warn(&result, append(found, mark.End()...))
	if s.lost != "" {
		result.Content = append(result.Content, tools.Text("(This is a new interpreter, and what was defined before is lost: the last one "+s.lost+".)"))
		s.lost = ""
	}
	if it.ended() {
		if e.complete() { // otherwise the result says it
			s.lost = it.end()
		}
		s.stop(context.Canceled)
	} else {
		it.expiry.Reset(r.rooms.config.Kept.Idle)
	}
	result.Details, _ = json.Marshal(evaluationDetails{
		Value: e.valueText(), Started: started, StateKept: s.it != nil, DurationMS: time.Since(e.begun).Milliseconds(),
	})
	return result, err
}

type evaluationDetails struct {
	Value      string `json:"value,omitempty"`
	Started    bool   `json:"started"`    // a new interpreter was
	StateKept  bool   `json:"state_kept"` // for the next call
	DurationMS int64  `json:"duration_ms"`
}

// ensure has an interpreter in the slot, and reports whether it was started.
func (r *Room) ensure(ctx context.Context, s *slot, l Language, rights tools.Rights) (started bool, err error) {
	if s.it != nil && s.it.ended() {
		s.lost = s.it.end()
		s.stop(nil)
	}
	if s.it != nil {
		return false, nil
	}
	it := new(interpreter)
	it.x, err = r.Start(ctx, Command{
		Path: l.Program, Args: l.args, Dir: ".", Rights: rights, Input: true, MaxOutput: math.MaxInt64, unmasked: true, lasting: true, joined: l.lines,
	}, it.take)
	if err != nil {
		return false, err
	}
	it.expiry = time.AfterFunc(r.rooms.config.Kept.Idle, func() {
		select {
		case s.held <- struct{}{}:
			if s.it == it {
				s.stop(errIdle)
				s.lost = fmt.Sprintf("was ended because nobody used it for %s", r.rooms.config.Kept.Idle)
			}
			s.release()
		default: // it is used
		}
	})
	s.it = it
	if _, err := it.x.Write(ctx, []byte(l.prelude)); err != nil {
		s.stop(err) // nobody knows how much of it was read
		return true, err
	}
	return true, nil
}

func (it *interpreter) ended() bool {
	select {
	case <-it.x.Done():
		return true
	default:
		return false
	}
}

// take gets all that the interpreter writes.
func (it *interpreter) take(stream tools.Stream, data []byte) {
	it.mu.Lock()
	e := it.current
	it.mu.Unlock()
	if e != nil {
		data = e.feed(stream, data)
	}
	it.mu.Lock()
	defer it.mu.Unlock()
	it.between = append(it.between, data[:min(len(data), maxBetween-len(it.between))]...)
}

// settle runs nothing until nothing is interrupted: a signal that was sent to the
// code before may still be on its way.
func (it *interpreter) settle(ctx context.Context, l Language) {
	for try := 0; it.unsettled && try < 5; try++ {
		it.unsettled = false // unless this is interrupted too
		nothing := newEvaluation(it.x.room, tools.Env{}, l, nowhere{})
		if _, err := it.evaluate(ctx, nothing, ""); err != nil {
			it.unsettled = true
		}
	}
}

// nowhere is a sink for what nobody is to see.
type nowhere struct{ tools.Sink }

func (nowhere) Emit(tools.Report) {}

// evaluate has the interpreter run code.
func (it *interpreter) evaluate(ctx context.Context, e *evaluation, code string) (tools.Result, error) {
	it.settle(ctx, e.language)
	it.mu.Lock()
	between := it.between
	it.between = nil
	it.mu.Unlock()
	e.before(between)
	it.mu.Lock()
	it.current = e
	it.mu.Unlock()
	defer func() {
		it.mu.Lock()
		it.current = nil
		it.mu.Unlock()
	}()
	if _, err := it.x.Write(ctx, []byte(e.language.request(e.name, code))); err != nil && ctx.Err() == nil {
		it.x.Stop(err)
	}
	select {
	case <-e.done:
		return e.result(""), e.verdict()
	case <-it.x.Done():
		return e.result(""), it.lost()
	case <-e.tooMuch:
		kept := it.interrupt(ctx, e)
		return e.result(kept), tools.Failf("output_limit", "The code was interrupted: it wrote more than the %s of output it may. %s", output.Size(uint64(e.maxOutput)), kept)
	case <-ctx.Done():
		return e.result(it.interrupt(ctx, e)), ctx.Err()
	}
}

// interrupt has the code stop, and says what became of the interpreter.
func (it *interpreter) interrupt(ctx context.Context, e *evaluation) string {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptPatience)
	defer cancel()
	again := time.NewTicker(interruptPatience / 32)
	defer again.Stop()
	for signal := true; !it.ended(); signal = !signal {
		// A child that is just being made may miss the signal, and a shell forgets
		// the line that it was about to read.
		if signal {
			it.x.Signal(syscall.SIGINT)
		} else if e.language.mark != nil {
			it.x.Write(patience, []byte(e.language.mark(e.name)))
		}
		select {
		case <-e.done:
			it.unsettled = true
			return "The code was interrupted; what was defined before is kept."
		case <-again.C:
		case <-it.x.Done():
		case <-patience.Done():
			it.x.Stop(context.Canceled)
			<-it.x.Done()
		}
	}
	return "The code could not be interrupted, so the interpreter was ended: what was defined is lost, and the next call begins with a new one."
}

// lost says that, and why, the interpreter has ended by itself.
func (it *interpreter) lost() error {
	if _, err := it.x.Wait(); err != nil {
		return notExecuted(it.x.command, err)
	}
	return tools.Failf("interpreter_ended", "The interpreter %s. What was defined is lost; the next call begins with a new one.", it.end())
}

// end says how the interpreter has ended.
func (it *interpreter) end() string {
	outcome, _ := it.x.Wait()
	return State{Outcome: outcome}.String()
}

// evaluation is one piece of code that runs.
type evaluation struct {
	name      string
	mark      []byte // what begins a mark
	language  Language
	begun     time.Time
	out       tools.Sink
	maxOutput int64

	// What follows is for who feeds it, until done.
	env        tools.Env
	transcript transcript
	streams    [2]markedStream
	written    int64
	value      []byte
	shown      *string         // of the value; nil before it is asked for
	kept       []tools.Content // the whole value, where that is more
	failed     bool

	overOnce sync.Once
	tooMuch  chan struct{}
	done     chan struct{}
}

// markedStream is one of the streams, up to its mark.
type markedStream struct {
	held    []byte // what may be the beginning of a mark
	mask    *output.MaskStream
	inValue bool
	ended   bool
}

func newEvaluation(r *Room, env tools.Env, l Language, out tools.Sink) *evaluation {
	var random [16]byte
	rand.Read(random[:])
	config := &r.rooms.config
	e := &evaluation{
		name: hex.EncodeToString(random[:]), language: l, begun: time.Now(), out: out, maxOutput: config.MaxOutput,
		transcript: newTranscript(env, env.Shown()-env.Shown()/4), env: env,
		tooMuch: make(chan struct{}), done: make(chan struct{}),
	}
	e.mark = []byte("\x00" + e.name)
	if l.lines {
		e.mark = e.mark[1:]
		e.streams[1].ended = true // there is one only
	}
	for i := range e.streams {
		e.streams[i].mask = config.Masker().Stream()
	}
	return e
}

// before takes what was written since the last call, before anything is fed.
func (e *evaluation) before(data []byte) {
	if len(data) > 0 {
		s := &e.streams[0]
		e.give(tools.Stdout, s.mask.Flush(s.mask.Append(nil, data)))
	}
}

// feed takes output, and returns what comes behind the mark.
func (e *evaluation) feed(stream tools.Stream, data []byte) (rest []byte) {
	s := &e.streams[stream-tools.Stdout]
	if s.ended {
		return data
	}
	mark := e.mark
	data = append(s.held, data...)
	s.held = nil
	for !s.ended {
		i := bytes.Index(data, mark)
		if i < 0 || len(data) < i+len(mark)+2 {
			if i < 0 {
				i = len(data) - partial(data, mark)
			}
			e.emit(s, stream, data[:i])
			s.held = bytes.Clone(data[i:])
			return nil
		}
		e.emit(s, stream, data[:i])
		kind := data[i+len(mark)]
		data = data[i+len(mark)+2:]
		switch kind {
		case 'v':
			s.inValue = true
		default:
			s.ended = true
			e.failed = e.failed || kind == '1'
			e.give(stream, s.mask.Flush(nil))
		}
	}
	if e.streams[0].ended && e.streams[1].ended {
		close(e.done)
	}
	return data
}

// complete reports whether the code came to its end.
func (e *evaluation) complete() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// partial returns how many bytes at the end of data may be the beginning of mark.
func partial(data, mark []byte) int {
	for n := min(len(data), len(mark)-1); n > 0; n-- {
		if bytes.HasPrefix(mark, data[len(data)-n:]) {
			return n
		}
	}
	return 0
}

func (e *evaluation) emit(s *markedStream, stream tools.Stream, data []byte) {
	if s.inValue {
		e.value = append(e.value, data[:min(len(data), maxValue-len(e.value))]...)
		return
	}
	e.written += int64(len(data))
	if e.maxOutput > 0 && e.written > e.maxOutput {
		e.overOnce.Do(func() { close(e.tooMuch) })
		return
	}
	if len(data) > 0 { // what the other stream wrote before is seen before
		other := tools.Stdout + tools.Stderr - stream
		e.give(other, e.streams[other-tools.Stdout].mask.Release(nil))
	}
	e.give(stream, s.mask.Append(nil, data))
}

// give hands on what is masked.
func (e *evaluation) give(stream tools.Stream, data []byte) {
	if len(data) > 0 {
		e.transcript.write(stream, data)
		e.out.Emit(tools.Output{Stream: stream, Data: data})
	}
}

// valueText returns the value, masked, and as much of it as a model is shown: a
// quarter of an answer.
func (e *evaluation) valueText() string {
	if e.language.status {
		return ""
	}
	if e.shown != nil {
		return *e.shown
	}
	mask := e.streams[0].mask
	value := mask.Flush(mask.Append(nil, e.value))
	window := output.NewWindow(e.env.Shown() / 4)
	window.Write(value)
	text := window.Text(func(gap output.Gap) string {
		artifact, ok := e.env.Keep("value.txt", string(value))
		if !ok {
			return "this server does not keep it; print a part of it"
		}
		e.kept = append(e.kept, artifact)
		return tools.ReadOn(artifact, gap)
	})
	e.shown = &text
	return text
}

// result returns what the code wrote, its value, and a remark. Nothing is fed
// any more.
func (e *evaluation) result(remark string) tools.Result {
	var result tools.Result
	add := func(text string) {
		if text != "" {
			result.Content = append(result.Content, tools.Text(text))
		}
	}
	text, artifact := e.transcript.content()
	value := e.valueText()
	if text != "" && value != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	add(text)
	result.Content = append(result.Content, artifact...)
	if value != "" {
		add("=> " + value)
	}
	result.Content = append(result.Content, e.kept...)
	add(remark)
	if len(result.Content) == 0 {
		add("(The code wrote nothing, and has no value.)")
	}
	return result
}

// verdict returns why the code failed; nil if it did not.
func (e *evaluation) verdict() error {
	switch {
	case e.language.status && string(e.value) != "0":
		return tools.Failf("exit_status", "The last command ended with exit status %s. What was defined is kept.", e.value)
	case e.failed:
		return tools.Failf("exception", "The code ended with an exception, which is above. What was defined is kept.")
	}
	return nil
}
