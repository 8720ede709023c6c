// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
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

// startTracing sends spans to where the OTEL variables say. stop sends what is
// left, and tells the log if it could not.
func startTracing(ctx context.Context, logger *zap.Logger) (stop func(context.Context), err error) {
	if err := checkTracing(); err != nil {
		return nil, err
	}
	config, err := otlpFromEnv()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, &traceClient{config: config})
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "toolserver"),
			attribute.String("service.version", versionText())),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv()) // last, so that it wins
	if err != nil {
		return nil, err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("tracing", zap.Error(err)) }))
	return func(ctx context.Context) {
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("tracing: the last spans may be lost", zap.Error(err))
		}
	}, nil
}
