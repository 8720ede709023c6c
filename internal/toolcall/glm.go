// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "strings"

// glm is the form of GLM 4: keys and values take turns.
//
//	<tool_call>read_file
//	<arg_key>path</arg_key>
//	<arg_value>a.txt</arg_value>
//	</tool_call>
var glm = &Dialect{
	Name: "glm", Title: "GLM 4", Text: true,
	syntaxes: []*syntax{{
		open: "<tool_call>", close: "</tool_call>",
		begins: beginsNamed("\n", "\r", "<arg_key>", "</tool_call>"),
		value:  [2]string{"<arg_value>", "</arg_value>"}, again: "<tool_call>",
		json: func([]byte) bool { return false },
		read: func(body string, closed bool) (d draft, err error) {
			d.closed = closed
			d.name, body, _ = strings.Cut(strings.TrimSpace(body)+"\n", "\n")
			d.name, _, _ = strings.Cut(d.name, "<")
			if !closed {
				return d, errCutOff
			}
			return d.withArguments(body)
		},
	}},
	write: func(tool *Tool, c Call) string {
		var b strings.Builder
		b.WriteString("<tool_call>" + c.Tool + "\n")
		writeValues(tool, c, glmMarks, func(key, value string, _ valueKind) {
			b.WriteString("<arg_key>" + key + "</arg_key>\n<arg_value>" + value + "</arg_value>\n")
		})
		return b.String() + "</tool_call>"
	},
	result: toolResponse,
}

var glmMarks = []string{"</arg_value>", "<tool_call>"}

func (d draft) withArguments(text string) (draft, error) {
	d.pairs = []pair{}
	for {
		_, left, ok := strings.Cut(text, "<arg_key>")
		if !ok {
			return d, nil
		}
		key, left, _ := strings.Cut(left, "</arg_key>")
		_, left, ok = strings.Cut(left, "<arg_value>")
		if !ok {
			return d, errCutOff
		}
		value, left, _ := strings.Cut(left, "</arg_value>")
		d.pairs, text = append(d.pairs, valuePair(key, value, glmMarks)), left
	}
}
