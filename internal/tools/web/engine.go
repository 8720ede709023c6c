// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/egress"
)

// Engine is a search engine that is asked by HTTP and answers with JSON.
type Engine struct {
	// Name is what a call names the engine by; the kind, unless set.
	Name string `yaml:"name"`

	// Kind is searxng, brave, tavily, google, or custom for one that the keys below
	// describe; those change what is known of the others, too.
	Kind string `yaml:"kind"`

	// URL is where it is asked: {query}, {count}, {key} and {cx} stand for what is asked,
	// as a query has it. Body, if it has one, is sent by POST; there they are JSON.
	URL  string `yaml:"url"`
	Body string `yaml:"body"`

	// KeyFile has the key; KeyHeader is the header it is sent in, with KeyPrefix before it.
	KeyFile   string `yaml:"key_file"`
	KeyHeader string `yaml:"key_header"`
	KeyPrefix string `yaml:"key_prefix"`

	// CX is the id of a Google programmable search engine.
	CX string `yaml:"cx"`

	// Results is where the results are in the answer, and the others are where each of them
	// has what: names of keys with dots between, and numbers for items of lists.
	Results string `yaml:"results"`
	Title   string `yaml:"title"`
	Address string `yaml:"address"`
	Snippet string `yaml:"snippet"`
	Date    string `yaml:"date"`

	// Operators says that the engine knows site:example.com in what is asked.
	Operators bool `yaml:"operators"`
}

// kinds are the engines that are known.
var kinds = map[string]Engine{
	"searxng": {Results: "results", Title: "title", Address: "url", Snippet: "content", Date: "publishedDate", Operators: true},
	"brave": {
		URL: "https://api.search.brave.com/res/v1/web/search?q={query}&count={count}", KeyHeader: "X-Subscription-Token",
		Results: "web.results", Title: "title", Address: "url", Snippet: "description", Date: "page_age", Operators: true,
	},
	"tavily": {
		URL: "https://api.tavily.com/search", KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Body:    `{"query":{query},"max_results":{count},"include_domains":{allowed},"exclude_domains":{blocked}}`,
		Results: "results", Title: "title", Address: "url", Snippet: "content", Date: "published_date",
	},
	"google": {
		URL:     "https://www.googleapis.com/customsearch/v1?key={key}&cx={cx}&q={query}&num={count}",
		Results: "items", Title: "title", Address: "link", Snippet: "snippet", Date: "pagemap.metatags.0.article:published_time", Operators: true,
	},
	"custom": {},
}

func (e *Engine) name() string { return cmp.Or(e.Name, e.Kind) }

// engine is an Engine that can be asked.
type engine struct {
	Engine
	host  string // as [egress.Dialer.Named] has it
	where *url.URL
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// compile returns the engine with what is known of its kind, or what is wrong with it.
func (e Engine) compile() (*engine, error) {
	known, ok := kinds[e.Kind]
	if !ok {
		return nil, fmt.Errorf("%q is no kind of engine: want one of %s", e.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	full := &engine{Engine: e}
	full.Name = e.name()
	if e.Kind == "searxng" && e.URL != "" && !strings.Contains(e.URL, "{query}") {
		full.URL = strings.TrimSuffix(e.URL, "/") + "/search?q={query}&format=json"
	}
	for _, field := range []struct {
		value *string
		known string
	}{
		{&full.URL, known.URL}, {&full.Body, known.Body}, {&full.KeyHeader, known.KeyHeader}, {&full.KeyPrefix, known.KeyPrefix}, {&full.Results, known.Results},
		{&full.Title, known.Title}, {&full.Address, known.Address}, {&full.Snippet, known.Snippet}, {&full.Date, known.Date},
	} {
		*field.value = cmp.Or(*field.value, field.known)
	}
	full.Operators = e.Operators || known.Operators
	switch {
	case !isEngineName.MatchString(full.Name):
		return nil, fmt.Errorf("name: %q is no name of an engine: want a-z, 0-9, - and _", full.Name)
	case full.URL == "":
		return nil, fmt.Errorf("url: is missing: want where the engine is asked, such as https://search.example.com/")
	case !strings.Contains(full.URL+full.Body, "{query}"):
		return nil, fmt.Errorf("url: has no {query} in it, where what is searched for goes")
	case full.Address == "":
		return nil, fmt.Errorf("address: is missing: want where a result has its address, such as url")
	case e.Kind == "google" && e.CX == "":
		return nil, fmt.Errorf("cx: is missing: want the id of the programmable search engine")
	case full.needsKey() && e.KeyFile == "":
		return nil, fmt.Errorf("key_file: is missing: want a file with the key of the engine")
	case strings.Contains(beforeQuery(full.URL), "{"):
		return nil, fmt.Errorf("url: has {…} before its query, where it would choose the host or the path")
	}
	if full.KeyHeader == "" && e.KeyFile != "" && !strings.Contains(full.URL+full.Body, "{key}") {
		return nil, fmt.Errorf("key_header: is missing: want the header that the key is sent in")
	}
	u, _, _, err := egress.ParseURL(placeholder.ReplaceAllString(full.URL, "x"))
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	full.where = u
	if full.host, err = egress.Named(u); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if e.KeyFile != "" {
		if _, err := full.key(); err != nil {
			return nil, fmt.Errorf("key_file: %w", err)
		}
	}
	return full, nil
}

var isEngineName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,40}$`)

func beforeQuery(address string) string {
	before, _, _ := strings.Cut(address, "?")
	return before
}

func (e *engine) needsKey() bool {
	return e.Kind != "searxng" && (e.KeyHeader != "" || strings.Contains(e.URL+e.Body, "{key}"))
}

// key reads the key anew, so that it can be changed.
func (e *engine) key() (string, error) {
	if e.KeyFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(e.KeyFile)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("%s has no key of one line in it", e.KeyFile)
	}
	return key, nil
}

// request returns what asks the engine, and the key that must not be told.
func (e *engine) request(in searchInput) (egress.Request, string, error) {
	key, err := e.key()
	if err != nil {
		return egress.Request{}, "", err
	}
	query := in.Query
	if e.Operators {
		query += operators(in)
	}
	fill := func(template string, write func(any) string) string {
		return placeholder.ReplaceAllStringFunc(template, func(name string) string {
			switch name {
			case "{query}":
				return write(query)
			case "{count}":
				return write(min(in.limit(), 10))
			case "{key}":
				return write(key)
			case "{cx}":
				return write(e.CX)
			case "{allowed}":
				return write(append([]string{}, in.AllowedDomains...))
			case "{blocked}":
				return write(append([]string{}, in.BlockedDomains...))
			}
			return name
		})
	}
	u, _, _, err := egress.ParseURL(fill(e.URL, func(value any) string { return url.QueryEscape(fmt.Sprint(value)) }))
	if err != nil {
		return egress.Request{}, "", err
	}
	r := egress.Request{URL: u, Header: http.Header{"Accept": {"application/json"}}}
	if e.Body != "" {
		r.Method = http.MethodPost
		r.Header.Set("Content-Type", "application/json")
		r.Body = []byte(fill(e.Body, func(value any) string {
			text, _ := json.Marshal(value)
			return string(text)
		}))
	}
	if e.KeyHeader != "" && key != "" {
		r.Header.Set(e.KeyHeader, e.KeyPrefix+key)
	}
	return r, key, nil
}

// operators returns the domains of a search as engines read them in a query.
func operators(in searchInput) string {
	var sites []string
	for _, domain := range in.AllowedDomains {
		sites = append(sites, "site:"+domain)
	}
	text := ""
	if len(sites) > 0 {
		text = " (" + strings.Join(sites, " OR ") + ")"
		if len(sites) == 1 {
			text = " " + sites[0]
		}
	}
	for _, domain := range in.BlockedDomains {
		text += " -site:" + domain
	}
	return text
}

// A hit is a result of a search.
type hit struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Snippet string `json:"snippet,omitempty"`
	Date    string `json:"date,omitempty"`
}

// hits reads the answer of the engine.
func (e *engine) hits(body []byte) ([]hit, error) {
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("its answer is no JSON: %w", err)
	}
	results, ok := at(answer, e.Results).([]any)
	if !ok {
		return nil, nil // some leave the key out where there are none
	}
	var list []hit
	for _, result := range results {
		u, err := url.Parse(textAt(result, e.Address))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			continue
		}
		list = append(list, hit{Title: textAt(result, e.Title), URL: u.String(), Snippet: textAt(result, e.Snippet), Date: textAt(result, e.Date)})
	}
	return list, nil
}

// at returns what a path leads to; nil where it leads nowhere.
func at(value any, path string) any {
	if path == "" {
		return value
	}
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

var tag = regexp.MustCompile(`</?[A-Za-z][^>]*>`)

// textAt returns the text that a path leads to, without the marks of HTML.
func textAt(value any, path string) string {
	if path == "" {
		return ""
	}
	switch v := at(value, path).(type) {
	case string:
		return line(html.UnescapeString(tag.ReplaceAllString(v, "")))
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}
