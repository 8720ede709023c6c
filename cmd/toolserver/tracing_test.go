// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestTracesAreSent proves that a call of a real server arrives at a collector,
// and what that is told of the server.
func TestTracesAreSent(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, spans *spanCollector) {
		spans.serve(t, listenTCP(t), nil)
		traceCall(t, spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address, "OTEL_RESOURCE_ATTRIBUTES=service.name=x, place = a%2Cb ,", "OTEL_SERVICE_NAME=y")
		first := <-spans.requests
		got := attributes(first.GetResourceSpans()[0].GetResource().GetAttributes())
		if got["service.name"] != "y" || got["place"] != "a,b" || got["service.version"] == "" || got["telemetry.sdk.language"] != "go" {
			t.Errorf("resource %v", got)
		}
		spans.requests <- first
		call := spans.spans()[executeTool]
		got = attributes(call.GetAttributes())
		if call.GetKind() != tracepb.Span_SPAN_KIND_SERVER || got["toolserver.tool"] != "sleep" ||
			got["toolserver.session"] != "default" || got["toolserver.execution"] == "" {
			t.Errorf("span %v", call)
		}
	})
}

// TestTraceOfAnApprovedCommand proves that a collector sees one call of bash that a
// person allowed as one trace, below the span of its caller: what was decided, how
// long it waited, the run and the command, of which the words are not told.
func TestTraceOfAnApprovedCommand(t *testing.T) {
	t.Parallel()
	policy := writeFile(t, "policy.yaml", "version: 1\nrules: [{name: look, action: ask, tools: [bash]}]\n")
	overBoth(t, func(t *testing.T, spans *spanCollector) {
		spans.serve(t, listenTCP(t), nil)
		server := startTraced(t, []string{spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + spans.address}, "--policy", policy)
		conn := server.conn(t)
		const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+span+"-01")
		stream, err := pb.NewToolServiceClient(conn).ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "bash", InputJson: []byte(`{"command":"echo words; exit 3"}`)})
		if err != nil {
			t.Fatal(err)
		}
		approvals := pb.NewApprovalServiceClient(conn)
		approval, err := nextApproval(approvals, "bash")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := approvals.ResolveApproval(t.Context(), &pb.ResolveApprovalRequest{
			ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE,
		}); err != nil {
			t.Fatal(err)
		}
		lastEvent(t, stream)
		log := server.end(t)
		got := make(map[string]*tracepb.Span) // of the trace
		for name, s := range spans.spans() {
			if hex.EncodeToString(s.GetTraceId()) == trace {
				got[name] = s
			}
		}
		for _, test := range []struct {
			name, parent string
			want         map[string]string
		}{
			{executeTool, "", map[string]string{"toolserver.outcome": "failed", "toolserver.tool": "bash"}},
			{"decide", executeTool, map[string]string{"toolserver.action": "ask", "toolserver.rule": "rule look"}},
			{"approval.wait", executeTool, map[string]string{"toolserver.answer": "allow_once"}},
			{"run", executeTool, map[string]string{"toolserver.tool": "bash", "toolserver.outcome": "failed"}},
			{"command", "run", map[string]string{"process.executable.name": "bash", "toolserver.exit": "exited"}},
		} {
			s := got[test.name]
			parent := hex.EncodeToString(got[test.parent].GetSpanId())
			if test.parent == "" {
				parent = span
			}
			if s == nil || hex.EncodeToString(s.GetParentSpanId()) != parent {
				t.Errorf("%s is not there, or not below %q: %v\n%s", test.name, test.parent, got, log)
				continue
			}
			has := attributes(s.GetAttributes())
			for key, value := range test.want {
				if has[key] != value {
					t.Errorf("%s: %s is %q, want %q", test.name, key, has[key], value)
				}
			}
			if strings.Contains(s.String(), "words") {
				t.Errorf("%s tells the words of the command: %v", test.name, s)
			}
		}
		for _, a := range got["command"].GetAttributes() {
			if a.GetKey() == "process.exit.code" && a.GetValue().GetIntValue() == 3 {
				return
			}
		}
		t.Errorf("the exit status is missing: %v", got["command"])
	})
}

// TestCommandsKnowTheirTrace proves that a command finds its own span in its
// environment, where that is asked for; also one that a shell runs which was there
// before, and one that goes on when its call has ended.
func TestCommandsKnowTheirTrace(t *testing.T) {
	t.Parallel()
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, test := range []struct {
		name, Config, flags, want string
	}{
		{"asked for", "sandbox: {traceparent: true}", "01", "^00-" + trace + "-([0-9a-f]{16})-01 a=1$"},
		{"not exported", "sandbox: {traceparent: true}", "00", "^00-" + trace + "-([0-9a-f]{16})-00 a=1$"},
		{"not asked for", "", "01", "^none none$"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, spans *spanCollector) {
				spans.serve(t, listenTCP(t), nil)
				server := startTraced(t, []string{spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + spans.address},
					"--config", writeFile(t, "c.yaml", test.Config+"\n"))
				client := server.client(t)
				call := func(input string) string {
					ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+span+"-"+test.flags, "tracestate", "a=1")
					stream, err := client.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "bash", InputJson: []byte(input)})
					if err != nil {
						t.Fatal(err)
					}
					end := lastEvent(t, stream).GetFinished()
					if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
						t.Fatalf("%v", end)
					}
					return strings.TrimSpace(end.GetContent()[0].GetText())
				}
				spanIDs := make(map[string]bool) // ids of spans
				for range 3 {
					text := call(`{"command":"echo ${TRACEPARENT:-none} ${TRACESTATE:-none}"}`)
					found := regexp.MustCompile(test.want).FindStringSubmatch(text)
					if found == nil {
						t.Fatalf("a command finds %q, want %s", text, test.want)
					}
					spanIDs[found[len(found)-1]] = true
				}
				call(`{"command":"sleep 600","run_in_background":true}`)
				log := server.end(t)
				commands := 0
				for _, s := range spans.all() {
					if s.GetName() == "command" {
						commands++
						delete(spanIDs, hex.EncodeToString(s.GetSpanId()))
					}
				}
				if want := map[string]int{"01": 4}[test.flags]; commands != want {
					t.Errorf("%d spans of commands, want %d\n%s", commands, want, log)
				}
				if test.name == "asked for" && len(spanIDs) > 0 {
					t.Errorf("spans %v are not there", spanIDs)
				}
			})
		})
	}
}

func TestTracesWithHeadersAndGzip(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, spans *spanCollector) {
		spans.serve(t, listenTCP(t), nil)
		log := traceCall(t, spans.protocol(),
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://"+spans.address+map[bool]string{true: "/v1/traces"}[spans.http],
			"OTEL_EXPORTER_OTLP_HEADERS=Api-Key=a%2Cb%3D, tenant = one ,",
			"OTEL_EXPORTER_OTLP_COMPRESSION=gzip")
		spans.wantCall(t, log)
		headers := <-spans.headers
		if key, tenant := headers.Get("api-key"), headers.Get("tenant"); !slices.Equal(key, []string{"a,b="}) || !slices.Equal(tenant, []string{"one"}) {
			t.Errorf("headers %v\n%s", headers, log)
		}
		if got := <-spans.encoding; got != "gzip" {
			t.Errorf("compressed with %q, want gzip", got)
		}
	})
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
		Config    *tls.Config
		variables []string
		arrive    bool
	}{
		{"trusted", &tls.Config{}, []string{"CERTIFICATE=" + certificate}, true},
		{"not trusted", &tls.Config{}, []string{"TIMEOUT=300"}, false},
		{"insecure means nothing to https", &tls.Config{}, []string{"CERTIFICATE=" + certificate, "INSECURE=true"}, true},
		{"from both sides", &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted},
			[]string{"CERTIFICATE=" + certificate, "CLIENT_CERTIFICATE=" + certificate, "CLIENT_KEY=" + key}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, spans *spanCollector) {
				config := test.Config.Clone()
				config.Certificates = []tls.Certificate{pair}
				spans.serve(t, listenTCP(t), config)
				variables := []string{spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=https://" + spans.address}
				for _, v := range test.variables {
					variables = append(variables, "OTEL_EXPORTER_OTLP_"+v)
				}
				log := traceCall(t, variables...)
				if test.arrive {
					spans.wantCall(t, log)
				} else if len(spans.requests) > 0 || !strings.Contains(log, `"tracing","error":"traces export: `) {
					t.Errorf("%d requests, and the log is\n%s", len(spans.requests), log)
				}
			})
		})
	}
	t.Run("without a scheme", func(t *testing.T) {
		t.Parallel()
		spans := &spanCollector{requests: make(chan *collector.ExportTraceServiceRequest, 10), headers: make(chan metadata.MD, 10), encoding: make(chan string, 10)}
		spans.serve(t, listenTCP(t), &tls.Config{Certificates: []tls.Certificate{pair}})
		spans.wantCall(t, traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+spans.address, "OTEL_EXPORTER_OTLP_INSECURE=false", "OTEL_EXPORTER_OTLP_CERTIFICATE="+certificate))
	})
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
// is busy at first and, over gRPC, one that cannot be reached.
func TestTracesWaitForTheCollector(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, spans *spanCollector) {
		listener := &moody{Listener: listenTCP(t)}
		if !spans.http {
			listener.rude.Store(1)
		}
		var busy atomic.Int32
		busy.Store(1)
		spans.answer = func() (*collector.ExportTraceServiceResponse, error) {
			if busy.Add(-1) >= 0 {
				return nil, status.Error(codes.Unavailable, "busy")
			}
			return nil, nil
		}
		spans.serve(t, listener, nil)
		log := traceCall(t, spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address)
		spans.wantCall(t, log)
		if listener.rude.Load() >= 0 || busy.Load() >= 0 {
			t.Error("the collector was never out of reach, or never busy")
		}
	})
}

// TestTracesThatAreLost proves that a collector that is not there, or hangs, slows
// no call and does not keep the server from ending, however long it may take; and
// that the log tells what was lost.
func TestTracesThatAreLost(t *testing.T) {
	t.Parallel()
	patient := []string{"OTEL_EXPORTER_OTLP_TIMEOUT=3600000", "OTEL_BSP_EXPORT_TIMEOUT=3600000", "OTEL_BSP_SCHEDULE_DELAY=1"}
	for name, begin := range map[string]func(*testing.T, *spanCollector) (address, want string){
		"not there": func(t *testing.T, c *spanCollector) (string, string) {
			listener := listenTCP(t)
			listener.Close()
			if c.http {
				return listener.Addr().String(), "connection refused"
			}
			return listener.Addr().String(), "the last spans may be lost"
		},
		"takes no connection": func(t *testing.T, c *spanCollector) (string, string) {
			return listenTCP(t).Addr().String(), "the last spans may be lost"
		},
		"does not answer": func(t *testing.T, c *spanCollector) (string, string) {
			ctx := t.Context()
			c.answer = func() (*collector.ExportTraceServiceResponse, error) {
				<-ctx.Done()
				return nil, errors.New("too late")
			}
			return c.serve(t, listenTCP(t), nil).address, "the last spans may be lost"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, spans *spanCollector) {
				address, want := begin(t, spans)
				server := startTraced(t, append(patient, spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address))
				client := server.client(t)
				for range 100 { // none of which waits for the hour
					lastEvent(t, execute(t, client, "sleep", `{"duration_ms":1}`))
				}
				if log := server.end(t); !strings.Contains(log, want) {
					t.Errorf("no %q in the log:\n%s", want, log)
				}
			})
		})
	}
	t.Run("no socket", func(t *testing.T) {
		t.Parallel()
		log := traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT=unix:"+t.TempDir()+"/nobody")
		if want := "the last spans may be lost"; !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	})
}

// TestTracesToAPortForHTTP proves that a collector which speaks HTTP is told of once, with
// what to set, before the server says that it stopped.
func TestTracesToAPortForHTTP(t *testing.T) {
	t.Parallel()
	overHTTP := httptest.NewServer(http.NotFoundHandler())
	defer overHTTP.Close()
	server := startTraced(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + overHTTP.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=300", "OTEL_BSP_SCHEDULE_DELAY=1"})
	client := server.client(t)
	for range 3 {
		lastEvent(t, execute(t, client, "sleep", `{"duration_ms":500}`))
	}
	log := server.end(t)
	told := `"tracing","error":"traces export: `
	if strings.Count(log, told) != 1 || !strings.Contains(log, `"endpoint":"`+overHTTP.Listener.Addr().String()+`","hint":"`) ||
		!strings.Contains(log, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf") || strings.Contains(log, "createTransport") {
		t.Errorf("want one line of tracing and none of channels:\n%s", log)
	}
	if lines := strings.Split(strings.TrimSpace(log), "\n"); !strings.Contains(lines[len(lines)-1], `"stopped"`) {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
}

// TestSpansThatAreDropped proves that the log tells of spans for which there was no
// room.
func TestSpansThatAreDropped(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, spans *spanCollector) {
		ctx := t.Context()
		spans.answer = func() (*collector.ExportTraceServiceResponse, error) {
			<-ctx.Done()
			return nil, errors.New("too late")
		}
		spans.serve(t, listenTCP(t), nil)
		server := startTraced(t, []string{spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + spans.address,
			"OTEL_EXPORTER_OTLP_TIMEOUT=200", "OTEL_BSP_MAX_QUEUE_SIZE=1", "OTEL_BSP_SCHEDULE_DELAY=1"})
		client := server.client(t)
		for range 20 {
			lastEvent(t, execute(t, client, "sleep", `{"duration_ms":1}`))
		}
		if line, ok := server.log.until("spans were dropped"); !ok {
			t.Errorf("the log does not tell it: %s\n%s", line, server.log)
		}
	})
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
		}}, nil, "no room (1 spans rejected)"},
		{"advice", &collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{
			ErrorMessage: "use less",
		}}, nil, "use less (0 spans rejected)"},
		{"not allowed", nil, status.Error(codes.PermissionDenied, "who are you"), "who are you"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, spans *spanCollector) {
				var asked atomic.Int32
				spans.answer = func() (*collector.ExportTraceServiceResponse, error) {
					asked.Add(1)
					return test.response, test.err
				}
				spans.serve(t, listenTCP(t), nil)
				log := traceCall(t, spans.protocol(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address)
				if !strings.Contains(log, test.want) || asked.Load() != 1 {
					t.Errorf("asked %d times, and no %q in the log:\n%s", asked.Load(), test.want, log)
				}
			})
		})
	}
}
