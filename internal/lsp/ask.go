// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.lsp.dev/jsonrpc2"
	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"

	"github.com/toolserver/toolserver/internal/tools"
)

// An Asker asks the language servers of the session of a call.
type Asker struct {
	set  *Set
	env  tools.Env
	tell func(tools.Progress)
}

// For returns who asks for a call. tell is told what a server is busy with while the call
// waits for it; it may be nil.
func (s *Set) For(env tools.Env, tell func(tools.Progress)) *Asker {
	if tell == nil {
		tell = func(tools.Progress) {}
	}
	return &Asker{set: s, env: env, tell: tell}
}

// About is what is known of an answer as a whole.
type About struct {
	Server string // who answered

	// Indexing is what the server was still busy with: the answer may lack something.
	// It is empty for an answer that is complete.
	Indexing string

	// Trouble is what the server said that keeps it from knowing everything, such as
	// modules that it does not find.
	Trouble string

	// Unwatched says that there are more files than changes are known of.
	Unwatched bool

	// Unseen is how many files have the name that was asked about, or one of what would be
	// changed, and were not given to the server: there were too many.
	Unseen int
}

// A question is one that is put to a server.
type question struct {
	*Asker
	*process
	ctx context.Context

	mentions map[uri.URI]*mentioned // files that the answer is about
	unseen   []string               // files that have the name which is asked about, and which the server was not given
}

// indexTime is how long an answer waits for a server that begins.
const indexTime = 10 * time.Second

// askAt puts a question about a target to the server of its file.
func (a *Asker) askAt(ctx context.Context, t Target, f func(q *question, d document, at protocol.Position) error) (about About, err error) {
	if t, err = a.resolve(ctx, t); err != nil {
		return about, err
	}
	return a.ask(ctx, t.Path, func(q *question) error {
		d, at, err := q.at(t)
		if err != nil {
			return err
		}
		return f(q, d, at)
	})
}

// ask puts a question about a file to its server. f may be called again, where the server
// died or did not know everything yet.
func (a *Asker) ask(ctx context.Context, path string, f func(q *question) error) (about About, err error) {
	server, program, err := a.set.serverFor(path)
	if err != nil {
		return about, err
	}
	return a.askServer(ctx, server, program, f)
}

func (a *Asker) askServer(ctx context.Context, server *Server, program string, f func(q *question) error) (about About, err error) {
	at, err := a.set.serversOf(a.env)
	if err != nil {
		return about, err
	}
	err = at.ask(ctx, server, program, a.env, func(p *process) error {
		p.questions.RLock()
		defer p.questions.RUnlock()
		q := &question{Asker: a, process: p, ctx: ctx, mentions: make(map[uri.URI]*mentioned)}
		if !p.settled.Load() {
			a.await(ctx, p)
		}
		if err := q.sync(); err != nil {
			return err
		}
		if err := f(q); err != nil {
			return err
		}
		// An answer of a server that has not read everything yet is asked for once more.
		if !p.settled.Swap(true) {
			if what, _ := p.client.busy(); what != "" && a.await(ctx, p) {
				if err := f(q); err != nil {
					return err
				}
			}
		}
		about.Server, about.Unwatched = server.Name, p.unwatched()
		about.Indexing, _ = p.client.busy()
		about.Trouble, about.Unseen = p.client.trouble(), len(q.unseen)
		return nil
	})
	return about, err
}

// await waits until a server that has begun not long ago knows the workspace, for some
// time, and reports whether it does.
func (a *Asker) await(ctx context.Context, p *process) bool {
	timer := time.NewTimer(min(indexTime, p.timeout/4))
	defer timer.Stop()
	for {
		what, changed := p.client.busy()
		if what == "" {
			return true
		}
		a.tell(tools.Progress{Message: p.server.Name + ": " + what})
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		case <-p.conn.Done():
			return false
		}
	}
}

// Codes of questions that a server does not want to answer, and of those it leaves open.
const (
	codeRefused  = "language_server_refused"
	codeNoAnswer = "no_answer"
)

// within puts one request to the server, for as long as one may take. A server that does
// not answer and is busy with nothing that it told of has hung, and is ended.
func within[T any](q *question, ask func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(q.ctx, q.timeout)
	defer cancel()
	answer, err := ask(ctx)
	if err == nil {
		return answer, nil
	}
	var none T
	if q.ctx.Err() != nil {
		return none, context.Cause(q.ctx)
	}
	if ctx.Err() != nil {
		if what, _ := q.client.busy(); what != "" {
			return none, &tools.Failure{Code: "still_indexing", Retryable: true, Message: fmt.Sprintf("%s did not answer within %s: it is still busy with %s. Ask again in a while.", q.server.Name, q.timeout, what)}
		}
		q.end(fmt.Errorf("it did not answer within %s", q.timeout))
		return none, tools.Failf(codeNoAnswer, "%s did not answer within %s and was ended; the next question starts it again. Ask about something smaller, or do without a language server.", q.server.Name, q.timeout)
	}
	if refused, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		text := fmt.Sprintf("%s answered: %s.", q.server.Name, strings.TrimSuffix(clip(refused.Message), "."))
		if trouble := q.client.trouble(); trouble != "" {
			text += " It says: " + trouble
		}
		return none, tools.Failf(codeRefused, "%s", text)
	}
	if !strings.Contains(err.Error(), "unmarshaling result") { // the connection is lost
		if q.wasClosed(err) {
			q.awaitExit()
		}
		q.end(err)
		return none, errGone
	}
	return none, tools.Failf("wrong_answer", "%s answered what is no answer: %s.", q.server.Name, clip(err.Error()))
}

// A Target is what a question is about: a position, or a symbol by its name. With a line, the
// symbol is looked for in that line, with a path alone in that file, without one in all of
// the workspace.
type Target struct {
	Path   string // of the workspace, relative
	Line   int    // from one
	Column int    // in characters, from one
	Symbol string // a name, or several joined by dots: Server.Close
}

// A Location is a piece of code.
type Location struct {
	Path            string // relative to the workspace; absolute where it is outside
	Line, Column    int    // of its beginning
	EndLine, EndCol int    // behind its end
	Text            string // of its first line; empty where it may not be read
}

// String names the place as people do.
func (l Location) String() string { return fmt.Sprintf("%s:%d:%d", l.Path, l.Line, l.Column) }

// at returns the position of a target with a path, which the server has the text of.
func (q *question) at(t Target) (document, protocol.Position, error) {
	none := protocol.Position{}
	path, err := q.inside(t.Path)
	if err != nil {
		return document{}, none, err
	}
	d, err := q.open(q.ctx, path)
	if err != nil {
		return d, none, err
	}
	switch {
	case t.Symbol != "" && t.Line > 0:
		if t.Column, err = columnOf(d.text, t); err != nil {
			return d, none, err
		}
	case t.Symbol != "":
		found, err := q.namedIn(&d, t.Symbol)
		if err != nil {
			return d, none, err
		}
		t.Line, t.Column = found.Line, found.Column
	}
	position, err := d.text.position(t.Path, t.Line, t.Column, q.encoding)
	return d, position, err
}

// inside returns where a name of the workspace leads.
func (q *question) inside(name string) (string, error) {
	path, inside := name, true
	if q.knownText(name) == nil { // the name of a file that was read leads to it, until somebody changes that
		path, inside = q.env.Workspace.Resolve(name)
	}
	if !inside {
		return "", tools.Failf("outside", "%s is outside of the workspace.", name)
	}
	if withheld := q.env.WithheldBelow(".", true); withheld != nil && withheld(path) {
		return "", tools.Failf("withheld", "%s may not be read.", name)
	}
	return path, nil
}

// columnOf returns the column of a name in a line.
func columnOf(in *text, t Target) (int, error) {
	if t.Line > max(1, in.lines()) {
		return 0, tools.Failf("no_such_position", "Line %d is not in %s, which has %d lines.", t.Line, t.Path, in.lines())
	}
	line := in.line(t.Line - 1)
	name := lastPart(t.Symbol)
	if name == "" {
		return 0, tools.Failf("no_such_symbol", "%q is no name of a symbol: such as Close or Server.Close is.", t.Symbol)
	}
	for from := 0; ; {
		i := strings.Index(line[from:], name)
		if i < 0 {
			return 0, tools.Failf("no_such_symbol", "There is no %s in line %d of %s, which is: %s", name, t.Line, t.Path, clip(line))
		}
		begin, end := from+i, from+i+len(name)
		if !isWord(lastRune(line[:begin])) && !isWord(firstRune(line[end:])) {
			return len([]rune(line[:begin])) + 1, nil
		}
		from = begin + 1
	}
}

// location returns a place of a server in our words. It reports false for one that may not
// be told of.
func (q *question) location(at uri.URI, r protocol.Range) (Location, bool) {
	f := q.file(at)
	if f.withheld {
		return Location{}, false
	}
	l := Location{Path: f.name, Line: int(r.Start.Line) + 1, Column: int(r.Start.Character) + 1, EndLine: int(r.End.Line) + 1, EndCol: int(r.End.Character) + 1}
	if f.text != nil {
		l.Line, l.Column = f.text.place(r.Start, q.encoding)
		l.EndLine, l.EndCol = f.text.place(r.End, q.encoding)
		l.Text = f.text.line(l.Line - 1)
	}
	return l, true
}

// A mentioned is a file that an answer is about.
type mentioned struct {
	name     string // of the workspace; absolute where it is outside
	text     *text  // nil where it cannot be read
	withheld bool   // it may not be told of
}

// file returns what is known of a file that an answer is about.
func (q *question) file(at uri.URI) *mentioned {
	if f := q.mentions[at]; f != nil {
		return f
	}
	f := new(mentioned)
	q.mentions[at] = f
	if !at.IsFile() { // a text that a server has made, such as of a library
		f.name = clip(string(at))
		return f
	}
	path := at.FsPath()
	name, inside := q.nameOf(path)
	f.name = name
	if !inside {
		if f.withheld = q.deny != nil && q.deny.Denies(path); !f.withheld {
			f.text = q.outside(path)
		}
		return f
	}
	if withheld := q.env.WithheldBelow(".", true); withheld != nil && withheld(name) {
		f.withheld = true
	} else if real, err := q.inside(name); err == nil {
		f.text = q.textOf(real)
	}
	return f
}

// nameOf returns a path as the workspace knows it, and whether it is inside.
func (q *question) nameOf(path string) (string, bool) {
	path = filepath.Clean(path)
	rel, inside := strings.CutPrefix(path, strings.TrimSuffix(q.files.Dir(), "/")+"/")
	if !inside {
		return path, false
	}
	return rel, true
}

// outside reads a file of what every command may read, such as a library, or of what the
// session has fetched.
func (q *question) outside(path string) *text {
	trees := q.set.runners.Offer().Readable
	if cache, err := q.env.Session.Cache(); err == nil && cache != "" {
		trees = append(slices.Clip(trees), cache)
	}
	if modules := q.set.config.GoModules; modules != "" && q.server.Name == "gopls" {
		trees = append(slices.Clip(trees), modules)
	}
	for _, tree := range trees {
		rel, err := filepath.Rel(tree, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(tree)
		if err != nil {
			continue
		}
		defer root.Close()
		info, err := root.Stat(rel)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
			return nil
		}
		data, err := root.ReadFile(rel)
		if err != nil {
			return nil
		}
		return newText(strings.ToValidUTF8(string(data), "?"))
	}
	return nil
}
