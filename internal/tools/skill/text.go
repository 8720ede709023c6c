// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package skill

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/markdown"
	"github.com/toolserver/toolserver/internal/tools"
)

// An argument is one that a skill has a name for.
type argument struct {
	name, description string
	required          bool
}

var skillName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// parse reads a SKILL.md: YAML between two lines of three dashes, and the instructions. A
// skill without a name has that of its folder. Keys that nobody here knows are passed over:
// other systems have more.
func parse(folder string, text []byte) (*Skill, string, error) {
	keys, body, err := markdown.Parse(text)
	if err != nil {
		return nil, "", err
	}
	s := &Skill{Name: cmp.Or(markdown.Text(keys["name"]), folder), Description: markdown.Line(keys["description"])}
	if !skillName.MatchString(s.Name) {
		return nil, "", fmt.Errorf("%.64q is no name: want letters, digits, dots, _, : and -", s.Name)
	}
	for _, key := range []string{"allowed-tools", "allowed_tools", "tools"} {
		s.Tools = append(s.Tools, markdown.List(keys[key])...)
	}
	s.arguments = namedIn(keys["arguments"])
	return s, body, nil
}

var argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// namedIn returns the arguments that a skill names: a list of names, or of mappings with a
// name, or a mapping of names.
func namedIn(value any) (list []argument) {
	add := func(name string, about any) {
		if !argumentName.MatchString(name) {
			return
		}
		a := argument{name: name}
		if keys, ok := about.(map[string]any); ok {
			a.description, a.required = markdown.Text(keys["description"]), keys["required"] == true
		} else {
			a.description = markdown.Text(about)
		}
		list = append(list, a)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(name, v[name])
		}
	case []any:
		for _, item := range v {
			if keys, ok := item.(map[string]any); ok {
				add(markdown.Text(keys["name"]), keys)
			} else {
				add(markdown.Text(item), nil)
			}
		}
	case string:
		for _, name := range strings.FieldsFunc(v, func(c rune) bool { return c == ',' || c == ' ' }) {
			add(name, nil)
		}
	}
	return list
}

// usage tells the arguments of a skill; empty where it names none.
func (s *Skill) usage() string {
	var names []string
	for _, a := range s.arguments {
		name := a.name
		if !a.required {
			name = "[" + name + "]"
		}
		if a.description != "" {
			name += " = " + a.description
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// given are the arguments of a call: a text, and its words, or values by name.
type given struct {
	text  string
	words []string
	named map[string]string
}

// argumentsOf reads the arguments of a call.
func argumentsOf(raw json.RawMessage) (g given, err error) {
	if len(raw) == 0 {
		return g, nil
	}
	var object map[string]any
	var list []any
	decode := func(to any) bool {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		return d.Decode(to) == nil
	}
	switch {
	case decode(&g.text):
		g.words = strings.Fields(g.text)
	case decode(&list) && list != nil:
		for _, item := range list {
			g.words = append(g.words, markdown.Text(item))
		}
		g.text = strings.Join(g.words, " ")
	case decode(&object) && object != nil:
		g.named = make(map[string]string)
		for name, value := range object {
			switch value.(type) {
			case map[string]any, []any:
				return g, fmt.Errorf("%.64q: want a text, a number or a truth", name)
			}
			g.named[name] = markdown.Text(value)
		}
	default:
		return g, errors.New("want a text, or an object of named ones")
	}
	return g, nil
}

// placeholder matches what arguments take the place of.
var placeholder = regexp.MustCompile(`\$ARGUMENTS\[(\d{1,2})\]|\$ARGUMENTS\b|\$(\d)\b|\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?|\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}`)

// fillIn returns the instructions with arguments in their places, each once: what an
// argument says is not looked at again. A text that has no place is told at the end.
func (s *Skill) fillIn(body string, g given) (string, error) {
	values, err := s.values(g)
	if err != nil {
		return "", err
	}
	word := func(number string, from int) string {
		if n, _ := strconv.Atoi(number); n-from >= 0 && n-from < len(g.words) {
			return g.words[n-from]
		}
		return ""
	}
	placed := false
	body = placeholder.ReplaceAllStringFunc(body, func(text string) string {
		m := placeholder.FindStringSubmatch(text)
		switch {
		case m[1] != "":
			placed = true
			return word(m[1], 0)
		case text == "$ARGUMENTS":
			placed = true
			return g.text
		case m[2] != "":
			placed = true
			return word(m[2], 1)
		}
		if value, ok := values[m[3]+m[4]]; ok {
			placed = true
			return value
		}
		return text // a variable of a script
	})
	if !placed && g.text != "" {
		body = strings.TrimRight(body, "\n") + "\n\nArguments: " + g.text + "\n"
	}
	return body, nil
}

// values returns what each named argument is. Words of a text are given by place.
func (s *Skill) values(g given) (map[string]string, error) {
	values := make(map[string]string)
	var names, missing []string
	for i, a := range s.arguments {
		names = append(names, a.name)
		value, ok := g.named[a.name]
		if !ok && i < len(g.words) {
			value, ok = g.words[i], true
			if i == len(s.arguments)-1 {
				value = strings.Join(g.words[i:], " ")
			}
		}
		if !ok && a.required {
			missing = append(missing, a.name)
		}
		values[a.name] = value
	}
	if len(missing) > 0 {
		return nil, tools.Failf("missing_arguments", "The skill %s needs %s. Its arguments:%s.", s.Name, strings.Join(missing, ", "), s.usage())
	}
	for _, name := range slices.Sorted(maps.Keys(g.named)) {
		if !slices.Contains(names, name) {
			return nil, tools.Failf("unknown_argument", "The skill %s has no argument %.64q%s", s.Name, name, hint(name, names))
		}
	}
	return values, nil
}
