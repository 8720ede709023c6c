// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// helpOf returns what tells the calls of a session more of a tool that it has.
func (a *Admission) helpOf(s *session.Session) func(name string) (string, error) {
	return func(name string) (string, error) {
		entry, refusal := a.find(s, a.ActivePolicy.Current(), name)
		if refusal != nil {
			return "", tools.Failf(refusal.Failure.Code, "%s", refusal.Failure.Message)
		}
		return helpPage(&entry.Spec), nil
	}
}

// helpPage is all there is to say of a tool but its schema. The help says all that the
// description does, which its reader has.
func helpPage(spec *tools.Spec) string {
	var b strings.Builder
	text := cmp.Or(strings.TrimSpace(spec.Help), strings.TrimSpace(spec.Description))
	fmt.Fprintf(&b, "# %s\n\n%s\n", spec.Name, text)
	if len(spec.Aliases) > 0 {
		fmt.Fprintf(&b, "\nOther names: %s.\n", strings.Join(spec.Aliases, ", "))
	}
	if len(spec.Keys) > 0 {
		b.WriteString("Other names of keys:")
		for _, key := range spec.Keys {
			fmt.Fprintf(&b, " %s for %s,", key.Other, key.Name)
		}
		text := strings.TrimSuffix(b.String(), ",") + ".\n"
		b.Reset()
		b.WriteString(text)
	}
	if len(spec.Examples) > 0 {
		b.WriteString("\nExamples:\n")
	}
	for _, example := range spec.Examples {
		fmt.Fprintf(&b, "- %s: %s\n", example.Summary, example.Input)
	}
	return b.String()
}
