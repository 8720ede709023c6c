// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// spanCollector takes spans as OpenTelemetry's own collector would, over gRPC or
// HTTP. It is a stats handler as well, which sees what handlers do not.
type spanCollector struct {
	collector.UnimplementedTraceServiceServer
	http     bool
	address  string
	requests chan *collector.ExportTraceServiceRequest
	headers  chan metadata.MD
	encoding chan string
	answer   func() (*collector.ExportTraceServiceResponse, error) // nil: thanks
}

// overBoth runs a test with a collector that is not served yet, for gRPC and for
// HTTP.
func overBoth(t *testing.T, test func(*testing.T, *spanCollector)) {
	for name, overHTTP := range map[string]bool{"grpc": false, "http": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &spanCollector{
				http:     overHTTP,
				requests: make(chan *collector.ExportTraceServiceRequest, 10_000),
				headers:  make(chan metadata.MD, 10_000),
				encoding: make(chan string, 10_000),
			})
		})
	}
}

// protocol is the variable that has spans sent as the collector takes them.
func (c *spanCollector) protocol() string {
	if c.http {
		return "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
	}
	return "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// serve serves the collector, with TLS if config is set.
func (c *spanCollector) serve(t *testing.T, listener net.Listener, config *tls.Config) *spanCollector {
	c.address = listener.Addr().String()
	if c.http {
		if config != nil {
			listener = tls.NewListener(listener, config)
		}
		server := &http.Server{Handler: c}
		go server.Serve(listener)
		t.Cleanup(func() { server.Close() })
		return c
	}
	options := []grpc.ServerOption{grpc.StatsHandler(c)}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, c)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return c
}

func (c *spanCollector) Export(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if c.answer != nil {
		if response, err := c.answer(); response != nil || err != nil {
			return response, err
		}
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	c.headers <- headers
	c.requests <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is Export over HTTP.
func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	c.encoding <- r.Header.Get("Content-Encoding")
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	text, err := io.ReadAll(body)
	request := new(collector.ExportTraceServiceRequest)
	if err != nil || proto.Unmarshal(text, request) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	headers := make(metadata.MD)
	for key, values := range r.Header {
		headers.Set(key, values...)
	}
	response, err := c.Export(metadata.NewIncomingContext(r.Context(), headers), request)
	if err != nil {
		code := http.StatusForbidden
		if status.Code(err) == codes.Unavailable {
			code = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), code)
		return
	}
	answer, _ := proto.Marshal(response)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(answer)
}

// TagRPC adds nothing.
func (*spanCollector) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn adds nothing.
func (*spanCollector) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (*spanCollector) HandleConn(context.Context, stats.ConnStats) {}

// HandleRPC notes how a request is compressed.
func (c *spanCollector) HandleRPC(_ context.Context, event stats.RPCStats) {
	if header, ok := event.(*stats.InHeader); ok {
		c.encoding <- header.Compression
	}
}

// all returns every span that has come. The server has ended.
func (c *spanCollector) all() []*tracepb.Span {
	var all []*tracepb.Span
	for {
		select {
		case request := <-c.requests:
			for _, resource := range request.GetResourceSpans() {
				for _, scope := range resource.GetScopeSpans() {
					all = append(all, scope.GetSpans()...)
				}
			}
		default:
			return all
		}
	}
}

// spans is all by name.
func (c *spanCollector) spans() map[string]*tracepb.Span {
	named := make(map[string]*tracepb.Span)
	for _, span := range c.all() {
		named[span.GetName()] = span
	}
	return named
}

// wantCall fails unless the spans of one call of sleep have come.
func (c *spanCollector) wantCall(t *testing.T, log string) {
	t.Helper()
	spans := c.spans()
	for _, name := range []string{executeTool, "decide", "run"} {
		if spans[name] == nil {
			t.Errorf("no span %q: %v\n%s", name, spans, log)
		}
	}
}

const executeTool = "toolserver.v1.ToolService/ExecuteTool"

// startTraced starts a server with variables, and flags behind an empty one.
func startTraced(t *testing.T, variables []string, flags ...string) *running {
	t.Helper()
	cmd := exec.Command("toolserver", append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off"}, flags...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), variables...)
	server, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return server
}

// end ends a server, so that it sends what it has, and returns its log.
func (s *running) end(t *testing.T) string {
	t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.log.rest()
	if code := wait(t, s.cmd); code != 0 {
		t.Fatalf("exit code %d: %s", code, s.log)
	}
	return s.log.String()
}

// traceCall runs a server with variables, calls it once, and ends it. It returns
// the log.
func traceCall(t *testing.T, variables ...string) string {
	t.Helper()
	server := startTraced(t, variables)
	lastEvent(t, execute(t, server.client(t), "sleep", `{"duration_ms":1}`))
	return server.end(t)
}

func attributes(list []*common.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, kv := range list {
		m[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return m
}
