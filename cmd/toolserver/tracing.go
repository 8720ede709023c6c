// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/trace"
)

// tracingWanted reports whether the usual OTEL variables ask for traces.
func tracingWanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_TRACES_EXPORTER") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// checkTracing refuses variables that ask for what this server does not speak,
// instead of sending traces to where nobody understands them.
func checkTracing() error {
	if exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return fmt.Errorf("OTEL_TRACES_EXPORTER=%s: want otlp or none", exporter)
	}
	if name, protocol := otlpVariable("PROTOCOL"); protocol != "" && protocol != "grpc" {
		return fmt.Errorf("%s=%s: only grpc is spoken", name, protocol)
	}
	return nil
}

// startTracing returns a tracer that sends spans to where the OTEL variables
// say. Shut it down to send what is left.
func startTracing(logger *zap.Logger) (*trace.Tracer, error) {
	if err := checkTracing(); err != nil {
		return nil, err
	}
	config, err := tracingFromEnv()
	if err != nil {
		return nil, err
	}
	about, err := resourceFromEnv()
	if err != nil {
		return nil, err
	}
	collector, err := otlpFromEnv()
	if err != nil {
		return nil, err
	}
	client, err := newTraceClient(collector, about)
	if err != nil {
		return nil, err
	}
	config.Export = client.export
	config.Lost = func(err error) { logger.Warn("tracing", zap.Error(err)) }
	return trace.New(config), nil
}

// tracingFromEnv reads the variables about which spans are sent, and when.
func tracingFromEnv() (config trace.Config, err error) {
	const variable = "OTEL_TRACES_SAMPLER"
	sampler := cmp.Or(os.Getenv(variable), "parentbased_always_on")
	base, parent := strings.CutPrefix(sampler, "parentbased_")
	config.Sampler.IgnoreCaller = !parent
	switch base {
	case "always_on":
	case "always_off":
		config.Sampler.Skip = 1
	case "traceidratio":
		text := cmp.Or(os.Getenv(variable+"_ARG"), "1")
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return config, fmt.Errorf("%s_ARG=%s: want a share from 0 to 1", variable, text)
		}
		config.Sampler.Skip = 1 - share
	default:
		return config, fmt.Errorf("%s=%s: want always_on, always_off or traceidratio, also with parentbased_ before it", variable, sampler)
	}
	for _, v := range []struct {
		variable string
		set      func(n int)
	}{
		{"OTEL_BSP_SCHEDULE_DELAY", func(n int) { config.Delay = time.Duration(n) * time.Millisecond }},
		{"OTEL_BSP_EXPORT_TIMEOUT", func(n int) { config.Timeout = time.Duration(n) * time.Millisecond }},
		{"OTEL_BSP_MAX_QUEUE_SIZE", func(n int) { config.Queue = n }},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", func(n int) { config.Batch = n }},
	} {
		text := os.Getenv(v.variable)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10_000_000 {
			return config, fmt.Errorf("%s=%s: want a number from 1 to 10000000", v.variable, text)
		}
		v.set(n)
	}
	return config, nil
}

// resourceFromEnv returns what is told about this server. The variables win.
func resourceFromEnv() ([]trace.Attribute, error) {
	about := []trace.Attribute{
		{Key: "service.name", Value: "toolserver"},
		{Key: "service.version", Value: versionText()},
		{Key: "telemetry.sdk.language", Value: "go"},
		{Key: "telemetry.sdk.name", Value: "toolserver"},
		{Key: "telemetry.sdk.version", Value: versionText()},
	}
	set := func(key, value string) {
		i := slices.IndexFunc(about, func(a trace.Attribute) bool { return a.Key == key })
		if i < 0 {
			i, about = len(about), append(about, trace.Attribute{Key: key})
		}
		about[i].Value = value
	}
	const variable = "OTEL_RESOURCE_ATTRIBUTES"
	for pair := range strings.SplitSeq(os.Getenv(variable), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("%s: %q: want key=value", variable, pair)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || !utf8.ValidString(key+value) {
			return nil, fmt.Errorf("%s: the value of %s is not percent-encoded UTF-8", variable, key)
		}
		set(key, value)
	}
	if name := os.Getenv("OTEL_SERVICE_NAME"); name != "" {
		set("service.name", name)
	}
	return about, nil
}
