// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/memory"
	"github.com/toolserver/toolserver/internal/output"
	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed ingest.md
var ingestDoc string

//go:embed search.md
var searchDoc string

// What knowledge_ingest does.
const (
	opIngest = "ingest"
	opList   = "list"
	opRemove = "remove"
)

type ingestInput struct {
	Operation string `json:"operation,omitempty" check:"enum=ingest|list|remove" jsonschema:"default ingest"`
	Path      string `json:"path,omitempty" check:"min=1,max=4096" jsonschema:"file or folder"`
	URL       string `json:"url,omitempty" check:"min=1,max=8192" jsonschema:"http or https"`
	Text      string `json:"text,omitempty" check:"max=1000000" jsonschema:"with name"`
	Name      string `json:"name,omitempty" check:"max=200" jsonschema:"of the source; default its path or url"`
	Include   string `json:"include,omitempty" check:"max=1000" jsonschema:"files of a folder: **/*.md"`
	Scope     string `json:"scope,omitempty" check:"enum=principal|tenant" jsonschema:"default principal"`
}

func (in ingestInput) operation() string { return cmp.Or(in.Operation, opIngest) }

// name is what the source is called.
func (in ingestInput) name() string { return cmp.Or(in.Name, in.Path, in.URL) }

// Check finds what the schema cannot tell.
func (in ingestInput) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	given := 0
	for _, text := range []string{in.Path, in.URL, in.Text} {
		if text != "" {
			given++
		}
	}
	switch op := in.operation(); {
	case op == opIngest && given != 1:
		wrong("", "want one of path, url and text: what is to be ingested")
	case op == opIngest && in.Text != "" && in.Name == "":
		wrong("/name", "is required with text: what the source is called")
	case op == opRemove && in.name() == "":
		wrong("/name", "is required: the source to remove")
	}
	if in.URL != "" && in.operation() == opIngest {
		if _, _, _, err := egress.ParseURL(in.URL); err != nil {
			wrong("/url", err.Error())
		}
	}
	return append(problems, checkLine("/name", in.name())...)
}

func (f *family) ingest() tools.Tool {
	preview := func(_ context.Context, _ tools.Env, in ingestInput) tools.Preview {
		switch in.operation() {
		case opList:
			return tools.Preview{Kind: tools.PreviewText, Text: "Lists the sources of knowledge."}
		case opRemove:
			return f.preview(fmt.Sprintf("Removes the source %q of knowledge", in.name()), in.Scope, "")
		}
		what := "Takes " + cmp.Or(in.Path, in.URL, "a text") + " into knowledge"
		if in.Include != "" {
			what += ", the files " + in.Include
		}
		return f.preview(what+fmt.Sprintf(", as the source %q", in.name()), in.Scope, in.Text)
	}
	return tools.WithPreview(tools.New(
		tools.Spec{
			Name: "knowledge_ingest", Aliases: []string{"KnowledgeIngest"}, Label: "Take in knowledge", Summary: "Take files, folders, pages or text into knowledge.",
			Description: ingestDoc, Help: help, Category: category, Level: tools.ReadOnly, DefaultTimeout: 10 * time.Minute,
			Examples: []tools.Example{
				{Summary: "A text", Input: json.RawMessage(`{"name":"glossary","text":"# Terms\n\nA permit is the right to run a call."}`)},
				{Summary: "What there is", Input: json.RawMessage(`{"operation":"list"}`)},
			},
		},
		func(env tools.Env, in ingestInput) (effects []tools.Effect) {
			if in.operation() == opList {
				return nil
			}
			effects = changes("knowledge", scopeOf(in.Scope))
			switch {
			case in.operation() != opIngest:
			case in.Path != "":
				effects = append(effects, env.ViewsTree(in.Path)...)
			case in.URL != "":
				effects = append(effects, f.web.Reaches(in.URL)...)
			}
			return effects
		},
		f.runIngest), preview)
}

func (f *family) runIngest(ctx context.Context, env tools.Env, in ingestInput, out tools.Sink) (tools.Result, error) {
	who := memory.WhoOf(env)
	switch in.operation() {
	case opList:
		return f.listSources(ctx, who)
	case opRemove:
		there, err := f.store.Remove(ctx, who, scopeOf(in.Scope), in.name())
		if err == nil && !there {
			err = f.noSource(env, in.name(), scopeOf(in.Scope))
		}
		if err != nil {
			return tools.Result{}, err
		}
		return tools.Detailed(fmt.Sprintf("Removed %q.\n", in.name()), map[string]any{"removed": in.name()})
	}
	source := memory.Source{Name: in.name(), Kind: "text"}
	switch {
	case in.Path != "":
		source.Kind, source.Origin = "path", in.Path
	case in.URL != "":
		source.Kind, source.Origin = "url", in.URL
	}
	ingestion, err := f.store.Ingest(ctx, who, scopeOf(in.Scope), source)
	if err != nil {
		return tools.Result{}, err
	}
	var left leftOut
	switch {
	case in.Path != "":
		err = f.addPath(ctx, env, in, ingestion, &left, out)
	case in.URL != "":
		var url, title, text string
		if url, title, text, err = f.web.Read(ctx, env, in.URL); err == nil {
			if title != "" {
				text = "# " + line(title) + "\n\n" + text
			}
			err = ingestion.Add(url, text)
		}
	default:
		err = ingestion.Add(in.Name, in.Text)
	}
	if err != nil {
		return tools.Result{}, err
	}
	report, err := ingestion.Commit(ctx, func(done, total int) {
		out.Emit(tools.Progress{Message: "Storing", Done: float64(done), Total: float64(total), Unit: "packs"})
	})
	if err != nil {
		return tools.Result{}, err
	}
	return f.tellIngested(report, &left)
}

func (f *family) noSource(env tools.Env, name string, scope memory.Scope) error {
	return tools.Failf("not_found", "There is no source %q in scope %s. %s lists what there is.", name, scope, env.Words.GoOn("knowledge_ingest", ingestInput{Operation: opList}))
}

// leftOut counts files that were not ingested.
type leftOut struct{ binary, large, unreadable atomic.Int64 }

// How many bytes a file has that is ingested, and a document.
const (
	maxFile     = 4 << 20
	maxDocument = 16 << 20
)

// addPath adds a file, or the files of a folder.
func (f *family) addPath(ctx context.Context, env tools.Env, in ingestInput, to *memory.Ingestion, left *leftOut, out tools.Sink) error {
	view, err := env.View(in.Path)
	if err != nil {
		return explain(err, in.Path)
	}
	defer view.Close()
	search := f.engines.Engine(view.Workspace)
	if view.Beside() {
		search = engine.New(view.Workspace, nil)
	}
	withheld := view.Withheld(true)
	files, _, err := search.Glob(ctx, engine.Scope{Path: view.Path, Match: in.Include, Exclude: withheld}, engine.ByName)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return explain(err, in.Path)
	}
	if limit := f.store.MaxFiles(); len(files) > limit {
		return memory.TooManyFiles(len(files), limit)
	}
	if len(files) == 0 {
		return tools.Failf("no_files", "%s: there is no file that can be ingested: hidden and ignored ones are left out, and include chooses among the others.", in.Path)
	}
	var work errgroup.Group
	work.SetLimit(4)
	var mu sync.Mutex
	done := 0
	for _, file := range files {
		work.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := f.addFile(ctx, view, file.Path, to, left)
			mu.Lock()
			defer mu.Unlock()
			if done++; done%100 == 0 || done == len(files) {
				out.Emit(tools.Progress{Message: "Reading", Done: float64(done), Total: float64(len(files)), Unit: "files"})
			}
			return err
		})
	}
	return work.Wait()
}

func (f *family) addFile(ctx context.Context, view *tools.View, path string, to *memory.Ingestion, left *leftOut) error {
	limit := int64(maxFile)
	if strings.HasSuffix(strings.ToLower(path), ".pdf") {
		limit = maxDocument
	}
	file, err := view.Workspace.ReadFile(path, limit)
	switch {
	case errors.Is(err, workspace.ErrTooLarge):
		left.large.Add(1)
		return nil
	case err != nil || !file.Exists():
		left.unreadable.Add(1)
		return nil
	case bytes.HasPrefix(file.Data, []byte("%PDF-")):
		text, err := f.web.Document(ctx, file.Data)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || text == "" {
			left.unreadable.Add(1)
			return nil
		}
		return to.Add(view.Name(path), text)
	case bytes.IndexByte(file.Data, 0) >= 0 || !utf8.Valid(file.Data):
		left.binary.Add(1)
		return nil
	}
	return to.Add(view.Name(path), unsafe.String(unsafe.SliceData(file.Data), len(file.Data))) // without a copy: nobody else has the bytes
}

func explain(err error, path string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tools.Failf("file_not_found", "%s: there is no such file or directory. Check the path: it is relative to the workspace root.", strconv.Quote(path))
	case errors.Is(err, fs.ErrPermission):
		return tools.Failf("permission_denied", "%v", err)
	case errors.Is(err, workspace.ErrOutside):
		return tools.Failf("outside_workspace", "%v. Only files of the workspace, and those that commands read beside it, can be ingested.", err)
	}
	return err
}

func (f *family) tellIngested(r memory.Report, left *leftOut) (tools.Result, error) {
	s := r.Source
	text := fmt.Sprintf("Ingested %q into scope %s: %s, %s of text. New or changed %d, unchanged %d, gone %d", s.Name, s.Scope, tools.Count(s.Files, "file", "files"), amount(s.Bytes), r.Added, r.Kept, r.Removed)
	if r.Repeated > 0 {
		text += fmt.Sprintf(", the same as another %d", r.Repeated)
	}
	text += "." + f.lasts() + "\n"
	for _, one := range []struct {
		n   int64
		why string
	}{{left.binary.Load(), "are no text"}, {left.large.Load(), "are larger than " + size.Bytes(maxFile).String()}, {left.unreadable.Load(), "could not be read"}} {
		if one.n > 0 {
			text += fmt.Sprintf("(left out: %d that %s)\n", one.n, one.why)
		}
	}
	if r.Masked > 0 {
		text += fmt.Sprintf("(in %s secrets were masked)\n", tools.Count(r.Masked, "file", "files"))
	}
	for _, note := range r.Notes {
		text += "(" + note + ")\n"
	}
	return tools.Detailed(text, map[string]any{
		"source": s.Name, "scope": s.Scope, "files": s.Files, "bytes": s.Bytes, "added": r.Added, "kept": r.Kept, "removed": r.Removed, "repeated": r.Repeated,
		"binary": left.binary.Load(), "too_large": left.large.Load(), "unreadable": left.unreadable.Load(), "masked": r.Masked,
	})
}

// amount is how much text that is, with its unit.
func amount(bytes int64) string {
	if bytes%1024 != 0 || bytes == 0 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return size.Bytes(bytes).String()
}

func (f *family) listSources(ctx context.Context, who memory.Who) (tools.Result, error) {
	list, partial, err := f.store.Sources(ctx, who, []memory.Scope{memory.OfPrincipal, memory.OfTenant})
	if err != nil {
		return tools.Result{}, err
	}
	var b strings.Builder
	details := []map[string]any{}
	for _, s := range list {
		fmt.Fprintf(&b, "[%s] %s (%s, %s, %s, %s)", s.Scope, s.Name, s.Kind, tools.Count(s.Files, "file", "files"), amount(s.Bytes), s.Updated.Format(time.DateOnly))
		if s.Broken {
			b.WriteString(" damaged: some of it is not found; ingest it again")
		}
		b.WriteString("\n")
		details = append(details, map[string]any{"name": s.Name, "scope": s.Scope, "kind": s.Kind, "origin": s.Origin, "files": s.Files, "bytes": s.Bytes, "updated": s.Updated, "by": s.By, "damaged": s.Broken})
	}
	if len(list) == 0 {
		b.WriteString("There are no sources.\n")
	}
	return tools.Detailed(b.String()+f.notes(memory.Found{Partial: partial}), map[string]any{"sources": details, "partial": partial})
}

type searchInput struct {
	Query  string   `json:"query" check:"min=1,max=1000" jsonschema:"plain words"`
	Source string   `json:"source,omitempty" check:"max=200" jsonschema:"this one alone"`
	Path   string   `json:"path,omitempty" check:"max=4096" jsonschema:"what is below it alone"`
	Scopes []string `json:"scopes,omitempty" check:"max=2" jsonschema:"principal, tenant; default both"`
	Limit  int      `json:"limit,omitempty" check:"min=1,max=50" jsonschema:"default 8"`
	Offset int      `json:"offset,omitempty" check:"min=0,max=10000"`
}

// Check finds what the schema cannot tell.
func (in searchInput) Check() []tools.Problem {
	problems := checkScopes(in.Scopes, memory.OfPrincipal, memory.OfTenant)
	if strings.TrimSpace(in.Query) == "" {
		problems = append(problems, tools.Problem{Pointer: "/query", Message: "is blank: want words to look for"})
	}
	return problems
}

func (f *family) search() tools.Tool {
	return tools.New(
		tools.Spec{
			Name: "knowledge_search", Aliases: []string{"KnowledgeSearch"}, Label: "Search knowledge", Summary: "Search what was taken into knowledge.",
			Description: searchDoc, Help: help, Category: category, Level: tools.ReadOnly, ConcurrencySafe: true, Pages: true,
			Examples: []tools.Example{{Summary: "By words", Input: json.RawMessage(`{"query":"how a permit is granted"}`)}},
		},
		nil,
		func(ctx context.Context, env tools.Env, in searchInput, _ tools.Sink) (tools.Result, error) {
			scopes := scopesOf(in.Scopes, memory.OfPrincipal, memory.OfTenant)
			q := memory.Query{Text: in.Query, Source: in.Source, Path: in.Path, Limit: cmp.Or(in.Limit, 8), Offset: in.Offset}
			found, err := f.store.Search(ctx, memory.WhoOf(env), scopes, q)
			if err == nil && found.Matched == 0 && in.Source != "" && !found.Partial {
				err = f.knownSource(ctx, env, in.Source, scopes)
			}
			if err != nil {
				return tools.Result{}, err
			}
			return f.showParts(env, in, found)
		})
}

// knownSource returns an error that names the sources there are, if one is not among them.
func (f *family) knownSource(ctx context.Context, env tools.Env, name string, scopes []memory.Scope) error {
	list, _, err := f.store.Sources(ctx, memory.WhoOf(env), scopes)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range list {
		if s.Name == name {
			return nil
		}
		names = append(names, strconv.Quote(s.Name))
	}
	const most = 20
	there := cmp.Or(strings.Join(names[:min(most, len(names))], ", "), "none")
	if len(names) > most {
		there += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return tools.Failf("not_found", "There is no source %.200q. There are: %s.", name, there)
}

// Parts that are longer are shown by lines around the one that has most of what was asked for.
const maxExcerpt = 800

func excerpt(text, query string) string {
	if len(text) <= maxExcerpt {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	words := strings.Fields(strings.ToLower(query))
	first, most := 0, 0
	for i, line := range lines {
		line, has := strings.ToLower(line), 0
		for _, word := range words {
			if strings.Contains(line, word) {
				has++
			}
		}
		if has > most {
			first, most = i, has
		}
	}
	last, size := first+1, len(lines[first]) // the lines shown, and their bytes
	for grows := true; grows; {
		grows = false
		if last < len(lines) && size+len(lines[last]) <= maxExcerpt {
			size, last, grows = size+len(lines[last]), last+1, true
		}
		if first > 0 && size+len(lines[first-1]) <= maxExcerpt {
			size, first, grows = size+len(lines[first-1]), first-1, true
		}
	}
	shown := output.Short(strings.TrimRight(strings.Join(lines[first:last], ""), "\n"), 2*maxExcerpt)
	if first > 0 {
		shown = "…\n" + shown
	}
	if last < len(lines) {
		shown += "\n…"
	}
	return shown
}

// foundPart is a part, for programs.
type foundPart struct {
	Source  string       `json:"source"`
	Scope   memory.Scope `json:"scope"`
	Place   string       `json:"place"`
	Also    []string     `json:"also,omitempty"`
	Heading string       `json:"heading,omitempty"`
	Text    string       `json:"text"`
	Score   float64      `json:"score"`
}

// placeOf tells where a part is: path:lines, or address#heading.
func placeOf(p memory.Part) string {
	if p.Kind != "url" {
		return fmt.Sprintf("%s:%d-%d", p.Path, p.Line, p.Last)
	}
	headings := strings.Split(p.Heading, " > ")
	last := headings[len(headings)-1]
	if last == "" {
		return p.Path
	}
	return p.Path + "#" + strings.ReplaceAll(line(last), " ", "-")
}

func (f *family) showParts(env tools.Env, in searchInput, found memory.Found) (tools.Result, error) {
	var b strings.Builder
	shown := make([]foundPart, 0, len(found.Parts))
	room := env.Shown() - 400
	for i, p := range found.Parts {
		text := fmt.Sprintf("%d. %s", in.Offset+i+1, placeOf(p))
		if p.Heading != "" {
			text += " § " + p.Heading
		}
		if p.Source != p.Path {
			text += fmt.Sprintf(" (source %s)", p.Source)
		}
		if len(p.Also) > 0 {
			text += fmt.Sprintf(" (also in %s)", strings.Join(p.Also[:min(3, len(p.Also))], ", "))
		}
		text += "\n" + tools.Visible(excerpt(p.Text, in.Query)) + "\n\n"
		if i > 0 && b.Len()+len(text) > room {
			break
		}
		b.WriteString(text)
		shown = append(shown, foundPart{p.Source, p.Scope, placeOf(p), p.Also, p.Heading, p.Text, found.Scores[i]})
	}
	out := "Nothing was found: words are matched as they are written, but for case and plurals. Try other words and forms, or see what there is with operation list of knowledge_ingest.\n"
	if len(shown) > 0 {
		out = tools.Untrusted("knowledge", b.String())
	}
	if next := in.Offset + len(shown); next < found.Matched && len(shown) > 0 {
		in.Offset = next
		out += fmt.Sprintf("(%d of %d: go on with %s)\n", next, found.Matched, env.Words.GoOn("knowledge_search", in))
	}
	return tools.Detailed(out+f.notes(found), map[string]any{"foreign": true, "parts": shown, "matched": found.Matched, "partial": found.Partial})
}
