// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

// llama is the form of Llama 3.
//
//	<function=read_file>{"path": "a.txt"}</function>
var llama = &Dialect{
	Name: "llama", Title: "Llama <function=…>", Text: true,
	syntaxes: []*syntax{functionSyntax("<function=", beginsNamed(">"))},
	write: func(_ *Tool, c Call) string {
		return "<function=" + c.Tool + ">" + quoted(c.Input) + "</function>"
	},
	result: func(r Result) string { return enclose("<function_result>", r.failable(), "</function_result>") },
}
