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
// and says so: what was written is in the output events and in artifacts. JSON stays as
// it is, for programs.
func (f *Finished) dropInvisible() {
	content, dropped := visibleContent(f.Result.Content)
	if f.Failure != nil {
		if message := output.WithoutInvisible(f.Failure.Message); message != f.Failure.Message {
			failure := *f.Failure
			failure.Message = message
			f.Failure = &failure
		}
	}
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
// many characters those were. Content without any is returned as it is.
func visibleContent(content []tools.Content) (visible []tools.Content, dropped int) {
	visible = content
	for i, c := range content {
		text, ok := c.(tools.Text)
		if !ok {
			continue
		}
		without := output.WithoutInvisible(string(text))
		if len(without) == len(text) {
			continue
		}
		if dropped == 0 {
			visible = slices.Clone(content)
		}
		visible[i] = tools.Text(without)
		dropped += utf8.RuneCountInString(string(text)) - utf8.RuneCountInString(without)
	}
	return visible, dropped
}
