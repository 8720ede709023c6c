// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A Problem is something that a server finds wrong.
type Problem struct {
	Location
	Severity string // error, warning, information or hint
	Code     string // of the server
	Source   string // who found it
	Message  string
}

// same is what tells a problem from others, wherever its line is by now.
func (p Problem) same() Problem {
	return Problem{Location: Location{Path: p.Path}, Severity: p.Severity, Code: p.Code, Source: p.Source, Message: p.Message}
}

// Problems are several, sorted by path and line.
type Problems struct {
	About
	List []Problem

	// Late says that the server had not told of all files in time.
	Late bool
}

// Diagnostics returns what is wrong with files, all of one language.
func (a *Asker) Diagnostics(ctx context.Context, paths ...string) (*Problems, error) {
	if len(paths) == 0 {
		return nil, tools.Failf("no_target", "No file is named.")
	}
	var answer Problems
	about, err := a.ask(ctx, paths[0], func(q *question) error {
		docs, err := q.openAll(paths)
		if err != nil {
			return err
		}
		found, late, err := q.examine(docs)
		if err != nil {
			return err
		}
		answer.List, answer.Late = nil, late
		for _, d := range docs {
			answer.List = append(answer.List, q.problems(d.path, found[d.path])...)
		}
		return nil
	})
	answer.About = about
	return &answer, err
}

// maxFiles is how many files one question is about.
const maxFiles = 24

func (q *question) openAll(paths []string) ([]document, error) {
	if len(paths) > maxFiles {
		return nil, tools.Failf("too_many_files", "%d files are too many for one question: at most %d are possible.", len(paths), maxFiles)
	}
	docs := make([]document, len(paths))
	for i, name := range paths {
		path, err := q.inside(name)
		if err != nil {
			return nil, err
		}
		if q.server.languageOf(path) == "" {
			return nil, tools.Failf("other_language", "%s is not in a language of %s: ask about files of one language at a time.", name, q.server.Name)
		}
		if docs[i], err = q.open(q.ctx, path); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// A Change is what would break if some files had other texts.
type Change struct {
	About
	New   []Problem // that there are not now
	Fixed []Problem // that there would not be any more
	Late  bool
}

// WhatIf returns what would become wrong, and right, if files had other texts, which are
// not written. A file may be a new one.
func (a *Asker) WhatIf(ctx context.Context, texts map[string]string) (*Change, error) {
	return a.compare(ctx, texts, true)
}

// compare is WhatIf. If it is not wide, the server is given no files beside those that it has.
func (a *Asker) compare(ctx context.Context, texts map[string]string, wide bool) (*Change, error) {
	names := slices.Sorted(maps.Keys(texts))
	if len(names) == 0 {
		return nil, tools.Failf("no_target", "No file is named.")
	}
	server, program, err := a.set.serverFor(names[0])
	if err != nil {
		return nil, err
	}
	at, err := a.set.serversOf(a.env)
	if err != nil {
		return nil, err
	}
	var answer Change
	err = at.ask(ctx, server, program, a.env, func(p *process) error {
		q := &question{Asker: a, process: p, ctx: ctx, mentions: make(map[uri.URI]*mentioned)}
		if !p.settled.Load() {
			a.await(ctx, p)
		}
		p.questions.Lock() // nobody else is to see these texts
		defer p.questions.Unlock()
		if err := q.sync(); err != nil {
			return err
		}
		answer = Change{}
		if err := q.whatIf(names, texts, wide, &answer); err != nil {
			return err
		}
		answer.Server, answer.Unwatched = server.Name, p.unwatched()
		answer.Indexing, _ = p.client.busy()
		answer.Trouble = p.client.trouble()
		return nil
	})
	return &answer, err
}

func (q *question) whatIf(names []string, texts map[string]string, wide bool, answer *Change) (err error) {
	var there, missing []string
	for _, name := range names {
		if len(texts[name]) > maxText {
			return tools.Failf("too_large", "The text of %s is too large for a language server: at most %d MiB are possible.", name, maxText>>20)
		}
		path, err := q.inside(name)
		if err != nil {
			return err
		}
		info, err := q.files.Stat(path)
		if err != nil {
			return err
		}
		if info.Exists() {
			there = append(there, name)
		} else if missing = append(missing, name); q.server.languageOf(path) == "" {
			return tools.Failf("other_language", "%s is not in a language of %s: ask about files of one language at a time.", name, q.server.Name)
		}
	}
	if len(names) > maxFiles {
		return tools.Failf("too_many_files", "%d files are too many for one question: at most %d are possible.", len(names), maxFiles)
	}
	docs, err := q.openAll(there)
	if err != nil {
		return err
	}
	var others []document
	if wide {
		if others, answer.Unseen, err = q.dependents(docs, there, texts); err != nil {
			return err
		}
	}
	others = append(others, q.others(append(slices.Clip(docs), others...))...)
	before, late, err := q.examine(append(slices.Clip(docs), others...))
	if err != nil {
		return err
	}
	answer.Late = late
	known := q.all(before)

	// Whatever happens from here on, the server has the texts of the files again in the end,
	// or is ended.
	defer func() {
		if failed := q.restore(there, missing); failed != nil {
			q.end(failed)
			err = cmp.Or(err, failed)
		}
	}()
	q.mu.Lock()
	for i, name := range there {
		if err == nil {
			d := q.docs[docs[i].path]
			if d == nil {
				err = fmt.Errorf("%s: it was closed meanwhile", name)
				break
			}
			err = q.setText(q.ctx, d, newText(texts[name]))
			docs[i] = *d
		}
	}
	for _, name := range missing {
		path, _ := q.files.Resolve(name)
		if err == nil {
			var d *document
			if d, err = q.give(q.ctx, path, workspace.File{}, newText(texts[name])); err == nil {
				docs = append(docs, *d)
			}
		}
	}
	q.mu.Unlock()
	if err != nil {
		return err
	}
	q.mentions = make(map[uri.URI]*mentioned)
	after, late, err := q.examine(append(docs, others...))
	if err != nil {
		return err
	}
	answer.Late = answer.Late || late
	now := q.all(after)
	answer.New, answer.Fixed = without(now, known), without(known, now)
	return nil
}

// others returns texts that the server has beside some, the last used first: what a change
// breaks in them is told too.
func (q *question) others(but []document) (list []document) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range slices.SortedFunc(maps.Values(q.docs), func(a, b *document) int { return b.used - a.used }) {
		if len(list)+len(but) < 2*maxFiles && !slices.ContainsFunc(but, func(o document) bool { return o.path == d.path }) {
			list = append(list, *d)
		}
	}
	return list
}

// restore gives the server the texts that files have.
func (q *question) restore(there, missing []string) error {
	ctx := context.WithoutCancel(q.ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range there {
		path, _ := q.files.Resolve(name)
		if d := q.docs[path]; d != nil {
			d.file = workspace.File{} // so that it is read
			if err := q.reload(ctx, d); err != nil {
				return err
			}
		}
	}
	for _, name := range missing {
		path, _ := q.files.Resolve(name)
		if d := q.docs[path]; d != nil {
			if err := q.shut(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// without returns what a list has and the other has not.
func without(list, other []Problem) (rest []Problem) {
	count := make(map[Problem]int)
	for _, p := range other {
		count[p.same()]++
	}
	for _, p := range list {
		if count[p.same()]--; count[p.same()] < 0 {
			rest = append(rest, p)
		}
	}
	return rest
}

// Times of servers that tell of problems by themselves.
const (
	// settleTime is after how long without a report such a server counts as done. longerSettleTime
	// is the same for servers whose reports do not name the version of a text: they report
	// nothing about a text whose problems have not changed.
	settleTime       = 300 * time.Millisecond
	longerSettleTime = time.Second

	// pushTime is how long it has to tell of a file.
	pushTime = 15 * time.Second
)

// examine returns what is wrong with texts that the server has, and with others that it
// tells of, by path. late says that it did not tell in time.
func (q *question) examine(docs []document) (found map[string][]protocol.Diagnostic, late bool, err error) {
	found = make(map[string][]protocol.Diagnostic)
	if q.can.DiagnosticProvider != nil {
		for _, d := range docs {
			if err := q.pull(&d, found); err != nil {
				return nil, false, err
			}
		}
		return found, false, nil
	}
	late, err = q.awaitPushes(docs)
	if err != nil {
		return nil, false, err
	}
	q.client.mu.Lock()
	defer q.client.mu.Unlock()
	for path, r := range q.client.found {
		if name, inside := q.nameOf(path); inside {
			found[name] = r.list
		}
	}
	return found, late, nil
}

// pull asks what is wrong with a text.
func (q *question) pull(d *document, found map[string][]protocol.Diagnostic) error {
	result, err := within(q, func(ctx context.Context) (protocol.DocumentDiagnosticReport, error) {
		return q.remote.Diagnostic(ctx, &protocol.DocumentDiagnosticParams{TextDocument: protocol.TextDocumentIdentifier{URI: q.uri(d.path)}})
	})
	if err != nil {
		return err
	}
	full, ok := result.(*protocol.RelatedFullDocumentDiagnosticReport)
	if !ok {
		return nil
	}
	found[d.path] = full.Items[:min(len(full.Items), maxDiagnostics)]
	for at, related := range full.RelatedDocuments {
		if r, ok := related.(*protocol.FullDocumentDiagnosticReport); ok && len(found) < maxReports {
			if name, inside := q.nameOf(uri.URI(at).FsPath()); inside {
				found[name] = r.Items[:min(len(r.Items), maxDiagnostics)]
			}
		}
	}
	return nil
}

// awaitPushes waits until a server has told what is wrong with texts, and then no more.
func (q *question) awaitPushes(docs []document) (late bool, err error) {
	// A server that has answered this question has begun to check the text.
	if len(docs) > 0 && q.can.DocumentSymbolProvider != nil {
		if _, err := q.symbolsIn(&docs[0]); err != nil {
			return false, err
		}
	}
	q.mu.Lock()
	since := q.changed
	q.mu.Unlock()
	limit := time.NewTimer(min(pushTime, q.timeout))
	defer limit.Stop()
	for {
		changed, all, wait := q.pushed(docs, since)
		var settled <-chan time.Time
		if all {
			if wait <= 0 {
				return false, nil
			}
			settled = time.After(wait)
		}
		select {
		case <-changed:
		case <-settled:
		case <-limit.C:
			return !all, nil
		case <-q.conn.Done():
			return false, errGone
		case <-q.ctx.Done():
			return false, context.Cause(q.ctx)
		}
	}
}

// pushed reports whether the server has told of all texts, and for how long it should be
// quiet still.
func (q *question) pushed(docs []document, since time.Time) (changed <-chan struct{}, all bool, wait time.Duration) {
	q.client.mu.Lock()
	defer q.client.mu.Unlock()
	all, wait = true, settleTime
	for _, d := range docs {
		r, ok := q.client.found[filepath.Join(q.files.Dir(), d.path)]
		all = all && ok && (!r.versioned || r.version >= d.version)
		if !r.versioned {
			wait = longerSettleTime
		}
	}
	for _, w := range q.client.working {
		all = all && !w.diagnosing()
	}
	if q.client.last.After(since) {
		since = q.client.last
	}
	return q.client.changed, all, wait - time.Since(since)
}

// all returns all problems of an answer.
func (q *question) all(found map[string][]protocol.Diagnostic) (list []Problem) {
	for _, path := range slices.Sorted(maps.Keys(found)) {
		list = append(list, q.problems(path, found[path])...)
	}
	return list
}

var severities = []string{"error", "error", "warning", "information", "hint"} // one that is not told is an error

// problems returns what is wrong with a file, in our words.
func (q *question) problems(path string, all []protocol.Diagnostic) (list []Problem) {
	at := q.uri(path)
	for _, d := range all {
		l, ok := q.location(at, d.Range)
		if !ok {
			continue
		}
		p := Problem{Location: l, Severity: "hint", Message: words(d.Message)}
		if int(d.Severity) < len(severities) {
			p.Severity = severities[d.Severity]
		}
		p.Source, _ = d.Source.Get()
		if d.Code != nil {
			p.Code = fmt.Sprint(d.Code)
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(byPlace(a.Location, b.Location), cmp.Compare(a.Message, b.Message))
	})
	return list
}
