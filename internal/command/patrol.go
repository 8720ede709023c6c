// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// A patrol has sentries look after commands that are part of no call: from time to
// time, when somebody asks for one of them, before anything is started that may
// write, and when they end. While a call runs that may write it does not: the call
// has its own look when it ends. So what anything is compared with later was seen
// when nothing was wrong. Sessions with the same workspace share one, or
// what one of them puts back would be wrong for another.
type patrol struct {
	rooms int // that share it; guarded by the rooms

	fixing sync.Mutex // held while something is put back

	mu      sync.Mutex // held while it looks
	watched map[*Running]struct{}
	calls   int   // that may write and run
	trusted watch // what was there before them
	timer   *time.Timer
	pause   time.Duration
}

// patrolOf returns the patrol of a workspace, for one more room. The rooms are
// locked.
func (r *Rooms) patrolOf(dir string) *patrol {
	p := r.patrols[dir]
	if p == nil {
		p = new(patrol)
		r.patrols[dir] = p
	}
	p.rooms++
	return p
}

// leavePatrol is for a room that is gone.
func (r *Rooms) leavePatrol(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.patrols[dir]; p != nil {
		if p.rooms--; p.rooms == 0 {
			delete(r.patrols, dir)
		}
	}
}

const (
	// The first looks come soon, the later ones less and less often as long as
	// nothing has changed, and never for more than a part of the time.
	patrolSoon  = time.Second
	patrolLate  = 30 * time.Second
	patrolShare = 100

	// maxRounds is how often it looks again because something was wrong.
	maxRounds = 3

	// maxViolations is how many are told of one command, and how many of the files
	// that were undone are kept.
	maxViolations = 20
)

// watch begins to look after a command.
func (p *patrol) watch(x *Running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched == nil {
		p.watched = make(map[*Running]struct{})
	}
	x.seen = make(map[string]bool)
	p.watched[x] = struct{}{}
	p.soon()
}

// soon has a look come soon.
func (p *patrol) soon() {
	p.pause = patrolSoon
	p.schedule(patrolSoon)
}

func (p *patrol) schedule(in time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(in, p.round)
		return
	}
	p.timer.Reset(in)
}

// round is one look of its own accord.
func (p *patrol) round() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.watched) == 0 {
		return
	}
	if p.calls > 0 {
		p.schedule(p.pause)
		return
	}
	begun := time.Now()
	if p.look(nil) {
		p.pause = patrolSoon
	} else {
		p.pause = min(2*p.pause, patrolLate)
	}
	p.schedule(max(p.pause, patrolShare*time.Since(begun)))
}

// look looks, while no call runs, and reports whether anything was wrong. What is
// found is told of all that run: nobody knows which of them it was. One that ends
// is not looked at again.
func (p *patrol) look(ends *Running) (found bool) {
	p.fixing.Lock()
	defer p.fixing.Unlock()
	for range maxRounds {
		undone := p.compare(ends)
		if len(undone) == 0 {
			break
		}
		found = true
		for x := range p.watched {
			x.violations = append(x.violations, undone...)
			x.violations = x.violations[:min(len(x.violations), maxViolations)]
		}
	}
	return found
}

// compare has each command compared with what there is, until something is wrong.
func (p *patrol) compare(ends *Running) (undone []string) {
	now := make(map[*Room]watch)
	for x := range p.watched {
		r := x.room
		if _, known := now[r]; !known {
			now[r] = r.sentry.look(*r.protection.Load())
		}
		how := restorer{keep: r.keepUndone, seen: x.seen}
		if x == ends {
			how.seen = nil
		}
		if undone = r.sentry.compare(&x.before, now[r], how); len(undone) == 0 {
			continue
		}
		if tell := r.rooms.config.Violation; tell != nil {
			tell(r.sessionID, violation(undone, true))
		}
		return undone
	}
	return nil
}

// touch looks because somebody asks.
func (p *patrol) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.watched) > 0 && p.calls == 0 {
		p.look(nil)
		p.soon()
	}
}

// ended looks for the last time after a command, and returns all that was found
// while it ran.
func (p *patrol) ended(x *Running) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == 0 {
		p.look(x)
	}
	delete(p.watched, x)
	if len(p.watched) == 0 && p.timer != nil {
		p.timer.Stop()
	}
	return x.violations
}

// before is the look before something that may write: what is found then is not
// of it.
func (p *patrol) before(r *Room, call bool) watch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == 0 {
		// First, so that what is not seen here is seen by the look behind it.
		p.trusted = r.sentry.look(*r.protection.Load())
		if len(p.watched) > 0 && p.look(nil) {
			p.trusted = r.sentry.look(*r.protection.Load())
		}
	}
	if call {
		p.calls++
	}
	return p.trusted
}

// after is the look after a call.
func (p *patrol) after(r *Room, before *watch) (undone []string, beside bool) {
	if now := r.sentry.look(*r.protection.Load()); !before.same(&now) {
		p.fixing.Lock()
		undone = r.sentry.compare(before, r.sentry.look(*r.protection.Load()), restorer{})
		p.fixing.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	p.trusted = *before
	return undone, len(p.watched) > 0 || p.calls > 0
}

// never is for a call that was not started after all.
func (p *patrol) never() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
}

// all returns what was found of a command.
func (p *patrol) all(x *Running) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(x.violations)
}

// told returns what was found of a command and not told yet.
func (p *patrol) told(x *Running) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := x.violations[x.toldOf:]
	x.toldOf = len(x.violations)
	return fresh
}

// keepUndone keeps what was undone where commands may read it: it may have been
// the work of a person. It says where that is.
func (r *Room) keepUndone(data []byte) string {
	if r.undone.Add(1) > maxViolations {
		return ""
	}
	file, err := os.CreateTemp(r.temp(), "undone-*")
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Write(data); err != nil {
		return ""
	}
	return ", what it had become is kept as " + file.Name()
}

// violation says what a sentry had to undo after a command, or while it ran,
// perhaps with others beside it.
func violation(undone []string, beside bool) string {
	who := "The command"
	if beside {
		who = "The command, or something that ran beside it,"
	}
	return fmt.Sprintf("%s changed what is protected, or what other programs run by themselves, which no command may: %s"+
		". The rest of what it did stays. Go on without changing these, without hooks and without changes to the configuration of git, or have the user make them.", who, strings.Join(undone, "; "))
}

// Look looks whether the process, or something beside it, has changed what is
// protected.
func (b *Background) Look() { b.x.room.patrol.touch() }

// Violated looks whether the process, or something beside it, has changed what is
// protected, and returns why that is a failure. It is told once.
func (b *Background) Violated() error {
	b.Look()
	if undone := b.x.room.patrol.told(b.x); len(undone) > 0 {
		return tools.Failf(failureCodes[tools.SandboxViolation], "%s", violation(undone, true))
	}
	return nil
}
