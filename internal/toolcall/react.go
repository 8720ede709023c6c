// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"strings"
)

// react is the form of prompts after ReAct: a call is an action, and its result is an
// observation.
//
//	Action: read_file
//	Action Input: {"path": "a.txt"}
var react = &Dialect{
	Name: "react", Title: "ReAct", Text: true,
	syntaxes: []*syntax{
		{open: "Action:", line: true, begins: beginsAction(true), json: after(actionInput), read: readAction},
		{open: "Action:", line: true, begins: beginsAction(false), json: func([]byte) bool { return false }, close: "\n",
			ends: func(before []byte) bool { return bytes.Contains(before, []byte(actionInput)) }, read: readAction},
	},
	write:  func(_ *Tool, c Call) string { return "Action: " + c.Tool + "\n" + actionInput + " " + quoted(c.Input) },
	result: func(r Result) string { return "Observation: " + r.failable() },
}

const actionInput = "Action Input:"

// beginsAction is for the name of a tool and the beginning of its input, which is JSON
// or a line of text.
func beginsAction(isJSON bool) func([]byte) answer {
	return func(rest []byte) answer {
		name := beginsNamed("\n", "\r\n", " \n", "  \n")(rest)
		if name != yes {
			return name
		}
		left := bytes.TrimLeft(rest[nameLength(rest):], " \r\n")
		if is := hasPrefix(left, actionInput); is != yes {
			return is
		}
		left = bytes.TrimLeft(left[len(actionInput):], " ")
		switch {
		case len(left) == 0:
			return unsure
		case (left[0] == '{') == isJSON:
			return yes
		}
		return no
	}
}

func readAction(body string, closed bool) (d draft, err error) {
	name, input, _ := strings.Cut(body, actionInput)
	return draft{name: name, input: input, line: true, closed: closed}, nil
}
