// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// published is a document that somebody published, and a server that answers as it says.
type published map[string]any

func (p published) at(words ...string) (value any) {
	value = map[string]any(p)
	for _, word := range words {
		object, _ := value.(map[string]any)
		value = object[word]
	}
	return value
}

// ServeHTTP answers with the example that the document has of a success.
func (p published) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := strings.Split(r.URL.EscapedPath(), "/")
	best, literal := "", -1
	for path := range p.at("paths").(map[string]any) {
		words, same := strings.Split(path, "/"), 0
		if len(words) != len(asked) || p.at("paths", path, strings.ToLower(r.Method)) == nil {
			continue
		}
		for i, word := range words {
			if word == asked[i] {
				same++
			} else if !strings.HasPrefix(word, "{") {
				same = -1000
			}
		}
		if same > literal {
			best, literal = path, same
		}
	}
	if best == "" {
		http.Error(w, "no such path", http.StatusNotFound)
		return
	}
	responses := p.at("paths", best, strings.ToLower(r.Method), "responses").(map[string]any)
	for _, status := range []string{"200", "201"} {
		examples, _ := p.at("paths", best, strings.ToLower(r.Method), "responses", status, "content", "application/json", "examples").(map[string]any)
		for _, example := range examples {
			one := example.(map[string]any)
			if ref, ok := one["$ref"].(string); ok {
				one = p.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(map[string]any)
			}
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(one["value"])
			return
		}
	}
	for status := range responses {
		if strings.HasPrefix(status, "2") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
}

// TestOpenAPIPublished: a document of more than a thousand operations loads, and a server
// made from it answers them.
func TestOpenAPIPublished(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("../../.bin/openapi/api.github.com.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: make openapi fetches it", err)
	}
	var doc published
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	github := newAPI(t, doc.ServeHTTP)
	s := serveSources(t, fmt.Sprintf("openapi:\n  - {name: github, file: %s, base_url: %s}\n", file, github.URL))
	if names := s.tools("github", some); len(names) < 1200 {
		t.Errorf("%d tools", len(names))
	}
	for _, test := range []struct{ tool, input, sent, has string }{
		{"github__repos_get", `{"owner":"octocat","repo":"Hello-World"}`, "GET /repos/octocat/Hello-World", `"full_name":"octocat/Hello-World"`},
		{"github__issues_list-for-repo", `{"owner":"octocat","repo":"Hello-World","labels":"bug,ui","per_page":"5"}`, "GET /repos/octocat/Hello-World/issues?labels=bug%2Cui&per_page=5", `"state":"open"`},
		{"github__git_get-ref", `{"owner":"o","repo":"r","ref":"heads/feature a"}`, "GET /repos/o/r/git/ref/heads%2Ffeature%20a", `"ref":"refs/heads/featureA"`},
		{"github__users_get-by-username", `{"username":"octocat"}`, "GET /users/octocat", `"login":"octocat"`},
		{"github__search_code", `{"q":"addClass repo:jquery/jquery"}`, "GET /search/code?q=addClass+repo%3Ajquery%2Fjquery", `"total_count"`},
		{"github__issues_create", `{"owner":"o","repo":"r","body":{"title":"It fails","labels":["bug"]}}`, `POST /repos/o/r/issues {"labels":["bug"],"title":"It fails"}`, `"number":1347`},
		{"github__issues_create", `{"owner":"o","repo":"r","body":{"labels":["bug"]}}`, "", "/body/title is required"},
		{"github__activity_star-repo-for-authenticated-user", `{"owner":"o","repo":"r"}`, "PUT /user/starred/o/r", "Status 204"},
	} {
		got, sent := s.approved(test.tool, test.input), strings.Join(github.since(), " | ")
		if sent != test.sent || !strings.Contains(got, test.has) {
			t.Errorf("%s: sent %s, ended %.400s\nwant %s, %s", test.tool, sent, got, test.sent, test.has)
		}
	}
}
