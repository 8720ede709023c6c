// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// spanCollector takes spans as OpenTelemetry's own collector would. It is a
// stats handler as well, which sees what handlers do not.
type spanCollector struct {
	collector.UnimplementedTraceServiceServer
	address  string
	requests chan *collector.ExportTraceServiceRequest
	headers  chan metadata.MD
	encoding chan string
	answer   func() (*collector.ExportTraceServiceResponse, error) // nil: thanks
}

// newSpanCollector returns a collector that is not served yet.
func newSpanCollector() *spanCollector {
	return &spanCollector{
		requests: make(chan *collector.ExportTraceServiceRequest, 100),
		headers:  make(chan metadata.MD, 100),
		encoding: make(chan string, 100),
	}
}

// collect serves a collector on a loopback port, with TLS if config is set.
func collect(t *testing.T, config *tls.Config) *spanCollector {
	t.Helper()
	c := newSpanCollector()
	c.serve(t, listenTCP(t), config)
	return c
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (c *spanCollector) serve(t *testing.T, listener net.Listener, config *tls.Config) {
	options := []grpc.ServerOption{grpc.StatsHandler(c)}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, c)
	c.address = listener.Addr().String()
	go server.Serve(listener)
	t.Cleanup(server.Stop)
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

// spanNames takes one request and returns the names of its spans.
func (c *spanCollector) spanNames(t *testing.T) []string {
	t.Helper()
	var names []string
	select {
	case request := <-c.requests:
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					names = append(names, span.GetName())
				}
			}
		}
	default:
		t.Error("the collector has no spans")
	}
	return names
}

var oneCall = []string{"toolserver.v1.ToolService/ExecuteTool"}

func TestTracesWithHeadersAndGzip(t *testing.T) {
	t.Parallel()
	spans := collect(t, nil)
	traceCall(t,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+spans.address,
		"OTEL_EXPORTER_OTLP_INSECURE=true",
		"OTEL_EXPORTER_OTLP_HEADERS=Api-Key=a%2Cb%3D, tenant = one ,",
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip")
	if got := spans.spanNames(t); !slices.Equal(got, oneCall) {
		t.Errorf("spans %v, want %v", got, oneCall)
	}
	headers := <-spans.headers
	if key, tenant := headers.Get("api-key"), headers.Get("tenant"); !slices.Equal(key, []string{"a,b="}) || !slices.Equal(tenant, []string{"one"}) {
		t.Errorf("headers %v", headers)
	}
	if agent := headers.Get("user-agent"); len(agent) != 1 || !strings.HasPrefix(agent[0], "toolserver/") {
		t.Errorf("user agent %v", agent)
	}
	if got := <-spans.encoding; got != "gzip" {
		t.Errorf("compressed with %q, want gzip", got)
	}
}

// TestTracesWithTLS proves that the collector must show a certificate that is
// trusted, and gets ours when it asks.
func TestTracesWithTLS(t *testing.T) {
	t.Parallel()
	certificate, key := writeCertificate(t)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	for _, test := range []struct {
		name      string
		config    *tls.Config
		variables []string
		arrive    bool
	}{
		{"trusted", &tls.Config{}, []string{"CERTIFICATE=" + certificate}, true},
		{"not trusted", &tls.Config{}, []string{"TIMEOUT=300"}, false},
		{"from both sides", &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted},
			[]string{"CERTIFICATE=" + certificate, "CLIENT_CERTIFICATE=" + certificate, "CLIENT_KEY=" + key}, true},
	} {
		for _, scheme := range []string{"https://", ""} { // without a scheme, TLS is the default
			t.Run(test.name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				config := test.config.Clone()
				config.Certificates = []tls.Certificate{pair}
				spans := collect(t, config)
				variables := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + scheme + spans.address}
				for _, v := range test.variables {
					variables = append(variables, "OTEL_EXPORTER_OTLP_"+v)
				}
				log := traceCall(t, variables...)
				if !test.arrive {
					if len(spans.requests) > 0 || !strings.Contains(log, `"tracing","error":"traces export: `) {
						t.Errorf("%d requests, and the log is\n%s", len(spans.requests), log)
					}
					return
				}
				if got := spans.spanNames(t); !slices.Equal(got, oneCall) {
					t.Errorf("spans %v, want %v\n%s", got, oneCall, log)
				}
			})
		}
	}
}

// moody is a listener that hangs up on those who come first.
type moody struct {
	net.Listener
	rude atomic.Int32
}

func (m *moody) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	if err == nil && m.rude.Add(-1) >= 0 {
		conn.Close()
	}
	return conn, err
}

// TestTracesWaitForTheCollector proves that spans survive a collector that
// cannot be reached at first, and then is busy.
func TestTracesWaitForTheCollector(t *testing.T) {
	t.Parallel()
	listener := &moody{Listener: listenTCP(t)}
	listener.rude.Store(1)
	spans := newSpanCollector()
	var busy atomic.Int32
	busy.Store(1)
	spans.answer = func() (*collector.ExportTraceServiceResponse, error) {
		if busy.Add(-1) >= 0 {
			return nil, status.Error(codes.Unavailable, "busy")
		}
		return nil, nil
	}
	spans.serve(t, listener, nil)
	log := traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address)
	if got := spans.spanNames(t); !slices.Equal(got, oneCall) {
		t.Errorf("spans %v, want %v\n%s", got, oneCall, log)
	}
	if listener.rude.Load() >= 0 || busy.Load() >= 0 {
		t.Error("the collector was never out of reach, or never busy")
	}
}

// TestTracesThatAreLost proves that a collector out of reach does not keep the
// server from ending, and that the log tells what was lost.
func TestTracesThatAreLost(t *testing.T) {
	t.Parallel()
	log := traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT=unix:"+t.TempDir()+"/nobody")
	if want := "the last spans may be lost"; !strings.Contains(log, want) {
		t.Errorf("no %q in the log:\n%s", want, log)
	}
}

// TestTracesThatAreNotTaken proves that the log tells of spans that a collector
// does not want, and that it is not asked again.
func TestTracesThatAreNotTaken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		response *collector.ExportTraceServiceResponse
		err      error
		want     string
	}{
		{"some", &collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{
			RejectedSpans: 1, ErrorMessage: "no room",
		}}, nil, "the collector rejected 1 spans: no room"},
		{"advice", &collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{
			ErrorMessage: "use less",
		}}, nil, "the collector rejected 0 spans: use less"},
		{"not allowed", nil, status.Error(codes.PermissionDenied, "who are you"), "who are you"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spans := newSpanCollector()
			var asked atomic.Int32
			spans.answer = func() (*collector.ExportTraceServiceResponse, error) {
				asked.Add(1)
				return test.response, test.err
			}
			spans.serve(t, listenTCP(t), nil)
			log := traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address)
			if !strings.Contains(log, test.want) || asked.Load() != 1 {
				t.Errorf("asked %d times, and no %q in the log:\n%s", asked.Load(), test.want, log)
			}
		})
	}
}

// setOTLP sets variables, without OTEL_EXPORTER_OTLP_ before their names.
func setOTLP(t *testing.T, variables map[string]string) {
	t.Helper()
	for name, value := range variables {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
}

func TestOTLPVariables(t *testing.T) {
	certificate, key := writeCertificate(t)
	for name, test := range map[string]struct {
		variables map[string]string
		want      otlpConfig // tls stands for any
	}{
		"nothing":                   {nil, otlpConfig{target: "localhost:4317", timeout: 10 * time.Second}},
		"http":                      {map[string]string{"ENDPOINT": "http://c:1/"}, otlpConfig{target: "c:1", timeout: 10 * time.Second}},
		"http and not insecure":     {map[string]string{"ENDPOINT": "HTTP://c", "INSECURE": "false"}, otlpConfig{target: "c:4317", timeout: 10 * time.Second}},
		"https":                     {map[string]string{"ENDPOINT": "https://c"}, otlpConfig{target: "c:443", tls: new(tls.Config), timeout: 10 * time.Second}},
		"https and insecure":        {map[string]string{"ENDPOINT": "https://c:2", "INSECURE": "true"}, otlpConfig{target: "c:2", tls: new(tls.Config), timeout: 10 * time.Second}},
		"no scheme":                 {map[string]string{"ENDPOINT": "c"}, otlpConfig{target: "c:4317", tls: new(tls.Config), timeout: 10 * time.Second}},
		"no scheme, insecure":       {map[string]string{"ENDPOINT": "[::1]:3", "INSECURE": "True"}, otlpConfig{target: "[::1]:3", timeout: 10 * time.Second}},
		"socket":                    {map[string]string{"ENDPOINT": "unix:///run/c"}, otlpConfig{target: "unix:/run/c", timeout: 10 * time.Second}},
		"no timeout":                {map[string]string{"TIMEOUT": "0"}, otlpConfig{target: "localhost:4317"}},
		"the ones for traces win":   {map[string]string{"TIMEOUT": "soon", "TRACES_TIMEOUT": "5", "COMPRESSION": "gzip", "TRACES_COMPRESSION": "none"}, otlpConfig{target: "localhost:4317", timeout: 5 * time.Millisecond}},
		"headers":                   {map[string]string{"HEADERS": "A=b=c,d="}, otlpConfig{target: "localhost:4317", timeout: 10 * time.Second, headers: metadata.Pairs("a", "b=c", "d", "")}},
		"certificates of no use":    {map[string]string{"CERTIFICATE": certificate, "CLIENT_CERTIFICATE": certificate, "TRACES_CLIENT_KEY": key}, otlpConfig{target: "localhost:4317", timeout: 10 * time.Second}},
		"spaces around and gzip on": {map[string]string{"COMPRESSION": " gzip ", "TRACES_ENDPOINT": " "}, otlpConfig{target: "localhost:4317", timeout: 10 * time.Second, gzip: true}},
	} {
		t.Run(name, func(t *testing.T) {
			setOTLP(t, test.variables)
			got, err := otlpFromEnv()
			if err != nil {
				t.Fatal(err)
			}
			if (got.tls == nil) != (test.want.tls == nil) {
				t.Errorf("tls %v, want %v", got.tls, test.want.tls)
			}
			if !maps.EqualFunc(got.headers, test.want.headers, slices.Equal) {
				t.Errorf("headers %v, want %v", got.headers, test.want.headers)
			}
			got.tls, got.headers, test.want.tls, test.want.headers = nil, nil, nil, nil
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestOTLPVariablesThatAreWrong(t *testing.T) {
	certificate, key := writeCertificate(t)
	empty := writeFile(t, "empty", "")
	for _, test := range []struct{ name, value, want string }{
		{"ENDPOINT", "ftp://c:1", "want http://host:port"},
		{"ENDPOINT", "dns:///c:1", "want http://host:port"},
		{"ENDPOINT", "http://", "want a host"},
		{"ENDPOINT", ":4317", "want a host"},
		{"ENDPOINT", "http://c:x", "want a host"},
		{"ENDPOINT", "http://c:70000", "is not a port"},
		{"ENDPOINT", "http://c:4318/v1/traces", "there is no path"},
		{"ENDPOINT", "http://user:secret@c:4318", "secrets are headers"},
		{"ENDPOINT", "unix:", "path of a socket"},
		{"INSECURE", "yes", "want true or false"},
		{"HEADERS", "secret", "header 1: want key=value"},
		{"HEADERS", "a=b,c d=secret", "header 2: its key"},
		{"HEADERS", "=secret", "header 1: its key"},
		{"HEADERS", "grpc-timeout=secret", "header 1: its key"},
		{"HEADERS", "a=secret%", "percent-encoded"},
		{"HEADERS", "a=secret%0A", "printable"},
		{"TIMEOUT", "10s", "want milliseconds"},
		{"TIMEOUT", "-1", "want milliseconds"},
		{"TIMEOUT", "99999999999", "want milliseconds"},
		{"COMPRESSION", "zstd", "want gzip or none"},
		{"CERTIFICATE", empty, "has no certificate"},
		{"CERTIFICATE", empty + "/nowhere", "not a directory"},
		{"CLIENT_CERTIFICATE", certificate, "belong together"},
		{"CLIENT_KEY", key, "belong together"},
	} {
		for _, prefix := range []string{"", "TRACES_"} {
			t.Run(prefix+test.name+"="+test.value, func(t *testing.T) {
				setOTLP(t, map[string]string{prefix + test.name: test.value})
				_, err := otlpFromEnv()
				if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+prefix+test.name) || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("%v, want the variable and %q", err, test.want)
				}
				if strings.Contains(err.Error(), "secret@") || test.name == "HEADERS" && strings.Contains(err.Error(), "secret") {
					t.Errorf("%v tells a secret", err)
				}
			})
		}
	}
	t.Run("a key that is none", func(t *testing.T) {
		setOTLP(t, map[string]string{"CLIENT_CERTIFICATE": certificate, "CLIENT_KEY": empty})
		if _, err := otlpFromEnv(); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_CLIENT_KEY") {
			t.Errorf("%v, want that it names the variable", err)
		}
	})
}
