// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "strings"

// mistral is the API of Mistral: that of OpenAI, but that results have the name of their
// tool and may have pictures.
var mistral = &Dialect{
	Name: "mistral", Title: "Mistral",
	tools: chatTools,
	results: func(results []Result) any {
		return each(results, func(r Result) object {
			content := any(r.failable())
			if images := r.images(); len(images) > 0 {
				parts := []object{fields("type", "text", "text", r.failable())}
				for _, image := range images {
					parts = append(parts, fields("type", "image_url", "image_url", image.url()))
				}
				content = parts
			}
			return fields("role", "tool", "tool_call_id", r.CallID, "name", r.Tool, "content", content)
		})
	},
	calls: chatCalls,
	event: chatEvent,
}

func chatTools(tools []Tool, _ Options) any {
	return each(tools, func(t Tool) object {
		return fields("type", "function", "function", fields("name", t.Name, "description", t.Description, "parameters", objectOf(t.Schema)))
	})
}

// mistralText is what the models of Mistral write: a list of calls as JSON, or each with
// its name before its arguments.
//
//	[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "a.txt"}}]
//	[TOOL_CALLS]read_file[ARGS]{"path": "a.txt"}
var mistralText = &Dialect{
	Name: "mistral-text", Title: "Mistral [TOOL_CALLS]", Text: true,
	syntaxes: []*syntax{
		{open: "[TOOL_CALLS]", begins: beginsJSON, read: readObjectCall, rest: []string{"</s>"}},
		{open: "[TOOL_CALLS]", begins: beginsNamed("[ARGS]", "{", "[CALL_ID]"), json: func(before []byte) bool {
			return nameLength(before) == len(before) || strings.HasSuffix(string(before), "[ARGS]")
		}, read: func(body string, closed bool) (draft, error) {
			name := body[:nameLength([]byte(body))]
			id, arguments, _ := strings.Cut(body[len(name):], "[ARGS]")
			if arguments == "" {
				id, arguments = "", id
			}
			return draft{id: strings.TrimPrefix(id, "[CALL_ID]"), name: name, input: arguments, closed: closed}, nil
		}, rest: []string{"</s>"}},
	},
	write: func(_ *Tool, c Call) string {
		return "[TOOL_CALLS]" + c.Tool + "[ARGS]" + quoted(c.Input)
	},
	result: func(r Result) string {
		return "[TOOL_RESULTS]" + quoted(fields("name", r.Tool, "content", r.failable())) + "[/TOOL_RESULTS]"
	},
}

// readObjectCall reads a call that is a JSON object, as many models write it: with the
// name and the arguments, under a key of their own or not.
func readObjectCall(body string, closed bool) (d draft, err error) {
	d.closed = closed
	fixed, err := repair(body, closed)
	if err != nil {
		return d, err
	}
	o, err := parseObject([]byte(fixed))
	if err != nil {
		return d, err
	}
	d.id = o.text("id", "call_id", "tool_call_id")
	if inner, err := parseObject(o.get("function", "tool_call", "tool_use")); err == nil {
		o = inner
	}
	d.name = o.text("name", "tool", "tool_name", "function")
	if input := o.get("arguments", "parameters", "input", "args"); input != nil {
		d.input = string(input)
	}
	if d.name == "" {
		return d, errNoName
	}
	return d, nil
}
