// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/span"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// recoverPanics ends a call that panics with INTERNAL and an id. The stack goes
// to the log under the same id, never to the client.
func recoverPanics(logger *zap.Logger) link {
	option := recovery.WithRecoveryHandlerContext(func(ctx context.Context, reason any) error {
		return panicked(ctx, logger, reason)
	})
	return link{recovery.UnaryServerInterceptor(option), recovery.StreamServerInterceptor(option)}
}

// panicked logs a panic of a call, and returns what the client is told.
func panicked(ctx context.Context, logger *zap.Logger, reason any) error {
	id := strings.ToLower(rand.Text()[:10])
	method, _ := grpc.Method(ctx)
	logger.Error("panic", zap.String("id", id), zap.String("method", method),
		zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
	return status.Errorf(codes.Internal, "internal error %s", id)
}

// telemetry gives every call what is known of it, counts it and writes one line about
// it to the log. What the links below return as errors becomes a status here, in one
// place.
func (s *Server) telemetry() link {
	begin := func(ctx context.Context, method string) (context.Context, *rpc) {
		s.underWay.Add(1)
		r := &rpc{server: s, method: method, began: time.Now(), span: span.Of(ctx)}
		return context.WithValue(ctx, rpcKey{}, r), r
	}
	return link{
		unary: func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			ctx, r := begin(ctx, info.FullMethod)
			defer r.closePanicked()
			response, err := next(ctx, request)
			return response, r.close(err)
		},
		stream: func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			ctx, r := begin(stream.Context(), info.FullMethod)
			defer r.closePanicked()
			return r.close(next(server, &middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx}))
		},
	}
}

// tracing says how calls are traced: all but probes, each in the trace of its
// caller.
func tracing(provider trace.TracerProvider) []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(provider),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool {
			// Of a method that does not exist nobody is told the end, and its name may be
			// one for which a collector would refuse all spans.
			_, known := methods[call.FullMethodName]
			return known && !isProbe(call.FullMethodName)
		}),
	}
}

// ofStrangers has the calls of those who do not prove who they are begin traces of their
// own, which name the caller's as a link: such a caller does not choose what is exported,
// nor in which trace it is found. Of the others, the operator's sampler may trust what
// they say.
func ofStrangers(authenticator auth.Authenticator) otelgrpc.Option {
	return otelgrpc.WithPublicEndpointFn(func(ctx context.Context, _ *stats.RPCTagInfo) bool {
		_, err := whoCalls(ctx, authenticator, credentialsOf(ctx))
		return err != nil
	})
}

type rpcKey struct{}

// rpc is what is known of one RPC. Telemetry makes it, the links and handlers
// within fill it as they learn more, and when the RPC ends it becomes the line
// in the log. It is used by the RPC's own goroutine alone.
type rpc struct {
	server     *Server
	span       span.Span // that tracing began, if it is on
	began      time.Time
	method     string
	principal  auth.Principal
	shown      auth.Credentials
	job        *executor.Job // what admission made of the newest message
	asked      transferSlot  // the same of a transfer
	batch      batchSlot     // the same of a batch, for the goroutine that receives
	session    string
	tool       string
	callID     string
	execution  string
	outcome    executor.Outcome
	inputBytes int
	input      []byte // that its tool has accepted; only its outline is logged
	code       codes.Code
	cause      error // of the status
	closed     bool
}

// rpcOf returns what is known of the RPC that ctx belongs to.
func rpcOf(ctx context.Context) *rpc { return ctx.Value(rpcKey{}).(*rpc) }

// takeJob returns what admission made of the newest message, once.
func (r *rpc) takeJob() (*executor.Job, error) {
	job := r.job
	if r.job = nil; job == nil {
		return nil, errNotAdmitted
	}
	return job, nil
}

var errNotAdmitted = status.Error(codes.Internal, "the call was not admitted")

// asks notes what the caller asks for, which may be anything.
func (r *rpc) asks(request *pb.ExecuteToolRequest) {
	const most = admission.MaxCallID
	r.session, r.tool, r.callID = cut(request.GetSessionId(), most), cut(request.GetTool(), most), cut(request.GetCallId(), most)
}

// follows notes which execution the call is about.
func (r *rpc) follows(x *executor.Execution) {
	r.session, r.tool, r.callID, r.execution = x.Order.Session.ID, x.Order.Tool, x.Order.CallID, x.ID
	r.span.Set("toolserver.tool", r.tool)
	r.span.Set("toolserver.session", r.session)
	r.span.Set("toolserver.execution", r.execution)
}

// ended notes how the execution ended.
func (r *rpc) ended(outcome executor.Outcome) {
	r.outcome = outcome
	r.span.Set("toolserver.outcome", outcome.String())
}

// exemplar names the trace of a span, if it is exported.
func exemplar(s span.Span) prometheus.Labels {
	if !s.Sampled() {
		return nil
	}
	return exemplarOf(s.Trace())
}

// exemplarOf is the exemplar that names a trace; nil without one.
func exemplarOf(trace string) prometheus.Labels {
	if trace == "" {
		return nil
	}
	return prometheus.Labels{"trace_id": trace}
}

// close counts and logs the call, and returns the status it ends with.
func (r *rpc) close(err error) error {
	r.closed = true
	defer r.server.underWay.Add(-1)
	if session, tool := r.asked.close(); tool != "" {
		r.session, r.tool = session, tool
	}
	s, _ := status.FromError(toStatus(err))
	r.cause, r.code = err, s.Code()
	if over, ok := errors.AsType[*quota.Error](err); ok {
		r.server.overQuota(r, over)
	}
	r.server.meters.ended(r.method, r.code.String(), exemplar(r.span))
	if entry := r.server.config.Logger.Check(r.level(), "call"); entry != nil {
		entry.Write(zap.Inline(r))
	}
	return s.Err()
}

// closePanicked closes a call whose handler did not return.
func (r *rpc) closePanicked() {
	if !r.closed {
		r.close(status.Error(codes.Internal, "panic"))
	}
}

// level returns how much the line about the call matters. Probes come every few
// seconds, and are worth a line only when they are refused.
func (r *rpc) level() zapcore.Level {
	switch {
	case r.code == codes.Internal || r.code == codes.Unknown:
		return zap.ErrorLevel
	case isProbe(r.method) && (r.code == codes.OK || r.code == codes.Canceled):
		return zap.DebugLevel
	}
	return zap.InfoLevel
}

// isProbe reports whether a method is of those that look at a server without
// using it: health and reflection.
func isProbe(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// MarshalLogObject writes the line about the call.
func (r *rpc) MarshalLogObject(line zapcore.ObjectEncoder) error {
	line.AddString("method", r.method)
	line.AddString("code", r.code.String())
	line.AddDuration("duration", time.Since(r.began))
	line.AddString("principal", r.principal.Name)
	if r.principal.Tenant != "" {
		line.AddString("tenant", r.principal.Tenant)
	}
	if r.principal.OnBehalfOf != "" {
		line.AddString("on_behalf_of", r.principal.OnBehalfOf)
	}
	if r.tool != "" {
		line.AddString("tool", r.tool)
		line.AddString("session", r.session)
		line.AddString("call_id", r.callID)
		line.AddInt("input_bytes", r.inputBytes)
		line.AddString("input", outline(r.input))
	}
	if r.execution != "" {
		line.AddString("execution", r.execution)
	}
	if r.outcome != 0 { // the RPC saw it end
		line.AddString("outcome", r.outcome.String())
	}
	if r.cause != nil {
		line.AddString("error", r.cause.Error())
	}
	if id := r.span.Trace(); id != "" {
		line.AddString("trace", id)
	}
	return nil
}
