// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/edge"
)

// rawClient speaks the protocol by hand.
type rawClient struct {
	s              *testServer
	token, session string
	version        string
	last           int // id
}

// begin begins a session of a version of the protocol.
func (s *testServer) begin(t *testing.T, version, token string) (*rawClient, string) {
	t.Helper()
	c := &rawClient{s: s, token: token, version: version}
	answer := c.send(t, "initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, version))
	c.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, answer
}

func (c *rawClient) post(t *testing.T, body string) string {
	t.Helper()
	r := c.s.request(t, http.MethodPost, body, c.session)
	r.Header.Set("Mcp-Protocol-Version", c.version)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.s.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (c *rawClient) send(t *testing.T, method, params string) string {
	t.Helper()
	c.last++
	if params != "" {
		params = `,"params":` + params
	}
	return c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q%s}`, c.last, method, params))
}

var taskID = regexp.MustCompile(`"taskId":"([^"]+)"`)

const sleepTask = `{"name":"sleep","arguments":{"duration_ms":600000},"task":{"ttl":1000}}`

// TestTaskOutlivesItsSession: a task goes on when the client closes its session, and is there
// for the next one of the same principal alone.
func TestTaskOutlivesItsSession(t *testing.T) {
	s := start(t, twoTokens)
	alice := "alice-has-a-token-that-is-long-enough"
	first, begun := s.begin(t, "2025-11-25", alice)
	if !strings.Contains(begun, `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`) {
		t.Errorf("initialize: %s", begun)
	}
	made := first.send(t, "tools/call", sleepTask)
	found := taskID.FindStringSubmatch(made)
	if found == nil || !strings.Contains(made, `"status":"working"`) || !strings.Contains(made, `"ttl":null`) {
		t.Fatal(made)
	}
	about := fmt.Sprintf(`{"taskId":%q}`, found[1])
	end := s.request(t, http.MethodDelete, "", first.session)
	end.Header.Set("Authorization", "Bearer "+alice)
	if code, text := s.send(t, end); code != 204 {
		t.Fatal(code, text)
	}
	second, _ := s.begin(t, "2025-11-25", alice)
	other, _ := s.begin(t, "2025-11-25", "bob-has-a-token-that-is-long-enough")
	for _, c := range []struct {
		who                  *rawClient
		method, params, want string
	}{
		{second, "tasks/get", about, `"status":"working"`},
		{second, "tasks/list", "", found[1]},
		{other, "tasks/get", about, `"code":-32602`},
		{other, "tasks/cancel", about, `"code":-32602`},
		{other, "tasks/result", about, `"code":-32602`},
		{other, "tasks/list", "", `"tasks":[]`},
		{second, "tasks/get", "", `taskId is missing`},
		{second, "tasks/result", `{}`, `taskId is missing`},
		{second, "tasks/list", `{"cursor":"x"}`, `"code":-32602`},
		{second, "tasks/cancel", about, `"status":"cancelled"`},
		{second, "tasks/result", about, `"isError":true`},
		{second, "tasks/get", about, `"status":"cancelled"`},
		{second, "tasks/cancel", about, `ended already`},
		{second, "tools/call", `{"name":"no_such_tool","task":{}}`, `"status":"failed"`},
	} {
		if got := c.who.send(t, c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s: want %s", c.method, c.params, got, c.want)
		}
	}
}

// TestTasksOfOlderVersions: before 2025-11-25 a call is a call, and there are no tasks.
func TestTasksOfOlderVersions(t *testing.T) {
	s := start(t, "")
	c, begun := s.begin(t, "2025-06-18", "")
	if strings.Contains(begun, `"tasks"`) {
		t.Errorf("initialize: %s", begun)
	}
	if got := c.send(t, "tools/call", `{"name":"sleep","arguments":{"duration_ms":1},"task":{}}`); !strings.Contains(got, "Waited 1ms") {
		t.Errorf("a call: %s", got)
	}
	if got := c.send(t, "tasks/list", ""); !strings.Contains(got, `"code":-32601`) {
		t.Errorf("tasks/list: %s", got)
	}
}

// TestTasksOverStdio: they are there over stdio too.
func TestTasksOverStdio(t *testing.T) {
	s := start(t, "")
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- edge.Stdio(t.Context(), s.local(t), "1", edge.Settings{}, false, toServer, fromServer)
	}()
	answers := bufio.NewScanner(toClient)
	ask := func(line string) string {
		if _, err := io.WriteString(fromClient, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"id"`) {
			answers.Scan()
		}
		return answers.Text()
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	made := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + sleepTask + `}`)
	found := taskID.FindStringSubmatch(made)
	if found == nil {
		t.Fatal(made)
	}
	if got := ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":%q}}`, found[1])); !strings.Contains(got, `"status":"cancelled"`) {
		t.Error(got)
	}
	fromClient.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
