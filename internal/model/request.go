// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/toolcall"
)

// A format is the wire format of a provider.
type format struct {
	url, path, models string            // base of the provider; where below it is asked, and where models are listed
	key               [2]string         // the header that the key goes into, and what is before it
	headers           map[string]string // beside those of every request

	body  func(*Endpoint, *Request, []Message) map[string]any
	event func(*reading, []byte) error
}

var formats = map[string]*format{"anthropic": &anthropic, "openai": &openAI}

// render returns the body of a request.
func (e *Endpoint) render(r *Request) ([]byte, error) {
	messages, err := settled(r.Messages)
	if err != nil {
		return nil, err
	}
	body := maps.Clone(e.spec.Parameters)
	if body == nil {
		body = make(map[string]any)
	}
	maps.Copy(body, e.format.body(e, r, messages))
	return encode(body)
}

func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// settled returns a conversation as every provider takes it: sides take turns, nothing is
// empty, and the results of the calls of a message are in the next one, in their order.
func settled(messages []Message) ([]Message, error) {
	var list []Message
	for _, m := range messages {
		if strings.TrimSpace(m.Text) == "" {
			m.Text = ""
		}
		switch n := len(list); {
		case m.Text == "" && len(m.Calls) == 0 && len(m.Results) == 0:
		case n > 0 && list[n-1].FromModel == m.FromModel:
			before := &list[n-1]
			before.Text = strings.TrimSpace(before.Text + "\n\n" + m.Text)
			before.Calls = slices.Concat(before.Calls, m.Calls)
			before.Results = slices.Concat(before.Results, m.Results)
		default:
			list = append(list, m)
		}
	}
	if len(list) == 0 || list[0].FromModel {
		return nil, errors.New("a conversation begins with what the model is told, and there is nothing")
	}
	if last := list[len(list)-1]; len(last.Calls) > 0 {
		list = append(list, Message{})
	}
	var calls []toolcall.Call // of the message before
	for i := range list {
		m := &list[i]
		if m.FromModel {
			m.Calls = slices.Clone(m.Calls)
			for j := range m.Calls {
				m.Calls[j] = sendable(m.Calls[j])
			}
			if len(m.Results) > 0 {
				return nil, errors.New("there are results in a message of the model")
			}
			calls = m.Calls
			continue
		}
		if len(m.Calls) > 0 {
			return nil, errors.New("there are calls in a message that the model is told")
		}
		results, err := resultsOf(calls, m.Results)
		if err != nil {
			return nil, err
		}
		m.Results, calls = results, nil
	}
	return list, nil
}

// resultsOf returns the results of calls, in their order.
func resultsOf(calls []toolcall.Call, given []toolcall.Result) ([]toolcall.Result, error) {
	results := make([]toolcall.Result, len(calls))
	for i, c := range calls {
		results[i] = toolcall.Result{CallID: c.ID, Tool: c.Tool, Failed: true, Content: []toolcall.Content{toolcall.Text("There is no result: the call was not finished.")}}
	}
	for _, r := range given {
		i := slices.IndexFunc(calls, func(c toolcall.Call) bool { return c.ID == sendableID(r.CallID) })
		if i < 0 {
			return nil, fmt.Errorf("there is a result of call %.64q, which the message before does not make", r.CallID)
		}
		r.CallID = calls[i].ID
		results[i] = r
	}
	return results, nil
}

// sendable returns a call as providers take it back: what a model wrote need not be.
func sendable(c toolcall.Call) toolcall.Call {
	c.ID = sendableID(c.ID)
	if c.Tool = noName.ReplaceAllString(c.Tool, "_"); c.Tool == "" {
		c.Tool = "unknown"
	}
	c.Tool = c.Tool[:min(len(c.Tool), 64)]
	if input := bytes.TrimSpace(c.Input); len(input) == 0 || input[0] != '{' || !json.Valid(input) {
		c.Input = json.RawMessage("{}")
	}
	return c
}

func sendableID(id string) string { return noName.ReplaceAllString(id, "_") }

var noName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// inText returns a conversation for a model that writes calls in its text.
func (e *Endpoint) inText(r *Request, messages []Message) (system string, list []Message) {
	system = r.System
	if len(r.Tools) > 0 {
		system = strings.TrimSpace(system + "\n\n" + string(e.text.Tools(r.Tools, toolcall.Options{})))
	}
	for _, m := range messages {
		switch {
		case len(m.Calls) > 0:
			m.Text = string(e.text.Calls(r.Tools, m.Text, m.Calls))
		case len(m.Results) > 0:
			m.Text = strings.TrimSpace(string(e.text.Results(m.Results)) + "\n\n" + m.Text)
		}
		list = append(list, Message{FromModel: m.FromModel, Text: m.Text})
	}
	return system, list
}

// anthropic is Anthropic's Messages API, in the version that everybody has who has that API;
// headers of the table can name a later one.
var anthropic = format{
	url: "https://api.anthropic.com", path: "/v1/messages", models: "/v1/models",
	key: [2]string{"X-Api-Key", ""}, headers: map[string]string{"Anthropic-Version": "2023-06-01"},
	body:  anthropicBody,
	event: anthropicEvent,
}

// anthropicBody marks what the next request has as well, for the cache of the provider:
// tools and system, and the last two things that the model was told. The one before the
// last is marked since the provider looks for what it has only a few blocks back.
func anthropicBody(e *Endpoint, r *Request, messages []Message) map[string]any {
	body := map[string]any{"model": e.spec.Model, "max_tokens": e.spec.MaxTokens, "stream": true}
	system := r.System
	if e.text != nil {
		system, messages = e.inText(r, messages)
	} else if len(r.Tools) > 0 {
		tools := elements(e.dialect.Tools(r.Tools, toolcall.Options{}))
		if system == "" {
			tools[len(tools)-1] = cached(tools[len(tools)-1])
		}
		body["tools"] = tools
	}
	if strings.TrimSpace(system) != "" {
		body["system"] = []json.RawMessage{cached(textBlock(system))}
	}
	type message struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	}
	var list []message
	for i, m := range messages {
		next := message{Role: "user"}
		if m.FromModel {
			next.Role = "assistant"
		}
		switch {
		case len(m.Calls) > 0:
			next.Content = contentOf(e.dialect.Calls(r.Tools, m.Text, m.Calls))
		default:
			if len(m.Results) > 0 {
				next.Content = contentOf(e.dialect.Results(m.Results))
			}
			if m.Text != "" {
				next.Content = append(next.Content, textBlock(m.Text))
			}
		}
		if last := len(next.Content) - 1; !m.FromModel && i >= len(messages)-4 {
			next.Content[last] = cached(next.Content[last])
		}
		list = append(list, next)
	}
	body["messages"] = list
	return body
}

func textBlock(text string) json.RawMessage {
	block, _ := encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
	return block
}

// cached returns an object with the mark that the provider is to keep all up to it.
func cached(object json.RawMessage) json.RawMessage {
	return append(slices.Clip(object[:len(object)-1]), `,"cache_control":{"type":"ephemeral"}}`...)
}

// elements returns the parts of a list that toolcall rendered.
func elements(list []byte) (parts []json.RawMessage) {
	json.Unmarshal(list, &parts)
	return parts
}

// contentOf returns the blocks of a message that toolcall rendered.
func contentOf(message []byte) []json.RawMessage {
	var m struct{ Content []json.RawMessage }
	json.Unmarshal(message, &m)
	return m.Content
}

// openAI is OpenAI's Chat Completions API, which many others have, too.
var openAI = format{
	url: "https://api.openai.com/v1", path: "/chat/completions", models: "/models",
	key:   [2]string{"Authorization", "Bearer "},
	body:  openAIBody,
	event: openAIEvent,
}

func openAIBody(e *Endpoint, r *Request, messages []Message) map[string]any {
	body := map[string]any{"model": e.spec.Model, "stream": true, "stream_options": map[string]bool{"include_usage": true}}
	if e.spec.MaxCompletionTokens {
		body["max_completion_tokens"] = e.spec.MaxTokens
	} else {
		body["max_tokens"] = e.spec.MaxTokens
	}
	system := r.System
	if e.text != nil {
		system, messages = e.inText(r, messages)
	} else if len(r.Tools) > 0 {
		body["tools"] = elements(e.dialect.Tools(r.Tools, toolcall.Options{}))
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []any
	if strings.TrimSpace(system) != "" {
		list = append(list, message{"system", system})
	}
	for _, m := range messages {
		switch {
		case len(m.Calls) > 0:
			var completion struct {
				Choices []struct{ Message json.RawMessage }
			}
			json.Unmarshal(e.dialect.Calls(r.Tools, m.Text, m.Calls), &completion)
			list = append(list, completion.Choices[0].Message)
		case m.FromModel:
			list = append(list, message{"assistant", m.Text})
		default:
			if len(m.Results) > 0 {
				for _, result := range elements(e.dialect.Results(m.Results)) {
					list = append(list, result)
				}
			}
			if m.Text != "" {
				list = append(list, message{"user", m.Text})
			}
		}
	}
	body["messages"] = list
	return body
}
