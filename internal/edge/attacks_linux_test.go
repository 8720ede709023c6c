// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// request returns a request with a body, of a session if there is one.
func (s *testServer) request(t testing.TB, method, body, session string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	return r
}

// send returns the status and the text of the answer.
func (s *testServer) send(t testing.TB, r *http.Request) (int, string) {
	t.Helper()
	response, err := s.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const twoTokens = `
authentication:
  tokens:
    - principal: alice
      token: alice-has-a-token-that-is-long-enough
    - principal: bob
      token: bob-has-a-token-that-is-long-enough
`

// TestWhoAsks proves that requests without credentials are refused, and that somebody
// else's session is as if there were none.
func TestWhoAsks(t *testing.T) {
	s := start(t, twoTokens)
	alice, err := s.connect(t, "", "alice-has-a-token-that-is-long-enough", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(alice.ID()) < 26 {
		t.Errorf("the session id %q can be guessed", alice.ID())
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, c := range []struct {
		name, method, body, session, token string
		code                               int
	}{
		{"no token", "POST", initialize, "", "", 401},
		{"a wrong token", "POST", initialize, "", "x", 401},
		{"no token and a session", "POST", ping, alice.ID(), "", 401},
		{"somebody else's session", "POST", ping, alice.ID(), "bob-has-a-token-that-is-long-enough", 404},
		{"the stream of somebody else's session", "GET", "", alice.ID(), "bob-has-a-token-that-is-long-enough", 404},
		{"the end of somebody else's session", "DELETE", "", alice.ID(), "bob-has-a-token-that-is-long-enough", 404},
		{"no such session", "POST", ping, "AAAAAAAAAAAAAAAAAAAAAAAAAA", "bob-has-a-token-that-is-long-enough", 404},
		{"no session", "POST", ping, "", "bob-has-a-token-that-is-long-enough", 400},
		{"its own session", "POST", ping, alice.ID(), "alice-has-a-token-that-is-long-enough", 200},
	} {
		r := s.request(t, c.method, c.body, c.session)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		if code, text := s.send(t, r); code != c.code {
			t.Errorf("%s: %d %s: want %d", c.name, code, text, c.code)
		}
	}
	result, err := alice.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_dir", Arguments: map[string]any{"path": "."}})
	if err != nil || result.IsError {
		t.Errorf("alice: %v %+v", err, result)
	}
}

// TestOwnApproval proves that a person is not asked at a client whose caller cannot
// approve its own calls: the question waits for an approver.
func TestOwnApproval(t *testing.T) {
	s := start(t, twoTokens+`    - principal: carol
      roles: [approver]
      token: carol-has-a-token-that-is-long-enough
`)
	progress := make(chan string, 100)
	session, err := s.connect(t, "", "alice-has-a-token-that-is-long-enough", &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			t.Error("the client was asked")
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	if err != nil {
		t.Fatal(err)
	}
	params := &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "x"}}
	params.SetProgressToken("t")
	ended := make(chan *mcp.CallToolResult, 1)
	go func() {
		result, err := session.CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	message := <-progress
	carol := s.Forward("test", nil)
	defer carol.Close()
	ctx := withAuthorization(t.Context(), "Bearer carol-has-a-token-that-is-long-enough")
	list, err := pb.NewApprovalServiceClient(carol).ListApprovals(ctx, &pb.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 || !strings.Contains(message, list.GetApprovals()[0].GetApprovalId()) {
		t.Fatalf("%v %v; told %q", err, list, message)
	}
	if _, err := pb.NewApprovalServiceClient(carol).ResolveApproval(ctx, &pb.ResolveApprovalRequest{ApprovalId: list.GetApprovals()[0].GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}); err != nil {
		t.Fatal(err)
	}
	if result := <-ended; result == nil || result.IsError {
		t.Errorf("%+v", result)
	}
}

// TestOtherSites proves that pages of other sites cannot send requests, by their own name
// or by one that they have led here.
func TestOtherSites(t *testing.T) {
	s := start(t, "http:\n  hosts: [tools.example]\n  origins: [https://console.example]\n")
	own := s.http.URL
	for _, c := range []struct {
		host   string
		origin []string
		ok     bool
	}{
		{"", nil, true}, {"localhost:8667", nil, true}, {"tools.example", nil, true}, {"[::1]:8667", nil, true},
		{"evil.example", nil, false}, {"127.0.0.1.evil.example", nil, false}, {"localhost.evil.example", nil, false},
		{"", []string{own}, true}, {"", []string{"https://console.example"}, true},
		{"", []string{"https://evil.example"}, false}, {"", []string{"null"}, false}, {"", []string{""}, false},
		{"", []string{own, own}, false}, {"", []string{strings.Replace(own, "http:", "https:", 1)}, false},
		{"evil.example", []string{"http://evil.example"}, false},
	} {
		r := s.request(t, "POST", initialize, "")
		if c.host != "" {
			r.Host = c.host
		}
		r.Header["Origin"] = c.origin
		if code, text := s.send(t, r); (code == 200) != c.ok || !c.ok && code != 403 {
			t.Errorf("host %q, origin %q: %d %.200s", c.host, c.origin, code, text)
		}
	}
}

// TestHostileBodies proves that bodies that are too large, too deep, several messages or
// none are refused, and cost little.
func TestHostileBodies(t *testing.T) {
	s := start(t, "")
	session := s.mustConnect(t, "", nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	deep := strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20)
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"deep arguments":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":` + deep + `}}}`, 400},
		"deep":              {deep, 400},
		"open":              {strings.Repeat(`{"a":`, 1<<19), 400},
		"a batch":           {`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 1000) + `{"jsonrpc":"2.0","id":2,"method":"ping"}]`, 400},
		"an empty batch":    {`[]`, 400},
		"no JSON":           {`hello`, 400},
		"nothing":           {``, 400},
		"null":              {`null`, 400},
		"two messages":      {`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, 400},
		"an unknown method": {`{"jsonrpc":"2.0","id":1,"method":"system/exec"}`, 400},
	} {
		if code, text := s.send(t, s.request(t, "POST", c.body, session.ID())); code != c.code {
			t.Errorf("%s: %d %.200s: want %d", name, code, text, c.code)
		}
	}
	large := s.request(t, "POST", "", session.ID())
	large.Body = io.NopCloser(io.LimitReader(endless{}, 100<<20))
	response, err := s.http.Client().Do(large)
	if err == nil { // else the server has hung up before all was sent
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("100 MiB: %s", response.Status)
		}
		response.Body.Close()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d bytes more are held", grown)
	}
	if err := session.Ping(t.Context(), nil); err != nil {
		t.Errorf("the session after it: %v", err)
	}
}

// endless is a body of spaces.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestFloods proves that sessions, of all and of one principal, and requests under way are
// bounded, and that room is free again afterwards.
func TestFloods(t *testing.T) {
	s := start(t, twoTokens+"http:\n  mcp:\n    max_sessions: 4\n    max_sessions_per_principal: 3\n    max_streams: 5\n")
	const alice, bob = "alice-has-a-token-that-is-long-enough", "bob-has-a-token-that-is-long-enough"
	var sessions []*mcp.ClientSession
	for i, c := range []struct {
		token string
		ok    bool
	}{{alice, true}, {alice, true}, {alice, true}, {alice, false}, {bob, true}, {bob, false}} {
		session, err := s.connect(t, "", c.token, nil)
		if (err == nil) != c.ok {
			t.Fatalf("session %d: %v", i, err)
		}
		sessions = append(sessions, session)
	}
	for range 50 { // what is not initialize begins no session
		r := s.request(t, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "")
		r.Header.Set("Authorization", "Bearer "+bob)
		if code, _ := s.send(t, r); code != 400 && code != 429 {
			t.Errorf("a request without a session: %d", code)
		}
	}
	if err := sessions[0].Close(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "there is room for a session", func() bool { return s.handler.Sessions() == 3 })
	if _, err := s.connect(t, "", bob, nil); err != nil {
		t.Errorf("after another has ended: %v", err)
	}

	busy := sessions[1]
	for i := range 5 { // without the client, which gives its session up where one is refused
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":"s%d","method":"tools/call","params":{"name":"sleep","arguments":{"duration_ms":600000}}}`, i)
		go func() {
			for t.Context().Err() == nil { // until there is room: a ping may have had it
				r := s.request(t, "POST", call, busy.ID())
				r.Header.Set("Authorization", "Bearer "+alice)
				if response, err := s.http.Client().Do(r); err == nil {
					io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			}
		}()
	}
	waitUntil(t, "a request too many is refused", func() bool {
		r := s.request(t, "POST", `{"jsonrpc":"2.0","id":"x","method":"ping"}`, busy.ID())
		r.Header.Set("Authorization", "Bearer "+alice)
		code, _ := s.send(t, r)
		return code == http.StatusTooManyRequests
	})
}

// TestCancelOfAnother proves that ids of requests are those of a session: cancelling one of
// another session cancels nothing.
func TestCancelOfAnother(t *testing.T) {
	s := start(t, "")
	other := s.mustConnect(t, "", nil)
	body := `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"sleep","arguments":{"duration_ms":2000},"_meta":{"progressToken":1}}}`
	session := s.mustConnect(t, "", nil)
	response, err := s.http.Client().Do(s.request(t, "POST", body, session.ID()))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(response.Body, first); err != nil {
		t.Fatal(err) // it runs: this is its progress
	}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`
	if code, text := s.send(t, s.request(t, "POST", cancel, other.ID())); code != 202 {
		t.Errorf("%d %s", code, text)
	}
	rest, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(rest), "Waited 2s") {
		t.Errorf("%v %s", err, rest)
	}
}

// TestLostConnection proves that a call whose client is gone is left to the server as one
// over gRPC is: it waits for a while, and cancels it then.
func TestLostConnection(t *testing.T) {
	s := start(t, "executions:\n  disconnect_grace: 100ms\nhttp:\n  mcp:\n    resume_timeout: 100ms\n")
	session := s.mustConnect(t, "", nil)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sleep","arguments":{"duration_ms":600000},"_meta":{"progressToken":1}}}`, 78)
	ctx, hangUp := context.WithCancel(t.Context())
	response, err := s.http.Client().Do(s.request(t, "POST", body, session.ID()).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	hangUp()
	response.Body.Close()
	if f := s.lastExecution(t).GetFinished(); f.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || f.GetCancellation().GetBy() != "server" {
		t.Errorf("%v", f)
	}
	if err := session.Ping(t.Context(), nil); err != nil {
		t.Errorf("the session: %v", err)
	}
}
