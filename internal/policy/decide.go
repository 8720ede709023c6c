// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"sync"

	"github.com/toolserver/toolserver/internal/tools"
)

// Decide judges a call: each of its effects, and the use of its tool. The most
// severe verdict is the decision. Each effect takes, in this order of authority:
//
//  1. the level and mode of the session, where they let nothing run,
//  2. protected paths,
//  3. the first rule that matches, where it denies,
//  4. a grant that denies,
//  5. that rule, where it allows,
//  6. a grant that allows what would be asked,
//  7. the rule that asks, or the mode, whichever is more severe.
//
// What is unclear, or not understood, runs where the policy and the mode let it and
// its jail holds; otherwise it takes a person. The rights of the decision are what
// that jail opens. A call in a session below another gets the stricter of two verdicts: its
// own, and that on the call in the session above.
func (p *Policy) Decide(call *Subject, grants []Grant) (d Decision) {
	if p == nil {
		d.Verdict = Verdict{Deny, "no policy", "This server has no policy, so nothing may run."}
		return d
	}
	var among *shared
	if len(call.Effects) > 0 {
		among = buffers.Get().(*shared)
		defer among.release()
	}
	p.decide(&d, call, grants, among)
	if call.Above != nil && d.Action != Deny {
		p.decideAbove(&d, call, grants)
	}
	return d
}

func (p *Policy) decide(d *Decision, call *Subject, grants []Grant, among *shared) {
	d.Policy, d.Effects = p.version, make([]Judged, len(call.Effects)+1)
	for i := range call.Effects {
		d.Effects[i].Effect = call.Effects[i]
	}
	own := &d.Effects[len(call.Effects)]
	own.Effect.Kind, own.Effect.Tool = tools.UsesTool, call.Spec.Name

	if refusal, refused := refuse(call); refused {
		for i := range d.Effects {
			d.Effects[i].Verdict = refusal
		}
		d.Verdict = refusal
		return
	}
	heaviest := byDefault
	for i := range d.Effects {
		s := &subject{policy: p, call: call, effect: &d.Effects[i].Effect, own: i == len(call.Effects), shared: among}
		v := s.judge(grants)
		d.Effects[i].Verdict = v.Verdict
		if i == 0 || v.Action < d.Action || v.Action == d.Action && v.weight > heaviest {
			d.Verdict, heaviest = v.Verdict, v.weight
		}
	}
	if d.Action != Deny {
		p.rights(&d.Rights, call, among)
	}
}

// refuse is the verdict on calls that nothing can allow.
func refuse(call *Subject) (v Verdict, refused bool) {
	switch {
	case call.Mode == tools.ModeDeny:
		return Verdict{Deny, "mode deny", "The session is in mode deny: no call may run."}, true
	case call.Mode < tools.ModeAsk || call.Mode > tools.ModeAcceptEdits:
		return Verdict{Deny, "mode none", "The session has no mode, so nothing may run."}, true
	case call.Spec.Needs() < tools.ReadOnly || call.Spec.Needs() > call.Level:
		return Verdict{Deny, "level", call.Spec.Name + " needs level " + call.Spec.Needs().String() +
			" and the session has " + call.Level.String() + ": use a tool that needs less."}, true
	}
	return v, false
}

// A verdict is a Verdict with what is needed to go on from it.
type verdict struct {
	Verdict
	weight    weight
	grantable reach
	asks      *rule // the rule that asks, where one does
	by        *rule // the rule that allows, where one does
	changes   bool  // it asks because the mode asks about every change
}

// weight tells which of two verdicts with the same action says more.
type weight int

const (
	byDefault weight = iota
	byMode
	byGrant
	byRule
	byLaw
)

// reach is how far a grant may go to allow an effect.
type reach int

const (
	noGrant   reach = iota
	exactCall       // one for this exact call
	anyCode         // one for this call, for any code of an interpreter, for the whole tool
	everyTier
)

// A subject is one effect while it is judged.
type subject struct {
	policy *Policy
	call   *Subject
	effect *tools.Effect
	own    bool    // it stands for the call itself
	shared *shared // nil where there is nothing to share
	doubt  verdict // whether it is protected; without weight where there is none

	at             target
	seen           bool
	named          *target
	glob, foldGlob *shellGlob
	name           string // of the program, once it was needed
}

// program returns the name of the program that is run.
func (s *subject) program() string {
	if s.name == "" {
		s.name = programName(argv(s.effect)[0])
	}
	return s.name
}

// shared is what the effects of a call share while they are judged.
type shared struct {
	names [24]string
	facts *facts // for conditions
	steps steps  // that were taken to compare patterns

	leaks, searched bool // whether something leaks, once it was looked for
}

// buffers keeps what calls shared, since the compiler cannot tell that it does
// not outlive them.
var buffers = sync.Pool{New: func() any { return new(shared) }}

// facts returns what conditions know of the call.
func (s *subject) facts() *facts {
	if s.shared == nil {
		return new(facts)
	}
	if s.shared.facts == nil {
		s.shared.facts = new(facts)
	}
	return s.shared.facts
}

func (s *shared) release() {
	*s = shared{}
	buffers.Put(s)
}

func (s *subject) place() place { return s.call.place() }

func (s *subject) target() *target {
	if !s.seen {
		s.at = s.place().targetAt(s.effect.Path, s.shared.names[:])
		s.seen = true
	}
	return &s.at
}

func (s *subject) namedTarget() *target {
	if s.named == nil {
		named := s.place().targetAt(s.effect.Named, nil)
		s.named = &named
	}
	return s.named
}

func (s *subject) shellGlob() *shellGlob {
	if s.glob == nil {
		g := parseShellGlob(&s.target().location)
		s.glob = &g
	}
	return s.glob
}

// globCaughtBy reports whether the pattern of the effect could name something
// that p forbids, as it is written or folded.
func (s *subject) globCaughtBy(p *pathPattern, tree bool) bool {
	at, steps := s.target(), &s.shared.steps
	if s.shellGlob().caughtBy(p, &at.location, tree, steps) {
		return true
	}
	if at.same {
		return false
	}
	if s.foldGlob == nil {
		g := parseShellGlob(at.folded())
		s.foldGlob = &g
	}
	return s.foldGlob.caughtBy(p.folded, at.folded(), tree, steps)
}

// unclear says why it cannot be told what the effect touches, or "".
func (s *subject) unclear() string {
	if s.effect.Unclear == "" && s.effect.Glob && s.shellGlob().unknown {
		return "its pattern is not understood"
	}
	return s.effect.Unclear
}

// standsForMore reports whether what a rule forbids may be something that the
// path of the effect stands for, and that is no effect by itself: see fitsPath.
func (s *subject) standsForMore(action Action) bool {
	e := s.effect
	changes := e.Kind == tools.WritesPath
	return e.Glob && !e.Examined || e.Tree && !e.Withholds && (action == Deny || changes) && !(changes && e.Examined)
}

// alone reports whether the call names no effects, so that it is judged by its
// tool only.
func (s *subject) alone() bool { return len(s.call.Effects) == 0 }

// judge judges one effect.
func (s *subject) judge(grants []Grant) verdict {
	if v := s.byLaw(); v != nil {
		return *v
	}
	var touched verdict
	v := s.byRules(&touched)
	if v.Action == Deny && v.weight == byRule {
		return v
	}
	if g := s.granted(Deny, everyTier, nil, grants); g != nil {
		return verdict{Verdict: Verdict{Deny, "grant " + g.ID, "A person refused this for the rest of the session: do not try it again."},
			weight: byGrant}
	}
	s.sharpen(&v, &touched)
	if v.Action != Ask {
		return v
	}
	if g := s.granted(Allow, v.grantable, v.asks, grants); g != nil {
		return verdict{Verdict: Verdict{Allow, "grant " + g.ID, "A person allowed this for the rest of the session."}, weight: byGrant}
	}
	return v
}

// byLaw judges what neither rules nor people can change; nil where there is no such law.
func (s *subject) byLaw() *verdict {
	e := s.effect
	law := func(action Action, rule, reason string) *verdict {
		return &verdict{Verdict: Verdict{action, rule, reason}, weight: byLaw}
	}
	switch e.Kind {
	case tools.WritesPath:
		if s.call.inRepository() {
			return law(Deny, "workspace", "The workspace is inside .git/, where a repository is kept: nothing may be written. Use a session whose workspace is the working tree.")
		}
		if place, certain := s.policy.guards(s); place != "" {
			v := protectedVerdict(e, place, certain)
			if certain {
				return law(v.Action, v.Rule, v.Reason)
			}
			if !(s.holds() && isProtectedName(place)) { // nothing is planted in the jail
				s.doubt = verdict{Verdict: v, weight: byLaw}
			}
		}
		if s.call.Level < tools.WorkspaceWrite && !(s.nowhere() && s.holds()) {
			return law(Deny, "level", "Writing "+e.Path+" needs level workspace_write and the session has "+s.call.Level.String()+": look, and change nothing.")
		}
	case tools.RunsProgram:
		if !e.ReadOnly && s.call.inRepository() && !s.holds() {
			return law(Deny, "workspace", "The workspace is inside .git/, where a repository is kept: nothing runs there that may write. Use a session whose workspace is the working tree.")
		}
		if !e.ReadOnly && s.call.Level < tools.WorkspaceWrite && !s.holds() {
			return law(Deny, "level", "Running "+e.Program+" needs level workspace_write and the session has "+s.call.Level.String()+": look, and change nothing.")
		}
		return nil
	case tools.ReachesHost:
		if v, refused := s.unreachable(); refused {
			return law(v.Action, v.Rule, v.Reason)
		}
		return nil
	case tools.ReadsPath:
		if e.Rooted && s.readable() {
			return nil
		}
	default:
		return nil
	}
	if e.Rooted && !s.target().inside() {
		return law(Deny, "workspace", e.Path+" is outside the workspace, which this tool cannot leave: use a path inside it.")
	}
	return nil
}

// byRules takes the first rule that matches, and stores what rules touched on the way. A
// verdict without weight says that none matched.
func (s *subject) byRules(touched *verdict) (v verdict) {
	for _, r := range s.policy.rulesFor(s.effect.Kind) {
		if !r.forCall(s.call) || r.aboutOthers() && s.staysLocal() {
			continue
		}
		how := r.fits(s)
		if how == misses || r.action == Allow && !r.selective && s.aboveLevel() {
			continue
		}
		if r.when != nil {
			holds, byPath, err := r.when.holds(s.facts(), s.call, s.effect)
			if err != nil {
				return verdict{Verdict: Verdict{Deny, r.label, "The condition of " + r.label +
					" could not be evaluated, so the call is refused: " + err.Error() + "."}, weight: byRule}
			}
			if !holds && byPath && r.action != Allow && s.standsForMore(r.action) {
				how, holds = touches, true // of what it stands for
			}
			if !holds {
				continue
			}
		}
		if how == touches {
			if touched.weight == 0 && !s.keptByJail(r) {
				instead := "name the files themselves instead."
				if s.effect.Stored {
					instead = "name the files themselves, such as HEAD:file, or behind --."
				}
				*touched = verdict{Verdict: Verdict{Ask, r.label, s.effect.Path + " may include what " + r.label +
					" is about, so a person has to approve it: " + instead}, weight: byRule, grantable: exactCall}
			}
			continue
		}
		if s.own && !r.selective && r.action == Ask && !s.alone() {
			return verdict{Verdict: byEffects, weight: byMode} // it asks about each
		}
		v = verdict{Verdict: Verdict{r.action, r.label, r.reason}, weight: byRule}
		switch r.action {
		case Ask:
			v.grantable, v.asks = everyTier, r
		case Allow:
			v.by = r
		}
		return v
	}
	return v
}

// sharpen joins what the rules say, and touched, with what mode and level say.
func (s *subject) sharpen(v, touched *verdict) {
	if v.weight == 0 || v.Action == Ask {
		// A rule that asks wants a person, and permits nothing.
		if d := s.byDefault(); v.weight == 0 || d.Action == Deny || d.grantable == noGrant && d.Action == Ask {
			*v = d
		}
	}
	doubts := [...]*verdict{touched, &s.doubt}
	if how, _ := s.disposition(nil); how == UnclearContained && s.holds() {
		doubts[1] = new(verdict) // what the operator protects, the jail keeps
	}
	for _, doubt := range doubts {
		if doubt.weight != 0 && (v.Action == Allow || v.Action == Ask && v.grantable > doubt.grantable) {
			*v = *doubt
		}
	}
	switch {
	case v.Action == Deny:
	case s.leavesPlan() && v.Action == Allow:
		*v = leavePlan
	case s.effect.Lasting:
		*v = lasting
	}
	*v = s.contain(*v)
}
