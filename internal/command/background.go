// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"cmp"
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

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// Kept is what is kept between the calls of a session. 0 means the default.
type Kept struct {
	// Output is how much of the output of a background process is kept, and
	// EndedOutput how much of those that have ended, together. Default: 1 MiB and
	// 4 MiB.
	Output      int
	EndedOutput int

	// Ended is how many that have ended are remembered. Default: 32.
	Ended int

	// Idle is how long an interpreter is kept that nobody uses. Default: 30m.
	Idle time.Duration
}

// WithDefaults returns k with the defaults in place of 0.
func (k Kept) WithDefaults() Kept {
	return Kept{
		Output:      cmp.Or(k.Output, 1<<20),
		EndedOutput: cmp.Or(k.EndedOutput, 4<<20),
		Ended:       cmp.Or(k.Ended, 32),
		Idle:        cmp.Or(k.Idle, 30*time.Minute),
	}
}

// errSessionEnds is why the processes of a session that ends are stopped.
var errSessionEnds = errors.New("the session ends")

// A Background is a command that runs beside the calls of its session, and ends
// with it. Its methods are safe for concurrent use.
type Background struct {
	ID    string // within its session
	Text  string // what runs
	Begun time.Time

	x *Running

	mu      sync.Mutex
	kept    ring
	changed chan struct{} // closed when there is output or an end
	read    uint64        // where the last one who read without an offset stopped
	ended   bool

	input    chan struct{} // holds a value while somebody writes
	taken    uint64        // bytes of input; guarded by input
	inputEnd bool          // guarded by input
}

// StartBackground starts a script that goes on after the call that ctx is of. A limit of 0
// lets it run as long as its session.
func (r *Room) StartBackground(ctx context.Context, s Script, limit time.Duration) (*Background, error) {
	c, cleanup, err := r.prepareScript(s)
	if err != nil {
		return nil, err
	}
	c.Input, c.lasting, c.MaxOutput = true, true, math.MaxInt64 // what is kept is bounded
	c.rebases = rebases(s.Text)
	b := &Background{Text: s.Text, Begun: time.Now(), changed: make(chan struct{}), input: make(chan struct{}, 1), kept: ring{limit: r.rooms.config.Kept.Output}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		cleanup()
		return nil, errSessionEnds
	}
	if b.x, err = r.Start(ctx, c, b.take); err != nil {
		cleanup()
		return nil, err
	}
	done := r.busy()
	r.started++
	b.ID = fmt.Sprintf("p%d", r.started)
	r.backgrounds = append(r.backgrounds, b)
	var timer *time.Timer
	if limit > 0 {
		timer = time.AfterFunc(limit, func() { b.x.Stop(context.DeadlineExceeded) })
	}
	go func() {
		<-b.x.Done()
		done()
		if timer != nil {
			timer.Stop()
		}
		cleanup()
		b.mu.Lock()
		b.ended = true
		b.wake()
		b.mu.Unlock()
		r.forgetOld()
	}()
	return b, nil
}

// take keeps output.
func (b *Background) take(_ tools.Stream, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.write(data)
	b.wake()
}

// wake wakes those who wait for something to change.
func (b *Background) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// forgetOld forgets processes that ended long ago, and the output of those that
// ended before the last ones.
func (r *Room) forgetOld() {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended, kept := 0, 0
	for i, b := range slices.Backward(r.backgrounds) {
		b.mu.Lock()
		if b.ended {
			ended++
			kept += len(b.kept.data)
			if kept > r.rooms.config.Kept.EndedOutput {
				b.kept.drop()
			}
		}
		gone := b.ended && ended > r.rooms.config.Kept.Ended
		b.mu.Unlock()
		if gone {
			r.backgrounds = slices.Delete(r.backgrounds, i, i+1)
		}
	}
}

// stopBackgrounds ends the background processes of a room that is closed, and
// returns when they are gone.
func (r *Room) stopBackgrounds() {
	r.mu.Lock()
	list := slices.Clone(r.backgrounds)
	r.mu.Unlock()
	for _, b := range list {
		b.x.Stop(errSessionEnds)
		b.x.CloseInput() // for what waits for input alone, and does not mind being asked to end
	}
	for _, b := range list {
		<-b.x.Done()
	}
}

// Backgrounds returns the background processes of a session, the oldest first.
func (r *Rooms) Backgrounds(session tools.Session) []*Background {
	room := r.existing(session)
	if room == nil {
		return nil
	}
	room.mu.Lock()
	defer room.mu.Unlock()
	return slices.Clone(room.backgrounds)
}

// Background returns the background process of a session with an id.
func (r *Rooms) Background(session tools.Session, id string) (*Background, error) {
	list := r.Backgrounds(session)
	ids := make([]string, len(list))
	for i, b := range list {
		if b.ID == id {
			return b, nil
		}
		ids[i] = b.ID
	}
	there := "There are: " + strings.Join(ids, ", ") + "."
	if len(ids) == 0 {
		there = "There is none in this session: start one with bash and run_in_background."
	}
	return nil, tools.Failf("no_such_process", "There is no background process %s. %s", id, there)
}

// State is how a background process stands.
type State struct {
	Running bool
	Outcome Outcome // once it does not run
	Failed  error   // why it never ran
	Output  uint64  // bytes written so far

	// TakenBack is what was, of what it or something beside it did.
	TakenBack []string
}

// State returns how the process stands.
func (b *Background) State() State {
	taken := b.x.mark.Found()
	b.mu.Lock()
	defer b.mu.Unlock()
	state := State{Running: !b.ended, Output: b.kept.end, TakenBack: taken}
	if b.ended {
		outcome, err := b.x.Wait()
		state.Outcome = outcome
		if err != nil {
			state.Failed = notExecuted(b.x.command, err)
		}
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
func (b *Background) Ran() time.Duration {
	if state := b.State(); !state.Running {
		return state.Outcome.Ran
	}
	return time.Since(b.Begun)
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
func (b *Background) Output(offset *int64, limit int) Output {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.from(offset)
	data, begin := b.kept.from(from)
	o := Output{Offset: begin, Dropped: begin - from}
	o.Data = data[:cut(data, limit)]
	o.Next = begin + uint64(len(o.Data))
	o.More = b.kept.end - o.Next
	if offset == nil {
		b.read = o.Next
	}
	return o
}

// from returns the offset that is meant.
func (b *Background) from(offset *int64) uint64 {
	switch {
	case offset == nil:
		return b.read
	case *offset < 0:
		return b.kept.end - min(b.kept.end, uint64(-*offset))
	}
	return min(uint64(*offset), b.kept.end)
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
func (b *Background) WaitFor(ctx context.Context, offset *int64, pattern *regexp.Regexp) (found bool, err error) {
	b.mu.Lock()
	at := b.from(offset)
	b.mu.Unlock()
	for {
		b.mu.Lock()
		changed, ended := b.changed, b.ended
		var data []byte
		if pattern != nil {
			data, at = b.kept.from(at)
		}
		b.mu.Unlock()
		if pattern != nil && pattern.MatchString(output.Clean(data)) {
			return true, nil
		}
		if ended {
			return false, nil
		}
		// The line that is not complete is looked at again, unless it is very long.
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
// as [Running.Write] does.
func (b *Background) Write(ctx context.Context, data []byte, offset *int64, end bool) (total uint64, err error) {
	select {
	case b.input <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-b.input }()
	if offset != nil {
		at := uint64(*offset)
		if at > b.taken {
			return b.taken, tools.Failf("input_gap", "Nothing was written: %s has taken %d bytes of input, and offset %d leaves a gap. Use offset %[2]d, or none.", b.ID, b.taken, at)
		}
		data = data[min(uint64(len(data)), b.taken-at):]
		if len(data) == 0 && (!end || b.inputEnd) {
			return b.taken, nil // it was all written before
		}
	}
	if state := b.State(); !state.Running {
		return b.taken, tools.Failf("process_ended", "Nothing was written: %s %s.", b.ID, state)
	}
	if b.inputEnd {
		return b.taken, tools.Failf("input_closed", "Nothing was written: the input of %s was ended before.", b.ID)
	}
	n := 0
	if len(data) > 0 {
		n, err = b.x.Write(ctx, data)
	}
	b.taken += uint64(n)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return b.taken, tools.Failf("input_full", "%s does not read its input: %d of %d bytes were written, %d in all. Go on with offset %[4]d once it reads.", b.ID, n, len(data), b.taken)
	case errors.Is(err, syscall.EPIPE):
		b.inputEnd = true
		return b.taken, tools.Failf("input_closed", "%s has closed its input: %d of %d bytes were written.", b.ID, n, len(data))
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return b.taken, tools.Failf("process_ended", "%s has ended: %d of %d bytes were written.", b.ID, n, len(data))
	default:
		return b.taken, err
	}
	if end {
		// A terminal takes more input after Ctrl-D.
		b.inputEnd = !b.x.terminal
		if err = b.x.CloseInput(); errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EIO) {
			err = nil // it has just ended
		}
	}
	return b.taken, err
}

// Signal sends a signal, by its name without SIG, to what the process has in the
// foreground. KILL ends it and everything it started.
func (b *Background) Signal(name string) error {
	state := b.State()
	if !state.Running {
		return tools.Failf("process_ended", "Nothing was sent: %s %s.", b.ID, state)
	}
	if name == "KILL" {
		b.x.Stop(context.Canceled)
		return nil
	}
	sig, ok := signalNumber(name)
	if !ok {
		return tools.Failf("no_such_signal", "There is no signal %s.", name)
	}
	err := b.x.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return tools.Failf("process_ended", "Nothing was sent: %s has just ended.", b.ID)
	}
	return err
}

// ring keeps the last bytes of what is written to it. Offsets count from the
// first byte ever written.
type ring struct {
	limit int
	data  []byte // at limit bytes the oldest is at next
	next  int
	end   uint64 // the offset behind the last byte
}

func (r *ring) write(p []byte) {
	r.end += uint64(len(p))
	p = p[max(0, len(p)-r.limit):]
	room := min(r.limit-len(r.data), len(p))
	r.data = append(r.data, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		n := copy(r.data[r.next:], p)
		p = p[n:]
		r.next = (r.next + n) % r.limit
	}
}

// from returns a copy of what is kept from an offset on, and the offset at which
// that begins.
func (r *ring) from(offset uint64) ([]byte, uint64) {
	begin := max(offset, r.end-uint64(len(r.data)))
	skip := len(r.data) - int(r.end-begin)
	old := r.data[r.next:]
	if skip >= len(old) {
		return slices.Clone(r.data[skip-len(old) : r.next]), begin
	}
	return slices.Concat(old[skip:], r.data[:r.next]), begin
}

// drop forgets what is kept.
func (r *ring) drop() { r.data, r.next = nil, 0 }
