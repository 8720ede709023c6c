// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"encoding/json"
	"strings"
)

// bedrock is Converse and ConverseStream of Amazon Bedrock.
var bedrock = &Dialect{
	Name: "bedrock", Title: "Bedrock Converse",
	tools: func(tools []Tool, _ Options) any {
		return fields("tools", each(tools, func(t Tool) object {
			return fields("toolSpec", fields("name", t.Name, "description", optional(t.Description), "inputSchema", fields("json", objectOf(t.Schema))))
		}))
	},
	results: func(results []Result) any {
		return fields("role", "user", "content", each(results, func(r Result) object {
			status := "success"
			if r.Failed {
				status = "error"
			}
			return fields("toolResult", fields("toolUseId", r.CallID, "content", each(r.Content, func(c Content) object {
				if image, ok := c.(Image); ok {
					return fields("image", fields("format", strings.TrimPrefix(image.MediaType, "image/"), "source", fields("bytes", image.Data)))
				}
				return fields("text", c)
			}), "status", status))
		}))
	},
	calls: func(text string, calls []Call) any {
		content := []object{}
		if text != "" {
			content = append(content, fields("text", text))
		}
		for _, c := range calls {
			content = append(content, fields("toolUse", fields("toolUseId", c.ID, "name", c.Tool, "input", c.Input)))
		}
		return fields("output", fields("message", fields("role", "assistant", "content", content)), "stopReason", "tool_use")
	},
	knows: func(o object) bool {
		output, _ := parseObject(o.get("output"))
		return output.get("message") != nil || o.get("messageStart", "contentBlockStart", "contentBlockDelta") != nil
	},
	event: func(s *stream, text []byte) {
		type use struct {
			ToolUseID, Name string
			Input           json.RawMessage
		}
		e, ok := decodeEvent[struct {
			Output struct {
				Message struct {
					Content []struct {
						Text    string
						ToolUse *use
					}
				}
			}
			ContentBlockStart *struct {
				ContentBlockIndex int
				Start             struct{ ToolUse *use }
			}
			ContentBlockDelta *struct {
				ContentBlockIndex int
				Delta             struct {
					Text    string
					ToolUse struct{ Input string }
				}
			}
			ContentBlockStop *struct{ ContentBlockIndex int }
		}](text)
		if !ok {
			return
		}
		for _, c := range e.Output.Message.Content {
			s.say(c.Text)
			if c.ToolUse != nil {
				s.call(c.ToolUse.ToolUseID, c.ToolUse.Name, c.ToolUse.Input)
			}
		}
		if b := e.ContentBlockStart; b != nil && b.Start.ToolUse != nil {
			s.begin(b.ContentBlockIndex, b.Start.ToolUse.ToolUseID, b.Start.ToolUse.Name)
		}
		if b := e.ContentBlockDelta; b != nil {
			s.say(b.Delta.Text)
			s.argue(s.at(b.ContentBlockIndex), b.Delta.ToolUse.Input)
		}
		if b := e.ContentBlockStop; b != nil {
			s.end(s.at(b.ContentBlockIndex))
		}
	},
}
