// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed todo_write.md
var todoWriteDoc string

//go:embed todo_write_help.md
var todoWriteHelp string

const (
	todosDocument = "todos"
	maxTodos      = 200
	maxTodoNotes  = 20
)

// todoList is the document.
type todoList struct {
	Title string   `json:"title,omitempty"`
	Todos []todo   `json:"todos"`
	Notes []string `json:"notes,omitempty"`
	Last  int      `json:"last"` // the last number that was given as an id
}

type todo struct {
	ID         string `json:"id,omitempty" check:"max=64" jsonschema:"a number is given where there is none"`
	Content    string `json:"content,omitempty" check:"max=1000" jsonschema:"what is to be done"`
	Status     string `json:"status,omitempty" check:"enum=pending|in_progress|completed|cancelled" jsonschema:"default pending"`
	ActiveForm string `json:"active_form,omitempty" check:"max=200" jsonschema:"how it is called while in progress"`
	Priority   string `json:"priority,omitempty" check:"enum=high|medium|low"`
	Details    string `json:"details,omitempty" check:"max=4000"`
}

type todoWriteInput struct {
	Todos  []todo   `json:"todos" check:"max=200" jsonschema:"in order; [] for none"`
	Merge  bool     `json:"merge,omitempty" jsonschema:"keep the others: change these by id, add those without"`
	Remove []string `json:"remove,omitempty" check:"max=200" jsonschema:"with merge: ids"`
	Title  string   `json:"title,omitempty" check:"max=200"`
	Note   string   `json:"note,omitempty" check:"max=4000" jsonschema:"what was found out, to keep with the list"`
}

// Check finds what the schema cannot tell.
func (in todoWriteInput) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	seen := make(map[string]bool)
	for i, t := range in.Todos {
		at := fmt.Sprintf("/todos/%d/", i)
		if strings.TrimSpace(t.Content) == "" && (!in.Merge || t.ID == "" || t.Content != "") {
			wrong(at+"content", "is required: what is to be done")
		}
		if t.ID != "" && (seen[t.ID] || slices.Contains(in.Remove, t.ID)) {
			wrong(at+"id", "is there twice")
		}
		if t.ID != line(t.ID) {
			wrong(at+"id", "want one word")
		}
		seen[t.ID] = true
	}
	if len(in.Remove) > 0 && !in.Merge {
		wrong("/remove", "needs merge: without it, todos is the whole list")
	}
	return problems
}

// TodoWrite returns the tool that changes the list of what is to be done.
func TodoWrite() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:        "todo_write",
			Aliases:     []string{"TodoWrite"},
			Label:       "Write todos",
			Summary:     "Keep a list of what is to be done, and how far it is.",
			Description: todoWriteDoc,
			Help:        todoWriteHelp,
			Category:    category,
			Level:       tools.ReadOnly,
			Examples: []tools.Example{
				{Summary: "A list", Input: json.RawMessage(`{"todos":[{"content":"Write a test that fails","status":"in_progress"},{"content":"Fix the parser"}]}`)},
				{Summary: "One is done, one more", Input: json.RawMessage(`{"merge":true,"todos":[{"id":"1","status":"completed"},{"content":"Update the docs"}]}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in todoWriteInput, out tools.Sink) (tools.Result, error) {
			list, err := change(env, todosDocument, func(list *todoList) error { return list.write(in) })
			if err != nil {
				return tools.Result{}, err
			}
			out.Emit(list.tally().progress("todos"))
			return tools.Detailed(list.text(false), list.details())
		})
}

type todoReadInput struct {
	ID string `json:"id,omitempty" check:"max=64" jsonschema:"only this one"`
}

// TodoRead returns the tool that shows the list.
func TodoRead() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "todo_read",
			Aliases:         []string{"TodoRead"},
			Label:           "Read todos",
			Summary:         "Show the list of what is to be done, with details and notes.",
			Description:     "Shows the list that `todo_write` keeps, with details and notes.",
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples:        []tools.Example{{Summary: "All", Input: json.RawMessage(`{}`)}, {Summary: "One", Input: json.RawMessage(`{"id":"2"}`)}},
		},
		nil,
		func(_ context.Context, env tools.Env, in todoReadInput, _ tools.Sink) (tools.Result, error) {
			list, err := load[todoList](env, todosDocument)
			if err != nil {
				return tools.Result{}, err
			}
			if in.ID == "" {
				return tools.Detailed(list.text(true), list.details())
			}
			i := list.index(in.ID)
			if i < 0 {
				return tools.Result{}, list.unknown(in.ID, "")
			}
			return tools.Detailed(list.Todos[i].text(true), list.Todos[i])
		})
}

func (l todoList) empty() bool { return len(l.Todos) == 0 && l.Title == "" && len(l.Notes) == 0 }

func (l *todoList) index(id string) int {
	return slices.IndexFunc(l.Todos, func(t todo) bool { return t.ID == id })
}

func (l *todoList) unknown(id, what string) error {
	var ids []string
	for _, t := range l.Todos {
		ids = append(ids, t.ID)
	}
	return tools.Failf("no_such_todo", "%sThere is no todo %.64q. %s", what, id, known(ids))
}

// write does what an input asks for, or fails.
func (l *todoList) write(in todoWriteInput) error {
	if in.Merge {
		if err := l.merge(in); err != nil {
			return err
		}
	} else {
		l.replace(in.Todos)
	}
	if len(l.Todos) > maxTodos {
		return tools.Failf("too_many_todos", "Nothing was changed: the list would have %d todos, and has at most %d. Remove those that are done.", len(l.Todos), maxTodos)
	}
	if in.Title != "" {
		l.Title = line(in.Title)
	}
	if note := strings.TrimSpace(in.Note); note != "" {
		l.Notes = append(l.Notes, note)
		l.Notes = l.Notes[max(0, len(l.Notes)-maxTodoNotes):]
	}
	return nil
}

// replace makes todos the whole list. One without an id that was there in the same words
// is the same one. An empty list is a new beginning.
func (l *todoList) replace(todos []todo) {
	old := l.Todos
	if l.Todos = nil; len(todos) == 0 {
		*l = todoList{}
	}
	given := make(map[string]bool)
	for _, t := range todos {
		given[t.ID] = true
	}
	for _, t := range todos {
		if t.ID == "" {
			same := func(o todo) bool { return !given[o.ID] && o.Content == t.Content }
			if i := slices.IndexFunc(old, same); i >= 0 {
				t = t.over(old[i])
				given[t.ID] = true
			}
		}
		l.Todos = append(l.Todos, t)
	}
	l.number()
}

// merge changes todos that are there, adds others and removes some.
func (l *todoList) merge(in todoWriteInput) error {
	l.Todos = slices.Clone(l.Todos)
	for _, id := range in.Remove {
		i := l.index(id)
		if i < 0 {
			return l.unknown(id, "Nothing was changed. ")
		}
		l.Todos = slices.Delete(l.Todos, i, i+1)
	}
	for _, t := range in.Todos {
		i := -1
		if t.ID != "" {
			i = l.index(t.ID)
		}
		switch {
		case i >= 0:
			l.Todos[i] = t.over(l.Todos[i])
		case t.Content == "":
			return l.unknown(t.ID, "Nothing was changed. ")
		default:
			l.Todos = append(l.Todos, t)
		}
	}
	l.number()
	return nil
}

// over returns the todo with what it leaves out as it was.
func (t todo) over(was todo) todo {
	return todo{
		was.ID, cmp.Or(t.Content, was.Content), cmp.Or(t.Status, was.Status), cmp.Or(t.ActiveForm, was.ActiveForm),
		cmp.Or(t.Priority, was.Priority), cmp.Or(t.Details, was.Details),
	}
}

// number gives ids and a status to those that have none. A number is never given twice.
func (l *todoList) number() {
	for i := range l.Todos {
		t := &l.Todos[i]
		t.Status = cmp.Or(t.Status, pending)
		for t.ID == "" {
			l.Last++
			if id := strconv.Itoa(l.Last); l.index(id) < 0 {
				t.ID = id
			}
		}
	}
}

func (l *todoList) tally() *tally {
	t := new(tally)
	for _, one := range l.Todos {
		t.add(one.Status, line(cmp.Or(one.ActiveForm, one.Content)))
	}
	return t
}

// details is what a runtime is told.
func (l *todoList) details() any {
	return struct {
		Title string   `json:"title"`
		Todos []todo   `json:"todos"`
		Notes []string `json:"notes"`
		*tally
	}{l.Title, append([]todo{}, l.Todos...), append([]string{}, l.Notes...), l.tally()}
}

// text returns the list for a model, whole with details and notes.
func (l *todoList) text(whole bool) string {
	if len(l.Todos) == 0 && (!whole || len(l.Notes) == 0) {
		return "The list is empty.\n"
	}
	tally := l.tally()
	var b strings.Builder
	if l.Title != "" {
		b.WriteString(l.Title + ": ")
	}
	fmt.Fprintf(&b, "%s\n", tally)
	for _, t := range l.Todos {
		b.WriteString(t.text(whole))
	}
	if whole {
		for _, note := range l.Notes {
			b.WriteString("Note:\n" + indented(note))
		}
	}
	return b.String() + tally.advice()
}

func (t *todo) text(whole bool) string {
	text := fmt.Sprintf("%s %s %s", t.ID, marks[t.Status], line(t.Content))
	if t.Priority != "" {
		text += " (" + t.Priority + ")"
	}
	text += "\n"
	if whole {
		text += indented(t.Details)
	}
	return text
}
