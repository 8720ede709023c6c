// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// program is the server that was built for the tests; its helper lies beside it.
var program string

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Run(m, func(helper string) {
		program = filepath.Join(filepath.Dir(helper), "toolserver")
		if _, err := os.Stat(program); err == nil {
			return // built before all tests, or by the test that runs this one
		}
		if _, err := programtest.Build(filepath.Dir(helper), "cmd/toolserver"); err != nil {
			panic(err)
		}
	}))
}

// A server is a process that serves, as a newcomer starts it.
type server struct {
	cmd            *exec.Cmd
	dir            string // of everything that is the server's
	workspace      string // of the default session
	address, admin string
	log            *tail

	tools     pb.ToolServiceClient
	sessions  pb.SessionServiceClient
	approvals pb.ApprovalServiceClient
}

// startServer starts a server in mode allow whose only other setting is an empty
// workspace. Flags are added. The test ends it.
func startServer(t *testing.T, flags ...string) *server {
	t.Helper()
	checkSources(t)
	s := &server{dir: t.TempDir(), log: new(tail)}
	s.workspace = filepath.Join(s.dir, "workspace")
	home := filepath.Join(s.dir, "home")
	for _, dir := range []string{s.workspace, home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.cmd = exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, flags...)...)
	s.cmd.Dir = s.workspace
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TOOLSERVER_") && !strings.HasPrefix(pair, "XDG_") && !strings.HasPrefix(pair, "GIT_") {
			s.cmd.Env = append(s.cmd.Env, pair)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "TOOLSERVER_SESSIONS_MODE=allow", "TOOLSERVER_WORKSPACE="+s.workspace, "HOME="+home, serverSecret)
	if mode := os.Getenv("TRIAL_SANDBOX"); mode != "" {
		s.cmd.Env = append(s.cmd.Env, "TOOLSERVER_SANDBOX_MODE="+mode)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 1)
	go func() {
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			s.log.add(scanner.Text())
			if strings.Contains(scanner.Text(), `"serving"`) {
				served <- scanner.Text()
			}
		}
		close(served)
	}()
	t.Cleanup(s.stop)
	select {
	case line := <-served:
		var serving struct{ Address, Admin string }
		if err := json.Unmarshal([]byte(line), &serving); err != nil {
			t.Fatalf("%v\n%s", err, s.log)
		}
		s.address, s.admin = serving.Address, serving.Admin
	case <-time.After(time.Minute):
		t.Fatalf("the server does not serve:\n%s", s.log)
	}
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.tools, s.sessions, s.approvals = pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewApprovalServiceClient(conn)
	return s
}

// serverSecret is in the environment of the server, and nobody's to see.
const serverSecret = "TRIAL_CANARY=canary-of-the-server-3c9e"

func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	guard := time.AfterFunc(30*time.Second, func() { s.cmd.Process.Kill() })
	defer guard.Stop()
	s.cmd.Wait()
}

// checkSources has go test run the trial again when the server's code changed,
// which is in no package that the tests import.
func checkSources(t *testing.T) {
	t.Helper()
	for _, root := range []string{"../../cmd", "../../internal", "../../proto"} {
		filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil // in a container there are no sources
		})
	}
}

// A session is one that a test works in.
type session struct {
	server    *server
	id        string
	workspace string
}

// newSession opens a session with an empty workspace of its own.
func (s *server) newSession(t *testing.T, with setting) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	response, err := s.sessions.CreateSession(ctx, &pb.CreateSessionRequest{Mode: with.mode, Level: with.level})
	if err != nil {
		t.Fatal(err)
	}
	r := response.GetSession()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.sessions.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: r.GetSessionId()})
	})
	return &session{server: s, id: r.GetSessionId(), workspace: r.GetWorkspace()}
}

// defaultSession returns the session that callers have without asking for one.
func (s *server) defaultSession() *session { return &session{server: s, workspace: s.workspace} }

// A result is what came of a call.
type result struct {
	outcome  string // SUCCEEDED and so on, HANGS or ERROR
	text     string
	asked    string // what a person was asked, if one was
	warnings []string
	rights   rights
	took     time.Duration
}

// rights are paths outside of the workspace that a verdict opened.
type rights []string

// opens reports whether a path is one of them or below one.
func (r rights) opens(path string) bool {
	return slices.ContainsFunc(r, func(root string) bool {
		return filepath.IsAbs(root) && (path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/"))
	})
}

// String tells a result in a few lines.
func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s after %s", r.outcome, r.took.Round(time.Millisecond))
	if r.asked != "" {
		fmt.Fprintf(&b, ", asked: %s", r.asked)
	}
	for _, w := range r.warnings {
		fmt.Fprintf(&b, "\n    warning: %s", w)
	}
	lines := strings.Split(strings.TrimSpace(r.text), "\n")
	const shown = 8
	for i, line := range lines {
		if i == shown {
			fmt.Fprintf(&b, "\n    | … %d more lines", len(lines)-shown)
			break
		}
		fmt.Fprintf(&b, "\n    | %.200s", line)
	}
	return b.String()
}

// bash runs a command.
func (s *session) bash(ctx context.Context, command string) result {
	return s.call(ctx, "bash", map[string]any{"command": command}, nil)
}

// call calls a tool, declines what a person is asked, and cancels the call once
// its output matches a pattern.
func (s *session) call(ctx context.Context, tool string, input map[string]any, cancelAt *regexp.Regexp) result {
	const patience = 3 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	got := s.follow(ctx, tool, input, cancelAt)
	got.took = time.Since(began)
	if ctx.Err() == context.DeadlineExceeded {
		got.outcome = "HANGS"
	}
	return got
}

func (s *session) follow(ctx context.Context, tool string, input map[string]any, cancelAt *regexp.Regexp) result {
	encoded, err := json.Marshal(input)
	if err != nil {
		return result{outcome: "ERROR", text: err.Error()}
	}
	stream, err := s.server.tools.ExecuteTool(ctx, &pb.ExecuteToolRequest{
		SessionId: s.id, Tool: tool, InputJson: encoded, OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_CANCEL,
	})
	if err != nil {
		return result{outcome: "ERROR", text: err.Error()}
	}
	var got result
	var output bytes.Buffer
	for {
		response, err := stream.Recv()
		if err != nil {
			got.outcome, got.text = "ERROR", err.Error()+"\n"+output.String()
			return got
		}
		switch event := response.GetEvent(); {
		case event.GetAccepted() != nil:
			opened := event.GetAccepted().GetVerdict().GetRights()
			got.rights = append(opened.GetRead(), opened.GetWrite()...)
		case event.GetApprovalRequested() != nil:
			a := event.GetApprovalRequested().GetApproval()
			got.asked = strings.TrimSpace(a.GetVerdict().GetRule() + " " + a.GetVerdict().GetReason())
			if _, err := s.server.approvals.ResolveApproval(ctx, &pb.ResolveApprovalRequest{
				ApprovalId: a.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE, Comment: "Nobody is there.",
			}); err != nil {
				got.asked += " (" + err.Error() + ")"
			}
		case event.GetOutput() != nil:
			output.Write(event.GetOutput().GetData())
			if cancelAt != nil && cancelAt.Match(output.Bytes()) {
				cancelAt = nil
				go s.server.tools.Cancel(ctx, &pb.CancelRequest{ExecutionId: event.GetExecutionId(), Reason: "the trial"})
			}
		case event.GetFinished() != nil:
			finished := event.GetFinished()
			got.outcome = strings.TrimPrefix(finished.GetOutcome().String(), "OUTCOME_")
			got.warnings = finished.GetWarnings()
			var texts []string
			for _, c := range finished.GetContent() {
				texts = append(texts, c.GetText()+c.GetJson()+c.GetArtifact().GetUri())
			}
			got.text = strings.Join(texts, "\n")
			return got
		}
	}
}

// A tail is the last lines that a process has written.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (l *tail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, line); len(l.lines) > 200 {
		l.lines = l.lines[100:]
	}
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
