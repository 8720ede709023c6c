// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/edge"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A line is a network between clients and a server that can be cut.
type line struct {
	net.Listener
	to string

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener, to: to}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go l.carry(conn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		l.cut(true)
	})
	return l
}

func (l *line) carry(from net.Conn) {
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		from.Close()
		return
	}
	l.mu.Lock()
	l.conns = append(l.conns, from, to)
	l.mu.Unlock()
	l.cut(l.cutNow())
	go io.Copy(to, from)
	io.Copy(from, to)
}

func (l *line) cutNow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isCut
}

// cut cuts all connections, and those to come, or lets them through again.
func (l *line) cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
	if cut {
		for _, conn := range l.conns {
			conn.Close()
		}
		l.conns = nil
	}
}

// TestResumption: a client whose network fails in the middle of a call gets the rest of what
// the server sent meanwhile, and the result. The call runs once.
func TestResumption(t *testing.T) {
	s := start(t, "")
	network := newLine(t, s.http.Listener.Addr().String())
	s.url = "http://" + network.Addr().String() + edge.Path
	progress := make(chan string, 100)
	session := s.mustConnect(t, "", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message }})
	params := &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "x"}}
	params.SetProgressToken("t")
	type end struct {
		result *mcp.CallToolResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := session.CallTool(t.Context(), params)
		ended <- end{result, err}
	}()
	if first := <-progress; !strings.Contains(first, "waits for an approval") {
		t.Errorf("told %q", first)
	}
	network.cut(true)
	approvals := pb.NewApprovalServiceClient(s.local(t))
	list, err := approvals.ListApprovals(t.Context(), &pb.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatal(err, list)
	}
	if _, err := approvals.ResolveApproval(t.Context(), &pb.ResolveApprovalRequest{ApprovalId: list.GetApprovals()[0].GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}); err != nil {
		t.Fatal(err)
	}
	if f := s.lastExecution(t).GetFinished(); f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("while the client was cut off: %v", f)
	}
	network.cut(false)
	if got := <-ended; got.err != nil || got.result.IsError {
		t.Fatalf("%v %+v", got.err, got.result)
	}
	if second := <-progress; !strings.Contains(second, "allow_once") {
		t.Errorf("told %q", second)
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "b.txt")); err != nil {
		t.Error(err)
	}
	runs, err := pb.NewToolServiceClient(s.local(t)).ListExecutions(t.Context(), &pb.ListExecutionsRequest{})
	if err != nil || len(runs.GetExecutions()) != 1 {
		t.Errorf("%v %v", err, runs)
	}
}

// lastID reads a stream of events up to its end or so many of them, and returns the id of
// the last.
func lastID(t *testing.T, body io.Reader, events int) (id, text string) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() && events > 0 {
		text += lines.Text() + "\n"
		if found, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = found
			events--
		}
	}
	return id, text
}

// resume asks for what came after an event, and returns what the server answers.
func (s *testServer) resume(t *testing.T, session, after string) (int, string) {
	t.Helper()
	r := s.request(t, http.MethodGet, "", session)
	r.Header.Set("Last-Event-ID", after)
	return s.send(t, r)
}

// TestResumptionBounds: what was answered can be had again for a while, by its own session
// only, and what is kept of answers is bounded.
func TestResumptionBounds(t *testing.T) {
	s := start(t, "")
	s.write(t, "a.txt", "hello")
	session, other := s.mustConnect(t, "", nil), s.mustConnect(t, "", nil)
	read := func(id int) string {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}`, id)
		r := s.request(t, http.MethodPost, body, session.ID())
		r.Header.Set("Mcp-Protocol-Version", edge.Protocols[0])
		response, err := s.http.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		prime, _ := lastID(t, response.Body, 1)
		io.Copy(io.Discard, response.Body)
		return prime
	}
	first := read(1000)
	if code, text := s.resume(t, session.ID(), first); code != 200 || !strings.Contains(text, "hello") {
		t.Errorf("its own: %d %s", code, text)
	}
	if code, text := s.resume(t, other.ID(), first); code != 400 {
		t.Errorf("from another session: %d %s", code, text)
	}
	for _, wrong := range []string{"x", "nothing_0", strings.TrimSuffix(first, "0") + "99"} {
		if code, text := s.resume(t, session.ID(), wrong); code != 400 {
			t.Errorf("%q: %d %s", wrong, code, text)
		}
	}
	for i := range 40 {
		read(2000 + i)
	}
	if code, text := s.resume(t, session.ID(), first); code != 400 {
		t.Errorf("after 40 others: %d %s", code, text)
	}
}
