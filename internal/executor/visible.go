// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// dropInvisible takes out of the texts for the model what a person would not see in them,
// and says so: what was written is in the output events and in artifacts. In JSON
// they are escaped, which means the same to programs.
func (f *Finished) dropInvisible() {
	content, dropped := visibleContent(f.Result.Content)
	if f.Failure != nil {
		if message := output.WithoutInvisible(f.Failure.Message); message != f.Failure.Message {
			failure := *f.Failure
			failure.Message = message
			f.Failure = &failure
		}
	}
	f.Result.Content = content
	if dropped == 0 {
		return
	}
	note := tools.Text(fmt.Sprintf("\n(Invisible characters were left out: %d.)", dropped))
	at := len(content)
	if f.Failure != nil && at > 0 {
		at-- // the reason comes last
	}
	f.Result.Content = slices.Insert(content, at, tools.Content(note))
}

// visibleContent returns content without what a person would not see in its texts, and how
// many characters those were; in JSON they are escaped. Content without any is returned as
// it is.
func visibleContent(content []tools.Content) (visible []tools.Content, dropped int) {
	visible = content
	cloned := false
	replace := func(i int, by tools.Content) {
		if !cloned {
			visible, cloned = slices.Clone(content), true
		}
		visible[i] = by
	}
	for i, c := range content {
		switch c := c.(type) {
		case tools.Text:
			if without := output.WithoutInvisible(string(c)); len(without) != len(c) {
				replace(i, tools.Text(without))
				dropped += utf8.RuneCountInString(string(c)) - utf8.RuneCountInString(without)
			}
		case tools.JSON:
			if escaped := output.EscapeInvisible(string(c)); len(escaped) != len(c) {
				replace(i, tools.JSON(escaped))
			}
		}
	}
	return visible, dropped
}
