// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// remote is an MCP server at an address.
type remote struct {
	*httptest.Server
	mcp *mcp.Server

	mu      sync.Mutex
	headers []http.Header
	allows  func(http.Header) bool
}

type echoInput struct {
	Text string `json:"text"`
}

// newRemote serves MCP at /mcp and /sse, for requests that allows allows.
func newRemote(t *testing.T, allows func(http.Header) bool) *remote {
	r := &remote{allows: allows, mcp: mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)}
	mcp.AddTool(r.mcp, &mcp.Tool{Name: "echo", Description: "Says what it is told."},
		func(ctx context.Context, request *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
			if token := request.Params.GetProgressToken(); token != nil {
				request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "half"})
			}
			if in.Text == "huge" {
				in.Text = strings.Repeat("x", 20<<20)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	get := func(*http.Request) *mcp.Server { return r.mcp }
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(get, nil))
	mux.Handle("/json", mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	mux.Handle("/sse", mcp.NewSSEHandler(get, nil))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		r.headers = append(r.headers, request.Header.Clone())
		ok := r.allows == nil || r.allows(request.Header)
		r.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", r.URL+"/.well-known/oauth-protected-resource"))
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, request)
	}))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func (r *remote) seen() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.headers
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMCPAddress reaches servers by HTTP, new and old.
func TestMCPAddress(t *testing.T) {
	t.Parallel()
	var wanted = "Bearer first-token"
	r := newRemote(t, nil)
	r.allows = func(h http.Header) bool { return h.Get("Authorization") == wanted && h.Get("X-Team") == "tools" }
	token := secretFile(t, "first-token")
	for name, path := range map[string]string{"http": "/mcp", "json": "/json", "sse": "/sse"} {
		t.Run(name, func(t *testing.T) {
			transport := map[bool]string{true: "sse", false: "http"}[name == "sse"]
			s := serveAllowing(t, fmt.Sprintf("mcp:\n- {name: remote, url: %q, transport: %s, token_file: %s, headers: {X-Team: tools}, timeout: 20s}\n", r.URL+path, transport, token))
			s.waitForTool("remote__echo", true)
			if got := describe(s.run("remote__echo", `{"text":"hello"}`)); got != "hello" {
				t.Error(got)
			}
			if got := describe(s.run("remote__echo", `{"text":"huge"}`)); strings.Contains(got, "xxx") || !strings.Contains(got, ":") {
				t.Errorf("of 20 MiB: %.300s", got)
			}
			if name == "json" {
				// A server that comes back is found again.
				s.retryUntil("remote", pb.SourceState_SOURCE_STATE_AVAILABLE)
				mcp.AddTool(r.mcp, &mcp.Tool{Name: "later"}, func(context.Context, *mcp.CallToolRequest, echoInput) (*mcp.CallToolResult, any, error) {
					return &mcp.CallToolResult{}, nil, nil
				})
				s.waitForTool("remote__later", true)
			}
		})
	}
	t.Run("without a header", func(t *testing.T) {
		s := serveAllowing(t, fmt.Sprintf("mcp:\n- {name: remote, url: %q, token_file: %s}\n", r.URL+"/mcp", token))
		one := s.waitForSource("remote", func(one *pb.Source) bool { return one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE })
		if !strings.Contains(one.GetReason(), "401") || strings.Contains(one.GetReason(), "first-token") {
			t.Errorf("refused for %s", one.GetReason())
		}
	})
}

// retryUntil has a source tried until it is in a state.
func (s *wholeServer) retryUntil(name string, state pb.SourceState) {
	s.t.Helper()
	s.waitForSource(name, func(one *pb.Source) bool {
		if one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE {
			s.sources.RetrySource(s.t.Context(), &pb.RetrySourceRequest{Name: name})
		}
		return one.GetState() == state
	})
}

// TestMCPLedElsewhere has a server lead to another: nobody follows, and nothing of what it
// was sent goes there. Case P-175.
func TestMCPLedElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := newRemote(t, nil)
	var target string
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	}))
	defer redirecting.Close()
	pointing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // of the old kind
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/mcp\n\n", elsewhere.URL)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer pointing.Close()
	token := secretFile(t, "not-for-others")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ config, target, want string }{
		"metadata":  {fmt.Sprintf("url: %q", redirecting.URL), "http://169.254.169.254/latest/meta-data", "leads to http://169.254.169.254: that is not followed"},
		"elsewhere": {fmt.Sprintf("url: %q", redirecting.URL), elsewhere.URL + "/mcp", "that is not followed"},
		"endpoint":  {fmt.Sprintf("url: %q, transport: sse, start_timeout: 5s", pointing.URL), "", "which is not followed"},
		"private":   {fmt.Sprintf("url: %q", "https://"+host+":1/mcp"), "", "The server reaches it only where|There is no host|could not be looked up|No connection"},
	} {
		t.Run(name, func(t *testing.T) {
			target = test.target
			s := serveAllowing(t, fmt.Sprintf("mcp:\n- {name: remote, token_file: %s, %s}\n", token, test.config))
			one := s.waitForSource("remote", func(one *pb.Source) bool { return one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE })
			found := false
			for want := range strings.SplitSeq(test.want, "|") {
				found = found || strings.Contains(one.GetReason(), want)
			}
			if !found {
				t.Errorf("%s, want %s", one.GetReason(), test.want)
			}
		})
	}
	if seen := elsewhere.seen(); len(seen) > 0 {
		t.Errorf("the other server was sent %v", seen)
	}
}

// issuer is an OAuth server that gives tokens to who shows what it was promised.
type issuer struct {
	*httptest.Server
	mu        sync.Mutex
	challenge string // of the last authorization
	given     int    // tokens
	valid     map[string]bool
	refreshes int
	problems  []string
}

func newIssuer(t *testing.T, resource func() string) *issuer {
	i := &issuer{valid: make(map[string]bool)}
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"grant_types_supported": []string{"authorization_code", "refresh_token", "client_credentials"}, "token_endpoint_auth_methods_supported": []string{"client_secret_post"},
		})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) { // a person has signed in
		q := r.URL.Query()
		i.mu.Lock()
		i.challenge = q.Get("code_challenge")
		i.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"the-code"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		i.mu.Lock()
		defer i.mu.Unlock()
		ok := r.Form.Get("client_id") == "us" && r.Form.Get("client_secret") == "our-secret"
		switch r.Form.Get("grant_type") {
		case "authorization_code":
			sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
			ok = ok && r.Form.Get("code") == "the-code" && base64.RawURLEncoding.EncodeToString(sum[:]) == i.challenge
		case "refresh_token":
			i.refreshes++
			ok = ok && r.Form.Get("refresh_token") == "renews"
		case "client_credentials":
			scopes := strings.Fields(r.Form.Get("scope")) // in any order
			ok = ok && len(scopes) == 2 && slices.Contains(scopes, "read") && slices.Contains(scopes, "call")
		default:
			ok = false
		}
		if !ok {
			i.problems = append(i.problems, fmt.Sprint(r.Form))
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		i.given++
		lifetime := 3600
		if i.given == 1 { // it has to be renewed at once
			lifetime = 5
		}
		token := fmt.Sprintf("token-%d", i.given)
		i.valid["Bearer "+token] = true
		answer(w, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": lifetime, "refresh_token": "renews"})
	})
	mux.HandleFunc("/resource", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"resource": resource(), "authorization_servers": []string{i.URL}, "scopes_supported": []string{"tools"}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// TestMCPSignIn has an operator sign in for a server, and the server restarted.
func TestMCPSignIn(t *testing.T) {
	t.Parallel()
	for _, grant := range []string{"authorization_code", "client_credentials"} {
		t.Run(grant, func(t *testing.T) {
			var r *remote
			i := newIssuer(t, func() string { return r.URL + "/mcp" })
			r = newRemote(t, nil)
			r.allows = func(h http.Header) bool {
				i.mu.Lock()
				defer i.mu.Unlock()
				return i.valid[h.Get("Authorization")]
			}
			// The metadata of the resource is at the server itself, for everybody.
			inner := r.Config.Handler
			r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				if strings.HasPrefix(request.URL.Path, "/.well-known/oauth-protected-resource") {
					request.URL.Path = "/resource"
					i.Config.Handler.ServeHTTP(w, request)
					return
				}
				inner.ServeHTTP(w, request)
			})
			config := fmt.Sprintf("mcp:\n- {name: remote, url: %q, hosts: [%q], oauth: {grant: %s, client_id: us, client_secret_file: %s, scopes: [read, call]}}\n",
				r.URL+"/mcp", i.Listener.Addr(), grant, secretFile(t, "our-secret"))
			s := serveAllowing(t, config)
			if grant == "authorization_code" {
				one := s.waitForSource("remote", func(one *pb.Source) bool { return one.GetSignInUrl() != "" })
				if !strings.HasPrefix(one.GetSignInUrl(), i.URL+"/authorize?") || !strings.Contains(one.GetSignInUrl(), "code_challenge_method=S256") {
					t.Errorf("an operator signs in at %s", one.GetSignInUrl())
				}
				if _, err := s.sources.CompleteSignIn(t.Context(), &pb.CompleteSignInRequest{Name: "remote", RedirectedUrl: "http://127.0.0.1/?error=access_denied"}); err == nil {
					t.Error("a failure was taken")
				}
				browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				response, err := browser.Get(one.GetSignInUrl())
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				_, err = s.sources.CompleteSignIn(t.Context(), &pb.CompleteSignInRequest{Name: "remote", RedirectedUrl: response.Header.Get("Location")})
				if err != nil {
					t.Fatal(err)
				}
			}
			s.waitForTool("remote__echo", true)
			if got := describe(s.run("remote__echo", `{"text":"hello"}`)); got != "hello" {
				t.Error(got)
			}
			s.stop()
			kept := filepath.Join(s.state, "toolserver", "mcp", "tokens", "remote")
			if grant == "authorization_code" {
				text, err := os.ReadFile(kept)
				if err != nil || strings.Contains(string(text), "token-") || strings.Contains(string(text), "renews") {
					t.Errorf("kept in clear: %q, %v", text, err)
				}
				if info, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(kept)), "key")); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the key: %v, %v", info, err)
				}
			}
			again := serveAgain(t, s, config)
			again.waitForTool("remote__echo", true)
			if got := describe(again.run("remote__echo", `{"text":"again"}`)); got != "again" {
				t.Error(got)
			}
			i.mu.Lock()
			defer i.mu.Unlock()
			if want := map[string]int{"authorization_code": 2, "client_credentials": 3}[grant]; i.given != want || len(i.problems) > 0 {
				t.Errorf("%d tokens were given, want %d; refused: %v", i.given, want, i.problems)
			}
		})
	}
}
