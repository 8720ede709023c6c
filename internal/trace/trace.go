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
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
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
	otel.SetErrorHandler(failures(logger, to))
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

// tellEvery is how often the log is told that spans do not arrive, as long as they do not.
const tellEvery = 5 * time.Minute

// failures tells the log of what goes wrong on the way to an endpoint.
func failures(logger *zap.Logger, to endpoint) otel.ErrorHandler {
	often := rate.Sometimes{First: 1, Interval: tellEvery}
	return otel.ErrorHandlerFunc(func(err error) {
		often.Do(func() {
			hint := zap.Skip()
			if speaksHTTP(to, err) {
				hint = zap.String("hint", "this may be a port for HTTP: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or name the port for gRPC, which mostly is 4317")
			}
			logger.Warn("tracing", zap.Error(err), zap.String("endpoint", to.target), hint)
		})
	})
}

// speaksHTTP reports whether an endpoint to which spans go over gRPC seems to want HTTP.
func speaksHTTP(to endpoint, err error) bool {
	return !to.http && (strings.HasSuffix(to.target, ":4318") || strings.Contains(err.Error(), "frame too large"))
}

// Target returns what gRPC dials to send spans; empty where it dials nothing for them.
func Target() string {
	to, err := check()
	if err != nil || to.http || !Wanted() {
		return ""
	}
	return to.target
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
	connect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 20 * time.Second}
	connect.Backoff.BaseDelay, connect.Backoff.MaxDelay = firstRetry, lastRetry
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithDialOption(grpc.WithConnectParams(connect)),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryFor}),
	}
	if to.plain {
		options = append(options, otlptracegrpc.WithEndpoint(to.target), otlptracegrpc.WithInsecure(), otlptracegrpc.WithTLSCredentials(nil))
	} else {
		options = append(options, otlptracegrpc.WithEndpointURL("https://"+to.target))
	}
	return otlptracegrpc.New(ctx, options...)
}
