// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// maxListed is how many tools are listed where none is like what was called.
const maxListed = 60

// unknown explains to the model that there is no such tool, with the nearest
// names among those the session has.
func (a *Admission) unknown(s *session.Session, p *policy.Policy, name string) string {
	entries, _ := a.Registry.All()
	var names, aliases []string
	for _, entry := range entries {
		if Available(s, p, &entry.Spec) && entry.Unavailable == "" {
			names = append(names, entry.Spec.Name)
			aliases = append(aliases, entry.Spec.Aliases...)
		}
	}
	if system, ok := persona.Named(s.Settings().Persona); ok {
		names, aliases = a.inTheirs(system, s, p)
	}
	message := fmt.Sprintf("There is no tool %q in this session. ", name)
	if near := nearest.Names(name, slices.Concat(names, aliases)); len(near) > 0 {
		return message + tools.DidYouMean(near, "")
	}
	if len(names) == 0 {
		return message + "It has no tools at all."
	}
	more := ""
	if n := len(names) - maxListed; n > 0 {
		names, more = names[:maxListed], fmt.Sprintf(", and %d more", n)
	}
	return message + "Its tools are: " + strings.Join(names, ", ") + more + "."
}

// inTheirs returns the names, and other names, of the tools that a session in a persona
// is shown: those of the system, and of ours those it has chosen by their names.
func (a *Admission) inTheirs(system *persona.System, s *session.Session, p *policy.Policy) (names, aliases []string) {
	for _, theirs := range system.Tools {
		if slices.ContainsFunc(theirs.Means, func(m *persona.Meaning) bool {
			entry, ok := a.Registry.Lookup(m.Tool, a.has(s, p))
			return ok && entry.Unavailable == ""
		}) {
			names, aliases = append(names, theirs.Name), append(aliases, theirs.Aliases...)
		}
	}
	chosen := s.Settings().Tools
	entries, _ := a.Registry.All()
	for _, entry := range entries {
		if Available(s, p, &entry.Spec) && entry.Unavailable == "" && chosen.Names(&entry.Spec) && !slices.Contains(names, entry.Spec.Name) {
			names = append(names, entry.Spec.Name)
		}
	}
	return names, aliases
}

func refusedInput(tool string, wrong *tools.InputError) *executor.Refusal {
	refusal := executor.Refuse(executor.InvalidInput, "invalid_input",
		fmt.Sprintf("The input of %s is not valid. Correct it and call again:\n%s", tool, wrong))
	refusal.Failure.Problems = wrong.Problems
	return refusal
}

// foreseen returns how a call ends that is known to fail; nil where that is not known.
func foreseen(call tools.Call) *executor.Refusal {
	foreseer, ok := call.(tools.Foreseer)
	if !ok {
		return nil
	}
	if failure, ok := errors.AsType[*tools.Failure](foreseer.Foresee()); ok {
		return executor.Refuse(executor.Failed, failure.Code, failure.Message)
	}
	return nil
}

// refused returns how a call ends that the policy denies.
func refused(order *executor.Order, decision *policy.Decision) *executor.Refusal {
	reason := order.Verdict.Reason
	if rule, ok := strings.CutPrefix(order.Verdict.Rule, "rule "); ok {
		reason = fmt.Sprintf("Denied by the rule %s of this server: %s", rule, reason)
	}
	if system, ok := persona.Named(order.Form.System); ok && order.Verdict.Rule == "mode plan" {
		reason = strings.ReplaceAll(reason, "exit_plan_mode", system.Words().Tool("exit_plan_mode"))
	}
	if parts := deniedParts(decision); parts != "" {
		reason += " Of the command, this was denied: " + parts + ". Nothing of it ran."
	}
	refusal := executor.Refuse(executor.Denied, "denied", reason)
	verdict := order.Verdict
	refusal.Verdict = &verdict
	return refusal
}

// deniedParts names what was denied of a command that runs several programs; nothing of
// others, where it is the call itself that may not be made, and where the reason has it.
func deniedParts(d *policy.Decision) string {
	const most = 3
	programs, more := 0, 0
	var parts []string
	for i := range d.Effects {
		e, denied := &d.Effects[i].Effect, d.Effects[i].Verdict.Action == policy.Deny
		if e.Kind == tools.RunsProgram {
			programs++
		}
		if !denied {
			continue
		}
		text, what := "", e.Path
		switch e.Kind {
		case tools.RunsProgram:
			text, what = "", commandText(e.Argv)
		case tools.ReadsPath:
			text = "reading "
		case tools.WritesPath:
			text = "writing "
		case tools.ReachesHost:
			text, what = "reaching ", e.Host
		default:
			return ""
		}
		text += output.Visible(what)
		switch {
		case slices.Contains(parts, text) || what == "" || len(what) > 3 && strings.Contains(d.Reason, what):
		case len(parts) == most:
			more++
		default:
			parts = append(parts, text)
		}
	}
	if programs < 2 || len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// commandText writes the words of a command in one line, of which the beginning tells
// enough.
func commandText(argv []string) string {
	const most = 120
	list := ShownWords(argv)
	for i, word := range list {
		if argv[i] != tools.UnknownWord {
			list[i] = shell.Quote(word)
		}
	}
	text := []rune(strings.Join(list, " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// ShownWords writes the words of a command for people.
func ShownWords(argv []string) []string {
	list := slices.Clone(argv)
	for i, word := range list {
		if list[i] = output.Visible(word); word == tools.UnknownWord {
			list[i] = "…"
		}
	}
	return list
}
