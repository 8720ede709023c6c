// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// A reading is a call of one of our tools that a call of another system's tool means.
type reading struct {
	tool    string
	input   Input
	purpose string
	system  string // whose tool was called; empty: ours
	form    persona.Form
	refusal *executor.Refusal // why there is no reading
}

// as returns a request that asks for what was read.
func (r *Request) as(read *reading) *Request {
	other := *r
	other.CalledAs, other.Tool, other.Input, other.Form = r.Tool, read.tool, read.input, read.form
	if r.Purpose == "" && len(read.purpose) <= MaxText {
		other.Purpose = read.purpose
	}
	return &other
}

// note tells how a call was read, so that the next one can be written as it is meant.
func (r *reading) note(calledAs string) string {
	return fmt.Sprintf("%s is read as %s here, with the keys of %s.", calledAs, r.tool, r.system)
}

// inPersona returns what a call means in a session that speaks as another system does;
// nil where it has no persona, or one that does not know the tool.
func inPersona(s *session.Session, tool string, input Input) *reading {
	system, ok := persona.Named(s.Settings().Persona)
	if !ok || input.Problem != nil {
		return nil
	}
	theirs := system.Tool(tool)
	if theirs == nil {
		return nil
	}
	call, err := theirs.Translate(input.JSON)
	read := &reading{tool: theirs.Means[0].Tool, input: input, system: system.Title, form: call.Form, purpose: call.Purpose}
	if wrong, ok := errors.AsType[*tools.InputError](err); ok {
		read.input.Problem = wrong
	} else if err != nil {
		read.input.Problem = &tools.InputError{Problems: []tools.Problem{{Message: err.Error()}}}
	} else {
		read.tool, read.input.JSON = call.Tool, call.Input
	}
	return read
}

// reread returns what a call means that none of our tools takes as it is: what the
// systems that know its name and accept its input agree on. Results stay as ours are,
// for nobody has chosen another form. It returns nil where no system knows the name.
func (a *Admission) reread(tool string, input Input, has func(*tools.Spec) bool, ours bool) *reading {
	// A tool that the session does not have is not told apart from one that is not there.
	known := slices.DeleteFunc(slices.Clone(persona.Lookup(tool)), func(t *persona.Tool) bool {
		return !slices.ContainsFunc(t.Means, func(m *persona.Meaning) bool {
			_, ok := a.Registry.Lookup(m.Tool, has)
			return ok
		})
	})
	if len(known) == 0 || input.Problem != nil {
		return notYet(tool, ours)
	}
	var readings []*reading
	var problems []string
	for _, theirs := range known {
		call, err := theirs.Translate(input.JSON)
		if err != nil {
			problems = append(problems, fmt.Sprintf("As %s has it:\n%v", theirs.System.Title, err))
			continue
		}
		call.Input = tools.Canonical(call.Input)
		if ours && call.Tool == tool && string(call.Input) == string(tools.Canonical(input.JSON)) {
			continue // as it was written, which our tool did not accept
		}
		same := func(r *reading) bool { return r.tool == call.Tool && string(r.input.JSON) == string(call.Input) }
		if !slices.ContainsFunc(readings, same) {
			readings = append(readings, &reading{tool: call.Tool, input: Input{JSON: call.Input}, purpose: call.Purpose, system: theirs.System.Title})
		}
	}
	switch {
	case len(readings) == 1:
		return readings[0]
	case len(readings) > 1:
		var means []string
		for _, r := range readings {
			means = append(means, fmt.Sprintf("%s means %s %.200s", r.system, r.tool, r.input.JSON))
		}
		return &reading{refusal: executor.Refuse(executor.InvalidInput, "ambiguous", fmt.Sprintf(
			"By %q with this input, %s. Call the tool that is meant by its name here, or have the session choose a persona.",
			tool, strings.Join(means, "; ")))}
	case ours:
		return nil // what is wrong by our own schema is told
	}
	return &reading{refusal: executor.Refuse(executor.InvalidInput, "invalid_input", fmt.Sprintf(
		"The input of %s is not valid. Correct it and call again:\n%s", tool, strings.Join(problems, "\n")))}
}

// notYet tells of a tool that other systems have, and this server has nothing for.
func notYet(tool string, ours bool) *reading {
	systems, needs := persona.Missing(tool)
	if systems == "" || ours {
		return nil
	}
	return &reading{refusal: executor.Refuse(executor.NoSuchTool, "no_such_tool", fmt.Sprintf(
		"There is no tool %q in this session. It is a tool of %s for %s, which this server does not have yet.", tool, systems, needs))}
}

// keyLike is what can only be a key or a tool where it is part of a sentence, orKey one
// that could be given instead.
var (
	keyLike = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)
	orKey   = regexp.MustCompile(`, or [a-z]+(_[a-z]+)+\b`)
)

// inTheirWords tells what our tool did not accept of an input that was translated: the
// model knows the keys that it has sent.
func inTheirWords(order *executor.Order, wrong *tools.InputError) *tools.InputError {
	if order.CalledAs == "" {
		return wrong
	}
	translated := new(tools.InputError)
	named := func(ours string) string {
		if theirs, ok := order.Form.Key(ours); ok {
			return theirs
		}
		if system, ok := persona.Named(order.Form.System); ok {
			return system.Words().Tool(ours)
		}
		return ours
	}
	lacks := func(or string) string { // another way, by a key that they do not have
		if _, ok := order.Form.Key(strings.TrimPrefix(or, ", or ")); ok {
			return or
		}
		return ""
	}
	for _, p := range wrong.Problems {
		if order.Form.System != "" {
			p.Message = keyLike.ReplaceAllStringFunc(orKey.ReplaceAllStringFunc(p.Message, lacks), named)
		}
		key, below, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
		if theirs, ok := order.Form.Key(key); ok {
			translated.Problems = append(translated.Problems, tools.Problem{Pointer: strings.TrimSuffix("/"+theirs+"/"+below, "/"), Message: p.Message})
			continue
		}
		translated.Problems = append(translated.Problems, tools.Problem{Message: fmt.Sprintf("what becomes %s of %s: %s", strings.TrimPrefix(p.Pointer, "/"), order.Tool, p.Message)})
	}
	return translated
}
