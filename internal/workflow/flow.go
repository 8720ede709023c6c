// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// flow reads what is written as a >> (b | c) >> d: one after the other, or beside each other.
// The first binds tighter.
type flow struct {
	text  string
	at    int
	depth int
	names []placed
	after map[string][]string // what each comes after
}

// placed is a name in a flow, with what follows it in braces, if anything does.
type placed struct {
	id, name string
	input    map[string]any
}

const maxNesting = 50

// readFlow reads a flow. literals says that a name may be followed by an input, and may come
// more than once.
func readFlow(text string, literals bool) (*flow, error) {
	f := &flow{text: text, after: make(map[string][]string)}
	if _, _, err := f.beside(literals); err != nil {
		return nil, err
	}
	if f.space(); f.at < len(f.text) {
		return nil, f.wrong("want >> or | here, not %.20q", f.text[f.at:])
	}
	return f, nil
}

func (f *flow) wrong(format string, args ...any) error {
	return fmt.Errorf("column %d of the flow: %s", f.at+1, fmt.Sprintf(format, args...))
}

func (f *flow) space() {
	for f.at < len(f.text) && strings.IndexByte(" \t\r\n", f.text[f.at]) >= 0 {
		f.at++
	}
}

// takes passes over a sign, if it is next.
func (f *flow) takes(sign string) bool {
	f.space()
	if !strings.HasPrefix(f.text[f.at:], sign) {
		return false
	}
	f.at += len(sign)
	return true
}

// beside reads sequences with | between them, and returns what begins and what ends them.
func (f *flow) beside(literals bool) (first, last []string, err error) {
	for {
		begins, ends, err := f.sequence(literals)
		if err != nil {
			return nil, nil, err
		}
		first, last = append(first, begins...), append(last, ends...)
		if !f.takes("|") {
			return first, last, nil
		}
	}
}

// sequence reads parts with >> between them.
func (f *flow) sequence(literals bool) (first, last []string, err error) {
	for {
		begins, ends, err := f.part(literals)
		if err != nil {
			return nil, nil, err
		}
		for _, id := range begins {
			f.after[id] = append(f.after[id], last...)
		}
		if first == nil {
			first = begins
		}
		last = ends
		if !f.takes(">>") {
			return first, last, nil
		}
	}
}

// part reads a name, or a flow in parentheses.
func (f *flow) part(literals bool) (first, last []string, err error) {
	if f.takes("(") {
		if f.depth++; f.depth > maxNesting {
			return nil, nil, f.wrong("too many parentheses within each other")
		}
		defer func() { f.depth-- }()
		if first, last, err = f.beside(literals); err == nil && !f.takes(")") {
			err = f.wrong("want ) here")
		}
		return first, last, err
	}
	begin := f.at
	for f.at < len(f.text) && (f.text[f.at] == '_' || f.text[f.at] == '.' || f.text[f.at] == '-' || f.text[f.at] >= '0' && f.text[f.at] <= '9' || f.text[f.at]|0x20 >= 'a' && f.text[f.at]|0x20 <= 'z') {
		f.at++
	}
	p := placed{name: f.text[begin:f.at]}
	if p.name == "" {
		return nil, nil, f.wrong("want the name of a step here, or ( … ): a flow is written as a >> (b | c) >> d")
	}
	if len(f.names) >= maxSteps {
		return nil, nil, f.wrong("more than %d steps", maxSteps)
	}
	p.id = p.name
	if literals {
		p.id = f.unused(p.name)
		if p.input, err = f.literal(); err != nil {
			return nil, nil, err
		}
	} else if slices.ContainsFunc(f.names, func(other placed) bool { return other.id == p.id }) {
		return nil, nil, f.wrong("%s is there twice", p.id)
	}
	f.names = append(f.names, p)
	return []string{p.id}, []string{p.id}, nil
}

// unused returns an id for a name that may have come before.
func (f *flow) unused(name string) string {
	id := strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(name))
	for n := 2; ; n++ {
		if !slices.ContainsFunc(f.names, func(other placed) bool { return other.id == id }) {
			return id
		}
		id = fmt.Sprintf("%s_%d", strings.TrimRight(strings.ToLower(name), "0123456789_"), n)
	}
}

// literal reads a JSON object that follows a name.
func (f *flow) literal() (map[string]any, error) {
	if f.space(); f.at >= len(f.text) || f.text[f.at] != '{' {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(f.text[f.at:]))
	decoder.UseNumber()
	var input map[string]any
	if err := decoder.Decode(&input); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it does not end")
		}
		return nil, f.wrong("the input of a step is a JSON object: %v", err)
	}
	f.at += int(decoder.InputOffset())
	return input, nil
}

// short fills a definition from the short form alone: names are those of tools, or of
// workflows, each with an input where it needs one.
func (d *definition) short(text string, world World) error {
	f, err := readFlow(text, true)
	if err != nil {
		return err
	}
	for _, p := range f.names {
		s := step{ID: p.id, Tool: p.name, Input: p.input, After: f.after[p.id]}
		if world.Workflow != nil && (world.Tool == nil || world.Tool(p.name) == nil) {
			if _, there := world.Workflow(p.name); there {
				s.Tool, s.Workflow = "", p.name
			}
		}
		d.Steps = append(d.Steps, s)
	}
	return nil
}
