// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "encoding/json"

// ollama is the chat API of Ollama: arguments are objects, calls have no ids, and a stream
// is one JSON object a line.
var ollama = &Dialect{
	Name: "ollama", Title: "Ollama",
	tools: chatTools,
	results: func(results []Result) any {
		return each(results, func(r Result) object {
			message := fields("role", "tool", "tool_name", r.Tool, "content", r.failable())
			if images := r.images(); len(images) > 0 {
				message.set("images", each(images, func(i Image) []byte { return i.Data }))
			}
			return message
		})
	},
	calls: func(text string, calls []Call) any {
		return fields("message", fields("role", "assistant", "content", text, "tool_calls", each(calls, func(c Call) object {
			return fields("function", fields("name", c.Tool, "arguments", c.Input))
		})), "done", true)
	},
	knows: func(o object) bool { return o.get("message") != nil && o.get("done") != nil },
	event: func(s *stream, text []byte) {
		e, ok := decodeEvent[struct {
			Message struct {
				Content   string
				ToolCalls []struct {
					ID       string
					Function struct {
						Name      string
						Arguments json.RawMessage
					}
				} `json:"tool_calls"`
			}
			Error string
		}](text)
		if !ok {
			return
		}
		s.say(e.Message.Content)
		for _, c := range e.Message.ToolCalls {
			s.call(c.ID, c.Function.Name, c.Function.Arguments)
		}
		if e.Error != "" {
			s.failed(e.Error)
		}
	},
}
