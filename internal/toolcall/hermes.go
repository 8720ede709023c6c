// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

// hermes is the form of Hermes, Qwen 2.5 and many others: JSON in a tag.
//
//	<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>
var hermes = &Dialect{
	Name: "hermes", Title: "<tool_call> with JSON inside", Text: true,
	syntaxes: []*syntax{
		{open: "<tool_call>", begins: beginsJSON, read: readObjectCall, rest: []string{"}", "</tool_call>"}},
		{open: "<longcat_tool_call>", begins: beginsJSON, read: readObjectCall, rest: []string{"}", "</longcat_tool_call>"}},
	},
	write: func(_ *Tool, c Call) string {
		return "<tool_call>\n" + quoted(fields("name", c.Tool, "arguments", c.Input)) + "\n</tool_call>"
	},
	result: toolResponse,
}
