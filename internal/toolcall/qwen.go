// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"strings"
)

// qwen is the form of Qwen3-Coder: a tag for each value, which is written as it is.
//
//	<tool_call>
//	<function=read_file>
//	<parameter=path>
//	a.txt
//	</parameter>
//	</function>
//	</tool_call>
var qwen = &Dialect{
	Name: "qwen", Title: "Qwen3-Coder", Text: true,
	syntaxes: []*syntax{functionSyntax("<tool_call>", beginsWith("<function="))},
	write: func(tool *Tool, c Call) string {
		var b strings.Builder
		b.WriteString("<tool_call>\n<function=" + c.Tool + ">\n")
		writeValues(tool, c, functionMarks, func(key, value string, _ valueKind) {
			b.WriteString("<parameter=" + key + ">\n" + value + "\n</parameter>\n")
		})
		b.WriteString("</function>\n</tool_call>")
		return b.String()
	},
	result: toolResponse,
}

var functionMarks = []string{"</parameter>", "<function="}

// functionSyntax is <function=…>, with JSON or parameters inside.
func functionSyntax(open string, begins func([]byte) answer) *syntax {
	return &syntax{
		open: open, close: "</function>", begins: begins,
		value: [2]string{"<parameter=", "</parameter>"}, again: "<function=",
		json: func(before []byte) bool {
			text := bytes.TrimRight(before, " \t\r\n") // most braces are done with that
			return bytes.HasSuffix(text, []byte(">")) && !bytes.Contains(text, []byte("</"))
		},
		rest: []string{"</tool_call>", "</action>"},
		read: readFunction,
	}
}

func readFunction(body string, closed bool) (d draft, err error) {
	d.closed = closed
	name, left, ok := strings.Cut(strings.TrimPrefix(body, "<function="), ">")
	d.name = strings.Trim(strings.TrimSpace(name), `"`)
	if !ok || !closed {
		return d, errCutOff
	}
	if left = strings.TrimSpace(left); strings.HasPrefix(left, "{") {
		d.input = left
		return d, nil
	}
	d.pairs, err = readValues(left, "<parameter=", "</parameter>", functionMarks, func(tag string) (string, valueKind) {
		return strings.Trim(tag, `"`), bySchema
	})
	return d, err
}

// readValues reads values that are written as they are, each after a tag that has its
// key. A line break at both ends belongs to the tags.
func readValues(text, open, close string, marks []string, key func(tag string) (string, valueKind)) ([]pair, error) {
	pairs := []pair{}
	for {
		_, left, ok := strings.Cut(text, open)
		if !ok {
			return pairs, nil
		}
		tag, left, ok := strings.Cut(left, ">")
		if !ok {
			return nil, errCutOff
		}
		value, left, _ := strings.Cut(left, close)
		if strings.HasPrefix(value, "\n") && strings.HasSuffix(value, "\n") && len(value) > 1 {
			value = value[1 : len(value)-1]
		}
		name, kind := key(tag)
		p := valuePair(name, value, marks)
		if kind != bySchema {
			p = pair{name, value, kind}
		}
		pairs, text = append(pairs, p), left
	}
}
