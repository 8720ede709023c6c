// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// Writer is something that may write to the workspace.
type Writer struct {
	// Protection is what the operator protects; nil: nothing.
	Protection tools.Protection

	// Rebases says that the words of the command have it rebase, so that lists of
	// commands to run may appear.
	Rebases bool

	// Lasting says that it is part of no call. Again is called, if it plants
	// something for the second time; it is for the caller to end it.
	Lasting bool
	Again   func()
}

// A Mark is something that may write, from its beginning to its end. One that is
// nil stands for something that may not.
type Mark struct {
	keeper *Keeper
	writer Writer
	begun  time.Time

	// Guarded by the keeper.
	found    []string
	reported int
	strikes  int
	ended    bool
}

// Begin is called before something that may write. End the mark after it.
func (k *Keeper) Begin(w Writer) *Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := &Mark{keeper: k, writer: w, begun: fileTime()}
	k.wrote, k.owed = true, true
	switch {
	case !k.ready:
		k.begin(m)
	case len(k.marks) == 0 && k.writing == 0:
		if k.closeGap(m.begun) {
			k.discoverQuiet()
		}
		k.protect(w.Protection)
		k.rebase()
	default:
		k.protect(w.Protection)
		k.tell(k.examine())
	}
	k.idle = time.Time{}
	k.marks = append(k.marks, m)
	k.noted.busy(k.keeper)
	k.soon()
	return m
}

// closeGap ends a time in which nothing ran, and reports whether anything else can
// have been written in it.
func (k *keeper) closeGap(now time.Time) bool {
	g := gap{k.idle.Add(clockStep), now.Add(-clockStep)}
	if k.idle.IsZero() || !g.from.Before(g.to) {
		return false
	}
	k.gaps = append(k.gaps, g)
	k.gaps = k.gaps[max(0, len(k.gaps)-maxGaps):]
	return true
}

// quiet reports whether nothing ran that may write when something was written.
func (k *keeper) quiet(ctime int64) bool {
	at := time.Unix(0, ctime)
	if !k.idle.IsZero() && at.After(k.idle.Add(clockStep)) {
		return true
	}
	return slices.ContainsFunc(k.gaps, func(g gap) bool { return at.After(g.from) && at.Before(g.to) })
}

// End returns what was taken back while a call ran, and what was found before it
// while none did. What is part of no call has Told and Found.
func (m *Mark) End() (found []string) {
	if m == nil {
		return nil
	}
	k := m.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.ended {
		return nil
	}
	k.tell(k.examine())
	m.ended, k.owed = true, true
	k.marks = slices.DeleteFunc(k.marks, func(other *Mark) bool { return other == m })
	k.rests()
	k.soon()
	if m.writer.Lasting {
		return nil
	}
	found = append(k.pending, m.found...)
	k.pending = nil
	return found
}

// Drop is for a mark of something that was not started after all.
func (m *Mark) Drop() {
	if m == nil {
		return
	}
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	m.ended = true
	m.keeper.marks = slices.DeleteFunc(m.keeper.marks, func(other *Mark) bool { return other == m })
	m.keeper.rests()
}

// rests begins a time in which nothing runs, if nothing does.
func (k *keeper) rests() {
	if len(k.marks) == 0 && k.writing == 0 {
		k.idle = time.Now()
		clear(k.half)
	}
}

// Writing is called before a tool of the server writes for a session, and done after
// it. The policy has refused what the keeper looks after, as far as that was known
// when it judged. What comes of the write is no work of a person, and not trusted.
func (k *Keeper) Writing(p tools.Protection) (done func()) {
	k.serving.RLock()
	received := k.Receiving(p)
	return func() {
		defer k.serving.RUnlock()
		received()
	}
}

// Receiving is Writing for files that a client sends, which takes as long as the
// client likes.
func (k *Keeper) Receiving(p tools.Protection) (done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wrote, k.owed = true, true
	now := fileTime()
	switch {
	case !k.ready:
		k.pending = append(k.pending, k.first(p)...)
	case len(k.marks) == 0 && k.writing == 0:
		if k.closeGap(now) {
			k.discoverQuiet()
		}
		k.protect(p)
		k.rebase()
	case len(k.marks) == 0:
		k.protect(p)
	}
	k.writing++
	k.idle = time.Time{}
	k.noted.busy(k.keeper) // until a sweep has seen it
	k.soon()
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.marks) == 0 {
			k.tell(k.examine())
		}
		k.writing--
		k.rests()
		k.owed = true
		k.noted.busy(k.keeper)
		k.soon()
	}
}

// first gets to know the workspace, and returns what a crash has left in it.
func (k *Keeper) first(p tools.Protection) (found []string) {
	m := &Mark{keeper: k, writer: Writer{Protection: p}, begun: fileTime()}
	k.begin(m)
	return m.found
}

// Monitored is what a keeper looks after of a workspace at a moment.
type Monitored struct{ paths map[string]bool }

// Monitored returns what the keeper looks after by now: what git would run or be led by,
// wherever the configuration that is trusted has it, and whether it is there or not.
func (k *Keeper) Monitored(p tools.Protection) Monitored {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ctx.Err() != nil:
		return Monitored{}
	case !k.ready:
		k.pending = append(k.pending, k.first(p)...)
		k.idle = time.Now()
	case len(k.marks) == 0 && k.writing == 0:
		k.rebase()
	default:
		k.takeSnapshot(false)
	}
	return Monitored{k.kept}
}

// At returns what is looked after at a path of the workspace or around it; with below,
// also below it; "" where nothing is.
func (k Monitored) At(at string, below bool) string {
	for dir := at; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if k.paths[dir] {
			return dir
		}
	}
	if below {
		for kept := range k.paths {
			if at == "." || strings.HasPrefix(kept, at+"/") {
				return kept
			}
		}
	}
	return ""
}

// Unreported returns what was found since the mark was set and not returned yet.
func (m *Mark) Unreported() []string {
	if m == nil {
		return nil
	}
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	found := m.found[m.reported:]
	m.reported = len(m.found)
	return found
}

// Found returns all that was found since the mark was set.
func (m *Mark) Found() []string {
	if m == nil {
		return nil
	}
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	return slices.Clone(m.found)
}
