// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/trace"
)

// TestTracesAreSent proves that a call of a real server arrives at a collector
// as one span.
func TestTracesAreSent(t *testing.T) {
	t.Parallel()
	spans := collect(t, nil)
	traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address, "OTEL_RESOURCE_ATTRIBUTES=service.name=x, place = a%2Cb ,")

	about := (<-spans.requests).GetResourceSpans()[0]
	got := attributes(about.GetResource().GetAttributes())
	if got["service.name"] != "x" || got["place"] != "a,b" || got["service.version"] == "" {
		t.Errorf("resource %v", got)
	}
	span := about.GetScopeSpans()[0].GetSpans()[0]
	got = attributes(span.GetAttributes())
	if span.GetName() != "toolserver.v1.ToolService/ExecuteTool" || got["toolserver.tool"] != "sleep" ||
		got["toolserver.session"] != "default" || got["toolserver.execution"] == "" {
		t.Errorf("span %s with %v", span.GetName(), got)
	}
}

// TestSpansOnTheWire proves that a collector reads what was written.
func TestSpansOnTheWire(t *testing.T) {
	begin := time.Unix(1, 2)
	wire := appendRequest(nil, appendResource(nil, []trace.Attribute{{Key: "service.name", Value: "x"}}), []*trace.Span{
		{
			TraceID: [16]byte{1}, ID: [8]byte{2}, Parent: [8]byte{3}, State: "a=b", Name: "one", Begin: begin, End: begin.Add(1),
			Attributes: []trace.Attribute{{Key: "key", Value: "val\xffue"}}, Error: "no",
		},
		{TraceID: [16]byte{4}, ID: [8]byte{5}, Name: "two", Begin: begin, End: begin},
	})
	text := func(s string) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
	}
	id := func(size int, first byte) []byte { return append([]byte{first}, make([]byte, size-1)...) }
	want := &collector.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: text("x")}}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: "toolserver", Version: versionText()},
			Spans: []*tracepb.Span{
				{
					TraceId: id(16, 1), SpanId: id(8, 2), ParentSpanId: id(8, 3), TraceState: "a=b", Name: "one", Flags: 0x301,
					Kind: tracepb.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 1_000_000_002, EndTimeUnixNano: 1_000_000_003,
					Attributes: []*common.KeyValue{{Key: "key", Value: text("val\uFFFDue")}},
					Status:     &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "no"},
				},
				{
					TraceId: id(16, 4), SpanId: id(8, 5), Name: "two", Flags: 0x101,
					Kind: tracepb.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 1_000_000_002, EndTimeUnixNano: 1_000_000_002,
				},
			},
		}},
	}}}
	got := new(collector.ExportTraceServiceRequest)
	if err := proto.Unmarshal(wire, got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

func TestTracingVariables(t *testing.T) {
	for _, test := range []struct {
		variable, value string
		want            trace.Config
		wrong           string // part of the error, if there is one
	}{
		{"OTEL_TRACES_SAMPLER", "", trace.Config{}, ""},
		{"OTEL_TRACES_SAMPLER", "parentbased_always_off", trace.Config{Sampler: trace.Sampler{Skip: 1}}, ""},
		{"OTEL_TRACES_SAMPLER", "always_on", trace.Config{Sampler: trace.Sampler{IgnoreCaller: true}}, ""},
		{"OTEL_TRACES_SAMPLER", "traceidratio", trace.Config{Sampler: trace.Sampler{Skip: 0.75, IgnoreCaller: true}}, ""},
		{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio", trace.Config{Sampler: trace.Sampler{Skip: 0.75}}, ""},
		{"OTEL_TRACES_SAMPLER", "sometimes", trace.Config{}, "want always_on"},
		{"OTEL_BSP_SCHEDULE_DELAY", "100", trace.Config{Delay: 100 * time.Millisecond}, ""},
		{"OTEL_BSP_EXPORT_TIMEOUT", "200", trace.Config{Timeout: 200 * time.Millisecond}, ""},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "10", trace.Config{Queue: 10}, ""},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5", trace.Config{Batch: 5}, ""},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", trace.Config{}, "want a number"},
		{"OTEL_BSP_SCHEDULE_DELAY", "5s", trace.Config{}, "want a number"},
	} {
		t.Run(test.variable+"="+test.value, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
			t.Setenv(test.variable, test.value)
			got, err := tracingFromEnv()
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.variable) || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("%v, want the variable and %q", err, test.wrong)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
		})
	}
	for variable, value := range map[string]string{
		"OTEL_TRACES_SAMPLER_ARG": "NaN", "OTEL_RESOURCE_ATTRIBUTES": "a",
	} {
		t.Run(variable+"="+value, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
			t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			t.Setenv(variable, value)
			if _, err := startTracing(zap.NewNop()); err == nil || !strings.Contains(err.Error(), variable) {
				t.Errorf("%v, want that it names the variable", err)
			}
		})
	}
	t.Run("the name of the service wins", func(t *testing.T) {
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=x")
		t.Setenv("OTEL_SERVICE_NAME", "y")
		about, err := resourceFromEnv()
		if err != nil || !slices.Contains(about, trace.Attribute{Key: "service.name", Value: "y"}) {
			t.Errorf("%v, %v", about, err)
		}
	})
}

// traceCall runs a server with variables, calls it once, and ends it, so that
// it sends what it has. It returns the log.
func traceCall(t *testing.T, variables ...string) string {
	t.Helper()
	cmd := exec.Command("toolserver", "serve", "--listen", "127.0.0.1:0", "--admin", "off")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), variables...)
	server, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lastEvent(t, execute(t, server.client(t), "sleep", `{"duration_ms":1}`))
	cmd.Process.Signal(syscall.SIGTERM)
	server.log.rest()
	if code := wait(t, cmd); code != 0 {
		t.Fatalf("exit code %d: %s", code, server.log)
	}
	return server.log.String()
}

func attributes(list []*common.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, kv := range list {
		m[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return m
}

func TestTracingIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		env  []string
		want bool
	}{
		{nil, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_SDK_DISABLED", "true"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "none"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "otlp"}, true},
	} {
		t.Run("", func(t *testing.T) {
			for pair := range slices.Chunk(test.env, 2) {
				t.Setenv(pair[0], pair[1])
			}
			if got := tracingWanted(); got != test.want {
				t.Errorf("%v: %v, want %v", test.env, got, test.want)
			}
		})
	}
}

func TestTracingThatIsNotSpoken(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if err := checkTracing(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want that it names the variable", err)
			}
		})
	}
	t.Run("the one for traces wins", func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
		if err := checkTracing(); err != nil {
			t.Error(err)
		}
	})
}
