// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/policy"
)

// Fired is how often something decided about calls since the server started.
type Fired struct {
	// Name is that of a rule, as verdicts have it, or of what else decides: mode, level,
	// grant, protected, workspace, hook.
	Name string

	// Decided are the calls whose verdict it was, Matched those of which it judged a part.
	Decided, Matched uint64
}

// firings count. There is one for each rule that fired, and few others.
type firings struct{ by sync.Map } // *counts by name

type counts struct{ decided, matched atomic.Uint64 }

func (f *firings) of(label string) *counts {
	if kind, _, more := strings.Cut(label, " "); more && kind != "rule" {
		label = kind // a grant has an id, a protected place a path
	}
	found, ok := f.by.Load(label)
	if !ok {
		found, _ = f.by.LoadOrStore(label, new(counts))
	}
	return found.(*counts)
}

// note counts what decided about a call.
func (f *firings) note(verdict policy.Verdict, effects []policy.Judged) {
	if verdict.Rule == "" { // the policy was not asked: the input was wrong, or there is no such tool
		return
	}
	decisive := f.of(verdict.Rule)
	decisive.decided.Add(1)
	decisive.matched.Add(1)
	for i := range effects {
		label := effects[i].Verdict.Rule
		if label != "" && label != verdict.Rule && !slices.ContainsFunc(effects[:i], func(before policy.Judged) bool { return before.Verdict.Rule == label }) {
			f.of(label).matched.Add(1)
		}
	}
}

// Fired returns how often rules and others decided about calls and transfers, by name.
func (r *ActivePolicy) Fired() map[string]Fired {
	all := make(map[string]Fired)
	r.fired.by.Range(func(name, value any) bool {
		c := value.(*counts)
		all[name.(string)] = Fired{name.(string), c.decided.Load(), c.matched.Load()}
		return true
	})
	return all
}

// Others returns the firings of what is no rule of a policy, sorted by name.
func Others(all map[string]Fired) (list []Fired) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "rule ") {
			list = append(list, all[name])
		}
	}
	return list
}
