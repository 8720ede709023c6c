// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/cli"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// startCall starts "toolserver call" in a process group of its own and returns
// its standard output and error.
func startCall(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *lines) {
	t.Helper()
	cmd = exec.Command("toolserver", append([]string{"call"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, newLines(out), newLines(errs)
}

// interrupt does what Ctrl-C does.
func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptCancels(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for name, flags := range map[string][]string{
		"server in the process": nil,
		"server at an address":  {"--address", server.address},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, stdout, stderr := startCall(t, append(flags, "--json", "sleep", "duration_ms=600000")...)
			if _, ok := stdout.until(`"started"`); !ok {
				t.Fatalf("it does not start: %s", stderr)
			}
			interrupt(t, cmd)
			rest := stdout.rest()
			stderr.rest()
			if code := wait(t, cmd); code != cli.ExitCancelled {
				t.Errorf("exit code %d, want %d: %s", code, cli.ExitCancelled, stderr)
			}
			last := rest[len(rest)-1]
			if !strings.Contains(last, "OUTCOME_CANCELLED") || !strings.Contains(last, "interrupted by the user") {
				t.Errorf("the last event is %s", last)
			}
		})
	}
}

// deafServer accepts calls and never ends them.
type deafServer struct {
	pb.UnimplementedToolServiceServer
}

func (deafServer) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	return &pb.GetServerInfoResponse{}, nil
}

func (deafServer) ExecuteTool(_ *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	event := &pb.Event{ExecutionId: "x", Sequence: 1, Kind: &pb.Event_Started{Started: &pb.Started{}}}
	if err := stream.Send(&pb.ExecuteToolResponse{Event: event}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (deafServer) Cancel(ctx context.Context, _ *pb.CancelRequest) (*pb.CancelResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSecondInterruptLeaves(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterToolServiceServer(server, deafServer{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)

	cmd, stdout, stderr := startCall(t, "--address", listener.Addr().String(), "--json", "sleep", "{}")
	stdout.until(`"started"`)
	interrupt(t, cmd)
	if _, ok := stderr.until("cancelling"); !ok {
		t.Fatalf("it does not cancel: %s", stderr)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		stdout.rest()
		stderr.rest()
	}()
	for ended := false; !ended; {
		interrupt(t, cmd) // the first ones may be too early to be a second wish
		select {
		case <-left:
			ended = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	if code := wait(t, cmd); code != cli.ExitCancelled {
		t.Errorf("exit code %d, want %d", code, cli.ExitCancelled)
	}
}

// TestTimeoutCancels ends a call as timeout(1) does, with a signal to the process
// and one to its group. They differ here, so that both arrive.
func TestTimeoutCancels(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	cmd, stdout, stderr := startCall(t, "--address", server.address, "--json", "sleep", "duration_ms=600000")
	if _, ok := stdout.until(`"started"`); !ok {
		t.Fatalf("it does not start: %s", stderr)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	interrupt(t, cmd)
	rest := stdout.rest()
	stderr.rest()
	if code := wait(t, cmd); code != cli.ExitCancelled {
		t.Errorf("exit code %d, want %d: %s", code, cli.ExitCancelled, stderr)
	}
	if len(rest) == 0 || !strings.Contains(rest[len(rest)-1], "OUTCOME_CANCELLED") {
		t.Errorf("it left before the end: %q", rest)
	}
}

// A breakingProxy passes connections on until it is told to break them.
type breakingProxy struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func newBreakingProxy(t *testing.T, to string) *breakingProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &breakingProxy{Listener: listener}
	t.Cleanup(func() {
		listener.Close()
		p.breakAll()
	})
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, from, there)
			p.mu.Unlock()
			go io.Copy(there, from)
			go io.Copy(from, there)
		}
	}()
	return p
}

func (p *breakingProxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func TestCallSurvivesBrokenConnections(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	proxy := newBreakingProxy(t, server.address)
	cmd, stdout, stderr := startCall(t, "--address", proxy.Addr().String(), "--json", "sleep", "duration_ms=1500")
	var all []string
	for i := range 3 {
		line, ok := stdout.until(`"progress"`)
		if !ok {
			t.Fatalf("it ends: %s", stderr)
		}
		all = append(all, line)
		if i < 2 {
			proxy.breakAll()
		}
	}
	stdout.rest()
	stderr.rest()
	if code := wait(t, cmd); code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, strings.Join(all, "\n"))
	}
	n := 0
	for line := range strings.Lines(stdout.String()) {
		var event struct{ Sequence string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if n++; event.Sequence != strconv.Itoa(n) {
			t.Fatalf("event %s where %d is due:\n%s", event.Sequence, n, stdout)
		}
	}
	if !strings.Contains(stdout.String(), "OUTCOME_SUCCEEDED") {
		t.Errorf("no end:\n%s", stdout)
	}
}

func TestCallReportsALostExecution(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	cmd, stdout, stderr := startCall(t, "--address", server.address, "--json", "sleep", "duration_ms=600000")
	stdout.until(`"started"`)
	server.cmd.Process.Kill()
	server.cmd.Wait()
	startServer(t, "--listen", server.address) // it knows nothing of the one before
	stdout.rest()
	stderr.rest()
	if code := wait(t, cmd); code != cli.ExitLost || !strings.Contains(stdout.String(), "OUTCOME_LOST") {
		t.Errorf("exit code %d, want %d: %s%s", code, cli.ExitLost, stdout, stderr)
	}
}
