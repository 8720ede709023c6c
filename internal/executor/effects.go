// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/policy"
)

// Effects are what a call would touch, as far as its execution keeps it.
type Effects struct {
	Judged []policy.Judged
	More   int // how many are not among them, for there are too many
}

// All returns those that are kept; none of nil.
func (e *Effects) All() []policy.Judged {
	if e == nil {
		return nil
	}
	return e.Judged
}

// Bounds of the effects that an execution keeps.
const (
	maxKeptEffects     = 64
	maxKeptEffectBytes = 16 << 10
)

// KeptEffects returns what an execution keeps of the effects of a decision: the
// first of them. It returns nil where there is but the use of the tool, as with
// every call: thousands of those may wait.
func KeptEffects(d *policy.Decision) *Effects {
	if len(d.Effects) == 1 && d.Effects[0].Verdict == d.Verdict {
		return nil
	}
	left := maxKeptEffectBytes
	for i := range d.Effects {
		if left -= approval.JudgedWeight(d.Effects[i]); left < 0 || i == maxKeptEffects {
			return &Effects{slices.Clone(d.Effects[:i]), len(d.Effects) - i}
		}
	}
	return &Effects{Judged: d.Effects}
}
