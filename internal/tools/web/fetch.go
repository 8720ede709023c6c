// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/search/workers"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed fetch.md
var fetchDoc string

//go:embed fetch_help.md
var fetchHelp string

// Modes of web_fetch.
const (
	modeMain      = "main"
	modeFull      = "full"
	modeSelective = "selective"
	modeRaw       = "raw"
)

type fetchInput struct {
	URL         string   `json:"url,omitempty" check:"min=1,max=8192" jsonschema:"http or https"`
	URLs        []string `json:"urls,omitempty" check:"min=1,max=10" jsonschema:"several, in place of url"`
	Mode        string   `json:"mode,omitempty" check:"enum=main|full|selective|raw" jsonschema:"main content (default), the full page, what is round search_terms, or as it was sent"`
	SearchTerms string   `json:"search_terms,omitempty" check:"min=1,max=500" jsonschema:"words, for mode selective"`
	Offset      int      `json:"offset,omitempty" check:"min=0,max=100000000" jsonschema:"characters to pass over"`
	Limit       int      `json:"limit,omitempty" check:"min=1,max=1000000" jsonschema:"characters to show"`
}

func (in fetchInput) Check() (problems []tools.Problem) {
	switch {
	case in.URL == "" && len(in.URLs) == 0:
		return []tools.Problem{{Pointer: "/url", Message: "is required, unless urls are given"}}
	case in.URL != "" && len(in.URLs) > 0:
		return []tools.Problem{{Pointer: "/urls", Message: "takes the place of url: give one of them"}}
	case in.URL != "":
		problems = checkURL("/url", in.URL)
	}
	for i, text := range in.URLs {
		problems = append(problems, checkURL("/urls/"+strconv.Itoa(i), text)...)
	}
	if in.mode() == modeSelective && in.SearchTerms == "" {
		problems = append(problems, tools.Problem{Pointer: "/search_terms", Message: "is required in mode selective: the words to look for"})
	}
	return problems
}

func (in fetchInput) mode() string {
	if in.Mode == "" && in.SearchTerms != "" {
		return modeSelective
	}
	return cmp.Or(in.Mode, modeMain)
}

func (in fetchInput) all() []string {
	if in.URL != "" {
		return []string{in.URL}
	}
	return in.URLs
}

// fetch returns the tool that shows pages.
func (f *Family) fetch() tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:            "web_fetch",
			Aliases:         []string{"WebFetch", "webfetch", "fetch_url"},
			Label:           "Fetch pages",
			Summary:         "Fetch pages of the web as text.",
			Description:     fetchDoc,
			Help:            fetchHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "A page", Input: json.RawMessage(`{"url":"https://go.dev/doc/effective_go"}`)},
				{Summary: "What it says of some words", Input: json.RawMessage(`{"url":"https://go.dev/ref/spec","mode":"selective","search_terms":"range clause"}`)},
				{Summary: "Several pages", Input: json.RawMessage(`{"urls":["https://go.dev/blog/","https://go.dev/doc/"]}`)},
			},
		},
		func(_ tools.Env, in fetchInput) []tools.Effect { return Reaches(in.all()...) },
		f.runFetch)
	return tools.WithForesight(tool, func(_ tools.Env, in fetchInput) error { return f.foresee(in.all()...) })
}

// atOnce is how many pages of one call are fetched at once.
const atOnce = 4

// outcome is what came of one page.
type outcome struct {
	content []tools.Content
	details pageDetails
	err     error
}

// pageDetails is what an agent runtime may want to know about a page.
type pageDetails struct {
	URL        string   `json:"url"`
	FinalURL   string   `json:"final_url,omitempty"`
	Redirects  []string `json:"redirects,omitempty"`
	RedirectTo string   `json:"redirect_to,omitempty"` // that was not followed
	Status     int      `json:"status,omitempty"`
	MediaType  string   `json:"media_type,omitempty"`
	FetchedAt  string   `json:"fetched_at,omitempty"`
	Cached     bool     `json:"cached,omitempty"`
	Digest     string   `json:"digest,omitempty"` // of what was sent
	Size       int      `json:"size"`
	Title      string   `json:"title,omitempty"`
	Published  string   `json:"published,omitempty"`
	Modified   string   `json:"modified,omitempty"`
	Characters int      `json:"characters"`
	Offset     int      `json:"offset,omitempty"`
	Shown      int      `json:"shown"`
	Error      string   `json:"error,omitempty"`
}

// foreignDetails says that the content was written by others.
type foreignDetails struct {
	Foreign bool          `json:"foreign"`
	Pages   []pageDetails `json:"pages"`
}

func (f *Family) runFetch(ctx context.Context, env tools.Env, in fetchInput, _ tools.Sink) (tools.Result, error) {
	all := in.all()
	visit := f.web.Visit(reachedBy(Reaches(all...)).judge(env))
	defer visit.Close()
	outcomes := make([]outcome, len(all))
	part := env
	if len(all) > 1 {
		part = env.Share(len(all))
	}
	places := make(chan struct{}, atOnce)
	workers.Run(len(all), func(i int) {
		places <- struct{}{}
		defer func() { <-places }()
		outcomes[i] = f.show(ctx, part, visit, in, all[i])
	})
	if ctx.Err() != nil {
		return tools.Result{}, context.Cause(ctx)
	}
	details := foreignDetails{Foreign: true}
	var result tools.Result
	failed := 0
	for i, o := range outcomes {
		if o.err != nil {
			failed++
			o.details.Error = o.err.Error()
			o.content = []tools.Content{tools.Text(fmt.Sprintf("(%s could not be fetched: %v)\n", all[i], o.err))}
		}
		details.Pages = append(details.Pages, o.details)
		result.Content = append(result.Content, o.content...)
	}
	if failed == len(all) {
		return tools.Result{}, allFailed(outcomes, all)
	}
	var err error
	result.Details, err = json.Marshal(details)
	return result, err
}

// allFailed is the error of a call that fetched nothing.
func allFailed(outcomes []outcome, all []string) error {
	if len(all) == 1 {
		return outcomes[0].err
	}
	var lines []string
	whole := &tools.Failure{Code: "not_fetched"}
	for i, o := range outcomes {
		lines = append(lines, all[i]+": "+o.err.Error())
		if one, ok := errors.AsType[*tools.Failure](o.err); ok && one.Retryable {
			whole.Retryable = true
		}
	}
	whole.Message = "Nothing could be fetched:\n" + strings.Join(lines, "\n")
	return whole
}

// show fetches one page and shows it.
func (f *Family) show(ctx context.Context, env tools.Env, visit *egress.Visit, in fetchInput, address string) (o outcome) {
	o.details.URL = address
	page, answer, cached, err := f.get(ctx, env, visit, in, address)
	if err != nil {
		o.err = err
		return o
	}
	if answer != nil && answer.Next != nil {
		o.details.Status, o.details.FinalURL, o.details.RedirectTo = answer.Status, answer.URL.String(), answer.Next.String()
		o.content = []tools.Content{tools.Text(fmt.Sprintf("(%s redirects to %s, and that was not followed: %s. To read it, call %s.)\n",
			answer.URL, answer.Next, answer.Stays, env.Words.GoOn("web_fetch", fetchInput{URL: answer.Next.String(), Mode: in.Mode, SearchTerms: in.SearchTerms})))}
		return o
	}
	digest := sha256.Sum256(page.body)
	d := &o.details
	d.FinalURL, d.Redirects, d.Status, d.Cached, d.Size = page.url.String(), page.hops, page.status, cached, len(page.body)
	d.MediaType = mediaTypeOf(page.header.Get("Content-Type"), page.body)
	d.FetchedAt, d.Digest = page.at.UTC().Format(time.RFC3339), "sha256:"+hex.EncodeToString(digest[:])
	if o.err = statusError(page); o.err != nil {
		return o
	}
	document, images, err := f.convertBody(ctx, page, in.mode())
	if err != nil {
		o.err = err
		return o
	}
	if page.cut {
		document.notes = append(document.notes, "it is larger than "+size.Bytes(len(page.body)).String()+", and only so much was fetched")
	}
	o.content = append(document.show(env, in, address, d), images...)
	return o
}

// get returns a page: fetched now, or from the session's cache where it is still the same. An
// answer comes with it where there is a new one.
func (f *Family) get(ctx context.Context, env tools.Env, visit *egress.Visit, in fetchInput, address string) (page *copied, answer *egress.Answer, cached bool, err error) {
	u, _, _, err := egress.ParseURL(address)
	if err != nil {
		return nil, nil, false, failure(err)
	}
	known := f.caches.find(env, u.String())
	if known != nil && in.Offset > 0 && time.Since(known.at) < recent {
		return known, nil, true, nil
	}
	header := make(http.Header)
	if known != nil {
		if etag := known.header.Get("ETag"); etag != "" {
			header.Set("If-None-Match", etag)
		} else if modified := known.header.Get("Last-Modified"); modified != "" {
			header.Set("If-Modified-Since", modified)
		}
	}
	answer, err = visit.Do(ctx, egress.Request{URL: u, Header: header, Follow: true, Robots: true})
	switch {
	case err != nil:
		return nil, nil, false, failure(err)
	case answer.Next != nil:
		return nil, answer, false, nil
	case answer.Status == http.StatusNotModified && known != nil:
		return known, nil, true, nil
	}
	page = &copied{url: answer.URL, hops: answer.Hops, status: answer.Status, header: answer.Header, body: answer.Body, cut: answer.Cut, at: time.Now()}
	if page.status == http.StatusOK {
		f.caches.keep(env, u.String(), page)
	}
	return page, answer, false, nil
}

// statusError is why a page is not shown; nil where it is.
func statusError(page *copied) error {
	if page.status >= 200 && page.status < 300 {
		return nil
	}
	f := &tools.Failure{Code: "http_status", Message: fmt.Sprintf("%s answered with status %d (%s).", page.url, page.status, http.StatusText(page.status))}
	answer := egress.Answer{Header: page.header}
	if wait, said := answer.RetryAfter(); said {
		f.Message += fmt.Sprintf(" It asks to wait %s before trying again.", wait)
	}
	f.Retryable = page.status == http.StatusTooManyRequests || page.status == http.StatusRequestTimeout || page.status >= 500
	return f
}

// show returns what a model sees of a document: a part of its text, between marks that say
// whose words they are.
func (d *document) show(env tools.Env, in fetchInput, address string, details *pageDetails) []tools.Content {
	details.Title, details.Published, details.Modified = d.title, d.published, d.modified
	text := d.text
	if in.mode() == modeSelective {
		var found bool
		if text, found = selectParts(text, in.SearchTerms); !found {
			d.notes = append(d.notes, "none of the words is on the page: this is its beginning")
		}
	}
	var head strings.Builder
	for _, fact := range []struct{ name, value string }{{"Title", d.title}, {"By", d.byline}, {"Published", d.published}, {"Modified", d.modified}} {
		if fact.value != "" {
			fmt.Fprintf(&head, "%s: %s\n", fact.name, fact.value)
		}
	}
	if head.Len() > 0 && text != "" {
		head.WriteByte('\n')
	}
	room := max(env.Shown()-head.Len()-2*len(address)-400, 400)
	limit := cmp.Or(in.Limit, room)
	details.Characters = utf8.RuneCountInString(text)
	details.Offset = in.Offset
	shown, count := window(text, in.Offset, limit, room)
	details.Shown = count
	end := in.Offset + count
	switch {
	case in.Offset >= details.Characters && details.Characters > 0:
		d.notes = append(d.notes, fmt.Sprintf("the text has %d characters, so there is nothing at offset %d", details.Characters, in.Offset))
	case end < details.Characters:
		next := in
		next.URL, next.URLs, next.Offset = address, nil, end
		d.notes = append(d.notes, fmt.Sprintf("characters %d to %d of %d: go on with %s", in.Offset, end, details.Characters, env.Words.GoOn("web_fetch", next)))
	case details.Characters == 0:
		d.notes = append(d.notes, "there is no text: the page may need a browser that runs its scripts")
	}
	if d.refresh != "" {
		d.notes = append(d.notes, "the page asks to go on to "+d.refresh+", which was not followed")
	}
	out := tools.Untrusted(cmp.Or(details.FinalURL, address), head.String()+shown)
	for _, note := range d.notes {
		out += "(" + note + ")\n"
	}
	return []tools.Content{tools.Text(out)}
}

// window returns the characters of a text from an offset on: at most limit, and room bytes.
// It ends with a line where one ends near.
func window(text string, offset, limit, room int) (shown string, count int) {
	for range offset {
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
	end := 0
	for count < limit && end < len(text) {
		_, n := utf8.DecodeRuneInString(text[end:])
		if end+n > room {
			break
		}
		end += n
		count++
	}
	if end < len(text) && count < limit {
		if at := strings.LastIndexByte(text[:end], '\n'); at > end*9/10 {
			count -= utf8.RuneCountInString(text[at+1 : end])
			end = at + 1
		}
	}
	return text[:end], count
}

// roundParts is how many parts before and after one with the words are shown.
const roundParts = 2

// selectParts returns the paragraphs of a text that have one of the words, and some round
// them. Where none has, it is the beginning of the text.
func selectParts(text, terms string) (selected string, found bool) {
	parts := strings.Split(text, "\n\n")
	words := strings.Fields(strings.ToLower(terms))
	phrase := strings.Join(words, " ")
	wanted := make([]bool, len(parts))
	want := func(matches func(lower string) bool) {
		for i, part := range parts {
			if matches(strings.ToLower(part)) {
				found = true
				for j := max(0, i-roundParts); j <= min(len(parts)-1, i+roundParts); j++ {
					wanted[j] = true
				}
			}
		}
	}
	want(func(lower string) bool { return strings.Contains(strings.Join(strings.Fields(lower), " "), phrase) })
	if !found {
		want(func(lower string) bool {
			return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) })
		})
	}
	if !found {
		return strings.Join(parts[:min(len(parts), 20)], "\n\n"), false
	}
	var b strings.Builder
	left := false
	for i, part := range parts {
		if !wanted[i] {
			left = true
			continue
		}
		if left {
			b.WriteString("[…]\n\n")
		}
		left = false
		b.WriteString(part + "\n\n")
	}
	if left {
		b.WriteString("[…]")
	}
	return strings.TrimSpace(b.String()), true
}
