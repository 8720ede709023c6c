// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// writeCertificate writes a certificate and its key.
func writeCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}))),
		writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// setOTLP sets variables, without OTEL_EXPORTER_OTLP_ before their names.
func setOTLP(t *testing.T, variables map[string]string) {
	t.Helper()
	for name, value := range variables {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
}

func TestTracingIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		env  []string
		want bool
	}{
		{nil, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x"}, true},
		{[]string{"OTEL_TRACES_EXPORTER", "otlp"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_SDK_DISABLED", "true"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "none"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_TRACES_EXPORTER", "otlp"}, true},
	} {
		t.Run("", func(t *testing.T) {
			for pair := range slices.Chunk(test.env, 2) {
				t.Setenv(pair[0], pair[1])
			}
			if got := Wanted(); got != test.want {
				t.Errorf("%v: %v, want %v", test.env, got, test.want)
			}
		})
	}
}

func TestOTLPVariables(t *testing.T) {
	certificate, key := writeCertificate(t)
	for name, test := range map[string]struct {
		variables map[string]string
		want      endpoint
	}{
		"nothing":                {nil, endpoint{target: "localhost:4317", plain: true}},
		"http":                   {map[string]string{"ENDPOINT": "http://c:1/"}, endpoint{target: "c:1", plain: true}},
		"http and not insecure":  {map[string]string{"ENDPOINT": "HTTP://c", "INSECURE": "false"}, endpoint{target: "c:4317", plain: true}},
		"https":                  {map[string]string{"ENDPOINT": "https://c"}, endpoint{target: "c:443"}},
		"https and insecure":     {map[string]string{"ENDPOINT": "https://c:2", "INSECURE": "true"}, endpoint{target: "c:2"}},
		"no scheme":              {map[string]string{"ENDPOINT": "127.0.0.1:4317", "INSECURE": "false"}, endpoint{target: "127.0.0.1:4317"}},
		"no scheme, insecure":    {map[string]string{"ENDPOINT": "[::1]:3", "INSECURE": "True"}, endpoint{target: "[::1]:3", plain: true}},
		"socket":                 {map[string]string{"ENDPOINT": "unix:///run/c"}, endpoint{target: "unix:/run/c", plain: true}},
		"the ones for traces":    {map[string]string{"TIMEOUT": "soon", "TRACES_TIMEOUT": "5", "COMPRESSION": "x", "TRACES_COMPRESSION": "none"}, endpoint{target: "localhost:4317", plain: true}},
		"spaces around":          {map[string]string{"COMPRESSION": " gzip ", "TRACES_ENDPOINT": " "}, endpoint{target: "localhost:4317", plain: true}},
		"certificates of no use": {map[string]string{"CERTIFICATE": certificate, "CLIENT_CERTIFICATE": certificate, "CLIENT_KEY": key}, endpoint{target: "localhost:4317", plain: true}},

		"nothing but HTTP":         {map[string]string{"PROTOCOL": "http/protobuf"}, endpoint{true, "http://localhost:4318/v1/traces", true}},
		"gRPC for traces":          {map[string]string{"PROTOCOL": "http/json", "TRACES_PROTOCOL": "grpc"}, endpoint{target: "localhost:4317", plain: true}},
		"HTTP below a path":        {map[string]string{"PROTOCOL": "http/protobuf", "ENDPOINT": "https://c/otel/"}, endpoint{true, "https://c/otel/v1/traces", false}},
		"HTTP as it is":            {map[string]string{"PROTOCOL": "http/protobuf", "TRACES_ENDPOINT": "https://c:1/x"}, endpoint{true, "https://c:1/x", false}},
		"HTTP and not insecure":    {map[string]string{"PROTOCOL": "http/protobuf", "ENDPOINT": "http://c:1", "INSECURE": "false"}, endpoint{true, "http://c:1/v1/traces", true}},
		"HTTPS, not made insecure": {map[string]string{"PROTOCOL": "http/protobuf", "ENDPOINT": "https://c:1", "INSECURE": "true"}, endpoint{true, "https://c:1/v1/traces", false}},
	} {
		t.Run(name, func(t *testing.T) {
			setOTLP(t, test.variables)
			got, err := check()
			if err != nil || got != test.want {
				t.Fatalf("%+v, %v, want %+v", got, err, test.want)
			}
			core, logs := observer.New(zap.WarnLevel)
			provider, err := Start(zap.New(core), "test") // the exporters take what was read
			if err != nil || logs.Len() > 0 && test.variables["TIMEOUT"] == "" {
				t.Fatal(err, logs.All())
			}
			if err := provider.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestVariablesThatAreWrong(t *testing.T) {
	certificate, key := writeCertificate(t)
	empty := writeFile(t, "")
	for _, test := range []struct{ name, value, want string }{
		{"PROTOCOL", "http/json", "want grpc or http/protobuf"},
		{"ENDPOINT", "ftp://c:1", "want http://host:port"},
		{"ENDPOINT", "127.0.0.1:4318", "want http:// or https://"},
		{"ENDPOINT", "collector:4317", "want http:// or https://"},
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
				_, err := Start(zap.NewNop(), "test")
				if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+prefix+test.name) || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("%v, want the variable and %q", err, test.want)
				}
				if strings.Contains(err.Error(), "secret@") || test.name == "HEADERS" && strings.Contains(err.Error(), "secret") {
					t.Errorf("%v tells a secret", err)
				}
			})
		}
	}
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_TRACES_EXPORTER", "zipkin", "want otlp or none"},
		{"OTEL_TRACES_SAMPLER", "sometimes", "want always_on"},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", "want a share"},
		{"OTEL_TRACES_SAMPLER_ARG", "2", "want a share"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "want a number"},
		{"OTEL_BSP_SCHEDULE_DELAY", "5s", "want a number"},
		{"OTEL_BSP_EXPORT_TIMEOUT", "-1", "want a number"},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99999999999", "want a number"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a", "want key=value"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=b,=c", "want key=value"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=%zz", "percent-encoded"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=%ff", "percent-encoded"},
		{"OTEL_SERVICE_NAME", "\xff", "not UTF-8"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "want http://host:port or https"}, // over HTTP
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "unix:/run/c", "want http://host:port or https"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c?key=secret", "secrets are headers"},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
			if test.name == "OTEL_TRACES_SAMPLER_ARG" {
				t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			}
			t.Setenv(test.name, test.value)
			_, err := Start(zap.NewNop(), "test")
			if err == nil || !strings.Contains(err.Error(), test.name) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want the variable and %q", err, test.want)
			}
		})
	}
	t.Run("a key that is none", func(t *testing.T) {
		setOTLP(t, map[string]string{"CLIENT_CERTIFICATE": certificate, "CLIENT_KEY": empty})
		if _, err := Start(zap.NewNop(), "test"); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_CLIENT_KEY") {
			t.Errorf("%v, want that it names the variable", err)
		}
	})
	t.Run("all at once", func(t *testing.T) {
		names := []string{
			"OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_RESOURCE_ATTRIBUTES",
			"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_HEADERS",
			"OTEL_EXPORTER_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_ENDPOINT",
		}
		for _, name := range names {
			t.Setenv(name, "ftp://x y")
		}
		_, err := Start(zap.NewNop(), "test")
		for _, name := range names {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want also %s", err, name)
			}
		}
	})
}

// TestSamplers proves that the variable chooses which traces are exported.
func TestSamplers(t *testing.T) {
	for _, test := range []struct {
		sampler    string
		on, off    bool // a trace that its caller exports, or does not
		more, less int  // of 1,000 traces that begin here
	}{
		{"", true, false, 1000, 1000},
		{"parentbased_always_on", true, false, 1000, 1000},
		{"parentbased_always_off", true, false, 0, 0},
		{"always_on", true, true, 1000, 1000},
		{"always_off", false, false, 0, 0},
		{"parentbased_traceidratio", true, false, 100, 400},
	} {
		t.Run(test.sampler, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", test.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
			provider, err := Start(zap.NewNop(), "test")
			if err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			defer provider.Shutdown(ended)
			tracer := provider.Tracer("test")
			sampled := func(parent context.Context) bool {
				_, span := tracer.Start(parent, "call")
				return span.SpanContext().IsSampled()
			}
			called := func(flags oteltrace.TraceFlags) context.Context {
				return oteltrace.ContextWithRemoteSpanContext(t.Context(), oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
					TraceID: [16]byte{0: 1, 8: 0xff}, SpanID: [8]byte{1}, TraceFlags: flags,
				}))
			}
			if on, off := sampled(called(oteltrace.FlagsSampled)), sampled(called(0)); on != test.on || off != test.off {
				t.Errorf("of callers' traces %v and %v", on, off)
			}
			own := 0
			for range 1000 {
				if sampled(t.Context()) {
					own++
				}
			}
			if own < test.more || own > test.less {
				t.Errorf("%d of 1,000 traces, want %d to %d", own, test.more, test.less)
			}
		})
	}
}

// TestWhatGoesWrongIsTold proves that the log has what OpenTelemetry complains
// about, and nothing that may be secret.
func TestWhatGoesWrongIsTold(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret") // of which the one for traces makes nothing
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b")
	provider, err := Start(zap.New(core), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Shutdown(t.Context())
	otel.Handle(errors.New("a span got lost"))
	var logged []string
	for _, line := range logs.All() {
		text := line.Message
		for _, field := range line.ContextMap() {
			text += " " + field.(string)
		}
		logged = append(logged, text)
	}
	if all := strings.Join(logged, "\n"); len(logged) != 2 || !strings.Contains(all, "a span got lost") || strings.Contains(all, "secret") {
		t.Errorf("the log has %q", logged)
	}
}
