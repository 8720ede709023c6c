// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"encoding/json"
	"strings"
)

// anthropic is Anthropic's Messages API. Several results are one message.
var anthropic = &Dialect{
	Name: "anthropic", Title: "Anthropic Messages",
	tools: func(tools []Tool, _ Options) any {
		return each(tools, func(t Tool) object {
			return fields("name", t.Name, "description", t.Description, "input_schema", objectOf(t.Schema))
		})
	},
	results: func(results []Result) any {
		return fields("role", "user", "content", each(results, func(r Result) object {
			failed := any(nil)
			if r.Failed {
				failed = true
			}
			return fields("type", "tool_result", "tool_use_id", r.CallID, "content", each(r.Content, func(c Content) object {
				if image, ok := c.(Image); ok {
					return fields("type", "image", "source", fields("type", "base64", "media_type", image.MediaType, "data", image.Data))
				}
				return fields("type", "text", "text", c)
			}), "is_error", failed)
		}))
	},
	calls: func(text string, calls []Call) any {
		content := []object{}
		if text != "" {
			content = append(content, fields("type", "text", "text", text))
		}
		for _, c := range calls {
			content = append(content, fields("type", "tool_use", "id", c.ID, "name", c.Tool, "input", c.Input))
		}
		return fields("type", "message", "role", "assistant", "content", content, "stop_reason", "tool_use")
	},
	knows: func(o object) bool {
		kind := o.text("type")
		return kind == "message" || kind == "ping" || strings.HasPrefix(kind, "message_") || strings.HasPrefix(kind, "content_block_") ||
			kind == "" && isAnthropicTurn(o)
	},
	event: func(s *stream, text []byte) {
		type block struct {
			Type, Text, ID, Name string
			Input                json.RawMessage
		}
		e, ok := decodeEvent[struct {
			Type         string
			Index        int
			Content      []block
			ContentBlock block `json:"content_block"`
			Delta        struct {
				Type, Text  string
				PartialJSON string `json:"partial_json"`
			}
			Error struct{ Message string }
		}](text)
		if !ok {
			return
		}
		switch e.Type {
		case "message", "": // a turn of a conversation has no type
			for _, b := range e.Content {
				switch b.Type {
				case "text":
					s.say(b.Text)
				case "tool_use":
					s.call(b.ID, b.Name, b.Input)
				}
			}
		case "content_block_start":
			s.say(e.ContentBlock.Text)
			if e.ContentBlock.Type == "tool_use" {
				s.begin(e.Index, e.ContentBlock.ID, e.ContentBlock.Name)
			}
		case "content_block_delta":
			s.say(e.Delta.Text)
			s.argue(s.at(e.Index), e.Delta.PartialJSON)
		case "content_block_stop":
			s.end(s.at(e.Index))
		case "error":
			s.failed(e.Error.Message)
		}
	},
}

// isAnthropicTurn reports whether an object is the turn of a model as requests have it. A
// message of OpenAI has its calls beside the content, and one of Bedrock no types in it.
func isAnthropicTurn(o object) bool {
	var blocks []struct{ Type string }
	if o.text("role") != "assistant" || o.get("tool_calls") != nil || json.Unmarshal(o.get("content"), &blocks) != nil {
		return false
	}
	for _, b := range blocks {
		switch b.Type {
		case "text", "tool_use", "thinking", "redacted_thinking":
		default:
			return false
		}
	}
	return len(blocks) > 0
}

// each returns what f makes of each item; never nil.
func each[T, U any](items []T, f func(T) U) []U {
	made := make([]U, len(items))
	for i, item := range items {
		made[i] = f(item)
	}
	return made
}
