// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "encoding/json"

// gemini is Google's generateContent. Calls come whole, also in a stream.
var gemini = &Dialect{
	Name: "gemini", Title: "Gemini",
	tools: func(tools []Tool, _ Options) any {
		return []object{fields("functionDeclarations", each(tools, func(t Tool) object {
			declaration := fields("name", t.Name, "description", t.Description)
			if schema := geminiSchema(t.Schema); schema != nil {
				declaration.set("parameters", schema)
			}
			return declaration
		}))}
	},
	results: func(results []Result) any {
		parts := []object{}
		for _, r := range results {
			key := "result"
			if r.Failed {
				key = "error"
			}
			parts = append(parts, fields("functionResponse", fields("id", optional(r.CallID), "name", r.Tool, "response", fields(key, r.text()))))
			for _, image := range r.images() {
				parts = append(parts, fields("inlineData", fields("mimeType", image.MediaType, "data", image.Data)))
			}
		}
		return fields("role", "user", "parts", parts)
	},
	calls: func(text string, calls []Call) any {
		parts := []object{}
		if text != "" {
			parts = append(parts, fields("text", text))
		}
		for _, c := range calls {
			parts = append(parts, fields("functionCall", fields("id", optional(c.ID), "name", c.Tool, "args", c.Input)))
		}
		return fields("candidates", []object{fields("content", fields("role", "model", "parts", parts), "finishReason", "STOP")})
	},
	knows: func(o object) bool { return o.get("candidates") != nil },
	event: func(s *stream, text []byte) {
		e, ok := decodeEvent[struct {
			Candidates []struct {
				Index   int
				Content struct {
					Parts []struct {
						Text         string
						Thought      bool
						FunctionCall *struct {
							ID, Name string
							Args     json.RawMessage
						}
					}
				}
				FinishReason, FinishMessage string
			}
			Error *struct{ Message string }
		}](text)
		if ok && e.Error != nil {
			s.failed(e.Error.Message)
		}
		if !ok || len(e.Candidates) == 0 || e.Candidates[0].Index != 0 {
			return
		}
		for _, part := range e.Candidates[0].Content.Parts {
			if !part.Thought {
				s.say(part.Text)
			}
			if c := part.FunctionCall; c != nil {
				s.call(c.ID, c.Name, c.Args)
			}
		}
		if e.Candidates[0].FinishReason == "MALFORMED_FUNCTION_CALL" {
			s.pieces = append(s.pieces, broken("", "", []byte(e.Candidates[0].FinishMessage), "the provider says that it is malformed"))
		}
	},
}

// optional returns a text for [fields]: nil where it is empty.
func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}
