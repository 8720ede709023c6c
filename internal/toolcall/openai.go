// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"encoding/base64"
	"encoding/json"
)

// openAI is OpenAI's Chat Completions API, which many others have, too. Results are
// messages of their own; pictures come in a message of the user, for tools have none.
var openAI = &Dialect{
	Name: "openai", Title: "OpenAI Chat Completions",
	tools: func(tools []Tool, options Options) any {
		return each(tools, func(t Tool) object {
			schema, isStrict := schemaFor(t, options)
			return fields("type", "function", "function",
				fields("name", t.Name, "description", t.Description, "parameters", schema, "strict", isStrict))
		})
	},
	results: func(results []Result) any {
		messages := []object{}
		pictures := []object{}
		for _, r := range results {
			messages = append(messages, fields("role", "tool", "tool_call_id", r.CallID, "content", r.failable()))
			for _, image := range r.images() {
				pictures = append(pictures, fields("type", "text", "text", "A picture of the result of "+r.CallID+":"),
					fields("type", "image_url", "image_url", fields("url", image.url())))
			}
		}
		if len(pictures) > 0 {
			messages = append(messages, fields("role", "user", "content", pictures))
		}
		return messages
	},
	calls: chatCalls,
	knows: func(o object) bool { return o.get("choices") != nil },
	event: chatEvent,
}

// schemaFor returns the schema of a tool, and whether it is strict: nil where nobody asked.
func schemaFor(t Tool, options Options) (schema json.RawMessage, isStrict any) {
	if !options.Strict {
		return objectOf(t.Schema), nil
	}
	if schema, ok := strict(t.Schema); ok {
		return schema, true
	}
	return objectOf(t.Schema), false
}

func (i Image) url() string {
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

func chatCalls(text string, calls []Call) any {
	message := fields("role", "assistant", "content", text, "tool_calls", each(calls, func(c Call) object {
		return fields("id", c.ID, "type", "function", "function", fields("name", c.Tool, "arguments", string(c.Input)))
	}))
	return fields("object", "chat.completion", "choices", []object{fields("index", 0, "message", message, "finish_reason", "tool_calls")})
}

// chatEvent reads a completion or a chunk of one. Only the first choice counts.
func chatEvent(s *stream, text []byte) {
	type message struct {
		Content   json.RawMessage
		ToolCalls []struct {
			Index    *int
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
	e, ok := decodeEvent[struct {
		Choices []struct {
			Index        int
			Message      *message
			Delta        message
			FinishReason string `json:"finish_reason"`
		}
		Error *struct{ Message string }
	}](text)
	if ok && e.Error != nil {
		s.failed(e.Error.Message)
	}
	if !ok || len(e.Choices) == 0 || e.Choices[0].Index != 0 {
		return
	}
	if m := e.Choices[0].Message; m != nil {
		s.say(chatText(m.Content))
		for _, c := range m.ToolCalls {
			s.call(c.ID, c.Function.Name, c.Function.Arguments)
		}
		return
	}
	s.say(chatText(e.Choices[0].Delta.Content))
	for i, c := range e.Choices[0].Delta.ToolCalls {
		index := i
		if c.Index != nil {
			index = *c.Index
		}
		var arguments string
		if json.Unmarshal(c.Function.Arguments, &arguments) != nil {
			arguments = string(c.Function.Arguments) // some write the object itself
		}
		call := s.at(index)
		if call == nil || c.ID != "" && call.id != "" && c.ID != call.id {
			for _, before := range s.open {
				s.end(before)
			}
			call = s.begin(index, c.ID, c.Function.Name)
		} else if call.name == "" {
			call.id, call.name = c.ID, c.Function.Name
		}
		s.argue(call, arguments)
	}
	if e.Choices[0].FinishReason != "" {
		for _, c := range s.open {
			s.end(c)
		}
	}
}

// chatText returns the text of a content: a string, or parts.
func chatText(content json.RawMessage) string {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	json.Unmarshal(content, &parts)
	for _, p := range parts {
		if p.Type == "text" {
			text += p.Text
		}
	}
	return text
}
