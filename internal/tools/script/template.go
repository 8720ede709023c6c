// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// A template is a word that may have a value of the input in it. However the value looks,
// what comes of it is one word, or one for each entry of a list.
type template struct {
	text          string // as it was written
	before, after string
	key           string // with dots between those of objects; "": there is none
}

var placeholder = regexp.MustCompile(`\{\{ *([A-Za-z_][A-Za-z0-9_.-]*) *\}\}`)

func parseTemplate(text string) (template, error) {
	found := placeholder.FindAllStringSubmatchIndex(text, -1)
	rest := placeholder.ReplaceAllString(text, "")
	switch {
	case strings.Contains(rest, "{{") || strings.Contains(rest, "}}"):
		return template{}, fmt.Errorf("%q has a {{ that names no key: want one such as {{path}}", text)
	case len(found) > 1:
		return template{}, fmt.Errorf("%q has more than one value in it: want one word for each", text)
	case len(found) == 0:
		return template{text: text, before: text}, nil
	}
	at := found[0]
	return template{text: text, before: text[:at[0]], key: text[at[2]:at[3]], after: text[at[1]:]}, nil
}

// expand returns the words that a template stands for: none where the input does not have
// the key.
func (t template) expand(value any) (words []string) {
	if t.key == "" {
		return []string{t.text}
	}
	for _, text := range textsAt(value, strings.Split(t.key, ".")) {
		words = append(words, t.before+text+t.after)
	}
	return words
}

// textsAt returns the single values at a key.
func textsAt(value any, keys []string) (texts []string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			texts = append(texts, textsAt(item, keys)...)
		}
	case map[string]any:
		if len(keys) > 0 {
			return textsAt(v[keys[0]], keys[1:])
		}
		text, _ := json.Marshal(v)
		texts = append(texts, string(text))
	case nil:
	default:
		if len(keys) == 0 {
			texts = append(texts, fmt.Sprint(v))
		}
	}
	return texts
}

// valueOf returns the value of an input, with numbers as they are written.
func valueOf(input json.RawMessage) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	decoder.Decode(&value) // it was checked before
	return value
}

// interpreters run the code that is their first word, or a file, or another program.
var interpreters = regexp.MustCompile(`^(sh|bash|dash|zsh|ksh|fish|busybox|env|xargs|exec|eval|nice|nohup|timeout|python[0-9.]*|node|nodejs|deno|bun|perl|ruby|php|lua[0-9.]*|Rscript|awk|gawk|mawk|sed)$`)

var codeOption = regexp.MustCompile(`^(-[A-Za-z]*[ce]|--?eval|--?print|--command|--expression)$`)

// takesCode reports whether a value after these words would be code, or name a program:
// an interpreter has had nothing but options so far, or is told that code follows.
func takesCode(words []string) bool {
	open, inside := false, false
	for _, word := range words {
		switch {
		case interpreters.MatchString(filepath.Base(word)):
			open, inside = true, true
		case !strings.HasPrefix(word, "-") && !strings.Contains(word, "="):
			open = false // this is the code, or the file
		}
	}
	return open || inside && codeOption.MatchString(words[len(words)-1])
}
