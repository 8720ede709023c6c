// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestMetrics(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	c.run(asJSON("count", `{}`))
	c.run(asJSON("count", `{}`))
	c.run(asJSON("count", `{"x":1}`))
	c.run(asJSON("no such tool, and a name that never ends", `{}`))
	c.run(asJSON("flood", `{"bytes":100000}`))
	c.call(asJSON("", `{}`))
	s.shutdown() // a call is counted after its last event was sent
	text := metricsText(t, s.metrics)
	families := strings.Split(text, "# HELP ")
	for _, want := range []string{
		`toolserver_calls_total Ended executions by tool and outcome.
# TYPE toolserver_calls_total counter
toolserver_calls_total{outcome="invalid_input",tool="count"} 1
toolserver_calls_total{outcome="no_such_tool",tool="(unknown)"} 1
toolserver_calls_total{outcome="succeeded",tool="count"} 2
toolserver_calls_total{outcome="succeeded",tool="flood"} 1
`, `toolserver_rpcs_total RPCs by method and status code.
# TYPE toolserver_rpcs_total counter
toolserver_rpcs_total{code="InvalidArgument",method="/toolserver.v1.ToolService/ExecuteTool"} 1
toolserver_rpcs_total{code="OK",method="/toolserver.v1.ToolService/ExecuteTool"} 5
`, `grpc_server_started_total Total number of RPCs started on the server.
# TYPE grpc_server_started_total counter
grpc_server_started_total{grpc_method="ExecuteTool",grpc_service="toolserver.v1.ToolService",grpc_type="server_stream"} 6
`, `grpc_server_handled_total Total number of RPCs completed on the server, regardless of success or failure.
# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="InvalidArgument",grpc_method="ExecuteTool",grpc_service="toolserver.v1.ToolService",grpc_type="server_stream"} 1
grpc_server_handled_total{grpc_code="OK",grpc_method="ExecuteTool",grpc_service="toolserver.v1.ToolService",grpc_type="server_stream"} 5
`, `toolserver_output_bytes_total Bytes of output tools wrote.
# TYPE toolserver_output_bytes_total counter
toolserver_output_bytes_total 100000
`, `toolserver_running Executions that run.
# TYPE toolserver_running gauge
toolserver_running 0
`, `toolserver_queue Executions that are accepted and wait.
# TYPE toolserver_queue gauge
toolserver_queue 0
`} {
		if !slices.Contains(families, want) {
			t.Errorf("want %s", want)
		}
	}
	for _, want := range []string{
		`toolserver_call_duration_seconds_bucket{tool="count",le="0.0005"} `,
		`toolserver_call_duration_seconds_bucket{tool="flood",le="2097.152"} 1`,
		`toolserver_call_duration_seconds_count{tool="count"} 2`,
		`toolserver_log_dropped_events_total `, `toolserver_log_bytes `, `toolserver_retained `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("want %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestHealthWhileDraining proves that load balancers learn of a shutdown while
// calls still run.
func TestHealthWhileDraining(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	stream, first := c.begin(asJSON("sleep", `{"duration_ms":60000}`))
	watch, err := grpc_health_v1.NewHealthClient(c.conn).Watch(timeout(t), &grpc_health_v1.HealthCheckRequest{Service: "toolserver.v1.ToolService"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		response, err := watch.Recv()
		if err != nil || response.GetStatus() != want {
			t.Fatalf("%v, %v, want %v", response, err, want)
		}
		if want == grpc_health_v1.HealthCheckResponse_SERVING {
			go s.Shutdown(timeout(t))
		}
	}
	if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: first.GetExecutionId()}); err != nil {
		t.Errorf("cancel while draining: %v", err)
	}
	if _, err := rest(stream); err != nil {
		t.Error(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a watch of the health ended with %v, want that it ends with the server", err)
	}
}

// TestIdleConnections proves that a shutdown does not wait for clients that keep
// something open and use nothing: the grace of what runs is for what runs.
func TestIdleConnections(t *testing.T) {
	silent := func(t *testing.T, s *testServer, opening string) {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Write([]byte(opening)); err != nil {
			t.Fatal(err)
		}
		if opening != "" { // the server's settings: it has taken the connection
			if _, err := io.ReadFull(conn, make([]byte, 9)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, open := range map[string]func(*testing.T, *testServer){
		"one that sends nothing": func(t *testing.T, s *testServer) { silent(t, s, "") },
		"one that does not answer a ping": func(t *testing.T, s *testServer) {
			silent(t, s, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		},
		"one that has called": func(t *testing.T, s *testServer) { s.dial("").run(asJSON("count", `{}`)) },
		"one that watches the health": func(t *testing.T, s *testServer) {
			watch, err := grpc_health_v1.NewHealthClient(s.dial("").conn).Watch(timeout(t), &grpc_health_v1.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"one that watches approvals": func(t *testing.T, s *testServer) {
			watch, err := s.dial("").WatchApprovals(timeout(t), &pb.WatchApprovalsRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"one that may ask for a schema": func(t *testing.T, s *testServer) {
			stream, err := reflectionpb.NewServerReflectionClient(s.dial("").conn).ServerReflectionInfo(timeout(t))
			if err != nil {
				t.Fatal(err)
			}
			reflector{t, stream}.files("toolserver.v1.ToolService")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			open(t, s)
			s.Shutdown(timeout(t))
			if cut := s.logs.FilterMessageSnippet("cut off").Len(); cut != 0 {
				t.Error("the shutdown waited for the client as long as for one that does not read")
			}
		})
	}
}

// TestProbesAreQuiet proves that what looks at the server every few seconds
// leaves no line in the log, unless it was refused.
func TestProbesAreQuiet(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	check := func(name string) error {
		_, err := grpc_health_v1.NewHealthClient(c.conn).Check(timeout(t), &grpc_health_v1.HealthCheckRequest{Service: name})
		return err
	}
	if err := check(""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, check("nothing"), codes.NotFound)
	stream, err := reflectionpb.NewServerReflectionClient(c.conn).ServerReflectionInfo(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	reflector{t, stream}.files("toolserver.v1.ToolService")
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	c.run(asJSON("count", `{}`))
	s.shutdown()
	var lines []string
	for _, line := range s.logs.FilterMessage("call").All() {
		lines = append(lines, fmt.Sprint(line.ContextMap()["method"], " ", line.ContextMap()["code"]))
	}
	if want := []string{"/grpc.health.v1.Health/Check NotFound", "/toolserver.v1.ToolService/ExecuteTool OK"}; !slices.Equal(lines, want) {
		t.Errorf("the log has %q, want %q", lines, want)
	}
}

// TestFrozenClient stops a client process without closing its connection: the
// server notices by its missing signs of life and ends what the client began.
func TestFrozenClient(t *testing.T) {
	s := serve(t, func(c *service.Config) {
		c.Wire.KeepaliveTime, c.Wire.KeepaliveTimeout = time.Second, time.Second
		c.Executor.DisconnectGrace = time.Millisecond
	})
	cmd := exec.Command(os.Args[0], "-test.run=^TestClientProcess$")
	cmd.Env = append(os.Environ(), clientProcess+"="+s.address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	id, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	watchUntil(t, s.dial(""), strings.TrimSpace(id), "did not come back")
}
