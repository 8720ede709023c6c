// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpServer is how the configuration of a client names a server.
type mcpServer struct {
	Type, Command, URL string
	Args               []string
}

// TestMCPInReadme proves that each server in the lines for MCP clients in the README can be
// connected to as it is written there.
func TestMCPInReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### With an MCP client\n")
	section, _, _ = strings.Cut(section, "\n### ")
	s := startServer(t, "--http", "127.0.0.1:0")
	blocks := regexp.MustCompile("(?s)```(json|toml)\n(.*?)```").FindAllStringSubmatch(section, -1)
	var stdio, web int
	for _, block := range blocks {
		for name, server := range mcpServers(t, block[1], block[2]) {
			var transport mcp.Transport
			if server.URL != "" {
				web++
				u, err := url.Parse(server.URL)
				if err != nil || u.Host != "127.0.0.1:8667" {
					t.Fatalf("%s: %v", server.URL, err)
				}
				u.Host = s.http
				transport = &mcp.StreamableClientTransport{Endpoint: u.String()}
			} else {
				stdio++
				transport = commandTransport(t, t.TempDir(), server.Command, server.Args...)
			}
			useMCP(t, name, transport)
		}
	}
	if len(blocks) != 3 || stdio != 3 || web != 3 {
		t.Errorf("%d blocks with %d servers over stdio and %d over HTTP", len(blocks), stdio, web)
	}
}

// mcpServers reads the servers of a configuration.
func mcpServers(t *testing.T, format, text string) map[string]mcpServer {
	t.Helper()
	data := []byte(text)
	if format == "toml" {
		cmd := exec.Command("python3", "-c", "import json, sys, tomllib; json.dump(tomllib.load(sys.stdin.buffer), sys.stdout)")
		cmd.Stdin = strings.NewReader(text)
		var err error
		if data, err = cmd.Output(); err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
	}
	var config struct {
		MCPServers map[string]mcpServer `json:"mcpServers"`
		Servers    map[string]mcpServer `json:"servers"`
		Codex      map[string]mcpServer `json:"mcp_servers"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	for _, servers := range []map[string]mcpServer{config.MCPServers, config.Servers} {
		if len(servers) > 0 {
			return servers
		}
	}
	return config.Codex
}

// commandTransport starts a server over stdio in dir.
func commandTransport(t *testing.T, dir, name string, args ...string) *mcp.CommandTransport {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	cmd.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Minute}
}

// useMCP connects a client, which lists tools and calls one.
func useMCP(t *testing.T, name string, transport mcp.Transport) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) < 10 {
		t.Errorf("%s: tools/list: %v", name, err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"duration_ms": 1}})
	if err != nil || result.IsError {
		t.Errorf("%s: tools/call: %v", name, err)
	}
	if err := session.Close(); err != nil {
		t.Errorf("%s: the end: %v", name, err)
	}
}

// TestMCPPassedOn proves that a client over stdio can use a server that runs elsewhere,
// and that only messages of the protocol are written to it.
func TestMCPPassedOn(t *testing.T) {
	s := startServer(t)
	useMCP(t, "--server", commandTransport(t, t.TempDir(), "toolserver", "mcp", "serve", "--server", s.address, "--session", "new"))
	cmd := exec.Command("toolserver", "mcp", "serve")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+cmd.Dir, "TOOLSERVER_LOG_LEVEL=debug")
	cmd.Stdin = strings.NewReader("this is no message\n")
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("on standard output: %q", line)
		}
	}
	_ = err // a client that writes what is no message may be hung up on with an error
}

// TestMCPNewSessionIsHere proves that a session that is made for a client works in the
// directory in which the client started the server.
func TestMCPNewSessionIsHere(t *testing.T) {
	dir := t.TempDir()
	transport := commandTransport(t, dir, "toolserver", "mcp", "serve", "--session", "new", "--mode", "accept_edits")
	transport.Command.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "here"}})
	if err != nil || result.IsError {
		t.Errorf("%+v, %v", result, err)
	}
	session.Close()
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); string(got) != "here" {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// TestMCPTypeScript proves that the client of the SDK for TypeScript can start and use the
// command.
func TestMCPTypeScript(t *testing.T) {
	modules, err := filepath.Abs("../../.bin/mcp/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../internal/edge/testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", script, modules, "stdio", "toolserver", "mcp", "serve")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(cmd.Dir, "state"))
	if err := os.WriteFile(filepath.Join(cmd.Dir, "a.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: make mcp installs what it needs\n%s", err, out)
	}
}

// TestMCPOverTLS proves that HTTP is encrypted with the certificate of gRPC, for clients of
// HTTP/2 and of HTTP/1.1, and asks for the same tokens.
func TestMCPOverTLS(t *testing.T) {
	certificate, key := writeCertificate(t)
	const token = "a-token-that-is-long-enough-to-be-one"
	config := filepath.Join(t.TempDir(), "toolserver.yaml")
	text := "tls:\n  certificate: " + certificate + "\n  key: " + key + "\nauthentication:\n  tokens:\n    - principal: alice\n      token: " + token + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--http", "127.0.0.1:0", "--config", config)
	for _, protocol := range []string{"HTTP/2.0", "HTTP/1.1"} {
		var protocols http.Protocols
		protocols.SetHTTP1(protocol == "HTTP/1.1")
		protocols.SetHTTP2(protocol == "HTTP/2.0")
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: &protocols}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		response, err := client.Post("https://"+s.http+"/mcp", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized || response.Proto != protocol || response.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("without a token: %s by %s: want 401 by %s", response.Status, response.Proto, protocol)
		}
		client.Transport = authorized{transport, token}
		useMCP(t, protocol, &mcp.StreamableClientTransport{Endpoint: "https://" + s.http + "/mcp", HTTPClient: client})
	}
}

// authorized sends a token with each request.
type authorized struct {
	http.RoundTripper
	token string
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.RoundTripper.RoundTrip(r)
}
