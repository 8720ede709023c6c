// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/edge"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/service"
)

// TestMain gives the servers of tests a helper: this binary cannot be one.
func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Run(m, func(helper string) { os.Setenv("TOOLSERVER_SANDBOX_HELPER", helper) }))
}

// A testServer serves MCP over HTTP as a configuration says.
type testServer struct {
	*service.Server
	handler   *edge.Handler
	http      *httptest.Server
	url       string
	workspace string
}

// start starts a server with the lines of a configuration.
func start(t testing.TB, text string) *testServer {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	s := &testServer{workspace: filepath.Join(dir, "ws")}
	if err := os.MkdirAll(s.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "$DIR", dir)
	if !strings.Contains(text, "sessions:") {
		text += "\nsessions:\n  workspace: " + s.workspace + "\n"
	}
	file := filepath.Join(dir, "toolserver.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOOLSERVER_CONFIG", file)
	c, err := config.Load(new(pflag.FlagSet), (*config.Config).Validate)
	if err != nil {
		t.Fatal(err)
	}
	access, err := c.Access()
	if err != nil {
		t.Fatal(err)
	}
	if s.Server, err = server.New(c, zap.NewNop(), prometheus.NewRegistry(), nil); err != nil {
		t.Fatal(err)
	}
	s.handler = edge.New(edge.Config{
		Forward: s.Forward, Authenticator: access.Authenticator, Version: "1",
		Limits: c.HTTP.MCP, Site: c.Site(),
	})
	s.http = httptest.NewUnstartedServer(s.handler)
	if access.TLS != nil {
		s.http.TLS = access.TLS.Config()
		s.http.TLS.NextProtos = []string{"h2", "http/1.1"}
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.url = s.http.URL + edge.Path
	t.Cleanup(func() {
		s.handler.Close()
		server.ShutDown(s.Server, 0)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// write writes a file of the workspace.
func (s *testServer) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withToken sends a token with each request.
type withToken struct {
	token string
	base  http.RoundTripper
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.base.RoundTrip(r)
}

// connect connects the SDK's client.
func (s *testServer) connect(t testing.TB, query, token string, options *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url + query, HTTPClient: &http.Client{Transport: withToken{token, transport}},
	}, nil)
	if err == nil {
		t.Cleanup(func() { session.Close(); transport.CloseIdleConnections() })
	}
	return session, err
}

// mustConnect is connect that succeeds.
func (s *testServer) mustConnect(t testing.TB, query string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := s.connect(t, query, "", options)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// textOf returns the texts of a result.
func textOf(result *mcp.CallToolResult) string {
	var b strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// withAuthorization sends a header with the RPCs of ctx.
func withAuthorization(ctx context.Context, header string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", header)
}
