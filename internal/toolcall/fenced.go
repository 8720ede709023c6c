// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

// fenced is JSON in a block of code that is marked as a call. In this dialect blocks
// that are marked as JSON are calls, too, if they have a name and arguments.
//
//	```tool_call
//	{"name": "read_file", "arguments": {"path": "a.txt"}}
//	```
var fenced = &Dialect{
	Name: "fenced", Title: "JSON in a fence", Text: true,
	syntaxes: []*syntax{fence("tool_call", false), fence("tool_use", false), fence("function_call", false), jsonFence},
	write: func(_ *Tool, c Call) string {
		return "```tool_call\n" + quoted(fields("name", c.Tool, "arguments", c.Input)) + "\n```"
	},
	result: func(r Result) string { return enclose("<tool_result>", r.failable(), "</tool_result>") },
}

var jsonFence = fence("json", true)

func fence(info string, maybe bool) *syntax {
	return &syntax{open: "```" + info, line: true, begins: beginsJSON, rest: []string{"```"}, read: func(body string, closed bool) (draft, error) {
		d, err := readObjectCall(body, closed)
		d.maybe = maybe
		return d, err
	}}
}
