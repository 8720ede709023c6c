// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"runtime/debug"
	"strings"
	"time"

	"crypto/rand"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/executor"
)

// recoverPanics ends a call that panics with INTERNAL and an id. The stack goes
// to the log under the same id, never to the client.
func recoverPanics(logger *zap.Logger) link {
	option := recovery.WithRecoveryHandlerContext(func(ctx context.Context, reason any) error {
		id := strings.ToLower(rand.Text()[:10])
		method, _ := grpc.Method(ctx)
		logger.Error("panic", zap.String("id", id), zap.String("method", method),
			zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
		return status.Errorf(codes.Internal, "internal error %s", id)
	})
	return link{recovery.UnaryServerInterceptor(option), recovery.StreamServerInterceptor(option)}
}

// telemetry counts every call and writes one line about it to the log.
func telemetry(logger *zap.Logger, metrics *metrics) link {
	reportable := interceptors.CommonReportableFunc(
		func(ctx context.Context, meta interceptors.CallMeta) (interceptors.Reporter, context.Context) {
			r := &record{logger: logger, metrics: metrics, method: meta.FullMethod(), span: trace.SpanFromContext(ctx)}
			return r, context.WithValue(ctx, recordKey{}, r)
		})
	return link{interceptors.UnaryServerInterceptor(reportable), interceptors.StreamServerInterceptor(reportable)}
}

type recordKey struct{}

// record is what telemetry knows of one call. The links and handlers within
// fill it as they learn more. It is used by the call's own goroutine alone.
type record struct {
	interceptors.NoopReporter
	logger  *zap.Logger
	metrics *metrics
	span    trace.Span

	method     string
	principal  string
	session    string
	tool       string
	callID     string
	execution  string
	outcome    string
	inputBytes int
}

// recordOf returns the record of a call.
func recordOf(ctx context.Context) *record { return ctx.Value(recordKey{}).(*record) }

// describe notes which tool is called, where, and how large its input is; the
// input itself is never logged.
func (r *record) describe(order executor.Order, inputBytes int) {
	r.session, r.tool, r.callID, r.inputBytes = order.Session.ID, order.Tool, order.CallID, inputBytes
}

// follows notes which execution the call is about.
func (r *record) follows(x *executor.Execution) {
	r.session, r.tool, r.callID, r.execution = x.Order.Session.ID, x.Order.Tool, x.Order.CallID, x.ID
	if r.span.IsRecording() {
		r.span.SetAttributes(
			attribute.String("toolserver.tool", r.tool),
			attribute.String("toolserver.session", r.session),
			attribute.String("toolserver.execution", r.execution))
	}
}

// ended notes how the execution ended.
func (r *record) ended(outcome executor.Outcome) {
	r.outcome = outcome.String()
	if r.span.IsRecording() {
		r.span.SetAttributes(attribute.String("toolserver.outcome", r.outcome))
	}
}

// PostCall counts and logs the call.
func (r *record) PostCall(err error, duration time.Duration) {
	code := status.Code(err)
	r.metrics.rpcs.WithLabelValues(r.method, code.String()).Inc()
	level := zap.InfoLevel
	if code == codes.Internal || code == codes.Unknown {
		level = zap.ErrorLevel
	}
	entry := r.logger.Check(level, "call")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 12)
	fields = append(fields,
		zap.String("method", r.method), zap.Stringer("code", code),
		zap.Duration("duration", duration), zap.String("principal", r.principal))
	for _, f := range []struct{ name, value string }{
		{"tool", r.tool}, {"session", r.session}, {"call_id", r.callID},
		{"execution", r.execution}, {"outcome", r.outcome},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.name, f.value))
		}
	}
	if r.inputBytes > 0 {
		fields = append(fields, zap.Int("input_bytes", r.inputBytes))
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	if r.span.SpanContext().HasTraceID() {
		fields = append(fields, zap.Stringer("trace", r.span.SpanContext().TraceID()))
	}
	entry.Write(fields...)
}
