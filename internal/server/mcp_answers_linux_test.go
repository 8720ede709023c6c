// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestMCPStrangeAnswers: an operator reads what an address answered that is no MCP server, and
// what to look at, without the words of libraries.
func TestMCPStrangeAnswers(t *testing.T) {
	t.Parallel()
	wants := map[string]string{
		"page":   "text/html instead of messages of MCP: is the path",
		"400":    "status 400 Bad Request: is the path",
		"401":    "status 401 Unauthorized: it wants credentials",
		"403":    "status 403 Forbidden: it does not take",
		"404":    "status 404 Not Found: is the path",
		"405":    "status 405 Method Not Allowed: is the path",
		"429":    "status 429 Too Many Requests",
		"500":    "status 500 Internal Server Error",
		"refuse": "it refuses to begin: not today",
	}
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		w.Header().Set("Content-Type", "text/html")
		var code int
		if _, err := fmt.Sscan(name, &code); err == nil {
			w.WriteHeader(code)
		}
		if name == "refuse" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"not today"}}`)
			return
		}
		fmt.Fprint(w, "<html>hello</html>")
	}))
	t.Cleanup(answers.Close)
	config := "mcp:\n"
	for name := range wants {
		config += fmt.Sprintf("- {name: a%s, url: %s/%s}\n", name, answers.URL, name)
	}
	config += "- {name: nobody, url: 'http://127.0.0.1:9/mcp'}\n"
	wants["nobody"] = "No connection to 127.0.0.1:9"
	s := serveAllowing(t, config)
	for name, want := range wants {
		if name != "nobody" {
			name = "a" + name
		}
		reason := s.waitForSource(name, func(one *pb.Source) bool { return one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE }).GetReason()
		if !strings.Contains(reason, want) || strings.Contains(reason, "calling") || strings.Contains(reason, "sending") {
			t.Errorf("%s: %q: want %q", name, reason, want)
		}
	}
}
