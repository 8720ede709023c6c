// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory is the family of tools for what lasts: memories, and knowledge that was
// taken in. What a session remembers for itself is a document of it.
package memory

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/toolserver/toolserver/internal/memory"
	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
)

// category is the family's name in specs.
const category = "memory"

//go:embed help.md
var help string

// A Web reads pages, and tells what that reaches, and PDF documents; see package web.
type Web struct {
	Reaches  func(addresses ...string) []tools.Effect
	Read     func(ctx context.Context, env tools.Env, address string) (url, title, text string, err error)
	Document func(ctx context.Context, body []byte) (text string, err error)
}

// family is what the tools share.
type family struct {
	store   *memory.Store
	engines *engine.Pool
	web     Web
}

// Tools returns the family.
func Tools(store *memory.Store, engines *engine.Pool, web Web) []tools.Tool {
	f := &family{store, engines, web}
	return []tools.Tool{f.remember(), f.recall(), f.forget(), f.ingest(), f.search()}
}

// changes returns the effect of changing what a scope keeps. What a session keeps for itself
// touches nothing. What others read as well is for a person to decide.
func changes(what string, scope memory.Scope) []tools.Effect {
	switch scope {
	case memory.OfSession:
		return nil
	case memory.OfTenant:
		return []tools.Effect{{Kind: tools.UsesTool, Tool: what + "/tenant", Lasting: true}}
	}
	return []tools.Effect{{Kind: tools.UsesTool, Tool: what + "/principal", Configured: true}}
}

// preview shows a person what a call does, and its text as it would be stored.
func (f *family) preview(what, scope, text string) tools.Preview {
	switch scopeOf(scope) {
	case memory.OfTenant:
		what += ", for everybody of the tenant"
	case memory.OfSession:
		what += ", of this session"
	}
	what += "."
	if text != "" {
		what += "\n\n" + text
	}
	masked, _ := f.store.Mask(strings.ToValidUTF8(what, "\ufffd"))
	return tools.Preview{Kind: tools.PreviewText, Text: masked}
}

// scopeOf returns a scope, principal unless it is given.
func scopeOf(text string) memory.Scope {
	return cmp.Or(memory.Scope(text), memory.OfPrincipal)
}

func scopesOf(names []string, all ...memory.Scope) (list []memory.Scope) {
	for _, scope := range all {
		if len(names) == 0 || slices.Contains(names, string(scope)) {
			list = append(list, scope)
		}
	}
	return list
}

// checkScopes finds scopes that there are not.
func checkScopes(names []string, known ...memory.Scope) (problems []tools.Problem) {
	for i, name := range names {
		if !slices.Contains(known, memory.Scope(name)) {
			problems = append(problems, tools.Problem{Pointer: fmt.Sprintf("/scopes/%d", i), Message: fmt.Sprintf("%.40q is no scope: want one of %v", name, known)})
		}
	}
	return problems
}

// checkLine finds what keeps a name from being shown on one line.
func checkLine(pointer, text string) []tools.Problem {
	for _, c := range text {
		if !unicode.IsPrint(c) {
			return []tools.Problem{{Pointer: pointer, Message: fmt.Sprintf("has the character %U in it: want a name on one line, of characters that can be seen", c)}}
		}
	}
	if text != "" && strings.TrimSpace(text) == "" {
		return []tools.Problem{{Pointer: pointer, Message: "is blank"}}
	}
	return nil
}

func checkTags(tags []string) (problems []tools.Problem) {
	for i, tag := range tags {
		pointer := fmt.Sprintf("/tags/%d", i)
		if tag == "" || len(tag) > 64 {
			problems = append(problems, tools.Problem{Pointer: pointer, Message: "want 1 to 64 characters"})
		}
		problems = append(problems, checkLine(pointer, tag)...)
	}
	return problems
}

// notes returns what a model is told below an answer.
func (f *family) notes(found memory.Found) (text string) {
	if found.Partial {
		text += "(partial: what is stored is still being read; ask again in a while)\n"
	}
	for _, note := range found.Notes {
		text += "(" + note + ")\n"
	}
	return text
}

// lasts says how long what was stored is kept, where that is not what anybody expects.
func (f *family) lasts() string {
	if f.store.Lasting() {
		return ""
	}
	return " This server keeps no state: it is gone when the server ends."
}

// line returns a text on one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }
