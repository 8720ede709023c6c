// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "encoding/json"

// mcp is the Model Context Protocol: what tools/list answers, and messages of tools/call.
var mcp = &Dialect{
	Name: "mcp", Title: "Model Context Protocol",
	tools: func(tools []Tool, _ Options) any {
		return fields("tools", each(tools, func(t Tool) object {
			return fields("name", t.Name, "description", t.Description, "inputSchema", objectOf(t.Schema))
		}))
	},
	results: func(results []Result) any {
		return each(results, func(r Result) object {
			failed := any(nil)
			if r.Failed {
				failed = true
			}
			return fields("jsonrpc", "2.0", "id", r.CallID, "result", fields("content", each(r.Content, func(c Content) object {
				if image, ok := c.(Image); ok {
					return fields("type", "image", "data", image.Data, "mimeType", image.MediaType)
				}
				return fields("type", "text", "text", c)
			}), "isError", failed))
		})
	},
	calls: func(_ string, calls []Call) any {
		return each(calls, func(c Call) object {
			return fields("jsonrpc", "2.0", "id", c.ID, "method", "tools/call", "params", fields("name", c.Tool, "arguments", c.Input))
		})
	},
	knows: func(o object) bool { return o.text("jsonrpc") == "2.0" },
	event: func(s *stream, text []byte) {
		e, ok := decodeEvent[struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}](text)
		if !ok || e.Method != "tools/call" {
			return
		}
		var id string
		if json.Unmarshal(e.ID, &id) != nil {
			id = string(e.ID) // a number
		}
		s.call(id, e.Params.Name, e.Params.Arguments)
	},
}
