// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace sends spans to an OpenTelemetry collector, over gRPC or HTTP, as
// the usual variables say. What the SDK would pass over in silence, a variable that
// cannot be read or a span that is lost, it tells.
package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

// Wanted reports whether the variables ask for traces.
func Wanted() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_TRACES_EXPORTER") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Start returns what makes spans and sends them to where the variables say. Shut
// it down to send what is left. The log is told what goes wrong with any of them:
// OpenTelemetry has one place for that in a process. An error names a variable.
func Start(logger *zap.Logger, version string) (*sdk.TracerProvider, error) {
	to, err := check()
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("tracing", zap.Error(err)) }))
	otel.SetLogger(newLogger(logger))
	about, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "toolserver"), attribute.String("service.version", version)),
		resource.WithFromEnv()) // last, so that it wins
	if err != nil && !errors.Is(err, resource.ErrPartialResource) { // what is missing is nothing: it was checked
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := newExporter(to)
	if err != nil {
		return nil, err
	}
	return sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithBatcher(exporter)), nil
}

// Spans are sent again soon enough that a collector that is back after a moment
// gets them before the server ends.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 5 * time.Second
	retryFor   = time.Minute
)

// newExporter returns what sends spans. It reads the variables by itself, but for
// where they go and whether in clear text: there the scheme of the endpoint has the
// last word.
func newExporter(to endpoint) (*otlptrace.Exporter, error) {
	ctx := context.Background() // nothing is sent yet
	if to.http {
		options := []otlptracehttp.Option{
			otlptracehttp.WithEndpointURL(to.target),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryFor}),
		}
		if to.plain {
			options = append(options, otlptracehttp.WithTLSClientConfig(nil))
		}
		return otlptracehttp.New(ctx, options...)
	}
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryFor}),
	}
	if to.plain {
		options = append(options, otlptracegrpc.WithEndpoint(to.target), otlptracegrpc.WithInsecure(), otlptracegrpc.WithTLSCredentials(nil))
	} else {
		options = append(options, otlptracegrpc.WithEndpointURL("https://"+to.target))
	}
	return otlptracegrpc.New(ctx, options...)
}
