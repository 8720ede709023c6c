// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Process is a background process: a command that runs beside the calls of its session, and ends
// with it. Its methods are safe for concurrent use.
type Process struct {
	ID    string // within its session
	Text  string // what runs
	Begun time.Time

	user     string // for whom it runs; empty: the principal
	x        *command.Running
	script   command.Script
	takes    bool // input
	terminal bool
	masker   func() *output.Masker

	mu      sync.Mutex
	kept    ring
	changed chan struct{} // closed when there is output or an end
	read    uint64        // where the last one who read without an offset stopped
	ended   bool
	follows command.Taker // gets what is written, too; nil: nobody does

	input    chan struct{} // holds a value while somebody writes
	taken    uint64        // bytes of input; guarded by input
	inputEnd bool          // guarded by input
}

// Start starts a script that goes on after the call that ctx is of. A limit of 0 lets
// it run as long as its session.
func (s *Set) Start(ctx context.Context, env tools.Env, script command.Script, limit time.Duration) (*Process, error) {
	script.Input = true
	return s.Follow(ctx, env, script, limit, nil)
}

// Follow starts a script as Start does, without input unless it has a terminal. take
// gets what it writes until somebody calls Unfollow.
func (s *Set) Follow(ctx context.Context, env tools.Env, script command.Script, limit time.Duration, take command.Taker) (*Process, error) {
	own, err := s.of(env)
	if err != nil {
		return nil, err
	}
	script.Lasting, script.MaxOutput = true, math.MaxInt64 // what is kept is bounded
	p := &Process{
		Text: script.Text, Begun: time.Now(), user: env.OnBehalfOf, terminal: script.Terminal != nil, masker: s.runners.Masker,
		script: script, takes: script.Input || script.Terminal != nil, follows: take,
		changed: make(chan struct{}), input: make(chan struct{}, 1), kept: ring{limit: int(s.config.Output)},
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.ended {
		return nil, command.ErrSessionEnds
	}
	if p.x, err = own.runner.StartScript(ctx, script, p.take); err != nil {
		return nil, err
	}
	done := env.Session.Busy()
	own.started++
	p.ID = fmt.Sprintf("p%d", own.started)
	own.processes = append(own.processes, p)
	var timer *time.Timer
	if limit > 0 {
		timer = time.AfterFunc(limit, func() { p.x.Stop(context.DeadlineExceeded) })
	}
	go func() {
		<-p.x.Done()
		done()
		if timer != nil {
			timer.Stop()
		}
		p.mu.Lock()
		p.ended = true
		p.wake()
		p.mu.Unlock()
		own.forgetOld()
	}()
	return p, nil
}

// Unfollow ends what Follow began. Whoever reads without an offset goes on behind what
// was followed.
func (p *Process) Unfollow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follows, p.read = nil, p.kept.end
}

// Ended returns the result of a process that was followed to its end, as that of a call
// that ran it, and forgets the process.
func (s *Set) Ended(ctx context.Context, env tools.Env, p *Process, t *command.Transcript) (tools.Result, error) {
	own, err := s.of(env)
	if err != nil {
		return tools.Result{}, err
	}
	own.mu.Lock()
	own.processes = slices.DeleteFunc(own.processes, func(other *Process) bool { return other == p })
	own.mu.Unlock()
	return own.runner.Ended(ctx, env, p.script, t, p.x)
}

// Stop ends the process and everything it started, and waits for that.
func (p *Process) Stop(cause error) {
	p.x.Stop(cause)
	<-p.x.Done()
}

// take keeps output.
func (p *Process) take(stream tools.Stream, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.follows != nil {
		p.follows(stream, data)
	}
	p.kept.write(data)
	p.wake()
}

// wake wakes those who wait for something to change.
func (p *Process) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// forgetOld forgets processes that ended long ago, and the output of those that
// ended before the last ones.
func (s *session) forgetOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, kept := 0, 0
	for i, p := range slices.Backward(s.processes) {
		p.mu.Lock()
		if p.ended {
			ended++
			kept += len(p.kept.data)
			if kept > int(s.set.config.EndedOutput) {
				p.kept.drop()
			}
		}
		gone := p.ended && ended > s.set.config.Ended
		p.mu.Unlock()
		if gone {
			s.processes = slices.Delete(s.processes, i, i+1)
		}
	}
}

// stopProcesses ends the background processes of a session, or those for one of its
// users, and returns how many that were when they are gone.
func (s *session) stopProcesses(user string, cause error) int {
	s.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(s.processes), func(p *Process) bool { return isDone(p.x.Done()) || user != "" && p.user != user })
	s.mu.Unlock()
	for _, p := range list {
		p.x.Stop(cause)
		p.x.CloseInput() // for what waits for input alone, and does not mind being asked to end
	}
	for _, p := range list {
		<-p.x.Done()
	}
	return len(list)
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Processes returns the background processes of a session, the oldest first.
func (s *Set) Processes(of tools.Session) []*Process {
	s.mu.Lock()
	own := s.sessions[of]
	s.mu.Unlock()
	if own == nil {
		return nil
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	return slices.Clone(own.processes)
}

// Process returns the background process of the session of a call with an id.
func (s *Set) Process(env tools.Env, id string) (*Process, error) {
	list := s.Processes(env.Session)
	ids := make([]string, len(list))
	for i, p := range list {
		if p.ID == id {
			return p, nil
		}
		ids[i] = p.ID
	}
	there := "There are: " + strings.Join(ids, ", ") + "."
	if len(ids) == 0 {
		there = "There is none in this session."
		if key, ok := env.Words.HasKey("bash", "run_in_background"); ok {
			there = fmt.Sprintf("There is none in this session: start one with %s and %s.", env.Words.Tool("bash"), key)
		}
	}
	return nil, tools.Failf("no_such_process", "There is no background process %s. %s", id, there)
}

// State is how a background process stands.
type State struct {
	Running bool
	Outcome command.Outcome // once it does not run
	Failed  error           // why it never ran
	Output  uint64          // bytes written so far

	// TakenBack is what was, of what it or something beside it did.
	TakenBack []string
}

// State returns how the process stands.
func (p *Process) State() State {
	taken := p.x.Mark().Found()
	p.mu.Lock()
	defer p.mu.Unlock()
	state := State{Running: !p.ended, Output: p.kept.end, TakenBack: taken}
	if p.ended {
		state.Outcome, state.Failed = p.x.Wait()
	}
	return state
}

// String says it in words that go on after the name of the process.
func (s State) String() string {
	if len(s.TakenBack) > 0 {
		taken := integrity.Text(s.TakenBack)
		s.TakenBack = nil
		return s.String() + ". " + strings.TrimSuffix(taken, ".")
	}
	exit := s.Outcome.Exit
	switch {
	case s.Running:
		return "is running"
	case s.Failed != nil:
		return "never ran: " + s.Failed.Error()
	case exit.Reason == tools.Exited:
		return fmt.Sprintf("ended with exit status %d", exit.Code)
	case exit.Signal != "":
		return "was ended by signal " + exit.Signal
	case exit.Reason == tools.TimedOut && exit.Message == "":
		return "was ended: its time was over"
	case exit.Reason == tools.Cancelled:
		return "was killed, with everything it had started"
	}
	return strings.TrimSuffix(strings.TrimPrefix(exit.Message, "The command "), ".")
}

// Ran returns how long the process has run.
func (p *Process) Ran() time.Duration {
	if state := p.State(); !state.Running {
		return state.Outcome.Ran
	}
	return time.Since(p.Begun)
}

// Output is a piece of what a background process wrote.
type Output struct {
	Data    []byte
	Offset  uint64 // of the first byte
	Next    uint64 // behind the last one
	Dropped uint64 // bytes before Offset that were asked for and are gone
	More    uint64 // bytes there are behind Next
}

// Output returns at most limit bytes of what the process wrote, from an offset
// on. One that is negative counts from the end; nil goes on where the last call
// with nil stopped. A piece that is not all there is ends with a line or a
// character.
func (p *Process) Output(offset *int64, limit int) Output {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.from(offset)
	data, begin := p.kept.from(from)
	o := Output{Offset: begin, Dropped: begin - from}
	o.Data = data[:cut(data, limit)]
	o.Next = begin + uint64(len(o.Data))
	o.More = p.kept.end - o.Next
	if offset == nil {
		p.read = o.Next
	}
	return o
}

// from returns the offset that is meant.
func (p *Process) from(offset *int64) uint64 {
	switch {
	case offset == nil:
		return p.read
	case *offset < 0:
		return p.kept.end - min(p.kept.end, uint64(-*offset))
	}
	return min(uint64(*offset), p.kept.end)
}

// cut returns how many bytes of data to show of at most limit.
func cut(data []byte, limit int) int {
	if len(data) <= limit {
		return len(data)
	}
	if line := bytes.LastIndexByte(data[:limit], '\n'); line >= limit/2 {
		return line + 1
	}
	for n := limit; n > limit-4 && n > 0; n-- {
		if data[n]&0xC0 != 0x80 { // the first byte of a character
			return n
		}
	}
	return limit
}

// WaitFor returns once the process has ended, or has written a line, from an
// offset on (see Output), in which pattern is found; pattern may be nil. It
// reports which, false for an end; an error is that of ctx.
func (p *Process) WaitFor(ctx context.Context, offset *int64, pattern *regexp.Regexp) (found bool, err error) {
	p.mu.Lock()
	at := p.from(offset)
	p.mu.Unlock()
	for {
		p.mu.Lock()
		changed, ended := p.changed, p.ended
		var data []byte
		if pattern != nil {
			data, at = p.kept.from(at)
		}
		p.mu.Unlock()
		if pattern != nil && pattern.MatchString(output.Clean(data)) {
			return true, nil
		}
		if ended {
			return false, nil
		}
		// The line that is not complete is searched again, unless it is very long.
		line := len(data) - 1 - bytes.LastIndexByte(data, '\n')
		at += uint64(len(data) - min(line, maxLine))
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// maxLine is how much of a line is searched again when there is more of it.
const maxLine = 64 << 10

// Write writes to the input of the process. With an offset, how many bytes were
// written before, what was written already is not written again. end closes the
// input behind it. It returns how many bytes of input there are in all; it waits
// as [command.Running.Write] does.
func (p *Process) Write(ctx context.Context, data []byte, offset *int64, end bool) (total uint64, err error) {
	select {
	case p.input <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-p.input }()
	if offset != nil {
		at := uint64(*offset)
		if at > p.taken {
			return p.taken, tools.Failf("input_gap", "Nothing was written: %s has taken %d bytes of input, and offset %d leaves a gap. Use offset %[2]d, or none.", p.ID, p.taken, at)
		}
		data = data[min(uint64(len(data)), p.taken-at):]
		if len(data) == 0 && (!end || p.inputEnd) {
			return p.taken, nil // it was all written before
		}
	}
	if state := p.State(); !state.Running {
		return p.taken, tools.Failf("process_ended", "Nothing was written: %s %s.", p.ID, state)
	}
	if !p.takes {
		return p.taken, tools.Failf("no_input", "Nothing was written: %s takes no input. Start it again with a terminal.", p.ID)
	}
	if p.inputEnd {
		return p.taken, tools.Failf("input_closed", "Nothing was written: the input of %s was ended before.", p.ID)
	}
	n := 0
	if len(data) > 0 {
		n, err = p.x.Write(ctx, data)
	}
	p.taken += uint64(n)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return p.taken, tools.Failf("input_full", "%s does not read its input: %d of %d bytes were written, %d in all. Go on with offset %[4]d once it reads.", p.ID, n, len(data), p.taken)
	case errors.Is(err, syscall.EPIPE):
		p.inputEnd = true
		return p.taken, tools.Failf("input_closed", "%s has closed its input: %d of %d bytes were written.", p.ID, n, len(data))
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return p.taken, tools.Failf("process_ended", "%s has ended: %d of %d bytes were written.", p.ID, n, len(data))
	default:
		return p.taken, err
	}
	if end {
		// A terminal takes more input after Ctrl-D.
		p.inputEnd = !p.terminal
		if err = p.x.CloseInput(); errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EIO) {
			err = nil // it has just ended
		}
	}
	return p.taken, err
}

// Signal sends a signal, by its name without SIG, to what the process has in the
// foreground. KILL ends it and everything it started.
func (p *Process) Signal(name string) error {
	state := p.State()
	if !state.Running {
		return tools.Failf("process_ended", "Nothing was sent: %s %s.", p.ID, state)
	}
	if name == "KILL" {
		p.x.Stop(context.Canceled)
		return nil
	}
	err := p.x.Signal(name)
	if errors.Is(err, os.ErrProcessDone) {
		return tools.Failf("process_ended", "Nothing was sent: %s has just ended.", p.ID)
	}
	return err
}

// Examine has the workspace examined for what the process, or something beside it, has
// planted.
func (p *Process) Examine() { p.x.Examine() }

// Warn adds to a result what was taken back of what the process did and was not
// reported yet. How the process stands says it, too.
func (p *Process) Warn(result tools.Result) tools.Result {
	masker := p.masker()
	for _, what := range p.x.Mark().Unreported() {
		result.Warnings = append(result.Warnings, masker.String(what))
	}
	return result
}
