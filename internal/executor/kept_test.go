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
	many := make([]policy.Judged, 1000)
	if kept, more := keptEffects(many); len(kept) == 0 || len(kept) > maxKeptEffects || len(kept)+more != 1000 || cap(kept) > 2*maxKeptEffects {
		t.Errorf("of 1000: %d kept with room for %d, %d more", len(kept), cap(kept), more)
	}
	few := many[:3]
	if kept, more := keptEffects(few); len(kept) != 3 || more != 0 {
		t.Errorf("of 3: %d kept, %d more", len(kept), more)
	}
	large := []policy.Judged{{Effect: tools.Effect{Path: "a"}}, {Effect: tools.Effect{Path: strings.Repeat("b", 1<<20)}}, {Effect: tools.Effect{Path: "c"}}}
	if kept, more := keptEffects(large); len(kept) != 1 || more != 2 {
		t.Errorf("of large ones: %d kept, %d more", len(kept), more)
	}
	if kept, more := keptEffects(nil); kept != nil || more != 0 {
		t.Errorf("of none: %v, %d more", kept, more)
	}
}
