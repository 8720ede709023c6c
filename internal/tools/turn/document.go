// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// This file is what todos, plans and notes have in common: documents of the session.

var errNotKept = tools.Failf("not_kept", "This server keeps nothing of todos, plans and notes.")

// load returns a document; the zero value where there is none.
func load[T any](env tools.Env, name string) (document T, err error) {
	if env.Documents == nil {
		return document, errNotKept
	}
	text, err := env.Documents.Read(name)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &document)
	}
	return document, err
}

// change changes a document, unless change fails, and returns it as it is then. One that
// is empty is removed.
func change[T interface{ empty() bool }](env tools.Env, name string, change func(*T) error) (document T, err error) {
	if env.Documents == nil {
		return document, errNotKept
	}
	err = env.Documents.Change(name, func(old json.RawMessage) (json.RawMessage, error) {
		if old != nil {
			if err := json.Unmarshal(old, &document); err != nil {
				return nil, err
			}
		}
		if err := change(&document); err != nil {
			return nil, err
		}
		if document.empty() {
			return nil, nil
		}
		return json.Marshal(document)
	})
	return document, err
}

// What a todo or a step of a plan can be.
const (
	pending    = "pending"
	inProgress = "in_progress"
	completed  = "completed"
	cancelled  = "cancelled"
)

var marks = map[string]string{pending: "[ ]", inProgress: "[>]", completed: "[x]", cancelled: "[-]"}

// tally counts what is to be done. What was cancelled does not count.
type tally struct {
	Done     int `json:"done"`
	Total    int `json:"total"`
	underway []string
}

func (t *tally) add(status, name string) {
	switch status {
	case cancelled:
		return
	case completed:
		t.Done++
	case inProgress:
		t.underway = append(t.underway, name)
	}
	t.Total++
}

func (t *tally) String() string { return fmt.Sprintf("%d of %d done", t.Done, t.Total) }

// advice tells of what is unusual; empty where nothing is.
func (t *tally) advice() string {
	if n := len(t.underway); n > 1 {
		return fmt.Sprintf("(%d are in progress: work on one at a time, and mark that one.)\n", n)
	}
	return ""
}

// progress tells clients how far it is.
func (t *tally) progress(unit string) tools.Progress {
	message := t.String()
	if len(t.underway) > 0 {
		message += ": " + t.underway[0]
	}
	return tools.Progress{Message: message, Done: float64(t.Done), Total: float64(t.Total), Unit: unit}
}

// line returns a text on one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

// indented returns a text with each line below that of what it is about.
func indented(text string) string {
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// known says which names there are.
func known(names []string) string {
	if len(names) == 0 {
		return "There are none."
	}
	const shown = 50
	text := "There are " + strings.Join(slices.Clip(names[:min(shown, len(names))]), ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "."
}
