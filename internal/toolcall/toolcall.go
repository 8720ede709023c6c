// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package toolcall translates between the server's tools, calls and results and what
// models and their providers read and write. Each dialect has a file, and a row in
// [Dialects]. Nothing here runs a call or knows what a tool does, and there is no I/O.
//
// A [Parser] takes what a model writes in pieces of any size and hands a call over with
// the piece that completes it. It repairs what is broken where only one reading is
// possible. It does not run what a model only speaks of: in code, in quotes, in its
// thoughts. That keeps accidents away and is no protection: every call is judged by the
// policy, whoever thought of it.
package toolcall

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Tool is what a model is told of a tool.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // of the input: a JSON Schema of an object
}

// A Piece is a part of what a model wrote: [Text], [Call] or [Broken]. Pieces come in
// the order they were written.
type Piece interface{ isPiece() }

// Text is what is not a call.
type Text string

// A Call is a call that is complete.
type Call struct {
	ID    string // that the provider gave; empty where the dialect has none
	Tool  string
	Input json.RawMessage // a JSON object, as the model wrote it where that was valid
}

// Broken is a call that has no reading, or several.
type Broken struct {
	ID, Tool string // as far as they are known
	Raw      string // what the model wrote
	Message  string // for the model: what is wrong, and what would be right
}

func (Text) isPiece()   {}
func (Call) isPiece()   {}
func (Broken) isPiece() {}

// A Result is what came of a call.
type Result struct {
	CallID, Tool string
	Content      []Content
	Failed       bool
}

// Content is one part of a result: [Text] or [Image].
type Content interface{ isContent() }

// Image is a picture in an encoded form.
type Image struct {
	MediaType string
	Data      []byte
}

func (Text) isContent()  {}
func (Image) isContent() {}

// text returns the text of a result, its parts on lines of their own.
func (r *Result) text() string {
	var parts []string
	for _, c := range r.Content {
		if text, ok := c.(Text); ok {
			parts = append(parts, string(text))
		}
	}
	return strings.Join(parts, "\n")
}

// failable returns the text of a result for providers that cannot tell that a call
// failed.
func (r *Result) failable() string {
	if r.Failed {
		return "Error: " + r.text()
	}
	return r.text()
}

// images returns the pictures of a result.
func (r *Result) images() (images []Image) {
	for _, c := range r.Content {
		if image, ok := c.(Image); ok {
			images = append(images, image)
		}
	}
	return images
}

// Options say how tools are rendered.
type Options struct {
	// Strict asks OpenAI to hold models to the schema. Schemas are made to fit its
	// rules; those that cannot be are not strict.
	Strict bool
}

// A Dialect is how one provider, or one family of models, writes tools, calls and results.
type Dialect struct {
	Name, Title string

	// Text says that calls are part of the text that a model writes, so that tools are
	// explained in the system prompt. Other dialects are JSON of a provider's API.
	Text bool

	tools   func([]Tool, Options) any
	results func([]Result) any
	calls   func(text string, calls []Call) any
	event   func(*stream, []byte) // reads one JSON object of a provider
	knows   func(object) bool     // whether such an object is of it

	syntaxes []*syntax // of calls in text
	wrap     [2]string // what calls in text are between together
	write    func(*Tool, Call) string
	result   func(Result) string
}

// Dialects lists the dialects: those of providers first.
var Dialects = []*Dialect{
	anthropic, openAI, responses, gemini, bedrock, mistral, ollama, mcp,
	nested, hermes, qwen, llama, dsml, minimax, glm, mistralText, react, fenced,
}

// Named returns a dialect.
func Named(name string) (*Dialect, error) {
	for _, d := range Dialects {
		if d.Name == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("dialect %.64q is unknown: want one of %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of the dialects.
func Names() []string {
	var names []string
	for _, d := range Dialects {
		names = append(names, d.Name)
	}
	return names
}

// Tools returns the definitions of tools: JSON for the tools of a request or, in a
// dialect of text, a part of the system prompt.
func (d *Dialect) Tools(tools []Tool, options Options) []byte {
	if d.Text {
		return []byte(d.prompt(tools))
	}
	return encode(d.tools(tools, options))
}

// Results returns what came of the calls of one turn: JSON for the messages of the next
// request or, in a dialect of text, the text of a user message.
func (d *Dialect) Results(results []Result) []byte {
	if !d.Text {
		return encode(d.results(results))
	}
	var parts []string
	for _, r := range results {
		for _, image := range r.images() {
			r.Content = append(slices.Clip(r.Content), Text(fmt.Sprintf("(A picture, %s, %d bytes, cannot be shown here.)", image.MediaType, len(image.Data))))
		}
		parts = append(parts, d.result(r))
	}
	return []byte(strings.Join(parts, "\n"))
}

// Calls returns what a model writes that makes these calls, after some text. The tools
// are those it was told of: in some dialects a value is read by the schema of its tool.
func (d *Dialect) Calls(tools []Tool, text string, calls []Call) []byte {
	if !d.Text {
		return encode(d.calls(text, calls))
	}
	known := newCatalog(tools)
	var parts []string
	for _, c := range calls {
		tool, _ := known.find(c.Tool)
		parts = append(parts, d.write(tool, c))
	}
	if d.wrap[0] != "" && len(calls) > 0 {
		parts = slices.Concat(d.wrap[:1], parts, d.wrap[1:])
	}
	if text != "" {
		text += "\n"
	}
	return []byte(text + strings.Join(parts, "\n"))
}
