// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/tools"
)

// textBudget is how much text and JSON the results of a batch have together. The calls that
// end first take from it first.
type textBudget struct {
	measure tools.Measure
	mu      sync.Mutex
	left    int
}

// take returns as much of a size as there is left, and keeps it.
func (t *textBudget) take(size int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	size = min(size, t.left)
	t.left -= size
	return size
}

// RoomFor returns how much room the answer of a call of the batch has, which may
// have so much by itself.
func (b *Batch) RoomFor(own int) int {
	if b.budget == nil {
		return own
	}
	b.budget.mu.Lock()
	defer b.budget.mu.Unlock()
	return min(own, max(b.budget.left, tools.MinAnswer))
}

// fit cuts the text of a result to what is left, and leaves out JSON that has no room. The
// whole of either is kept as an artifact, if there is where.
func (t *textBudget) fit(f *Finished, tool string, artifacts tools.Artifacts) {
	defer t.fitJSON(f, tool, tools.Env{Artifacts: artifacts})
	var text strings.Builder
	var rest []tools.Content
	for _, c := range f.Result.Content {
		if piece, ok := c.(tools.Text); ok {
			text.WriteString(string(piece))
		} else {
			rest = append(rest, c)
		}
	}
	needs := t.measure.Of(text.String())
	room := t.take(needs)
	if room == needs {
		return
	}
	env := tools.Env{Answer: room, Measure: t.measure, Artifacts: artifacts}
	var content []tools.Content
	if room >= tools.MinAnswer {
		content = env.Begin(text.String(), tool+".txt")
	} else if whole, ok := env.Keep(tool+".txt", text.String()); ok {
		content = append(content, whole) // there is no room to say more
	}
	kept, takes := 0, 0
	for _, c := range content {
		if piece, ok := c.(tools.Text); ok {
			kept += len(piece)
			takes += t.measure.Of(string(piece))
		}
	}
	t.take(takes - room) // which gives the rest back
	f.TotalBytes, f.KeptBytes = max(f.TotalBytes, text.Len()), kept
	f.Result.Content = append(content, rest...)
}

// fitJSON leaves out the JSON of a result that has no room.
func (t *textBudget) fitJSON(f *Finished, tool string, env tools.Env) {
	var content []tools.Content
	left, kept := 0, 0
	for _, c := range f.Result.Content {
		piece, ok := c.(tools.JSON)
		if text, isText := c.(tools.Text); isText {
			kept += len(text)
		}
		if !ok {
			content = append(content, c)
			continue
		}
		needs := t.measure.Of(string(piece))
		room := t.take(needs)
		if room == needs {
			kept += len(piece)
			content = append(content, c)
			continue
		}
		t.take(-room)
		left += len(piece)
		if whole, ok := env.Keep(tool+".json", string(piece)); ok {
			content = append(content, whole)
		}
	}
	if left > 0 {
		f.TotalBytes, f.KeptBytes = kept+left+f.TotalBytes-f.KeptBytes, kept // what was cut before is missing too
		f.Result.Content = content
	}
}
