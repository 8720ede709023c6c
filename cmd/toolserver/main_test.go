// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/state"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// raced is the name under which this test binary is the command itself, with the race
// detector. It takes ten times as long to start as toolserver does, which is in PATH for
// scripts and tests as people run it.
const raced = "toolserver-raced"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != raced {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // or each command would take a second more
		for _, entry := range os.Environ() {
			name, _, _ := strings.Cut(entry, "=")
			if strings.HasPrefix(name, "TOOLSERVER_") || strings.HasPrefix(name, "OTEL_") {
				os.Unsetenv(name)
			}
		}
	}
	testscript.Main(withPrograms{m}, map[string]func(){raced: main})
}

// withPrograms runs tests with the programs that were built for them.
type withPrograms struct{ m *testing.M }

func (w withPrograms) Run() int {
	dir, err := os.MkdirTemp("", "toolserver-programs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	return sandboxtest.Run(w.m, func(helper string) {
		program, err := programtest.Build(dir, "cmd/toolserver")
		if err != nil {
			panic(err)
		}
		os.Setenv("PATH", filepath.Dir(program)+string(filepath.ListSeparator)+os.Getenv("PATH"))
		os.Setenv("TOOLSERVER_SANDBOX_HELPER", helper)
	})
}

func TestScripts(t *testing.T) {
	certificate, key := writeCertificate(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(cache, 0o700)
	programs, err := os.MkdirTemp(cache, "toolserver-scripts-") // not below /tmp, which sessions write
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(programs) }) // when all scripts have ended
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("CERTIFICATE", certificate)
			env.Setenv("KEY", key)
			env.Setenv("PROGRAMS", programs)
			env.Setenv("TOOLSERVER_SANDBOX_HELPER", sandboxtest.Helper())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     scriptExits,
			"serve":     scriptServe,
			"numbered":  scriptNumbered,
			"capture":   scriptCapture,
			"asked":     scriptAsked,
			"grant":     scriptGrant,
			"uri":       scriptURI,
			"workshop":  scriptWorkshop,
			"listening": scriptListening,
			"retry":     scriptRetry,
			"completes": scriptCompletes,
			"state":     scriptState,
		},
	})
}

// scriptState is "state DIR": a server has kept something in the directory. After "state
// DIR used" one still does.
func scriptState(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	e, err := state.Open(ctx, state.Options{Dir: ts.MkAbs(args[0])})
	ts.Check(err)
	calls, err := e.KV(ctx, state.Space{Name: "calls"})
	ts.Check(err)
	_, err = calls.Put(ctx, state.Key("acme", "call-1"), []byte("succeeded"), 0)
	ts.Check(err)
	events, err := e.Log(ctx, state.Space{Name: "events"})
	ts.Check(err)
	for range 3 {
		_, err = events.Append(ctx, "call-1", []byte("event"))
		ts.Check(err)
	}
	if len(args) > 1 {
		ts.Defer(func() { ts.Check(e.Close()) })
		return
	}
	ts.Check(e.Close())
}

// scriptRetry is "retry COMMAND ARGS...": the command must succeed before long.
func scriptRetry(ts *testscript.TestScript, _ bool, args []string) {
	var err error
	for range 100 {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%v: %v", args, err)
}

// scriptCompletes is "completes PATTERN ARGS...": what the shell is told of ARGS has the
// pattern before long. A server that takes more than a second has no completions.
func scriptCompletes(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for range 50 {
		ts.Check(ts.Exec("toolserver", append([]string{"__complete"}, args[1:]...)...))
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%v: %s", args, ts.ReadFile("stdout"))
}

// scriptExits is "exits CODE COMMAND ARGS...": the command must exit with the
// code.
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptServe is "serve FLAGS...": it starts a server and sets ADDRESS, also
// TOOLSERVER_ADDRESS, and HTTP.
func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("toolserver", append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	if state := ts.Getenv("XDG_STATE_HOME"); state != "" {
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	}
	s, err := start(cmd)
	ts.Check(err)
	ts.Defer(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	ts.Setenv("ADDRESS", s.address)
	ts.Setenv("HTTP", s.http)
	ts.Setenv("TOOLSERVER_ADDRESS", s.address)
}

// scriptNumbered is "numbered": standard output must be events as JSON, one a
// line, numbered from 1 without gaps, and the last alone is finished.
func scriptNumbered(ts *testscript.TestScript, _ bool, _ []string) {
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
	for i, line := range lines {
		var event struct {
			Sequence string
			Finished any
		}
		ts.Check(json.Unmarshal([]byte(line), &event))
		if event.Sequence != strconv.Itoa(i+1) || (event.Finished != nil) != (i == len(lines)-1) {
			ts.Fatalf("line %d of %d: %s", i+1, len(lines), line)
		}
	}
}

// scriptCapture is "capture NAME": it sets a variable to standard output.
func scriptCapture(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// scriptAsked is "asked NAME TOOL": it waits until a call of the tool waits for
// an answer on the server that serves, and sets a variable to the approval's id.
func scriptAsked(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := grpc.NewClient(ts.Getenv("ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	a, err := nextApproval(pb.NewApprovalServiceClient(conn), args[1])
	ts.Check(err)
	ts.Setenv(args[0], a.GetApprovalId())
}

// scriptGrant is "grant NAME": it sets a variable to the id of the newest grant.
func scriptGrant(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := grpc.NewClient(ts.Getenv("ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	response, err := pb.NewApprovalServiceClient(conn).ListGrants(context.Background(), &pb.ListGrantsRequest{})
	ts.Check(err)
	grants := response.GetGrants()
	ts.Setenv(args[0], grants[len(grants)-1].GetGrantId())
}

// nextApproval waits until a call of a tool waits for an answer.
func nextApproval(client pb.ApprovalServiceClient, tool string) (*pb.Approval, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := client.WatchApprovals(ctx, &pb.WatchApprovalsRequest{})
	if err != nil {
		return nil, err
	}
	for {
		change, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		for _, a := range append(change.GetSnapshot().GetApprovals(), change.GetAsked()) {
			if a.GetTool() == tool {
				return a, nil
			}
		}
	}
}

// A running is a server process.
type running struct {
	cmd     *exec.Cmd
	address string
	admin   string
	http    string
	log     *lines
}

// start starts a server and waits until it serves.
func start(cmd *exec.Cmd) (*running, error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &running{cmd: cmd, log: newLines(stderr)}
	line, ok := s.log.until(`"serving"`)
	if !ok {
		cmd.Process.Kill()
		return nil, fmt.Errorf("the server does not serve: %s", s.log)
	}
	var serving struct{ Address, Admin, HTTP string }
	if err := json.Unmarshal([]byte(line), &serving); err != nil {
		return nil, err
	}
	s.address, s.admin, s.http = serving.Address, serving.Admin, serving.HTTP
	return s, nil
}

// startServer starts a server for a test, which kills it at the end.
func startServer(t *testing.T, flags ...string) *running {
	t.Helper()
	return startProgram(t, "toolserver", flags...)
}

func startProgram(t *testing.T, program string, flags ...string) *running {
	t.Helper()
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off"}, flags...)...)
	cmd.Dir = t.TempDir()
	s, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return s
}

// client returns a connection to the server.
func (s *running) client(t *testing.T) pb.ToolServiceClient {
	t.Helper()
	return pb.NewToolServiceClient(s.conn(t))
}

func (s *running) conn(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// wait waits for the process to end and returns its exit code.
func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	guard := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer guard.Stop()
	err := cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// lines are the lines a process writes, for as long as it does.
type lines struct {
	mu   sync.Mutex
	all  bytes.Buffer
	next chan string
}

func newLines(from io.Reader) *lines {
	l := &lines{next: make(chan string, 100_000)}
	go func() {
		defer close(l.next)
		for scanner := bufio.NewScanner(from); scanner.Scan(); {
			l.mu.Lock()
			fmt.Fprintln(&l.all, scanner.Text())
			l.mu.Unlock()
			l.next <- scanner.Text()
		}
	}()
	return l
}

// until waits for the next line that has text in it.
func (l *lines) until(text string) (string, bool) {
	limit := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-l.next:
			if !ok || strings.Contains(line, text) {
				return line, ok
			}
		case <-limit:
			return "", false
		}
	}
}

// rest waits for the end and returns what is left.
func (l *lines) rest() []string {
	var rest []string
	for line := range l.next {
		rest = append(rest, line)
	}
	return rest
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// execute starts a call and returns its stream after the started event.
func execute(t *testing.T, client pb.ToolServiceClient, tool, input string) grpc.ServerStreamingClient[pb.ExecuteToolResponse] {
	t.Helper()
	stream, err := client.ExecuteTool(context.Background(), &pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)})
	if err != nil {
		t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if response.GetEvent().GetStarted() != nil {
			return stream
		}
	}
}

// lastEvent reads a stream to its end and returns the last event.
func lastEvent(t *testing.T, stream grpc.ServerStreamingClient[pb.ExecuteToolResponse]) *pb.Event {
	t.Helper()
	var last *pb.Event
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return last
		}
		if err != nil {
			t.Fatal(err)
		}
		last = response.GetEvent()
	}
}
