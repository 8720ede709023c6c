// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
)

// TestTracesAreSent proves that a call of a real server arrives at a collector
// as one span.
func TestTracesAreSent(t *testing.T) {
	t.Parallel()
	spans := collect(t, nil)
	traceCall(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+spans.address)

	about := (<-spans.requests).GetResourceSpans()[0]
	if got := attributes(about.GetResource().GetAttributes()); got["service.name"] != "toolserver" {
		t.Errorf("resource %v", got)
	}
	span := about.GetScopeSpans()[0].GetSpans()[0]
	got := attributes(span.GetAttributes())
	if span.GetName() != "toolserver.v1.ToolService/ExecuteTool" || got["toolserver.tool"] != "sleep" ||
		got["toolserver.session"] != "default" || got["toolserver.execution"] == "" {
		t.Errorf("span %s with %v", span.GetName(), got)
	}
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
