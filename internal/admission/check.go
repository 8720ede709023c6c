// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"errors"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// A CheckRequest asks what would be decided about a call: of a tool with an input, or
// of a shell command.
type CheckRequest struct {
	Principal auth.Principal
	SessionID string
	Tool      string
	Input     Input
	HasInput  bool // to tell no input from an empty one
	Command   string
}

// Checked is what would be decided.
type Checked struct {
	Decision policy.Decision
	Tool     string
	Digest   [32]byte // of this call, in this session, under this policy
	Tiers    []policy.Tier
	Limits   []string // names of those that count the call
}

// Suppose has calls that are only checked judged for this sandbox, and for sessions
// that reach as far as it does, instead of those that are there. It comes before
// any call.
func (a *Admission) Suppose(offer *tools.Offer) { a.supposed = offer }

// Check decides about a call as [Admission.Admit] does. Nothing runs, nobody is asked
// and no limit counts; the rate of the tenant does, for it costs what a call costs.
func (a *Admission) Check(request CheckRequest) (Checked, error) {
	found, err := a.sessionOf(request.Principal, request.SessionID)
	if err != nil {
		return Checked{}, err
	}
	switch {
	case request.Command != "" && request.HasInput:
		return Checked{}, invalid("command stands for an input: send one of them")
	case request.Command == "" && request.Tool == "":
		return Checked{}, invalid("name the tool, or give a command")
	}
	if err := a.rate(found); err != nil {
		return Checked{}, err
	}
	if request.Command != "" {
		return a.check(request, found)
	}
	if read := inPersona(found, request.Tool, request.Input); read != nil {
		request.Tool, request.Input = read.tool, read.input
		return a.check(request, found)
	}
	checked, err := a.check(request, found)
	if !errors.Is(err, ErrInvalid) {
		return checked, err
	}
	has := a.has(found, a.ActivePolicy.Current())
	_, ours := a.Registry.Lookup(request.Tool, has)
	switch read := a.reread(request.Tool, request.Input, has, ours); {
	case read == nil:
		return checked, err
	case read.refusal != nil:
		return checked, invalid("%s", read.refusal.Failure.Message)
	default:
		request.Tool, request.Input = read.tool, read.input
		return a.check(request, found)
	}
}

// check decides about a call of one of our tools.
func (a *Admission) check(request CheckRequest, found *session.Session) (Checked, error) {
	p := a.ActivePolicy.Current()
	entry, err := a.checked(found, p, request.Tool)
	if err != nil {
		return Checked{}, err
	}
	subject := a.Subject(found, entry, request.Principal.MaxMode, request.Principal.OnBehalfOf)
	if a.supposed != nil {
		subject.Offer, subject.Network = a.supposed, a.supposed.Network
	}
	env := a.Env(found, p.Restrictions(subject), "")
	if request.Command != "" {
		subject.Effects = effects.Resolve(*env, shell.Effects(request.Command, shell.PlaceOf(*env, "")))
		subject.Input = commandInput(entry, *env, request.Command)
	} else {
		call, err := decodeInput(entry, env, named(entry, request.Input))
		if wrong, ok := errors.AsType[*tools.InputError](err); ok {
			return Checked{}, invalid("input: %s", wrong)
		}
		if err != nil {
			return Checked{}, err
		}
		subject.Input, subject.Effects = call.Input(), call.Effects()
	}
	subject.Digest = callDigest(request.Principal.OnBehalfOf, entry.Spec.Identity(), subject.Input)
	decision := p.Decide(subject, a.grants(found))
	checked := Checked{
		Decision: decision, Tool: entry.Spec.Name, Digest: bound(subject, p.Version()), Tiers: p.Tiers(subject, decision),
	}
	for _, limit := range p.Limits() {
		if (tools.Selection{Include: limit.Tools}).Has(&entry.Spec) {
			checked.Limits = append(checked.Limits, limit.Name)
		}
	}
	return checked, nil
}

// checked returns the tool that a check is about. One that is not available here can be
// judged all the same.
func (a *Admission) checked(s *session.Session, p *policy.Policy, name string) (*tools.Entry, error) {
	if known := transferTools[name]; known != nil {
		if err := selected(p, s, &known.Spec); err != nil {
			return nil, invalid("tool: %s", err)
		}
		return known, nil
	}
	if name != "" {
		found, refusal := a.find(s, p, name)
		if found == nil {
			return nil, invalid("tool: %s", refusal.Failure.Message)
		}
		return found, nil
	}
	entry := &tools.Entry{Spec: shellSpec}
	if bash, ok := a.Registry.Lookup(shellSpec.Name, nil); ok {
		entry.Tool = bash.Tool // for the form of its input
	}
	return entry, nil
}

// commandInput returns the input of the call that would run a command.
func commandInput(entry *tools.Entry, env tools.Env, command string) []byte {
	text, err := json.Marshal(map[string]string{"command": command})
	if err != nil { // strings always marshal
		panic(err)
	}
	if entry.Tool != nil {
		if call, err := entry.Tool.Decode(&env, text); err == nil {
			return call.Input()
		}
	}
	return tools.Canonical(text)
}

// shellSpec stands in for the tool that would run a command.
var shellSpec = tools.Spec{Name: "bash", Aliases: []string{"shell"}, Level: tools.DangerFullAccess, LeastLevel: tools.ReadOnly}
