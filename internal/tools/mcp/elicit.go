// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of what a server may ask.
const (
	maxFields       = 16 // of a form
	maxAsked        = 16 // forms for one call, one after another
	maxDeclinations = 3  // that a model is told of
)

// elicit puts what a server asks to the person behind the call for which it asks. The
// protocol does not say which call that is: where calls of more than one session, or for
// more than one user, run at the server, nobody is asked.
func (s *Source) elicit(ctx context.Context, request *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	call, why := s.asking()
	decline := func(why string) (*sdk.ElicitResult, error) {
		s.declined(call, why)
		return &sdk.ElicitResult{Action: "decline"}, nil
	}
	// Of a command they were counted before they got here.
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxAsking {
		return decline(fmt.Sprintf("it waits for %d answers already", maxAsking))
	}
	params := request.Params
	if params.Mode != "" && params.Mode != "form" {
		return decline("only forms are shown")
	}
	if call == nil {
		return decline(why)
	}
	if call.asked.Add(1) > maxAsked {
		return decline(fmt.Sprintf("it has asked %d times for this call", maxAsked))
	}
	fields, err := fieldsOf(params.RequestedSchema)
	if err != nil {
		return decline(err.Error())
	}
	message := fmt.Sprintf("The MCP server %s asks: %s", s.server.Name, output.Short(clean(params.Message), 1500))
	if len(fields) == 0 {
		fields = []field{{kind: "confirm"}}
	}
	questions := make([]tools.Question, len(fields))
	for i := range fields {
		questions[i] = fields[i].question(message)
	}
	answers, err := call.out.Ask(ctx, questions)
	if err != nil {
		return decline(err.Error())
	}
	content := make(map[string]any)
	for i := range fields {
		value, given, err := fields[i].value(answers[i])
		switch {
		case err != nil:
			return decline(err.Error())
		case fields[i].kind == "confirm" && value != true:
			return decline("the person said no")
		case given && fields[i].kind != "confirm":
			content[fields[i].key] = value
		case !given && fields[i].required:
			return decline(fields[i].key + " was not answered")
		}
	}
	return &sdk.ElicitResult{Action: "accept", Content: content}, nil
}

// declined notes that the server was not given what it asked for: in its log, and for the
// model behind the call, or behind every call that runs where it is not known which.
func (s *Source) declined(call *running, why string) {
	s.log.printf("it asked for something, which was declined: %s", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.calls {
		if (call == nil || one == call) && len(one.declined) < maxDeclinations {
			one.declined = append(one.declined, output.Short(clean(why), 300))
		}
	}
}

// declinations returns what a model is told of what was declined while its call ran.
func (s *Source) declinations(call *running) (notes []tools.Content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, why := range call.declined {
		notes = append(notes, tools.Text(fmt.Sprintf("[%s asked the user for something, which was declined: %s]", s.server.Name, strings.TrimSuffix(why, "."))))
	}
	return notes
}

// asking returns the call for which the server asks, or why that is not known.
func (s *Source) asking() (*running, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest int64
	for token, call := range s.calls {
		if first := s.calls[newest]; first != nil && !sameAsker(&first.env, &call.env) {
			return nil, "calls of several sessions run, and it does not say for which it asks"
		}
		newest = max(newest, token)
	}
	if newest == 0 {
		return nil, "no call runs"
	}
	return s.calls[newest], ""
}

// sameAsker reports whether the same person is behind two calls. Ids of sessions are those
// of their owner: others have sessions of the same id.
func sameAsker(a, b *tools.Env) bool {
	return a.Tenant == b.Tenant && a.Principal == b.Principal && a.SessionID == b.SessionID && a.OnBehalfOf == b.OnBehalfOf
}

// A field is one thing that a server asks for.
type field struct {
	key, title, description string
	kind                    string // of JSON, or confirm
	required, many          bool
	options                 []string
}

// fieldsOf returns what a schema asks for.
func fieldsOf(requested any) ([]field, error) {
	if requested == nil {
		return nil, nil
	}
	text, err := json.Marshal(requested)
	if err != nil {
		return nil, err
	}
	type choice struct {
		Enum  []string                 `json:"enum"`
		OneOf []struct{ Const string } `json:"oneOf"`
		AnyOf []struct{ Const string } `json:"anyOf"`
	}
	var form struct {
		Properties map[string]struct {
			choice
			Type        string  `json:"type"`
			Title       string  `json:"title"`
			Description string  `json:"description"`
			Items       *choice `json:"items"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("its form cannot be shown: %w", err)
	}
	if len(form.Properties) > maxFields {
		return nil, fmt.Errorf("its form has %d fields: at most %d are shown", len(form.Properties), maxFields)
	}
	var fields []field
	for key, p := range form.Properties {
		f := field{
			key: key, title: output.Short(oneLine(p.Title), 60), description: output.Short(clean(p.Description), 500), kind: p.Type,
			required: slices.Contains(form.Required, key), many: p.Type == "array",
		}
		from := p.choice
		if f.many {
			if p.Items == nil {
				return nil, fmt.Errorf("its field %.40q is a list of whatever", key)
			}
			from = *p.Items
		}
		f.options = append(f.options, from.Enum...)
		for _, o := range slices.Concat(from.OneOf, from.AnyOf) {
			f.options = append(f.options, o.Const)
		}
		if len(f.options) > 40 {
			return nil, fmt.Errorf("its field %.40q has %d choices: at most 40 are shown", key, len(f.options))
		}
		if f.kind == "boolean" {
			f.options = []string{yes, no}
		}
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.key, b.key) })
	return fields, nil
}

const yes, no = "yes", "no"

// question returns the question for the field.
func (f *field) question(message string) tools.Question {
	q := tools.Question{Header: output.Short(oneLine(f.title), 30), Text: message, Multiple: f.many, OptionsOnly: len(f.options) > 0}
	if f.kind == "confirm" {
		q.Options, q.OptionsOnly = []tools.Option{{Label: yes}, {Label: no}}, true
		return q
	}
	if q.Header == "" {
		q.Header = output.Short(oneLine(f.key), 30)
	}
	q.Text += "\n\n" + oneLine(f.key)
	if f.description != "" {
		q.Text += ": " + f.description
	}
	if !f.required {
		q.Text += " (may be left out)"
	}
	for _, option := range f.options {
		q.Options = append(q.Options, tools.Option{Label: output.Short(option, 200)})
	}
	return q
}

// value returns what a person answered, as the type that the server wants.
func (f *field) value(answer tools.Answer) (value any, given bool, err error) {
	text := strings.TrimSpace(answer.Text)
	if len(answer.Chosen) > 0 {
		text = answer.Chosen[0]
	}
	if f.many {
		return answer.Chosen, len(answer.Chosen) > 0, nil
	}
	if text == "" {
		return nil, false, nil
	}
	switch f.kind {
	case "boolean", "confirm":
		return text == yes, true, nil
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, false, fmt.Errorf("%s wants an integer", f.key)
		}
		return n, true, nil
	case "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, false, fmt.Errorf("%s wants a number", f.key)
		}
		return n, true, nil
	}
	return text, true, nil
}
