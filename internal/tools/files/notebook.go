// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// A notebook is the text of a Jupyter notebook and where its cells are in it.
// What is not changed stays as it was written, byte for byte.
type notebook struct {
	text       string
	start, end int // of the list of cells, with its brackets
	cells      []cell
	minor      int // of the format, of which 4 is the major

	words tools.Words
}

// A cell is one cell of a notebook.
type cell struct {
	start, end int // in the text
	ID         string
	Type       string
	Source     string
	Execution  *int
	Outputs    []cellOutput
}

// cellOutput is something that running a cell gave.
type cellOutput struct {
	Kind          string          `json:"output_type"`
	Name          string          `json:"name"`
	Text          json.RawMessage `json:"text"`
	Data          map[string]json.RawMessage
	Ename, Evalue string
}

func notANotebook(words tools.Words, name string, err error) error {
	read := ""
	if key, ok := words.HasKey("read_file", "mode"); ok {
		read = fmt.Sprintf("%s with %s lines, or ", words.Tool("read_file"), key)
	}
	return tools.Failf("not_a_notebook", "%s is no Jupyter notebook: %v. To see or change it as text, use %s%s.", name, err, read, words.Tool("edit_file"))
}

// parseNotebook finds the cells of a notebook.
func parseNotebook(words tools.Words, name, text string) (*notebook, error) {
	n := &notebook{text: text, words: words}
	if err := n.parse(); err != nil {
		return nil, notANotebook(words, name, err)
	}
	return n, nil
}

func (n *notebook) parse() error {
	if !json.Valid([]byte(n.text)) {
		var v any
		err := json.Unmarshal([]byte(n.text), &v)
		return fmt.Errorf("it is not JSON (%w)", err)
	}
	var head struct {
		Major int `json:"nbformat"`
		Minor int `json:"nbformat_minor"`
	}
	members, err := membersOf(n.text, 0, len(n.text))
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(n.text), &head); err != nil {
		return err
	}
	if head.Major != 4 {
		return fmt.Errorf("its nbformat is %d, and 4 is what is known here", head.Major)
	}
	n.minor = head.Minor
	at, ok := members["cells"]
	if !ok {
		return errors.New(`it has no "cells"`)
	}
	n.start, n.end = at.start, at.end
	items, err := itemsOf(n.text, at.start, at.end)
	if err != nil {
		return fmt.Errorf(`"cells": %w`, err)
	}
	for i, item := range items {
		c, err := parseCell(n.text, item)
		if err != nil {
			return fmt.Errorf("cell %d: %w", i, err)
		}
		n.cells = append(n.cells, c)
	}
	return nil
}

func parseCell(text string, at span) (cell, error) {
	var raw struct {
		ID        string          `json:"id"`
		Type      string          `json:"cell_type"`
		Source    json.RawMessage `json:"source"`
		Execution *int            `json:"execution_count"`
		Outputs   []cellOutput    `json:"outputs"`
	}
	if _, err := membersOf(text, at.start, at.end); err != nil {
		return cell{}, err
	}
	if err := json.Unmarshal([]byte(text[at.start:at.end]), &raw); err != nil {
		return cell{}, err
	}
	source, err := joinSource(raw.Source)
	return cell{start: at.start, end: at.end, ID: raw.ID, Type: raw.Type, Source: source, Execution: raw.Execution, Outputs: raw.Outputs}, err
}

// joinSource returns a text that is a string or a list of strings.
func joinSource(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", errors.New("its text is neither a string nor a list of strings")
	}
	return strings.Join(parts, ""), nil
}

// A span is a part of a text.
type span struct{ start, end int }

// membersOf finds the values of a JSON object, by key.
func membersOf(text string, start, end int) (map[string]span, error) {
	d := json.NewDecoder(strings.NewReader(text[start:end]))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	members := make(map[string]span)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("it has %q twice", name)
		}
		last := start + int(d.InputOffset())
		members[name] = span{last - len(value), last}
	}
	return members, nil
}

// itemsOf finds the items of a JSON array.
func itemsOf(text string, start, end int) ([]span, error) {
	d := json.NewDecoder(strings.NewReader(text[start:end]))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, errors.New("it is no list")
	}
	var items []span
	for d.More() {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		last := start + int(d.InputOffset())
		items = append(items, span{last - len(value), last})
	}
	return items, nil
}

// find returns the cell that an id or an index names.
func (n *notebook) find(id string, index *int) (int, error) {
	if index != nil {
		if *index < 0 || *index >= len(n.cells) {
			return 0, tools.Failf("no_such_cell", "There is no cell %d: the notebook has %s, counted from 0.", *index, tools.Count(len(n.cells), "cell", "cells"))
		}
		return *index, nil
	}
	isIt := func(c cell) bool { return c.ID == id }
	i := slices.IndexFunc(n.cells, isIt)
	if i >= 0 && slices.ContainsFunc(n.cells[i+1:], isIt) {
		return 0, tools.Failf("no_such_cell", "The id %q is that of more than one cell, the first of which is cell %d. %s.", id, i, n.byIndex(i))
	}
	if at, ok := indexOf(id); ok && i < 0 && at < len(n.cells) {
		return at, nil
	}
	if i < 0 {
		var ids []string
		for _, c := range n.cells[:min(len(n.cells), 50)] {
			if c.ID != "" {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) == 0 {
			return 0, tools.Failf("no_such_cell", "There is no cell with the id %q: the cells of this notebook have no ids. %s.", id, n.byIndex(0))
		}
		return 0, tools.Failf("no_such_cell", "There is no cell with the id %q. The ids are %s.", id, strings.Join(ids, ", "))
	}
	return i, nil
}

// indexOf returns the index that an id such as cell-3 stands for, as some name cells that
// have none.
func indexOf(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, "cell-")
	index, err := strconv.Atoi(digits)
	return index, ok && err == nil && index >= 0
}

// byIndex tells how a cell is named without its id.
func (n *notebook) byIndex(index int) string {
	if key, ok := n.words.HasKey("notebook_edit", "cell_index"); ok {
		return "Use " + key
	}
	return fmt.Sprintf("Use its place, counted from 0: %s cell-%d", n.words.Key("notebook_edit", "cell_id"), index)
}

// indentation is how the JSON of a notebook is laid out.
type indentation struct {
	unit string // of one level; empty for none
	cell string // before a cell; empty where all is in one line
	end  string // of a line
}

func (n *notebook) indentation() indentation {
	if len(n.cells) == 0 {
		// Before the first key of the notebook the white space is that of one level.
		open := strings.IndexByte(n.text, '{')
		if before, unit, ok := cutLast(leadingSpace(n.text[open+1:]), "\n"); ok {
			return indentation{unit, unit + unit, lineEnd(before)}
		}
		return indentation{}
	}
	// Before the first cell it is that of two.
	before, space, ok := cutLast(n.text[n.start+1:n.cells[0].start], "\n")
	if !ok {
		return indentation{}
	}
	return indentation{space[:len(space)/2], space, lineEnd(before)}
}

// lineEnd returns what ends the line whose text is before a newline.
func lineEnd(before string) string {
	if strings.HasSuffix(before, "\r") {
		return "\r\n"
	}
	return "\n"
}

func leadingSpace(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, " \t\r\n"))]
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// encode writes a value as JSON in the layout of the notebook, at a depth that
// begins with prefix.
func (in indentation) encode(value any, prefix string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if in.cell != "" {
		e.SetIndent(prefix, in.unit)
	}
	_ = e.Encode(value) // what is encoded here has no way to fail
	// Newlines in strings are escaped: those that are left are of the layout.
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", in.end)
}

// sourceLines splits a text as notebooks keep it.
func sourceLines(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	if lines == nil {
		lines = []string{}
	}
	return lines
}

// newCell is a cell in the order in which Jupyter writes it.
type newCell struct {
	Type      string           `json:"cell_type"`
	Execution *json.RawMessage `json:"execution_count,omitempty"`
	ID        string           `json:"id,omitempty"`
	Metadata  json.RawMessage  `json:"metadata"`
	Outputs   *[]int           `json:"outputs,omitempty"`
	Source    []string         `json:"source"`
}

func makeCell(kind, id, source string, metadata json.RawMessage) newCell {
	c := newCell{Type: kind, ID: id, Metadata: metadata, Source: sourceLines(source)}
	if kind == "code" {
		null := json.RawMessage("null")
		c.Execution, c.Outputs = &null, &[]int{}
	}
	return c
}

// insert returns the text with a new cell at an index.
func (n *notebook) insert(index int, kind, source string) string {
	in := n.indentation()
	id := ""
	if n.minor >= 5 {
		id = n.newID(index, source)
	}
	text := in.encode(makeCell(kind, id, source, json.RawMessage("{}")), in.cell)
	gap := ""
	if in.cell != "" {
		gap = in.end + in.cell
	}
	switch {
	case len(n.cells) == 0:
		closing := ""
		if in.cell != "" {
			closing = in.end + in.unit
		}
		return n.text[:n.start] + "[" + gap + text + closing + "]" + n.text[n.end:]
	case index == len(n.cells):
		last := n.cells[index-1].end
		return n.text[:last] + "," + gap + text + n.text[last:]
	}
	at := n.cells[index].start
	if gap == "" && strings.HasSuffix(n.text[:at], " ") {
		gap = " "
	}
	return n.text[:at] + text + "," + gap + n.text[at:]
}

// newID returns an id that no cell has: the same for the same change, so that
// what is shown is what is made.
func (n *notebook) newID(index int, source string) string {
	for salt := 0; ; salt++ {
		sum := sha256.Sum256(fmt.Append(nil, salt, index, len(n.cells), source))
		id := hex.EncodeToString(sum[:4])
		if !slices.ContainsFunc(n.cells, func(c cell) bool { return c.ID == id }) {
			return id
		}
	}
}

// remove returns the text without a cell.
func (n *notebook) remove(index int) string {
	c := n.cells[index]
	switch {
	case len(n.cells) == 1:
		return n.text[:n.start] + "[]" + n.text[n.end:]
	case index == len(n.cells)-1:
		return n.text[:n.cells[index-1].end] + n.text[c.end:]
	}
	return n.text[:c.start] + n.text[n.cells[index+1].start:]
}

// replace returns the text with another source of a cell, perhaps of another
// type, and perhaps without what running it gave.
func (n *notebook) replace(index int, kind, source string, clear bool) (string, error) {
	c := n.cells[index]
	members, err := membersOf(n.text, c.start, c.end)
	if err != nil {
		return "", err
	}
	in := n.indentation()
	if kind != "" && kind != c.Type {
		metadata := json.RawMessage("{}")
		if at, ok := members["metadata"]; ok {
			metadata = json.RawMessage(n.text[at.start:at.end])
		}
		return n.text[:c.start] + in.encode(makeCell(kind, c.ID, source, metadata), in.cell) + n.text[c.end:], nil
	}
	type change struct {
		span
		text string
	}
	at, ok := members["source"]
	if !ok {
		return "", tools.Failf("no_such_cell", "Cell %d has no source.", index)
	}
	var value any = sourceLines(source)
	if n.text[at.start] == '"' {
		value = source
	}
	changes := []change{{at, in.encode(value, in.cell+in.unit)}}
	if clear && c.Type == "code" {
		for key, text := range map[string]string{"outputs": "[]", "execution_count": "null"} {
			if at, ok := members[key]; ok {
				changes = append(changes, change{at, text})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return b.start - a.start }) // the last first
	text := n.text
	for _, c := range changes {
		text = text[:c.start] + c.text + text[c.end:]
	}
	return text, nil
}
