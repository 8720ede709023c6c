// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestAskingOfOthers: sessions of two owners may have the same id, and a question for one
// is not put to the other.
func TestAskingOfOthers(t *testing.T) {
	alice := tools.Env{Tenant: "a", Principal: "alice", SessionID: "main"}
	for name, c := range map[string]struct {
		other tools.Env
		asked bool
	}{
		"the same":         {alice, true},
		"another session":  {tools.Env{Tenant: "a", Principal: "alice", SessionID: "x"}, false},
		"another caller":   {tools.Env{Tenant: "a", Principal: "bob", SessionID: "main"}, false},
		"another tenant":   {tools.Env{Tenant: "b", Principal: "alice", SessionID: "main"}, false},
		"for another user": {tools.Env{Tenant: "a", Principal: "alice", SessionID: "main", OnBehalfOf: "u"}, false},
	} {
		s := New(Server{Name: "x"}, Options{})
		s.calls = map[int64]*running{1: {env: alice}, 2: {env: c.other}}
		if call, why := s.asking(); (call != nil) != c.asked {
			t.Errorf("%s: asked %v, %s", name, call != nil, why)
		}
	}
}

// TestEndlessList: a server whose list of tools has no end is not listened to for long.
func TestEndlessList(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "x"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}})
	pages := 0
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, r)
			}
			pages++
			return &sdk.ListToolsResult{NextCursor: "more", Tools: []*sdk.Tool{{
				Name: "a", Description: strings.Repeat("x", 4<<20), InputSchema: map[string]any{"type": "object"},
			}}}, nil
		}
	})
	here, there := sdk.NewInMemoryTransports()
	go server.Run(t.Context(), there)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "y"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s := New(Server{Name: "x", StartTimeout: time.Hour}, Options{})
	if err := s.list(t.Context(), &connection{ClientSession: session}); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("%v", err)
	}
	if pages > 10 {
		t.Errorf("%d pages were taken", pages)
	}
}

// TestFloodOfQuestions: a server at an address asks again and again, for one call and for
// many at once: nobody is asked more often than the bounds say, and the model reads why.
func TestFloodOfQuestions(t *testing.T) {
	confirm := &sdk.ElicitRequest{Params: &sdk.ElicitParams{Message: "Go on?"}}
	s := New(Server{Name: "x"}, Options{})
	asked := 0
	out := &toolstest.Recorder{Answer: func(questions []tools.Question) ([]tools.Answer, error) {
		asked++
		return []tools.Answer{{Chosen: []string{yes}}}, nil
	}}
	call := &running{out: out}
	s.calls[1] = call
	for range 1000 {
		if _, err := s.elicit(t.Context(), confirm); err != nil {
			t.Fatal(err)
		}
	}
	if asked != maxAsked {
		t.Errorf("one call has people asked %d times", asked)
	}
	if notes := s.declinations(call); len(notes) != maxDeclinations || !strings.Contains(string(notes[0].(tools.Text)), "has asked 16 times") {
		t.Errorf("the model reads %q", notes)
	}

	waits, leave, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s = New(Server{Name: "x"}, Options{})
	waiting := 0
	for token := range int64(10 * maxAsking) { // calls of one person
		s.mu.Lock()
		s.calls[token+1] = &running{out: &toolstest.Recorder{Answer: func([]tools.Question) ([]tools.Answer, error) {
			waits <- struct{}{}
			<-leave
			return []tools.Answer{{Chosen: []string{yes}}}, nil
		}}}
		s.mu.Unlock()
		go func() {
			s.elicit(t.Context(), confirm)
			answered <- struct{}{}
		}()
		select {
		case <-waits:
			waiting++
		case <-answered:
		}
	}
	if waiting != maxAsking {
		t.Errorf("%d questions waited at once", waiting)
	}
	close(leave)
	for range waiting {
		<-answered
	}
}

// TestDeclinedForms: the model behind a call is told why its server was not answered.
func TestDeclinedForms(t *testing.T) {
	properties := make(map[string]any)
	for i := range maxFields + 1 {
		properties[fmt.Sprint("field", i)] = map[string]any{"type": "string"}
	}
	for name, c := range map[string]struct {
		schema any
		want   string
	}{
		"too many fields": {map[string]any{"type": "object", "properties": properties}, "its form has 17 fields: at most 16 are shown"},
		"nobody there":    {map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}, "Nobody answered]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Server{Name: "x"}, Options{})
			call := &running{out: new(toolstest.Recorder)}
			s.calls[1] = call
			result, err := s.elicit(t.Context(), &sdk.ElicitRequest{Params: &sdk.ElicitParams{Message: "Who?", RequestedSchema: c.schema}})
			if err != nil || result.Action != "decline" {
				t.Errorf("%v, %v", result, err)
			}
			if notes := s.declinations(call); len(notes) != 1 || !strings.Contains(string(notes[0].(tools.Text)), c.want) {
				t.Errorf("the model reads %q", notes)
			}
		})
	}
}

// TestOtherAddresses: what metadata of OAuth names is reached only where any other address
// is: not on other ports of the server's own address, and not in the clear.
func TestOtherAddresses(t *testing.T) {
	for to, want := range map[string]string{
		"http://127.0.0.1:7001/token":     "",
		"http://127.0.0.1:22/token":       "is the loopback",
		"http://localhost:7001/token":     "is the loopback",
		"http://127.0.0.1:8001/token":     "", // by hosts
		"https://10.1.2.3/token":          "10.1.2.3",
		"https://169.254.169.254/latest":  "169.254.169.254",
		"http://auth.example.com/token":   "want https",
		"https://[::1]:7001/token":        "is the loopback",
		"https://127.0.0.1.nip.io/x":      "127.0.0.1",
		"https://login.example.com/token": "",
	} {
		s := New(Server{Name: "x", URL: "http://127.0.0.1:7001/mcp", Hosts: []string{"127.0.0.1:8001"}}, Options{})
		dialer := s.dialing()
		dialed := ""
		dialer.Dial = func(_ context.Context, at netip.AddrPort) (net.Conn, error) {
			dialed = at.String()
			return nil, errors.New("nobody is called in a test")
		}
		dialer.Resolve = func(_ context.Context, name string) ([]netip.Addr, error) {
			if name == "127.0.0.1.nip.io" {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		}
		client := &http.Client{Transport: secure{dialer.Transport()}}
		_, err := client.Get(to)
		if err == nil {
			t.Fatal("somebody answered")
		}
		if want == "" && dialed == "" || want != "" && (dialed != "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: dialed %q, %v", to, dialed, err)
		}
	}
}

// endless is a body without an end, of a type that says so.
type endless struct{ kind string }

func (e endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Content-Type": {e.kind}}, Body: io.NopCloser(noEnd{})}, nil
}

type noEnd struct{}

func (noEnd) Read(p []byte) (int, error) { return len(p), nil }

// TestEndlessAnswers: what says that it is a stream of events is bounded all the same where
// nobody takes it for one.
func TestEndlessAnswers(t *testing.T) {
	for name, b := range map[string]*bounded{
		"of an issuer":    {endless{"text/event-stream"}, false},
		"no stream":       {endless{"application/json"}, true},
		"refused request": {endless{"text/event-stream"}, true},
	} {
		response, err := b.RoundTrip(httptest.NewRequest("GET", "https://a.example/", nil))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, response.Body); err == nil || n > maxLine {
			t.Errorf("%s: %d bytes were read, %v", name, n, err)
		}
	}
}

// TestSignInLinks: an operator is never sent elsewhere than to https, or this machine.
func TestSignInLinks(t *testing.T) {
	for link, ok := range map[string]bool{
		"https://login.example.com/authorize?x=1": true, "http://127.0.0.1:9000/authorize": true, "http://localhost/authorize": true, "http://[::1]:1/a": true,
		"http://login.example.com/authorize": false, "javascript:alert(1)": false, "file:///etc/passwd": false, "//login.example.com": false,
		"https://good.example@evil.example/": false, "HTTP://10.0.0.1/": false, "ssh://127.0.0.1/": false, "": false,
	} {
		o := &signIn{source: New(Server{Name: "x"}, Options{})}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := o.fetch(ctx, &auth.AuthorizationArgs{URL: link})
		if refused := !errors.Is(err, context.Canceled); refused == ok {
			t.Errorf("%q: %v", link, err)
		}
	}
}

// TestApprovalThatIsNotKept: a tool whose approval cannot be remembered stays withheld.
func TestApprovalThatIsNotKept(t *testing.T) {
	s := New(Server{Name: "x"}, Options{})
	dir := t.TempDir()
	s.pins = &pins{file: filepath.Join(dir, "pins", "x.json"), Tools: map[string]pin{"a": {Digest: "of before"}}}
	s.last = []*sdk.Tool{{Name: "a", InputSchema: map[string]any{"type": "object"}}}
	s.changed = []source.Change{{Tool: "a"}}
	if err := os.WriteFile(filepath.Join(dir, "pins"), nil, 0o600); err != nil { // no directory
		t.Fatal(err)
	}
	if approved, err := s.Approve(nil); err == nil {
		t.Fatalf("%v was approved", approved)
	}
	if got := s.pins.Tools["a"].Digest; got != "of before" {
		t.Errorf("the pin is %q", got)
	}
	os.Remove(filepath.Join(dir, "pins"))
	if approved, err := s.Approve(nil); err != nil || len(approved) != 1 || s.pins.Tools["a"].Digest == "of before" {
		t.Errorf("then: %v, %v", approved, err)
	}
}
