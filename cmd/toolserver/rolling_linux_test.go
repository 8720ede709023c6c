// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // so that clients look at the health of servers
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"

	"github.com/toolserver/toolserver/internal/soaktest"
)

// soak is whether long forms are wanted. TestMain takes the variable away.
var soak = soaktest.Long()

// TestRollingRestartsSoak restarts one of two replicas after another while clients
// call both: 5 times, or 100 in make soak. No call is without its ending, none runs
// twice, and what a client is told to send again did not run.
func TestRollingRestartsSoak(t *testing.T) {
	t.Parallel()
	restarts := 5
	if soak {
		restarts = 100
	}
	for _, test := range []struct {
		name, health string
	}{
		{"clients look at health", `, "healthCheckConfig": {"serviceName": ""}`},
		{"clients do not", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			replicas := []*replica{newReplica(t), newReplica(t)}
			load := newLoad(t, replicas, test.health)
			for i := range restarts {
				r := replicas[i%len(replicas)]
				load.untilServedBy(t, r)
				r.restart(t)
			}
			for _, r := range replicas {
				load.untilServedBy(t, r)
			}
			load.end(t)
			ran := make(map[string]int)
			for _, r := range replicas {
				r.stop(t)
				r.count(t, ran)
			}
			for id := range load.ended {
				if ran[id] != 1 {
					t.Errorf("call %s ran %d times", id, ran[id])
				}
			}
			for id, times := range ran {
				if !load.ended[id] {
					t.Errorf("call %s ran %d times, and nobody was told", id, times)
				}
			}
			t.Logf("%d restarts, %d calls, %d refusals that were sent again", restarts, len(load.ended), load.refused.Load())
		})
	}
}

// A replica is a server that comes back at its address.
type replica struct {
	*running
	audit, config string
}

func newReplica(t *testing.T) *replica {
	t.Helper()
	dir := t.TempDir()
	r := &replica{audit: filepath.Join(dir, "audit"), config: filepath.Join(dir, "c.yaml")}
	text := fmt.Sprintf("shutdown_grace: 60s\naudit: {file: %s}\nartifacts: {dir: %s/artifacts}\nsandbox: {caches: {dir: %s/caches}}\n", r.audit, dir, dir)
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.serve(t, "127.0.0.1:0")
	t.Cleanup(func() { r.cmd.Process.Kill() })
	return r
}

func (r *replica) serve(t *testing.T, address string) {
	t.Helper()
	cmd := exec.Command("toolserver", "serve", "--listen", address, "--admin", "off", "--config", r.config)
	cmd.Dir = filepath.Dir(r.config)
	s, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	r.running = s
}

// stop ends the replica, in peace.
func (r *replica) stop(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.log.rest()
	if code := wait(t, r.cmd); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.log)
	}
	if log := r.log.String(); strings.Contains(log, "cut off") {
		t.Errorf("streams were cut off:\n%s", log)
	}
}

func (r *replica) restart(t *testing.T) {
	t.Helper()
	address := r.address
	r.stop(t)
	r.serve(t, address)
}

// count adds to ran how often each call began to run, by the audit log.
func (r *replica) count(t *testing.T, ran map[string]int) {
	t.Helper()
	file, err := os.Open(r.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var record struct {
			Step   string
			CallID string `json:"call_id"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &record); err != nil {
			t.Fatalf("%s: %v", scanner.Bytes(), err)
		}
		if record.Step == "started" {
			ran[record.CallID]++
		}
	}
}

// A load is callers who call until they are told to end.
type load struct {
	client  pb.ToolServiceClient
	stop    chan struct{}
	callers sync.WaitGroup
	refused atomic.Int64

	mu     sync.Mutex
	ended  map[string]bool // call ids
	by     map[string]int  // how many a replica has ended, by its address
	change chan struct{}   // closed when it changes
	failed error
}

// newLoad begins to call replicas in turn.
func newLoad(t *testing.T, replicas []*replica, config string) *load {
	t.Helper()
	names := manual.NewBuilderWithScheme("replicas")
	var state resolver.State
	for _, r := range replicas {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: r.address}}})
	}
	names.InitialState(state)
	conn, err := grpc.NewClient("replicas:///", grpc.WithResolvers(names), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]`+config+`}`),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
	if err != nil {
		t.Fatal(err)
	}
	l := &load{
		client: pb.NewToolServiceClient(conn), stop: make(chan struct{}),
		ended: make(map[string]bool), by: make(map[string]int), change: make(chan struct{}),
	}
	t.Cleanup(func() { conn.Close() })
	for i := range 12 {
		l.callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := l.call(t.Context(), i, fmt.Sprintf("caller-%d-call-%d", i, n)); err != nil {
					l.mu.Lock()
					l.failed = errors.Join(l.failed, err)
					l.notify()
					l.mu.Unlock()
					return
				}
			}
		})
	}
	return l
}

// call sends a call until it is told how the call ended. Some callers make short calls,
// some make calls that outlast the moment of a signal, some run commands.
func (l *load) call(ctx context.Context, caller int, id string) error {
	tool, input := "sleep", fmt.Sprintf(`{"duration_ms":%d}`, []int{1, 10, 400, 1500}[caller%4])
	if caller >= 8 && caller%4 < 2 {
		tool, input = "bash", `{"command":"echo `+id+`"}`
	}
	for {
		events, at, err := l.send(ctx, &pb.ExecuteToolRequest{Tool: tool, CallId: &id, InputJson: []byte(input)})
		if err != nil {
			// What is refused says so before anything else, and when to come back.
			if events > 0 || status.Code(err) != codes.Unavailable {
				return fmt.Errorf("call %s of %s, after %d events: %w", id, at, events, err)
			}
			l.refused.Add(1)
			if wait := retryAfter(err); wait > time.Minute {
				return fmt.Errorf("call %s is to wait for %s: %w", id, wait, err)
			}
			select { // the other replica is there at once
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		l.mu.Lock()
		l.ended[id] = true
		l.by[at]++
		l.notify()
		l.mu.Unlock()
		return nil
	}
}

// send sends a call once and returns how many events came, and from where.
func (l *load) send(ctx context.Context, request *pb.ExecuteToolRequest) (events int, at string, err error) {
	var from peer.Peer
	stream, err := l.client.ExecuteTool(ctx, request, grpc.Peer(&from))
	if err != nil {
		return 0, "", err
	}
	defer func() {
		if from.Addr != nil {
			at = from.Addr.String()
		}
	}()
	var last *pb.Event
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return events, "", err
		}
		if event := response.GetEvent(); event != nil {
			last = event
			events++
		}
	}
	finished := last.GetFinished()
	if finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		return events, "", fmt.Errorf("it ended with %v", last)
	}
	if request.GetTool() == "bash" && !strings.Contains(finished.String(), request.GetCallId()) {
		return events, "", fmt.Errorf("the result is of another call: %v", finished)
	}
	return events, "", nil
}

// retryAfter returns when a server says to come back.
func retryAfter(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// notify tells who waits that something changed.
func (l *load) notify() {
	close(l.change)
	l.change = make(chan struct{})
}

// untilServedBy waits until a replica has ended some more calls.
func (l *load) untilServedBy(t *testing.T, r *replica) {
	t.Helper()
	limit := time.After(time.Minute)
	l.mu.Lock()
	defer l.mu.Unlock()
	for want := l.by[r.address] + 20; l.by[r.address] < want && l.failed == nil; {
		change := l.change
		l.mu.Unlock()
		select {
		case <-change:
		case <-limit:
			l.mu.Lock()
			t.Fatalf("a replica that came back is not called: %v", l.by)
		}
		l.mu.Lock()
	}
	if l.failed != nil {
		t.Fatal(l.failed)
	}
}

// end lets the calls end that are under way.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.callers.Wait()
	if l.failed != nil {
		t.Fatal(l.failed)
	}
}
