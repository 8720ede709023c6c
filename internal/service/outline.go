// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"strconv"
)

// outline describes the shape of an input for the log, never its content: the
// keys of its object with the kind and size of their values, such as
// "path:string(9) limit:number". input must have been decoded by its tool: then
// it is valid, and its keys are the tool's and nobody's secret.
func outline(input []byte) string {
	out := make([]byte, 0, 64)
	i := 0
	for i < len(input) && input[i] != '{' {
		if input[i] == '"' {
			return "string" // an object sent as one
		}
		i++
	}
	for {
		open := bytes.IndexByte(input[i:], '"')
		if open < 0 {
			break
		}
		begin := i + open + 1
		end := stringEnd(input, begin)
		value := end + 1 + bytes.IndexByte(input[end+1:], ':') + 1
		for value < len(input) && isSpace(input[value]) {
			value++
		}
		kind, next := skipValue(input, value)
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = append(out, input[begin:end]...)
		out = append(out, ':')
		out = append(out, kind...)
		if kind != "number" && kind != "boolean" && kind != "null" {
			out = append(out, '(')
			out = strconv.AppendInt(out, int64(next-value-2), 10) // without quotes or brackets
			out = append(out, ')')
		}
		i = next
	}
	return string(out)
}

// skipValue returns the kind of the JSON value at i and where it ends.
func skipValue(input []byte, i int) (kind string, next int) {
	switch input[i] {
	case '"':
		return "string", stringEnd(input, i+1) + 1
	case '{', '[':
		kind = "object"
		if input[i] == '[' {
			kind = "array"
		}
		for depth := 0; i < len(input); i++ {
			switch input[i] {
			case '"':
				i = stringEnd(input, i+1)
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return kind, i + 1
				}
			}
		}
		return kind, i
	case 't', 'f':
		kind = "boolean"
	case 'n':
		kind = "null"
	default:
		kind = "number"
	}
	for i < len(input) && input[i] != ',' && input[i] != '}' && !isSpace(input[i]) {
		i++
	}
	return kind, i
}

// stringEnd returns where the string whose text begins at i has its closing
// quote.
func stringEnd(input []byte, i int) int {
	for i < len(input) && input[i] != '"' {
		if input[i] == '\\' {
			i++
		}
		i++
	}
	return min(i, len(input))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
