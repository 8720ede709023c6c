// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/edge"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// overStdio connects a client over pipes. ended has the end of the server.
func (s *testServer) overStdio(t *testing.T, alone bool, options *mcp.ClientOptions) (session *mcp.ClientSession, hangUp func(), ended chan error) {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended = make(chan error, 1)
	go func() {
		ended <- edge.Stdio(context.WithoutCancel(t.Context()), s.local(t), "1", edge.Settings{}, alone, toServer, fromServer)
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session, func() { fromClient.Close(); toClient.Close() }, ended
}

// TestStdio proves that a client over stdio gets what one over HTTP gets, and that the end
// of its input ends the server while a call runs.
func TestStdio(t *testing.T) {
	s := start(t, "executions:\n  disconnect_grace: 100ms\n")
	s.write(t, "a.txt", "hello")
	began := make(chan struct{}, 1000)
	session, hangUp, ended := s.overStdio(t, false, &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { began <- struct{}{} }})
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}})
	if err != nil || result.IsError || !strings.Contains(textOf(result), "hello") {
		t.Fatal(err, result)
	}
	params := &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"duration_ms": 600_000}}
	params.SetProgressToken(1)
	go session.CallTool(context.WithoutCancel(t.Context()), params)
	<-began
	hangUp()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if f := s.lastExecution(t).GetFinished(); f.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("%v", f)
	}
}

// TestHostileLines proves that lines which are no messages are refused one by one, and that
// one without an end ends the server.
func TestHostileLines(t *testing.T) {
	s := start(t, "")
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- edge.Stdio(t.Context(), s.local(t), "1", edge.Settings{}, true, toServer, fromServer)
		fromServer.Close()
	}()
	answers := bufio.NewScanner(toClient)
	for _, c := range []struct{ line, want string }{
		{"hello", `"code":-32700`}, {"", ""}, {"null", `"code":-32600`}, {`{"jsonrpc":"1.0"}`, `"code":-32600`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `no batches`},
		{strings.Repeat("[", 1<<20), `nested 1048576 deep`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"code":-32600`},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, `"id":"a"`},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":7,"result":{}}`},
	} {
		if _, err := io.WriteString(fromClient, c.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if c.want != "" && (!answers.Scan() || !strings.Contains(answers.Text(), c.want)) {
			t.Errorf("%.100s: %s: want %s", c.line, answers.Text(), c.want)
		}
	}
	go io.CopyN(fromClient, endless{}, 100<<20)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
	toServer.Close()
}

// TestNobodyToAsk proves that a question which nobody can answer is declined at once.
func TestNobodyToAsk(t *testing.T) {
	s := start(t, "")
	session, hangUp, ended := s.overStdio(t, true, nil)
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "x"}})
	if err != nil || !result.IsError || !strings.Contains(textOf(result), "Nobody could be asked") {
		t.Errorf("%v %+v", err, result)
	}
	hangUp()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
