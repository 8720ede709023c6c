// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Transcript is what a command wrote: what the model is shown and, once that is
// not everything, the whole of it.
type Transcript struct {
	window    *output.Window
	limit     int
	measure   tools.Measure
	artifacts tools.Artifacts
	words     tools.Words
	whole     []byte // all there is while it fits into the window
	artifact  tools.ArtifactWriter
	bytes     [tools.Terminal + 1]uint64
}

// NewTranscript returns one of which the model is shown at most limit bytes, and no more
// than take so much room of its answer.
func NewTranscript(env tools.Env, limit int) Transcript {
	return Transcript{window: output.NewWindow(limit), limit: limit, measure: env.Measure, artifacts: env.Artifacts, words: env.Words}
}

// Write adds output.
func (t *Transcript) Write(stream tools.Stream, data []byte) {
	t.bytes[stream] += uint64(len(data))
	t.window.Write(data)
	switch {
	case t.artifact != nil:
		t.artifact.Write(data)
	case t.artifacts == nil:
	case len(t.whole)+len(data) <= t.limit:
		t.whole = append(t.whole, data...)
	default:
		t.keep()
		if t.artifact != nil {
			t.artifact.Write(data)
		}
	}
}

// keep begins an artifact with all there is, where artifacts are kept.
func (t *Transcript) keep() {
	if t.artifacts == nil || t.artifact != nil {
		return
	}
	artifact, err := t.artifacts.Create("output.txt", "text/plain; charset=utf-8")
	if err != nil {
		t.artifacts = nil
		return
	}
	artifact.Write(t.whole)
	t.artifact, t.whole = artifact, nil
}

// Content returns what the model is shown, and the artifact that has the rest.
// Nothing is written any more.
func (t *Transcript) Content() (text string, artifact []tools.Content) {
	more := func(gap output.Gap) string {
		if t.keep(); t.artifact == nil {
			return "this server does not keep it; write to a file, or filter what is written"
		}
		return t.words.ReadOn(t.artifact.Close(), gap)
	}
	text = t.window.Text(more)
	for shown := t.limit; t.measure.Tokens && shown > 0 && t.measure.Of(text) > t.limit; text = t.window.Text(more) {
		shown = shown * t.limit / t.measure.Of(text) * 19 / 20
		t.window.Narrow(shown)
	}
	if t.artifact != nil {
		artifact = []tools.Content{t.artifact.Close()}
	}
	return text, artifact
}
