// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import "encoding/json"

// Result is what came of a call.
type Result struct {
	// Content is for the model.
	Content []Content

	// Details is for the agent runtime, not meant for the model: a JSON object,
	// or nil.
	Details json.RawMessage
}

// Content is one piece of a result: [Text], [JSON], [Image] or [Artifact].
type Content interface{ isContent() }

// Text is plain text.
type Text string

// JSON is one JSON value.
type JSON json.RawMessage

// Image is a picture in an encoded form.
type Image struct {
	MediaType string
	Data      []byte
}

// Artifact points to bytes kept elsewhere.
type Artifact struct {
	URI, Name, MediaType string
	Size                 uint64
}

func (Text) isContent()     {}
func (JSON) isContent()     {}
func (Image) isContent()    {}
func (Artifact) isContent() {}

// TextResult returns a result of one text.
func TextResult(text string) Result { return Result{Content: []Content{Text(text)}} }

// JSONResult returns a result of one JSON value.
func JSONResult(value json.RawMessage) Result { return Result{Content: []Content{JSON(value)}} }
