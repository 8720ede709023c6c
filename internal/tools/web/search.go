// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed search.md
var searchDoc string

type searchInput struct {
	Query          string   `json:"query" check:"min=2,max=400"`
	Limit          int      `json:"limit,omitempty" check:"min=1,max=20" jsonschema:"results; default 8"`
	AllowedDomains []string `json:"allowed_domains,omitempty" check:"max=20" jsonschema:"only these"`
	BlockedDomains []string `json:"blocked_domains,omitempty" check:"max=20"`
	Engine         string   `json:"engine,omitempty" jsonschema:"default the first"`
}

func (in searchInput) Check() (problems []tools.Problem) {
	for _, list := range []struct {
		key     string
		domains []string
	}{{"/allowed_domains/", in.AllowedDomains}, {"/blocked_domains/", in.BlockedDomains}} {
		for i, domain := range list.domains {
			if _, _, _, err := egress.ParseURL("https://" + domain); err != nil || strings.ContainsAny(domain, "/:?#@ ") {
				problems = append(problems, tools.Problem{Pointer: list.key + strconv.Itoa(i), Message: fmt.Sprintf("%.100q is no domain: want one such as example.com", domain)})
			}
		}
	}
	return problems
}

func (in searchInput) limit() int { return cmp.Or(in.Limit, 8) }

// unconfigured tells an operator how there would be a search.
const unconfigured = "has no search engine: the operator names one in the section web of the configuration, " +
	"such as search: [{kind: searxng, url: \"https://search.example.com/\"}], or one of the kinds brave, tavily and google with a key_file"

// search returns the tool that searches.
func (f *Family) search(configured []Engine) (tools.Tool, error) {
	var engines []*engine
	names := []string{"none"}
	for i, e := range configured {
		compiled, err := e.compile()
		if err != nil {
			return nil, fmt.Errorf("web.search[%d]: %w", i, err)
		}
		engines = append(engines, compiled)
		if i == 0 {
			names = nil
		}
		names = append(names, compiled.Name)
	}
	choose := func(in searchInput) *engine {
		for _, e := range engines {
			if in.Engine == "" || in.Engine == e.Name {
				return e
			}
		}
		return nil
	}
	tool := tools.New(
		tools.Spec{
			Name:            "web_search",
			Aliases:         []string{"WebSearch", "google_web_search"},
			Label:           "Search the web",
			Summary:         "Search the web.",
			Description:     searchDoc,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "A search", Input: json.RawMessage(`{"query":"go 1.26 release notes"}`)},
				{Summary: "On one site", Input: json.RawMessage(`{"query":"range over func","allowed_domains":["go.dev"]}`)},
			},
		},
		func(_ tools.Env, in searchInput) []tools.Effect {
			e := choose(in)
			if e == nil {
				return nil
			}
			_, host, port, _ := egress.ParseURL(e.where.String())
			return []tools.Effect{{Kind: tools.ReachesHost, Host: host, Port: port, Configured: true}}
		},
		func(ctx context.Context, env tools.Env, in searchInput, _ tools.Sink) (tools.Result, error) {
			e := choose(in)
			if e == nil {
				return tools.Result{}, tools.Failf("unavailable", "web_search %s.", unconfigured)
			}
			return f.ask(ctx, e, in)
		})
	tool = tools.WithChoices(tool, "engine", names...)
	if len(engines) == 0 {
		tool = tools.WithUnavailable(tool, unconfigured)
	}
	return tool, nil
}

// searchDetails is what an agent runtime may want to know about a search.
type searchDetails struct {
	Foreign   bool   `json:"foreign"`
	Engine    string `json:"engine"`
	Query     string `json:"query"`
	FetchedAt string `json:"fetched_at"`
	Results   []hit  `json:"results"`
}

// ask asks an engine.
func (f *Family) ask(ctx context.Context, e *engine, in searchInput) (tools.Result, error) {
	request, key, err := e.request(in)
	if err != nil {
		return tools.Result{}, tools.Failf("credentials", "The engine %s was not asked: its configuration cannot be used. Tell the operator.", e.Name)
	}
	visit := f.web.Visit(egress.Judge{}, e.host)
	defer visit.Close()
	answer, err := visit.Do(ctx, request)
	switch {
	case ctx.Err() != nil:
		return tools.Result{}, context.Cause(ctx)
	case err != nil:
		text := err.Error()
		if key != "" {
			text = strings.ReplaceAll(strings.ReplaceAll(text, key, "[REDACTED]"), url.QueryEscape(key), "[REDACTED]")
		}
		return tools.Result{}, &tools.Failure{Code: "unreachable", Retryable: !egress.Prohibited(err), Message: "The engine " + e.Name + " cannot be asked: " + text}
	case answer.Status < 200 || answer.Status > 299:
		page := &copied{url: &url.URL{Scheme: e.where.Scheme, Host: e.where.Host}, status: answer.Status, header: answer.Header}
		return tools.Result{}, statusError(page)
	}
	hits, err := e.hits(answer.Body)
	if err != nil {
		return tools.Result{}, tools.Failf("bad_answer", "The engine %s did not answer as it should: %v.", e.Name, err)
	}
	hits = slices.DeleteFunc(hits, func(h hit) bool { return !in.wants(h.URL) })
	hits = hits[:min(len(hits), in.limit())]
	details := searchDetails{Foreign: true, Engine: e.Name, Query: in.Query, FetchedAt: time.Now().UTC().Format(time.RFC3339), Results: append([]hit{}, hits...)}
	return tools.Detailed(list(e.Name, in.Query, hits), details)
}

// wants reports whether a result is of the domains that are asked for.
func (in *searchInput) wants(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	of := func(domain string) bool {
		domain = strings.ToLower(domain)
		return host == domain || strings.HasSuffix(host, "."+domain)
	}
	return !slices.ContainsFunc(in.BlockedDomains, of) && (len(in.AllowedDomains) == 0 || slices.ContainsFunc(in.AllowedDomains, of))
}

// list writes results for a model.
func list(engine, query string, hits []hit) string {
	if len(hits) == 0 {
		return fmt.Sprintf("(%s has no results for %q: try other words)\n", engine, query)
	}
	var b strings.Builder
	for i, h := range hits {
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, cmp.Or(h.Title, "(no title)"), h.URL)
		if h.Date != "" {
			fmt.Fprintf(&b, "   %s\n", h.Date)
		}
		if h.Snippet != "" {
			fmt.Fprintf(&b, "   %s\n", h.Snippet)
		}
	}
	return tools.Untrusted(engine+": "+query, b.String())
}
