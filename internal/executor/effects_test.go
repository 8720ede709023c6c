// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestKeptEffectsAreBounded(t *testing.T) {
	t.Parallel()
	kept := func(effects ...policy.Judged) *Effects { return KeptEffects(&policy.Decision{Effects: effects}) }
	if e := kept(make([]policy.Judged, 1000)...); len(e.Judged) == 0 || len(e.Judged) > maxKeptEffects || len(e.Judged)+e.More != 1000 || cap(e.Judged) > 2*maxKeptEffects {
		t.Errorf("of 1000: %d kept with room for %d, %d more", len(e.Judged), cap(e.Judged), e.More)
	}
	if e := kept(make([]policy.Judged, 3)...); len(e.Judged) != 3 || e.More != 0 {
		t.Errorf("of 3: %d kept, %d more", len(e.Judged), e.More)
	}
	path := func(path string) policy.Judged { return policy.Judged{Effect: tools.Effect{Path: path}} }
	if e := kept(path("a"), path(strings.Repeat("b", 1<<20)), path("c")); len(e.Judged) != 1 || e.More != 2 {
		t.Errorf("of large ones: %d kept, %d more", len(e.Judged), e.More)
	}
	if e := kept(make([]policy.Judged, 1)...); e != nil {
		t.Errorf("of the tool alone: %v", e)
	}
	if e := kept(policy.Judged{Verdict: policy.Verdict{Rule: "another"}}); len(e.Judged) != 1 {
		t.Errorf("with a verdict of its own: %v", e)
	}
}
