// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// prompt returns a part of a system prompt that explains tools, and how calls of them are
// written, to a model that was not taught.
func (d *Dialect) prompt(tools []Tool) string {
	var b strings.Builder
	b.WriteString("# Tools\n\nYou can call tools. Write a call exactly like this, with the name of a tool and its arguments:\n\n")
	example := Tool{Name: "tool_name", Schema: json.RawMessage(`{"properties":{"argument":{"type":"string"}}}`)}
	b.Write(d.Calls([]Tool{example}, "", []Call{{ID: "call_1", Tool: "tool_name", Input: json.RawMessage(`{"argument":"value"}`)}}))
	b.WriteString(`

You may write several calls in one message. Then stop: the results come in the next message. A call in a block of code
or in quotation marks is not run, so write calls outside of them, and speak of calls only inside.`)
	for _, s := range d.syntaxes {
		if s.value[1] != "" {
			fmt.Fprintf(&b, " Write values as\nthey are, without escapes; only a value that has %s in it is written as a JSON string, with \\u003c for <.", s.value[1])
			break
		}
	}
	fmt.Fprintf(&b, "\n\nA result looks like this:\n\n%s\n", d.result(Result{CallID: "call_1", Tool: "tool_name", Content: []Content{Text("what the tool says")}}))
	for _, t := range tools {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nArguments: %s\n", t.Name, strings.TrimSpace(t.Description), compact(t.Schema))
	}
	return b.String()
}

func compact(schema json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, objectOf(schema)) != nil {
		return "{}"
	}
	return b.String()
}
