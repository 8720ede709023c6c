// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

const InputHelp = `INPUT is one of:
  '{"path": "README.md"}'     a JSON object
  @FILE                       a file with a JSON object
  -                           standard input with a JSON object
  KEY=VALUE...                an object with these keys

A VALUE is typed by the tool's schema: a string where it wants a string, JSON
where it wants anything else. KEY=@FILE takes the value from a file, and
KEY:=JSON is JSON whatever the schema says.`

// maxInput is the most that is read from a file or standard input, in bytes.
// Servers take much less; they say how much.
const maxInput = 64 << 20

// InputReader makes the input of a call of the words of a command line. What
// is wrong with the input itself is left to the server, which explains it.
type InputReader struct {
	Stdin io.Reader

	// Properties returns the schema of each key. It is called for KEY=VALUE alone.
	Properties func() (map[string]PropertySchema, error)
}

// PropertySchema is what matters here of the JSON Schema of a key.
type PropertySchema struct {
	Type        schemaTypes `json:"type"`
	Description string      `json:"description"`
}

// schemaTypes is a type, or a list of them.
type schemaTypes []string

// UnmarshalJSON takes both forms.
func (t *schemaTypes) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = schemaTypes{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

// propertiesOf returns the schema of each key of an input schema.
func propertiesOf(schema string) (map[string]PropertySchema, error) {
	var s struct {
		Properties map[string]PropertySchema `json:"properties"`
	}
	if schema == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		return nil, fmt.Errorf("the tool's schema: %w", err)
	}
	return s.Properties, nil
}

// Read returns the input as JSON text.
func (r *InputReader) Read(words []string) ([]byte, error) {
	if len(words) == 0 {
		return []byte("{}"), nil
	}
	if first := words[0]; first == "-" || strings.HasPrefix(first, "@") || strings.HasPrefix(strings.TrimSpace(first), "{") {
		if len(words) > 1 {
			return nil, fmt.Errorf("nothing can follow %.40q: give one JSON object, or KEY=VALUE words", first)
		}
		if first == "-" || first[0] == '@' {
			return r.file(strings.TrimPrefix(first, "@"))
		}
		return []byte(first), nil
	}
	properties, err := r.Properties()
	if err != nil {
		return nil, err
	}
	object := []byte("{")
	for i, word := range words {
		key, value, err := r.member(word, properties)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, key...), ':'), value...)
	}
	return append(object, '}'), nil
}

// member returns the key and the value of a word, both as JSON.
func (r *InputReader) member(word string, properties map[string]PropertySchema) (key, value []byte, err error) {
	name, text, ok := strings.Cut(word, "=")
	name, isJSON := strings.CutSuffix(name, ":")
	if !ok || name == "" {
		return nil, nil, fmt.Errorf("%.40q is not KEY=VALUE, nor a JSON object, @FILE or -", word)
	}
	if file, ok := strings.CutPrefix(text, "@"); ok && !isJSON {
		content, err := r.file(file)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		text = string(content)
	}
	if !utf8.ValidString(name) || !utf8.ValidString(text) {
		return nil, nil, fmt.Errorf("%.40q is not valid UTF-8", name)
	}
	if key, err = json.Marshal(name); err != nil {
		return nil, nil, err
	}
	property, known := properties[name]
	switch {
	case isJSON && !json.Valid([]byte(text)):
		return nil, nil, &ExitError{exitInvalidInput, fmt.Errorf("%s:= wants JSON, and %.40q is not", name, text)}
	case isJSON, known && !slices.Contains(property.Type, "string") && json.Valid([]byte(text)):
		return key, []byte(text), nil
	}
	value, err = json.Marshal(text)
	return key, value, err
}

// file returns what is in a file, or in standard input for "-".
func (r *InputReader) file(name string) ([]byte, error) {
	from := r.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if len(text) > maxInput {
		return nil, errors.New("the input has more than 64 MiB")
	}
	return text, err
}
