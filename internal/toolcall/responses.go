// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"encoding/json"
	"strings"
)

// responses is OpenAI's Responses API.
var responses = &Dialect{
	Name: "openai-responses", Title: "OpenAI Responses",
	tools: func(tools []Tool, options Options) any {
		return each(tools, func(t Tool) object {
			schema, isStrict := schemaFor(t, options)
			if isStrict == nil {
				isStrict = false // which is true where it is left out
			}
			return fields("type", "function", "name", t.Name, "description", t.Description, "parameters", schema, "strict", isStrict)
		})
	},
	results: func(results []Result) any {
		return each(results, func(r Result) object {
			output := any(r.failable())
			if images := r.images(); len(images) > 0 {
				parts := []object{fields("type", "input_text", "text", r.failable())}
				for _, image := range images {
					parts = append(parts, fields("type", "input_image", "detail", "auto", "image_url", image.url()))
				}
				output = parts
			}
			return fields("type", "function_call_output", "call_id", r.CallID, "output", output)
		})
	},
	calls: func(text string, calls []Call) any {
		output := []object{}
		if text != "" {
			output = append(output, fields("type", "message", "role", "assistant", "content", []object{fields("type", "output_text", "text", text)}))
		}
		for _, c := range calls {
			output = append(output, fields("type", "function_call", "call_id", c.ID, "name", c.Tool, "arguments", string(c.Input)))
		}
		return fields("object", "response", "output", output)
	},
	knows: func(o object) bool {
		return o.text("object") == "response" || strings.HasPrefix(o.text("type"), "response.")
	},
	event: func(s *stream, text []byte) {
		type item struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
			Content               []struct{ Type, Text string }
		}
		e, ok := decodeEvent[struct {
			Object, Type, Arguments string
			OutputIndex             int `json:"output_index"`
			Delta                   json.RawMessage
			Item                    item
			Output                  []item
			Response                struct{ Error *struct{ Message string } }
			Message                 string
		}](text)
		if !ok {
			return
		}
		var delta string
		json.Unmarshal(e.Delta, &delta)
		call := s.at(e.OutputIndex)
		switch e.Type {
		case "response.output_text.delta":
			s.say(delta)
		case "response.output_item.added":
			if e.Item.Type == "function_call" {
				s.argue(s.begin(e.OutputIndex, e.Item.CallID, e.Item.Name), e.Item.Arguments)
			}
		case "response.function_call_arguments.delta":
			s.argue(call, delta)
		case "response.function_call_arguments.done":
			s.endWith(call, e.Arguments)
		case "response.output_item.done":
			if e.Item.Type == "function_call" && call == nil {
				call = s.begin(e.OutputIndex, e.Item.CallID, e.Item.Name)
			}
			s.endWith(call, e.Item.Arguments)
		case "response.failed":
			if e.Response.Error != nil {
				s.failed(e.Response.Error.Message)
			}
		case "error":
			s.failed(e.Message)
		}
		for _, i := range e.Output {
			for _, c := range i.Content {
				if c.Type == "output_text" {
					s.say(c.Text)
				}
			}
			if i.Type == "function_call" {
				s.call(i.CallID, i.Name, encode(i.Arguments))
			}
		}
	},
}

// endWith says that these are all the arguments of a call.
func (s *stream) endWith(c *openCall, arguments string) {
	if c != nil && !c.done {
		c.arguments = []byte(arguments)
		s.finish(c, false)
	}
}
