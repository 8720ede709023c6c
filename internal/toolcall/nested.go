// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"errors"
	"strings"
)

// nested is the form that models without tool calling are taught: tags, with JSON in
// them.
//
//	<tool_call>
//	<name>read_file</name>
//	<arguments>{"path": "a.txt"}</arguments>
//	</tool_call>
var nested = &Dialect{
	Name: "xml", Title: "<tool_call> with tags inside", Text: true,
	syntaxes: []*syntax{{
		open: "<tool_call>", close: "</tool_call>",
		begins: beginsWith("<name>", "<tool_name>"),
		json:   after("<arguments>", "<parameters>", "<args>", "<input>"),
		read:   readNested,
	}},
	write: func(_ *Tool, c Call) string {
		return "<tool_call>\n<name>" + c.Tool + "</name>\n<arguments>" + quoted(c.Input) + "</arguments>\n</tool_call>"
	},
	result: func(r Result) string {
		success := "true"
		if r.Failed {
			success = "false"
		}
		return enclose(`<tool_result name="`+r.Tool+`" success="`+success+`">`, r.text(), "</tool_result>")
	},
}

var errCutOff = errors.New("it ends before it is complete")

func readNested(body string, closed bool) (d draft, err error) {
	d.closed = closed
	_, left, _ := strings.Cut(body, ">")
	d.name, left, _ = strings.Cut(left, "<")
	for _, tag := range []string{"<arguments>", "<parameters>", "<args>", "<input>"} {
		if _, arguments, ok := strings.Cut(left, tag); ok {
			arguments = strings.TrimSpace(arguments)
			n, state := new(jsonScan).scan([]byte(arguments))
			if state != jsonEnded || arguments[0] != '{' { // up to the next tag, whichever it is
				arguments, _, _ = strings.Cut(arguments, "</")
				n = len(arguments)
			}
			d.input = arguments[:n]
			return d, nil
		}
	}
	if !closed {
		return d, errCutOff
	}
	return d, nil
}

// enclose returns the text of a result between its tags. What would end it is made
// harmless.
func enclose(open, text, close string) string {
	end, _, _ := strings.Cut(close, ">")
	return open + "\n" + strings.ReplaceAll(text, end, strings.Replace(end, "/", `\/`, 1)) + "\n" + close
}

// toolResponse is how the results of several families of models are written.
func toolResponse(r Result) string {
	return enclose("<tool_response>", r.failable(), "</tool_response>")
}
