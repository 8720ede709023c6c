// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package markdown reads what operators keep as Markdown files in folders: front matter,
// which is YAML between two lines of three dashes, and a text. Files are read when they are
// asked for, so that a change counts at once; nothing is read outside of a folder.
package markdown

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/strictyaml"
)

// ErrNoFront says that a file has no front matter.
var ErrNoFront = errors.New("it does not begin with a line ---, keys such as name and description, and a second ---")

// Parse returns the keys of the front matter, and the text that follows it. What is not
// quite YAML is read as lines of a key and a value each, such as a description with a colon.
func Parse(text []byte) (keys map[string]any, body string, err error) {
	front, body, ok := cut(text)
	if !ok {
		return nil, "", ErrNoFront
	}
	keys = make(map[string]any)
	r := strictyaml.NewReader("front matter", "front matter")
	if r.Read([]byte(front), &keys); r.Err() != nil {
		keys = loose(front)
	}
	return keys, body, nil
}

// cut returns the front matter, and what follows it.
func cut(text []byte) (front, body string, ok bool) {
	text = bytes.TrimPrefix(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\ufeff"))
	rest, ok := strings.CutPrefix(string(text), "---\n")
	if !ok {
		return "", "", false
	}
	if body, ok = strings.CutPrefix(rest, "---\n"); ok {
		return "", body, true
	}
	if front, body, ok = strings.Cut(rest, "\n---\n"); ok {
		return front, body, true
	}
	front, ok = strings.CutSuffix(rest, "\n---")
	return front, "", ok
}

// loose reads lines with a key and a value of what is not quite YAML.
func loose(front string) map[string]any {
	keys := make(map[string]any)
	for text := range strings.Lines(front) {
		if key, value, ok := strings.Cut(text, ":"); ok && key != "" && key == strings.TrimSpace(key) {
			keys[key] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return keys
}

// Text returns a value as text; empty where there is none.
func Text(value any) string {
	if value == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(value))
}

// Line returns a value as one line of at most 2000 bytes.
func Line(value any) string {
	text := strings.Join(strings.Fields(Text(value)), " ")
	if len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "") + " ..."
	}
	return text
}

// List returns a list that is written as one, or with commas between.
func List(value any) (list []string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			list = append(list, Text(item))
		}
	case string:
		for _, item := range strings.Split(v, ",") {
			list = append(list, strings.TrimSpace(item))
		}
	}
	return slices.DeleteFunc(list, func(item string) bool { return item == "" })
}

// Read reads a text file of at most so many bytes.
func Read(root *os.Root, name string, most int64) ([]byte, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold it up
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return nil, errors.New("it is no text")
	}
	return text, nil
}

// PlainError tells what is wrong, and not where on the machine.
func PlainError(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}
