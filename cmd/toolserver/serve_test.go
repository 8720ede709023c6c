// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// writeFile writes a file of a test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSignalDuringSelfTest ends a server that does not serve yet, since it tries its
// sandbox first: it never serves. The helper of the sandbox tells when that is.
func TestSignalDuringSelfTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, goOn := filepath.Join(dir, "begun"), filepath.Join(dir, "go-on")
	for _, path := range []string{begun, goOn} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	helper := filepath.Join(dir, "helper")
	script := fmt.Sprintf("#!/bin/sh\nmkdir %s/first 2>/dev/null && { echo >%s; read x <%s; }\nexec %s \"$@\"\n", dir, begun, goOn, sandboxtest.Helper())
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("toolserver", "serve", "--listen", "127.0.0.1:0", "--admin", "off")
	var log bytes.Buffer
	cmd.Dir, cmd.Stderr = t.TempDir(), &log
	cmd.Env = append(os.Environ(), "TOOLSERVER_SANDBOX_MODE=required", "TOOLSERVER_SANDBOX_HELPER="+helper)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goOn, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if code := wait(t, cmd); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if text := log.String(); !strings.Contains(text, "stopped before it served") || strings.Contains(text, `"serving"`) || strings.Contains(text, "could not be tried") {
		t.Errorf("the log is\n%s", text)
	}
}

func TestServeEndsInPeace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, grace, duration string
		want                  pb.Outcome
	}{
		{"what ends within the grace succeeds", "20s", "700", pb.Outcome_OUTCOME_SUCCEEDED},
		{"what does not is cancelled", "100ms", "600000", pb.Outcome_OUTCOME_CANCELLED},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := startProgram(t, raced, "--config", writeFile(t, "c.yaml", "shutdown_grace: "+test.grace+"\n"))
			client := server.client(t)
			streams := make([]grpc.ServerStreamingClient[pb.ExecuteToolResponse], 200)
			for i := range streams {
				streams[i] = execute(t, client, "sleep", `{"duration_ms":`+test.duration+`}`)
			}
			if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for _, stream := range streams {
				finished := lastEvent(t, stream).GetFinished()
				if finished.GetOutcome() != test.want {
					t.Errorf("finished %v, want %s", finished, test.want)
				}
				if test.want == pb.Outcome_OUTCOME_CANCELLED && !strings.Contains(finished.GetCancellation().GetReason(), "shutting down") {
					t.Errorf("cancellation %v does not tell the reason", finished.GetCancellation())
				}
			}
			rest := server.log.rest()
			if code := wait(t, server.cmd); code != 0 {
				t.Errorf("exit code %d, want 0\n%s", code, server.log)
			}
			if last := rest[len(rest)-1]; !strings.Contains(last, `"stopped"`) {
				t.Errorf("the last line of the log is %s", last)
			}
		})
	}
}

func TestServeLeavesAtOnceOnTheSecondSignal(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--config", writeFile(t, "c.yaml", "shutdown_grace: 10m\n"))
	execute(t, server.client(t), "sleep", `{"duration_ms":600000}`)
	server.cmd.Process.Signal(syscall.SIGTERM)
	if _, ok := server.log.until(`"shutting down"`); !ok {
		t.Fatalf("it does not shut down: %s", server.log)
	}
	again := time.NewTicker(20 * time.Millisecond) // at once, it would be the same signal
	defer again.Stop()
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-again.C:
				server.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}()
	server.log.rest()
	close(ended)
	if code := wait(t, server.cmd); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// exemplarText is an exemplar as OpenMetrics writes it, behind a sample.
var exemplarText = regexp.MustCompile(`(?m)^(\w+)(\{.*\} [0-9.e+-]+) # \{trace_id="([0-9a-f]{32})"\} [0-9.e+-]+ [0-9]+\.[0-9e+]+$`)

// TestMetricsAreRead has Prometheus' own parser read the metrics, in each of the
// formats that it asks for. Where there can be exemplars, they name the trace of the
// call.
func TestMetricsAreRead(t *testing.T) {
	t.Parallel()
	server := startTraced(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=unix:" + t.TempDir() + "/nobody"}, "--admin", "127.0.0.1:0")
	client := server.client(t)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	stream, err := client.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "sleep", InputJson: []byte(`{"duration_ms":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	lastEvent(t, stream) // and its status, which is counted before it is sent
	for accept, want := range map[string]string{
		"": "text/plain",
		"application/openmetrics-text;version=1.0.0":                                                 "application/openmetrics-text",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited": "application/vnd.google.protobuf",
	} {
		request, err := http.NewRequest(http.MethodGet, "http://"+server.admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, want) {
			t.Errorf("Content-Type %q, want %s", kind, want)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		exemplars := make(map[string]string) // traces by metric
		if want == "application/openmetrics-text" {
			if !bytes.HasSuffix(body, []byte("# EOF\n")) {
				t.Errorf("OpenMetrics without its end")
			}
			// Of a gauge and a counter of Go's, whose names differ in _total alone, this
			// parser reads one only.
			body = regexp.MustCompile(`(?m)^.*go_memstats_alloc_bytes.*\n`).ReplaceAll(body, nil)
			// And of exemplars it knows nothing.
			for _, found := range exemplarText.FindAllSubmatch(body, -1) {
				exemplars[strings.TrimSuffix(string(found[1]), "_bucket")] = string(found[3])
			}
			body = exemplarText.ReplaceAll(body, []byte("$1$2"))
		}
		decoder := expfmt.NewDecoder(bytes.NewReader(body), expfmt.ResponseFormat(response.Header))
		families := make(map[string]*dto.MetricFamily)
		for {
			family := new(dto.MetricFamily)
			if err := decoder.Decode(family); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", want, err)
			}
			families[strings.TrimSuffix(family.GetName(), "_total")] = family
			for _, metric := range family.GetMetric() {
				for _, bucket := range metric.GetHistogram().GetBucket() {
					for _, label := range bucket.GetExemplar().GetLabel() {
						exemplars[family.GetName()] = label.GetValue()
					}
				}
			}
		}
		for _, name := range []string{
			"toolserver_build_info", "toolserver_calls", "toolserver_call_duration_seconds", "toolserver_running",
			"grpc_server_handled", "grpc_server_handling_seconds", "go_goroutines", "process_resident_memory_bytes",
		} {
			if len(families[name].GetMetric()) == 0 {
				t.Errorf("%s has no %s", want, name)
			}
		}
		for _, name := range []string{"toolserver_call_duration_seconds", "grpc_server_handling_seconds"} {
			if got := exemplars[name]; got != trace && want != "text/plain" || got != "" && want == "text/plain" {
				t.Errorf("%s: the exemplar of %s is %q, want %q", want, name, got, trace)
			}
		}
	}
}

func TestAdminPort(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--admin", "127.0.0.1:0", "--config", writeFile(t, "c.yaml", "shutdown_grace: 10m\nadmin: {pprof: true}\n"))
	client := server.client(t)
	lastEvent(t, execute(t, client, "sleep", `{"duration_ms":1}`))

	for path, want := range map[string]string{
		"/livez":                "alive",
		"/readyz":               "ready",
		"/metrics":              `toolserver_calls_total{outcome="succeeded",tool="sleep"} 1`,
		"/debug/pprof/cmdline":  "serve",
		"/debug/pprof/?debug=1": "goroutine",
	} {
		if code, body := get(t, server.admin, path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, code, want, body)
		}
	}
	for path, want := range map[string]int{
		"/debug/pprof/heap?gc=1":           200,
		"/debug/pprof/profile?seconds=1":   200,
		"/debug/pprof/profile?seconds=1h":  400,
		"/debug/pprof/profile?seconds=999": 400,
		"/debug/pprof/heap?seconds=0":      400,
		"/debug/pprof/nothing":             404,
		"/nothing":                         404,
	} {
		if code, body := get(t, server.admin, path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	response, err := http.Post("http://"+server.admin+"/metrics", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: %s", response.Status)
	}
	_, body := get(t, server.admin, "/metrics")
	for _, name := range []string{"toolserver_build_info{", "go_goroutines", "process_resident_memory_bytes", "toolserver_running"} {
		if !strings.Contains(body, name) {
			t.Errorf("/metrics has no %s", name)
		}
	}

	stream := execute(t, client, "sleep", `{"duration_ms":600000}`)
	server.cmd.Process.Signal(syscall.SIGTERM)
	server.log.until(`"shutting down"`)
	if code := drainingCode(t, server.admin); code != 503 {
		t.Errorf("/readyz while draining: %d, want 503", code)
	}
	if code, _ := get(t, server.admin, "/livez"); code != 200 {
		t.Errorf("/livez while draining: %d, want 200", code)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Cancel(context.Background(), &pb.CancelRequest{ExecutionId: first.GetEvent().GetExecutionId()}); err != nil {
		t.Fatal(err)
	}
	server.log.rest()
	if code := wait(t, server.cmd); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// drainingCode asks for readiness until it is gone: the line in the log comes
// a moment before.
func drainingCode(t *testing.T, admin string) int {
	for range 1000 {
		if code, _ := get(t, admin, "/readyz"); code != 200 {
			return code
		}
	}
	return 200
}

func TestServeOnSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ts") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close() // as a server that was killed leaves it

	server := startServer(t, "--listen", "unix:"+path)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v, want a socket with 0600", info.Mode(), err)
	}
	out, err := exec.Command("toolserver", "call", "--address", server.address, "sleep", "duration_ms=1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Waited 1ms.") {
		t.Errorf("%v: %s", err, out)
	}
	second := exec.Command("toolserver", "serve", "--listen", "unix:"+path, "--admin", "off")
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "already") {
		t.Errorf("a second server on the same socket: %v: %s", err, out)
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))),
		writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func TestTokensAndTLS(t *testing.T) {
	t.Parallel()
	certificate, key := writeCertificate(t)
	server := startServer(t, "--config", writeFile(t, "c.yaml", fmt.Sprintf(`
tls: {certificate: %s, key: %s}
authentication:
  tokens:
  - principal: alice
    token: alices-secret-token
  - principal: bob
    operator: true
    token_file: %s
sessions: {workspace_root: %s}
`, certificate, key, writeFile(t, "bob", "bobs-secret-token\n"), t.TempDir())))
	if log := server.log.String(); strings.Contains(log, `"workspace":`) {
		t.Errorf("the log shows a workspace that no caller here has:\n%s", log)
	}

	version := func(flags ...string) (int, string) {
		cmd := exec.Command("toolserver", append([]string{"version", "--address", server.address}, flags...)...)
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, test := range []struct {
		flags []string
		code  int
		want  string
	}{
		{[]string{"--ca", certificate, "--token", "alices-secret-token"}, 0, "you are alice"},
		{[]string{"--ca", certificate, "--token", "bobs-secret-token"}, 0, "you are bob"},
		{[]string{"--ca", certificate, "--token", "somebody-elses-token"}, cli.ExitRefused, "unknown token"},
		{[]string{"--ca", certificate}, cli.ExitRefused, "give the token with --token"},
		{[]string{"--tls", "--token", "alices-secret-token"}, cli.ExitRefused, "certificate"},
		{[]string{"--token", "alices-secret-token"}, cli.ExitRefused, "cannot be reached"},
	} {
		if code, out := version(test.flags...); code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%v: exit code %d, want %d with %q:\n%s", test.flags, code, test.code, test.want, out)
		}
	}
}

func TestHealthAndReflectionAreThere(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	conn, err := grpc.NewClient(server.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: "toolserver.v1.ToolService"})
	if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", answer, err)
	}
	info, err := pb.NewToolServiceClient(conn).GetServerInfo(context.Background(), &pb.GetServerInfoRequest{})
	if status.Code(err) != codes.OK || !info.GetFeatures()["reflection"] || info.GetFeatures()["tracing"] {
		t.Errorf("server info: %v, %v", info, err)
	}
}
