// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "strings"

// dsml is the form of DeepSeek: a value says whether it is a string or JSON.
//
//	<｜DSML｜function_calls>
//	<｜DSML｜invoke name="read_file">
//	<｜DSML｜parameter name="path" string="true">a.txt</｜DSML｜parameter>
//	</｜DSML｜invoke>
//	</｜DSML｜function_calls>
var dsml = &Dialect{
	Name: "deepseek", Title: "DeepSeek DSML", Text: true,
	syntaxes: invokeSyntaxes("｜DSML｜", "<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
	wrap:     [2]string{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"},
	write: func(tool *Tool, c Call) string {
		return writeInvoke(tool, c, "｜DSML｜", func(kind valueKind) string {
			if kind == asText {
				return ` string="true"`
			}
			return ` string="false"`
		})
	},
	result: func(r Result) string {
		return enclose("<function_results>\n<result>", r.failable(), "</result>\n</function_results>")
	},
}

// invokeSyntaxes are <invoke name="…"> with parameters inside, by itself and after what
// wraps several.
func invokeSyntaxes(prefix string, wrappers ...string) []*syntax {
	invoke := "<" + prefix + `invoke name="`
	one := syntax{
		open: invoke, close: "</" + prefix + "invoke>", begins: beginsNamed(`"`),
		value: [2]string{"<" + prefix + "parameter", "</" + prefix + "parameter>"}, again: invoke,
		json: func([]byte) bool { return false },
		read: func(body string, closed bool) (d draft, err error) {
			d.closed = closed
			d.name, body, _ = strings.Cut(strings.TrimPrefix(body, invoke), `"`)
			if !closed {
				return d, errCutOff
			}
			_, body, _ = strings.Cut(body, ">")
			d.pairs, err = readValues(body, "<"+prefix+"parameter", "</"+prefix+"parameter>", invokeMarks(prefix), func(tag string) (string, valueKind) {
				_, name, _ := strings.Cut(tag, `name="`)
				name, _, _ = strings.Cut(name, `"`)
				switch {
				case strings.Contains(tag, `string="true"`):
					return name, asText
				case strings.Contains(tag, `string="false"`):
					return name, asJSON
				}
				return name, bySchema
			})
			return d, err
		},
	}
	for _, wrapper := range wrappers {
		one.rest = append(one.rest, strings.Replace(wrapper, "<", "</", 1))
	}
	syntaxes := []*syntax{&one}
	for _, wrapper := range wrappers {
		wrapped := one
		wrapped.open, wrapped.begins = wrapper, beginsWith(invoke)
		syntaxes = append(syntaxes, &wrapped)
	}
	return syntaxes
}

func invokeMarks(prefix string) []string {
	return []string{"</" + prefix + "parameter>", "<" + prefix + `invoke name="`}
}

func writeInvoke(tool *Tool, c Call, prefix string, attribute func(valueKind) string) string {
	var b strings.Builder
	b.WriteString("<" + prefix + `invoke name="` + c.Tool + "\">\n")
	writeValues(tool, c, invokeMarks(prefix), func(key, value string, kind valueKind) {
		if strings.HasPrefix(value, "\n") && strings.HasSuffix(value, "\n") {
			value = "\n" + value + "\n"
		}
		b.WriteString("<" + prefix + `parameter name="` + key + `"` + attribute(kind) + ">" + value + "</" + prefix + "parameter>\n")
	})
	b.WriteString("</" + prefix + "invoke>")
	return b.String()
}
