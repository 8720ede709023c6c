// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"reflect"
	"runtime"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// A session that ran a script will likely run another, so a shell is made ready
// for it while no call runs anything: sandboxed, started, and waiting for its text. It is
// used once, like any other. There is one that can only read, and one that can write
// what is the session's own.

const (
	// readScript is what such a shell does. What follows finds an empty input, as
	// it would elsewhere.
	readScript = `IFS= read -rd "" && exec </dev/null && eval "$REPLY"`

	// maxReadyText is how long a text may be: bash reads it byte by byte.
	maxReadyText = 2 << 10

	// refillAfter is how long a session must run nothing before a shell is made
	// ready, unless others keep the machine busy meanwhile; readyFor how long that
	// waits, maxReady how many of them there are.
	// What is stopped is often stopped together with much else, which is to be gone
	// before new shells begin: hence stoppedFor.
	refillAfter = 5 * time.Millisecond
	stoppedFor  = 100 * time.Millisecond
	readyFor    = time.Minute
	maxReady    = 16
)

// readyShell is a shell that waits for its script.
type readyShell struct {
	x      *Running
	expiry *time.Timer
}

// readyFits reports whether a shell that was made ready can run a script.
func readyFits(s Script) bool {
	c := s.Command
	rights := &c.Rights
	plain := rights.Confinement == tools.Reading && rights.Network <= tools.NetworkNone && len(rights.Read)+len(rights.Hosts) == 0 ||
		rights.Confinement == tools.SessionWide && rights.Network == tools.NetworkLoopback && len(rights.Read)+len(rights.Write)+len(rights.Hosts) == 0
	return !s.KeepDir && !s.SharedTemp && len(s.Text) <= maxReadyText && c.Dir == "." && len(c.Env) == 0 && c.Terminal == nil && !c.Input &&
		plain && rights.Deny == nil
}

// beginReady has the shell that is ready run a script. It reports false where
// there is none.
func (r *Runner) beginReady(ctx context.Context, s Script, take Taker) (*Running, bool) {
	r.mu.Lock()
	r.readyNext = s.Rights.Confinement
	shell := r.ready[r.readyNext]
	delete(r.ready, r.readyNext)
	r.mu.Unlock()
	if shell == nil {
		return nil, false
	}
	shell.expiry.Stop()
	r.all.countReady(-1)
	// A file that was protected meanwhile, or an audit log that goes on in a new file,
	// is not kept from a shell that was made before.
	if view, err := r.viewFor(ctx, &s.Rights); err != nil || !reflect.DeepEqual(view, shell.x.jail.view) {
		shell.drop()
		return nil, false // which tells an error too
	}
	leave, err := r.enter(s.Command)
	if err != nil {
		shell.drop()
		return nil, false // which says so too
	}
	x := shell.x
	x.note(s.Command)
	if _, err := x.input.Write(append([]byte(s.Text), 0)); err != nil {
		x.mark.Drop()
		leave()
		shell.drop()
		return nil, false
	}
	x.input.Close()
	x.input = nil
	x.command.MaxOutput, x.command.Quiet, x.command.Deletes = s.MaxOutput, s.Quiet, s.Deletes
	x.run(take, leave)
	return x, true
}

// rest puts off what refill does.
func (r *Runner) rest() {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	r.restUntil = time.Now().Add(stoppedFor)
}

// rested is called when a call that ran something has ended. The runners are locked.
func (r *Runner) rested() {
	r.startedThen = r.all.started
	if r.refilling == nil {
		r.refilling = time.AfterFunc(refillAfter, r.refill)
	} else {
		r.refilling.Reset(refillAfter)
	}
}

// refill makes a shell ready, unless a call runs a command, or so many commands were started lately
// that starting the shell would slow them down.
func (r *Runner) refill() {
	r.all.mu.Lock()
	idle, rest := r.running == r.lasting, time.Until(r.restUntil)
	busy := r.all.started-r.startedThen > uint64(runtime.NumCPU())
	if rest > 0 {
		r.startedThen = r.all.started
		r.refilling.Reset(rest)
	}
	r.all.mu.Unlock()
	if !idle || busy || rest > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.readyNext
	if r.closed || r.group.Spent() || r.ready[next] != nil || !r.all.countReady(+1) {
		return
	}
	shell := &readyShell{x: newRunning(r, Command{
		Path: shellPath, Args: []string{"-c", readScript}, Dir: ".", Input: true, Rights: readyRights(next),
	})}
	if err := shell.x.start(context.Background()); err != nil {
		r.all.countReady(-1)
		return
	}
	shell.expiry = time.AfterFunc(readyFor, func() { r.dropReady(next) })
	r.ready[next] = shell
}

// readyRights returns the rights of a shell that is made ready.
func readyRights(c tools.Confinement) tools.Rights {
	if c == tools.Reading {
		return tools.Rights{}
	}
	return tools.Rights{Confinement: c, Network: tools.NetworkLoopback}
}

// dropReady ends a shell that is ready, if there is one.
func (r *Runner) dropReady(which tools.Confinement) {
	r.mu.Lock()
	shell := r.ready[which]
	delete(r.ready, which)
	r.mu.Unlock()
	if shell != nil {
		shell.expiry.Stop()
		r.all.countReady(-1)
		shell.drop()
	}
}

// drop ends a shell that is not to be used.
func (s *readyShell) drop() {
	s.x.process.Kill()
	s.x.process.Wait()
	s.x.jail.close()
	s.x.input.Close()
	for _, o := range s.x.outputs {
		o.file.Close()
	}
}

// countReady counts shells that are ready; it reports false, and counts nothing,
// where there are enough.
func (r *Runners) countReady(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && r.ready >= maxReady {
		return false
	}
	r.ready += n
	return true
}
