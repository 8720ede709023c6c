// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Span is a piece of a file. Without a line it is the whole file, without an end the line.
type Span struct {
	Path            string
	Line, Column    int // from one
	EndLine, EndCol int // behind the end
}

// An Action is something that a server offers to do.
type Action struct {
	Title, Kind string
	Disabled    string // why it cannot be done
}

// Actions are several.
type Actions struct {
	About
	List []Action
}

// maxActions is how many there are of an answer.
const maxActions = 100

// OrganizeImports is the kind of action that sorts imports, and adds and removes what is
// needed.
const OrganizeImports = "source.organizeImports"

// Actions returns what a server offers to do with a piece of code: all, or those of a kind
// such as "quickfix" or "refactor".
func (a *Asker) Actions(ctx context.Context, s Span, kind string) (*Actions, error) {
	var answer Actions
	about, err := a.ask(ctx, s.Path, func(q *question) error {
		list, err := q.actions(s, kind)
		if err != nil {
			return err
		}
		answer.List = nil
		for _, one := range list[:min(len(list), maxActions)] {
			answer.List = append(answer.List, actionOf(one))
		}
		return nil
	})
	answer.About = about
	return &answer, err
}

func actionOf(one protocol.CommandOrCodeAction) Action {
	switch one := one.(type) {
	case *protocol.CodeAction:
		a := Action{Title: clip(one.Title), Disabled: clip(one.Disabled.Reason)}
		if one.Kind != nil {
			a.Kind = string(*one.Kind)
		}
		return a
	case *protocol.Command:
		return Action{Title: clip(one.Title)}
	}
	return Action{}
}

// Action returns what one of the actions would change, which its title names; an empty title
// is the first.
func (a *Asker) Action(ctx context.Context, s Span, kind, title string) (*Edit, error) {
	var e *Edit
	about, err := a.ask(ctx, s.Path, func(q *question) error {
		list, err := q.actions(s, kind)
		if err != nil {
			return err
		}
		var titles []string
		for _, one := range list {
			action := actionOf(one)
			if title != "" && action.Title != title {
				titles = append(titles, fmt.Sprintf("%q", action.Title))
				continue
			}
			if action.Disabled != "" {
				return tools.Failf("action_disabled", "%q cannot be done: %s.", action.Title, strings.TrimSuffix(action.Disabled, "."))
			}
			e, err = q.act(one)
			return err
		}
		if title == "" {
			return nil // there is nothing to do
		}
		return tools.Failf("no_such_action", "There is no action %q there. There are: %s.", title, strings.Join(titles[:min(len(titles), maxCandidates)], ", "))
	})
	return finished(e, about, err)
}

// actions asks what can be done with a piece of code.
func (q *question) actions(s Span, kind string) ([]protocol.CommandOrCodeAction, error) {
	if q.can.CodeActionProvider == nil {
		return nil, q.cannot("offer actions")
	}
	path, err := q.inside(s.Path)
	if err != nil {
		return nil, err
	}
	d, err := q.open(q.ctx, path)
	if err != nil {
		return nil, err
	}
	r, err := q.span(&d, s)
	if err != nil {
		return nil, err
	}
	about := protocol.CodeActionContext{Diagnostics: []protocol.Diagnostic{}, TriggerKind: protocol.CodeActionTriggerKindInvoked}
	if kind != "" {
		about.Only = []protocol.CodeActionKind{protocol.CodeActionKind(kind)}
	}
	if !strings.HasPrefix(kind, "source.") && !strings.HasPrefix(kind, "refactor") { // what is fixed has to be known
		found, _, err := q.examine([]document{d})
		if err != nil {
			return nil, err
		}
		for _, problem := range found[path] {
			if !before(problem.Range.End, r.Start) && !before(r.End, problem.Range.Start) {
				about.Diagnostics = append(about.Diagnostics, problem)
			}
		}
	}
	return within(q, func(ctx context.Context) ([]protocol.CommandOrCodeAction, error) {
		return q.remote.CodeAction(ctx, &protocol.CodeActionParams{TextDocument: protocol.TextDocumentIdentifier{URI: q.uri(path)}, Range: r, Context: about})
	})
}

func before(a, b protocol.Position) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Character < b.Character
}

// span returns where a server finds a piece of a file.
func (q *question) span(d *document, s Span) (r protocol.Range, err error) {
	end := func(line int) int { return utf8.RuneCountInString(d.text.line(line-1)) + 1 }
	if s.Line == 0 {
		s.Line, s.Column = 1, 1
		s.EndLine = max(1, d.text.lines())
		s.EndCol = end(s.EndLine)
	}
	if s.EndLine == 0 {
		s.EndLine = s.Line
		if s.Column > 0 {
			s.EndCol = s.Column
		}
	}
	s.Column = max(s.Column, 1)
	if s.EndCol == 0 {
		s.EndCol = end(s.EndLine)
	}
	if r.Start, err = d.text.position(s.Path, s.Line, s.Column, q.encoding); err != nil {
		return r, err
	}
	if r.End, err = d.text.position(s.Path, s.EndLine, s.EndCol, q.encoding); err == nil && before(r.End, r.Start) {
		err = tools.Failf("no_such_position", "The end, %d:%d, is before the beginning, %d:%d.", s.EndLine, s.EndCol, s.Line, s.Column)
	}
	return r, err
}

// act returns what an action would change.
func (q *question) act(one protocol.CommandOrCodeAction) (*Edit, error) {
	command, ok := one.(*protocol.Command)
	if action, isAction := one.(*protocol.CodeAction); isAction {
		if action.Edit == nil && len(action.Data) > 0 {
			resolved, err := within(q, func(ctx context.Context) (*protocol.CodeAction, error) {
				return q.remote.CodeActionResolve(ctx, action)
			})
			if err != nil {
				return nil, err
			}
			if resolved != nil {
				action = resolved
			}
		}
		if action.Edit != nil {
			return q.edit(action.Edit)
		}
		command, ok = &action.Command, action.Command.Command != ""
	}
	if !ok {
		return new(Edit), nil
	}
	// The server sends what its command would change, and is told nothing of it before
	// somebody has written it.
	q.commanding.Lock()
	defer q.commanding.Unlock()
	edits, done := q.client.collect()
	_, err := within(q, func(ctx context.Context) (protocol.LSPAny, error) {
		return q.remote.ExecuteCommand(ctx, &protocol.ExecuteCommandParams{Command: command.Command, Arguments: command.Arguments})
	})
	done()
	switch {
	case err != nil:
		return nil, err
	case len(*edits) > 1:
		return nil, tools.Failf("wrong_edit", "Nothing was changed: %s would change files in %d steps, and it is not known what comes of them together.", q.server.Name, len(*edits))
	case len(*edits) == 0:
		return new(Edit), nil
	}
	return q.edit(&(*edits)[0])
}
