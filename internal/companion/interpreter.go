// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	// interruptAgain is how long after an interrupt that did not help there is another.
	interruptAgain = 125 * time.Millisecond

	// maxBetween is how much is kept of what is written between two calls.
	maxBetween = 64 << 10
)

var errIdle = errors.New("not used for a long time")

// interpreter is a process that runs one piece of code after the other.
type interpreter struct {
	set    *Set
	x      *command.Running
	expiry *time.Timer // guarded by the slot

	unsettled bool // it was interrupted; guarded by the slot

	mu      sync.Mutex
	current *evaluation // nil between calls
	between []byte
}

// slot is where the interpreter of a language is, or is not yet. Who holds it
// uses it.
type slot struct {
	held  chan struct{}
	it    *interpreter
	users []string // for whom it ran code
	lost  string   // how the last one ended between two calls, until that is reported
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
func (s *session) slotOf(language string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.interpreters[language]
	if at == nil {
		at = &slot{held: make(chan struct{}, 1)}
		s.interpreters[language] = at
	}
	return at
}

// stopInterpreters ends the interpreters of a session, or those that ran code for one of
// its users, once no call uses them any more, and returns how many that were.
func (s *session) stopInterpreters(user string, cause error) (n int) {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.interpreters))
	if s.ended {
		s.interpreters = nil
	}
	s.mu.Unlock()
	for _, at := range list {
		at.held <- struct{}{}
		if at.it != nil && (user == "" || slices.Contains(at.users, user)) {
			n++
			at.stop(cause)
		}
		at.release()
	}
	return n
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
	s.it, s.users = nil, nil
}

// Evaluate runs code with the interpreter of a language, which keeps what the
// code defined for the next call; restart begins with a new one. The result has
// the output of the code and the value of its last expression. When ctx is done
// the code is interrupted; an interpreter that does not come back is ended.
func (s *Set) Evaluate(ctx context.Context, env tools.Env, l Language, code string, restart bool, out tools.Sink) (tools.Result, error) {
	own, err := s.of(env)
	if err != nil {
		return tools.Result{}, err
	}
	at := own.slotOf(slotKey(l, env.Rights))
	if err := at.acquire(ctx); err != nil {
		return tools.Result{}, err
	}
	defer at.release()
	if restart {
		at.stop(context.Canceled)
		at.lost = ""
	}
	started, err := own.ensure(ctx, at, l, env.Rights)
	if err != nil {
		return tools.Result{}, err
	}
	it := at.it
	if user := env.OnBehalfOf; user != "" && !slices.Contains(at.users, user) {
		at.users = append(at.users, user)
	}
	it.expiry.Stop()
	e := s.newEvaluation(env, l, out)
	mark := own.runner.BeginWriting(code)
	found := it.x.Mark().Unreported()
	result, err := it.evaluate(ctx, e, code)
	own.runner.Warn(&result, append(found, mark.End()...))
	if at.lost != "" {
		result.Content = append(result.Content, tools.Text("(This is a new interpreter, and what was defined before is lost: the last one "+at.lost+".)"))
		at.lost = ""
	}
	if it.ended() {
		if e.complete() { // otherwise the result says it
			at.lost = it.end()
		}
		at.stop(context.Canceled)
	} else {
		it.expiry.Reset(s.config.Idle)
	}
	result.Details, _ = json.Marshal(evaluationDetails{
		Value: e.valueText(), Started: started, StateKept: at.it != nil, DurationMS: time.Since(e.begun).Milliseconds(),
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
func (s *session) ensure(ctx context.Context, at *slot, l Language, rights tools.Rights) (started bool, err error) {
	if at.it != nil && at.it.ended() {
		at.lost = at.it.end()
		at.stop(nil)
	}
	if at.it != nil {
		return false, nil
	}
	it := &interpreter{set: s.set}
	it.x, err = s.runner.Start(ctx, command.Command{
		Path: l.Program, Args: l.args, Dir: ".", Rights: rights, Input: true, MaxOutput: math.MaxInt64, Unmasked: true, Lasting: true, Joined: l.lines,
	}, it.take)
	if err != nil {
		return false, err
	}
	it.expiry = time.AfterFunc(s.set.config.Idle, func() {
		select {
		case at.held <- struct{}{}:
			if at.it == it {
				at.stop(errIdle)
				at.lost = fmt.Sprintf("was ended because nobody used it for %s", s.set.config.Idle)
			}
			at.release()
		default: // it is used
		}
	})
	at.it = it
	if _, err := it.x.Write(ctx, []byte(l.prelude)); err != nil {
		at.stop(err) // nobody knows how much of it was read
		return true, err
	}
	return true, nil
}

func (it *interpreter) ended() bool { return isDone(it.x.Done()) }

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
		nothing := it.set.newEvaluation(tools.Env{}, l, discard{})
		if _, err := it.evaluate(ctx, nothing, ""); err != nil {
			it.unsettled = true
		}
	}
}

// discard is a sink for what nobody is to see.
type discard struct{ tools.Sink }

func (discard) Emit(tools.Report) {}

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
		return e.result(""), e.outcome()
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
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(it.set.config.InterruptPatience, 4*time.Second))
	defer cancel()
	again := time.NewTicker(interruptAgain)
	defer again.Stop()
	for signal := true; !it.ended(); signal = !signal {
		// A child that is just being made may miss the signal, and a shell forgets
		// the line that it was about to read.
		if signal {
			it.x.Signal("INT")
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
		return err
	}
	return tools.Failf("interpreter_ended", "The interpreter %s. What was defined is lost; the next call begins with a new one.", it.end())
}

// end says how the interpreter has ended.
func (it *interpreter) end() string {
	outcome, _ := it.x.Wait()
	return State{Outcome: outcome}.String()
}
