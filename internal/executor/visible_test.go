// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestSecretsBetweenInvisible: a secret with something invisible in it is masked, since it
// would be shown without that.
func TestSecretsBetweenInvisible(t *testing.T) {
	const shown = "the key is ghp_\u200babc"
	f := newFixture(t, executor.Config{Mask: func(text string) string { return strings.ReplaceAll(text, "ghp_abc", "[masked]") }})
	x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
		out.Emit(tools.Partial{Content: []tools.Content{tools.Text(shown)}})
		return tools.TextResult(shown), nil
	}))
	masked := 0
	for event, err := range x.Events(t.Context(), 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(event.Body)
		if strings.Contains(text, "abc") {
			t.Errorf("shown: %q", text)
		}
		masked += strings.Count(text, "[masked]")
	}
	if masked != 2 {
		t.Errorf("masked %d times, want in the partial result and at the end", masked)
	}
}
