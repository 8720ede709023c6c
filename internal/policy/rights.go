// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/binary"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/tools"
)

// rights stores what a call may touch that is not denied: as little as its
// effects need, or what is the session's own where they do not tell everything.
func (p *Policy) rights(to *tools.Rights, c *Subject, among *shared) {
	b := rightsBuilder{call: c, Rights: to}
	for i := range c.Effects {
		b.add(&subject{policy: p, call: c, effect: &c.Effects[i], shared: among})
	}
	b.build(p)
}

// A rightsBuilder gathers what the effects of a call need.
type rightsBuilder struct {
	call    *Subject
	program string // that the effects belong to
	changes bool   // a program runs that is not known to change nothing
	unclear bool   // something may be touched that no effect tells
	local   bool   // something on loopback is reached
	broken  bool   // bash will not run it
	*tools.Rights
}

func (b *rightsBuilder) add(s *subject) {
	e := s.effect
	b.broken = b.broken || e.Malformed
	unclear := e.Unclear != ""
	switch e.Kind {
	case tools.RunsProgram:
		b.program = s.program()
		b.changes = b.changes || !e.ReadOnly
		b.unclear = b.unclear || unclear || !e.ReadOnly && !e.Complete
	case tools.ReadsPath:
		if at := s.target().path; outside(at) && !s.ours() && !s.readable() {
			if e.Glob {
				at = staticPart(at)
			}
			b.Read = append(b.Read, at)
		}
	case tools.WritesPath:
		b.changes = true
		b.unclear = b.unclear || s.unclear() != ""
		if at := s.written(b.program); !s.nowhere() && (s.target().inside() || !s.ours()) {
			b.Write = append(b.Write, at)
		}
	case tools.ReachesHost:
		switch {
		case e.Host == "" || unclear:
			b.unclear = true
		case isLoopback(e.Host):
			b.local = true
		default:
			b.Hosts = append(b.Hosts, net.JoinHostPort(strings.ToLower(e.Host), strconv.Itoa(e.Port)))
		}
	}
}

// written returns what has to be writable for the effect: the directory of what is
// made, replaced or removed. Outside of the workspace it is the path alone, since
// that was allowed and not what is beside it.
func (s *subject) written(program string) string {
	at := s.target().path
	switch {
	case s.effect.Glob:
		return staticPart(at)
	case outside(at), at == ".":
		return at
	case s.effect.Tree && !s.effect.Removes && slices.Contains(inPlace, program):
		return at
	}
	return path.Dir(at)
}

// inPlace are programs that change a tree and leave it where it is.
var inPlace = []string{"chmod", "chown", "chgrp"}

func (b *rightsBuilder) build(p *Policy) {
	r, c := b.Rights, b.call
	if len(c.Spec.RequiredCapabilities) > 0 || c.runsPrograms() { // others ask about each path
		r.Deny = p.Denial(c)
	}
	switch {
	case c.reading() || b.broken:
		r.Confinement = tools.Reading
	case c.Level >= tools.DangerFullAccess && (c.Mode == tools.ModeAllow || b.changes || b.unclear):
		r.Confinement = tools.Unconfined
	case b.unclear:
		r.Confinement = tools.SessionWide
	case b.changes:
		r.Confinement = tools.Named
	}
	switch {
	case r.Confinement >= tools.SessionWide:
		r.Network = c.network()
	case b.local:
		r.Network = min(c.network(), tools.NetworkLoopback)
	default:
		r.Network = tools.NetworkNone
	}
	switch r.Confinement {
	case tools.Reading:
		r.Write = nil
	case tools.SessionWide: // the workspace is open
		r.Write = slices.DeleteFunc(r.Write, func(at string) bool { return !outside(at) })
	case tools.Unconfined:
		r.Read, r.Write = nil, nil
	}
	r.Read, r.Write = collapse(r.Read), collapse(r.Write)
	slices.Sort(r.Hosts)
	r.Hosts = slices.Compact(r.Hosts)
}

// collapse sorts paths and leaves out those below others.
func collapse(paths []string) []string {
	if len(paths) < 2 {
		return paths
	}
	slices.Sort(paths)
	var kept []string
	for i, at := range paths {
		if !slices.ContainsFunc(paths, func(dir string) bool { return dir != at && below(dir, at) }) && (i == 0 || paths[i-1] != at) {
			kept = append(kept, at)
		}
	}
	return kept
}

// A denial is what the rules deny a caller to read. It is compared by its fields:
// rules has the places, among those about reading, of the rules that are about the
// caller, two bytes for each, and about is nil unless one has a condition.
type denial struct {
	policy *Policy
	place  place
	rules  string
	asks   bool // what rules ask about is denied too
	about  *circumstances
}

// circumstances are what the conditions of rules depend on.
type circumstances struct {
	call  Subject
	mu    sync.Mutex
	facts facts
}

// Denial returns what no command of a call may read, by the rules; nil where that is nothing.
func (p *Policy) Denial(c *Subject) tools.Denial {
	if p == nil || !p.deniesReading {
		return nil
	}
	own := p.denialOf(c, false, func(r *rule) (counts, denies bool) { return r.forCall(c), r.deniesReading() })
	if c.Above == nil {
		return own
	}
	return joinAbove(c, own, p.Denial(c.above()))
}

// denialOf returns the denial that is made of the rules about reads that count in the
// call; nil where none of them denies. With asks, what a person would be asked about is
// denied as well.
func (p *Policy) denialOf(c *Subject, asks bool, see func(*rule) (counts, denies bool)) tools.Denial {
	d := denial{policy: p, place: c.place(), asks: asks}
	var rules []byte
	any := false
	for i, r := range p.rulesFor(tools.ReadsPath) {
		counts, denies := see(r)
		if !counts {
			continue
		}
		any = any || denies
		rules = binary.BigEndian.AppendUint16(rules, uint16(i))
		if r.when != nil && d.about == nil {
			d.about = &circumstances{call: *c}
		}
	}
	if !any {
		return nil
	}
	d.rules = string(rules)
	return d
}

// HookDenial returns what no command of the operator's hooks may read beside a call; nil
// where that is nothing. Such a command may run code that the model wrote, and the model reads
// its output. So a rule that denies a path to one tool denies the path here; a rule that allows a path to
// one tool does not allow the path here; and a path that a person would be asked about is denied, unless
// unclear commands run unasked.
func (p *Policy) HookDenial(c *Subject) tools.Denial {
	if p == nil {
		return nil
	}
	asks := !p.runsUnclear(c)
	own := p.denialOf(c, asks, func(r *rule) (counts, denies bool) {
		switch {
		case !r.forSession(c):
		case r.action == Allow:
			return len(r.tools) == 0, false
		case r.isAboutFiles():
			return r.action != Ask || asks, true
		}
		return false, false
	})
	if c.Above == nil {
		return own
	}
	return joinAbove(c, own, p.HookDenial(c.above()))
}

// HookWrites returns what commands of hooks may write that are there to change files:
// what is the session's own where a command that nobody understands would run unasked,
// and otherwise what edits may, the workspace.
func (p *Policy) HookWrites(c *Subject) tools.Confinement {
	if c.Above != nil {
		own := *c
		own.Above = nil
		return min(p.HookWrites(&own), p.HookWrites(c.above()))
	}
	switch {
	case p == nil || c.reading() || c.Mode == tools.ModeDeny:
		return tools.Reading
	case p.runsUnclear(c):
		return tools.SessionWide
	}
	return tools.Named
}

// runsUnclear reports whether a command of which nothing is known runs unasked.
func (p *Policy) runsUnclear(c *Subject) bool {
	s := subject{policy: p, call: c}
	how, _ := s.disposition(nil)
	return how == UnclearContained
}

// deniesReading reports whether the rule denies to read some files: one that
// denies all denies the call.
func (r *rule) deniesReading() bool {
	return r.action == Deny && r.isAboutFiles()
}

// isAboutFiles reports whether the rule is about reading some files and not others.
func (r *rule) isAboutFiles() bool {
	return r.could(tools.ReadsPath) && (r.selective || r.when != nil && r.when.paths)
}

// Denies reports whether the first rule about a path denies to read it.
func (d denial) Denies(at string) bool {
	among := buffers.Get().(*shared)
	defer among.release()
	e := tools.Effect{Kind: tools.ReadsPath, Path: at, Rooted: true}
	s := subject{policy: d.policy, effect: &e, shared: among, at: d.place.targetAt(at, among.names[:]), seen: true}
	reads := d.policy.rulesFor(tools.ReadsPath)
	for rest := d.rules; rest != ""; rest = rest[2:] {
		r := reads[int(rest[0])<<8|int(rest[1])]
		if r.fits(&s) != matches {
			continue
		}
		if r.when != nil {
			if holds, err := d.about.hold(r.when, e); err != nil {
				return true
			} else if !holds {
				continue
			}
		}
		return r.action == Deny || r.action == Ask && d.asks
	}
	return false
}

func (a *circumstances) hold(when *condition, e tools.Effect) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facts.spent = 0 // each path has a limit of its own
	holds, _, err := when.holds(&a.facts, &a.call, &e)
	return holds, err
}
