// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// restServer is a whole server that serves HTTP.
type restServer struct {
	t   *testing.T
	url string
	dir string // its workspace
}

func serveREST(t *testing.T, sections string) *restServer {
	t.Helper()
	dir := t.TempDir()
	workspace := filepath.Join(dir, "ws")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, allowing(dir, "http: {listen: '127.0.0.1:0', origins: ['https://console.example']}\n"+sections))
	if err != nil {
		t.Fatal(err)
	}
	access, err := c.Access()
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(c, zap.NewNop(), prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	served, err := serveHTTP(c, access, server, prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		served.Close()
		ShutDown(server, 0)
	})
	return &restServer{t, "http://" + served.address, workspace}
}

// ask sends a request, with headers in pairs, and returns its status and its body.
func (s *restServer) ask(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response, string(text)
}

// TestREST uses the server as a program without gRPC does.
func TestREST(t *testing.T) {
	t.Parallel()
	s := serveREST(t, "")
	for _, step := range []struct{ method, path, body, want string }{
		{"GET", "/v1/server", "", `"authentication":"none"`},
		{"GET", "/v1/tools?names=read_file&view=TOOL_VIEW_FULL", "", `"inputSchema"`},
		{"POST", "/v1/sessions", `{"session_id":"one","mode":"MODE_ALLOW"}`, `"sessionId":"one"`},
		{"PATCH", "/v1/sessions/one", `{"mode":"MODE_ACCEPT_EDITS"}`, `"mode":"MODE_ACCEPT_EDITS"`},
		{"GET", "/v1/sessions/one", "", `"level":"LEVEL_WORKSPACE_WRITE"`}, // a PATCH changes what its body names
		{"POST", "/v1/executions", `{"sessionId":"one","callId":"w","tool":"write_file","input":{"path":"a/b.txt","content":"one\ntwo\n"}}`, "OUTCOME_SUCCEEDED"},
		{"GET", "/v1/sessions/one/calls/w", "", `"tool":"write_file"`},
		{"GET", "/v1/files/stat?session_id=one&path=a/b.txt", "", `"size":"8"`},
		{"GET", "/v1/files?sessionId=one&path=a", "", `"path":"a/b.txt"`},
		{"POST", "/v1/files/content", `{"header":{"session_id":"one","path":"c.txt"}}{"data":"aGVsbG8K"}`, `"created":true`},
		{"GET", "/v1/files/content?sessionId=one&path=c.txt", "", `"data":"aGVsbG8K"`},
		{"POST", "/v1/policy/check", `{"sessionId":"one","tool":"bash","input":{"command":"ls"}}`, `"verdict"`},
		{"GET", "/v1/dialects/anthropic/tools?names=read_file", "", `input_schema`},
		{"POST", "/v1/dialects/parse", `{"start":{"sessionId":"one","dialect":"hermes"}}{"chunk":"PHRvb2xfY2FsbD57Im5hbWUiOiJyZWFkX2ZpbGUiLCJhcmd1bWVudHMiOnsicGF0aCI6ImMudHh0In19PC90b29sX2NhbGw+"}`, `"tool":"read_file"`},
		{"POST", "/v1/batches", `{"start":{"sessionId":"one"}}{"call":{"callId":"b1","tool":"read_file","input":{"path":"c.txt"}}}{"call":{"callId":"b2","tool":"nothing"}}`, "OUTCOME_NO_SUCH_TOOL"},
		{"DELETE", "/v1/files?sessionId=one&path=c.txt", "", `"removed":"1"`},
		{"GET", "/v1/approvals", "", "{"},
		{"GET", "/v1/sources", "", "{"},
		{"DELETE", "/v1/sessions/one?reason=done", "", "{"},
		{"GET", "/openapi.json", "", `"ToolService_ExecuteTool"`},
	} {
		response, text := s.ask(step.method, step.path, step.body)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, step.want) {
			t.Errorf("%s %s: %s: %s", step.method, step.path, response.Status, text)
		}
	}
}

// TestRESTStreams: events come while a call runs, as lines and as server-sent events, which
// go on after the last one that a client has.
func TestRESTStreams(t *testing.T) {
	t.Parallel()
	s := serveREST(t, "")
	response, err := http.Post(s.url+"/v1/executions", "application/json", strings.NewReader(`{"callId":"nap","tool":"sleep","input":{"duration_ms":600000}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "application/x-ndjson" {
		t.Errorf("the stream is %s", kind)
	}
	stream := bufio.NewScanner(response.Body)
	next := func() (event struct {
		Event struct {
			Sequence string
			Finished struct{ Outcome string }
		}
	}) {
		if !stream.Scan() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
		if err := json.Unmarshal(stream.Bytes(), &event); err != nil {
			t.Fatalf("%s: %v", stream.Text(), err)
		}
		return event
	}
	if first := next(); first.Event.Sequence != "1" { // while it runs
		t.Errorf("the first event is %v", first)
	}
	if answer, text := s.ask("POST", "/v1/sessions/default/calls/nap/cancel", `{"reason":"enough"}`); answer.StatusCode != http.StatusOK || !strings.Contains(text, "OUTCOME_CANCELLED") {
		t.Errorf("%s: %s", answer.Status, text)
	}
	last := next()
	for last.Event.Finished.Outcome == "" {
		last = next()
	}
	if _, text := s.ask("GET", "/v1/sessions/default/calls/nap", "", "Accept", "text/event-stream"); !strings.HasPrefix(text, "{") {
		t.Errorf("what is no stream is %.100s", text)
	}
	_, text := s.ask("GET", "/v1/sessions/default/calls/nap/events", "", "Accept", "text/event-stream", "Last-Event-ID", "2")
	if !strings.HasPrefix(text, "id: 3\ndata: {") || !strings.Contains(text, "id: "+last.Event.Sequence+"\ndata: {") || !strings.HasSuffix(text, "}\n\n") {
		t.Errorf("after the second: %q", text)
	}
}

// TestRESTBytes: files as they are.
func TestRESTBytes(t *testing.T) {
	t.Parallel()
	s := serveREST(t, "")
	content := strings.Repeat("\x00\xff binary \n", 100_000)
	if err := os.WriteFile(filepath.Join(s.dir, "data"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	response, text := s.ask("GET", "/v1/files/content?path=data", "", "Accept", "application/octet-stream")
	if response.Header.Get("Content-Type") != "application/octet-stream" || text != content {
		t.Errorf("%s: %d bytes", response.Header.Get("Content-Type"), len(text))
	}
}

// TestRESTUploads brings files as curl does: the body is the bytes.
func TestRESTUploads(t *testing.T) {
	t.Parallel()
	s := serveREST(t, "")
	if _, text := s.ask("POST", "/v1/sessions", `{"sessionId":"up","mode":"MODE_ALLOW"}`); !strings.Contains(text, `"up"`) {
		t.Fatal(text)
	}
	content := strings.Repeat("\x00{bytes}\xff\n", 20_000)
	const kind = "application/octet-stream"
	for path, want := range map[string]string{
		"/v1/files/content?sessionId=up&path=b/data":                    content,
		"/v1/files/content?session_id=up&path=empty&mode=420&replaces=": "",
	} {
		if response, text := s.ask("POST", path, want, "Content-Type", kind); response.StatusCode != 200 || !strings.Contains(text, `"created":true`) {
			t.Errorf("%s: %s: %s", path, response.Status, text)
		}
		read := strings.Replace(path, "&mode=420&replaces=", "", 1)
		if _, text := s.ask("GET", read, "", "Accept", kind); text != want {
			t.Errorf("%s: %d bytes are there, want %d", path, len(text), len(want))
		}
	}
	var archive strings.Builder
	w := tar.NewWriter(&archive)
	w.WriteHeader(&tar.Header{Name: "tree/leaf", Mode: 0o644, Size: 5})
	io.WriteString(w, "green")
	w.Close()
	if response, text := s.ask("POST", "/v1/tree?sessionId=up", archive.String(), "Content-Type", kind); response.StatusCode != 200 {
		t.Errorf("%s: %s", response.Status, text)
	}
	if _, text := s.ask("GET", "/v1/files/content?sessionId=up&path=tree/leaf", "", "Accept", kind); text != "green" {
		t.Errorf("the leaf is %q", text)
	}
	for path, want := range map[string]string{
		"/v1/files/content?sessionId=up&pat=x":                 `there is no parameter`,
		"/v1/files/content?sessionId=up":                       `path`,
		"/v1/files/content?sessionId=up&path=b/data&replaces=": `"code":10`,
		"/v1/files/content?sessionId=up&path=b/data&size=7":    `7`,
	} {
		if response, text := s.ask("POST", path, content, "Content-Type", kind); response.StatusCode < 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %s: %s", path, response.Status, text)
		}
	}
	if _, text := s.ask("GET", "/v1/files/content?sessionId=up&path=b/data", "", "Accept", kind); text != content {
		t.Error("an upload that was refused changed the file")
	}
}

// TestRESTRefuses: what is wrong is told, and what would be right.
func TestRESTRefuses(t *testing.T) {
	t.Parallel()
	s := serveREST(t, "")
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
		headers            []string
	}{
		{"GET", "/v1/nothing", "", 404, "/openapi.json", nil},
		{"PUT", "/v1/tools", "", 405, "does not take PUT", nil},
		{"GET", "/v1/tools?vew=TOOL_VIEW_FULL", "", 400, "did you mean view?", nil},
		{"GET", "/v1/tools?view=ALL", "", 400, "view", nil},
		{"POST", "/v1/executions", `{"tool":`, 400, "the body is not JSON", nil},
		{"POST", "/v1/executions", `[]`, 400, "the body does not fit", nil},
		{"POST", "/v1/executions", `{"tol":"x"}`, 400, `unknown field \"tol\"`, nil},
		{"POST", "/v1/sessions", `{"mode":"allow"}`, 400, "want one of MODE_ASK, MODE_ALLOW, ", nil},
		{"POST", "/v1/executions", "tool=read_file", 400, "the body is not JSON", []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"POST", "/v1/executions", `{"tool":"read_file","purpose":"` + strings.Repeat("x", 17<<20) + `"}`, 400, "more than", nil},
		{"POST", "/v1/executions", `{"tool":"read_file","purpose":"` + strings.Repeat("x", 5<<20) + `"}`, 429, "want at most 4194304, as wire.max_message_bytes", nil}, // as by gRPC
		{"POST", "/v1/files/content", `{"header":{"path":"a"}}{"data":"` + strings.Repeat("aaaa", 2<<20) + `"}`, 429, "WorkspaceService", nil},
		{"POST", "/v1/executions", strings.Repeat("[", 1<<20), 400, "the body is not JSON", nil},
		{"GET", "/v1/tools?session_id=a&sessionId=b", "", 400, "both of its names", nil},
		{"POST", "/v1/batches", `{"start":{"strategy":"fast"}}`, 400, "BATCH_STRATEGY", nil},
		{"POST", "/v1/files/content", `{"header":{"path":"a"}} nonsense`, 400, "the body is not JSON", nil},
		{"GET", "/v1/executions/none", "", 404, "none", nil},
		{"GET", "/v1/sessions/other", "", 404, "other", nil},
		{"GET", "/v1/sessions/default/calls/a/events", "", 400, "after_sequence", []string{"Last-Event-ID", "x"}},
		{"GET", "/v1/tools", "", 403, "the origin", []string{"Origin", "https://evil.example"}},
		{"POST", "/v1/executions", "{}", 403, "the origin", []string{"Origin", "null"}},
		{"GET", "/v1/tools", "", 403, "the host", []string{"Host", "evil.example"}},
		{"GET", "/openapi.json", "", 403, "the host", []string{"Host", "evil.example"}},
		{"GET", "/v1/tools", "", 403, "on whose behalf", []string{"Toolserver-On-Behalf-Of", "somebody"}},
	} {
		response, text := s.ask(c.method, c.path, c.body, c.headers...)
		if response.StatusCode != c.code || !strings.Contains(text, c.want) || !strings.HasPrefix(text, `{"error":{"code":`) {
			t.Errorf("%s %s: %s: %.300s", c.method, c.path, response.Status, text)
		}
	}
}

// TestRESTOfOtherSites: a page that the operator lists can use the server, and reads answers.
func TestRESTOfOtherSites(t *testing.T) {
	t.Parallel()
	s := serveREST(t, "")
	preflight, _ := s.ask("OPTIONS", "/v1/executions", "", "Origin", "https://console.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	answer, _ := s.ask("GET", "/v1/tools", "", "Origin", "https://console.example")
	for _, response := range []*http.Response{preflight, answer} {
		if response.StatusCode >= 300 || response.Header.Get("Access-Control-Allow-Origin") != "https://console.example" {
			t.Errorf("%s %s: %v", response.Request.Method, response.Status, response.Header)
		}
	}
	if refused, _ := s.ask("OPTIONS", "/v1/executions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); refused.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", refused.Header)
	}
}

// TestRESTAuthenticates: the chain asks for credentials, as it does by gRPC.
func TestRESTAuthenticates(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", 40)
	s := serveREST(t, "authentication:\n  tokens: [{principal: ann, token: "+token+"}]\n")
	if response, text := s.ask("GET", "/v1/server", ""); response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s: %s", response.Status, text)
	}
	if response, text := s.ask("GET", "/v1/server", "", "Authorization", "Bearer "+token); response.StatusCode != http.StatusOK || !strings.Contains(text, `"principal":"ann"`) {
		t.Errorf("%s: %s", response.Status, text)
	}
	for _, path := range []string{"/v1/executions", "/v1/batches", "/v1/files/content"} { // nothing of a stranger is read
		if response, text := s.ask("POST", path, "{no JSON"); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s: %s", path, response.Status, text)
		}
	}
	endless, end := io.Pipe() // nor waited for
	defer end.Close()
	response, err := http.Post(s.url+"/v1/files/content", "application/json", endless)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Error(response.Status)
	}
	if response, text := s.ask("GET", "/v1/stops", "", "Authorization", "Bearer "+token); response.StatusCode != http.StatusForbidden {
		t.Errorf("%s: %s", response.Status, text)
	}
}
