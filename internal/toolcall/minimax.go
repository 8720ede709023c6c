// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

// minimax is the form of MiniMax, and without its prefix that of older models of
// Anthropic.
//
//	<minimax:tool_call>
//	<invoke name="read_file">
//	<parameter name="path">a.txt</parameter>
//	</invoke>
//	</minimax:tool_call>
var minimax = &Dialect{
	Name: "minimax", Title: "MiniMax", Text: true,
	syntaxes: invokeSyntaxes("", "<minimax:tool_call>", "<function_calls>"),
	wrap:     [2]string{"<minimax:tool_call>", "</minimax:tool_call>"},
	write: func(tool *Tool, c Call) string {
		return writeInvoke(tool, c, "", func(valueKind) string { return "" })
	},
	result: func(r Result) string { return enclose("<response>", r.failable(), "</response>") },
}
