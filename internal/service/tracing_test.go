// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	theirTrace = "0af7651916cd43dd8448eb211c80319c"
	theirSpan  = "b7ad6b7169203331"
	theirs     = "00-" + theirTrace + "-" + theirSpan + "-01"
)

// traced is a server whose spans are kept.
type traced struct {
	*testServer
	spans *tracetest.SpanRecorder
}

func serveTraced(t *testing.T, options ...func(*service.Config)) traced {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	return traced{serve(t, append(options, func(c *service.Config) { c.Tracer = provider })...), spans}
}

// ended ends the server, so that every span has ended, and returns them by their
// names. Calls that are not of the test itself are left out.
func (s traced) ended() map[string][]sdk.ReadOnlySpan {
	s.t.Helper()
	s.shutdown()
	all := make(map[string][]sdk.ReadOnlySpan)
	for _, span := range s.spans.Ended() {
		all[span.Name()] = append(all[span.Name()], span)
	}
	if begun, ended := len(s.spans.Started()), len(s.spans.Ended()); begun != ended {
		s.t.Errorf("%d spans began, %d ended", begun, ended)
	}
	return all
}

// only returns the one span of a name.
func only(t *testing.T, spans map[string][]sdk.ReadOnlySpan, name string) sdk.ReadOnlySpan {
	t.Helper()
	if len(spans[name]) != 1 {
		t.Fatalf("%d spans %q among %v, want 1", len(spans[name]), name, slices.Collect(maps.Keys(spans)))
	}
	return spans[name][0]
}

// has fails unless a span has attributes.
func has(t *testing.T, span sdk.ReadOnlySpan, want map[string]string) {
	t.Helper()
	got := make(map[string]string)
	for _, a := range span.Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s is %q, want %q", span.Name(), key, got[key], value)
		}
	}
}

// under fails unless a span is a child of another.
func under(t *testing.T, child, parent sdk.ReadOnlySpan) {
	t.Helper()
	if child.Parent().SpanID() != parent.SpanContext().SpanID() || child.SpanContext().TraceID() != parent.SpanContext().TraceID() {
		t.Errorf("%s is not below %s", child.Name(), parent.Name())
	}
}

const executeTool = "toolserver.v1.ToolService/ExecuteTool"

// TestTraces proves that a call is a span that says which tool, session and
// execution it was, in the trace of its caller, with what was decided and what ran
// below it; and that log, audit and metrics name that trace.
func TestTraces(t *testing.T) {
	audited, records := withAudit(t, nil)
	s := serveTraced(t, audited)
	ctx := withHeader(timeout(t), "traceparent", theirs, "tracestate", "a=1,b=2")
	stream, err := s.dial("").ExecuteTool(ctx, asJSON("count", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	events, err := rest(stream)
	if err != nil {
		t.Fatal(err)
	}
	spans := s.ended() // a span ends after the last event was sent
	call, decide, run := only(t, spans, executeTool), only(t, spans, "decide"), only(t, spans, "run")
	if id := call.SpanContext().TraceID().String(); id != theirTrace || call.Parent().SpanID().String() != theirSpan || call.SpanKind() != trace.SpanKindServer {
		t.Errorf("trace %s below %s, want the caller's", id, call.Parent().SpanID())
	}
	if state := run.SpanContext().TraceState().String(); state != "a=1,b=2" {
		t.Errorf("state %q, want the caller's", state)
	}
	under(t, decide, call)
	under(t, run, call)
	execution := events[0].GetExecutionId()
	has(t, call, map[string]string{
		"toolserver.tool": "count", "toolserver.session": "default", "toolserver.execution": execution, "toolserver.outcome": "succeeded",
		"rpc.system.name": "grpc", "rpc.method": executeTool, "rpc.response.status_code": "OK",
	})
	has(t, decide, map[string]string{"toolserver.tool": "count", "toolserver.action": "allow", "toolserver.rule": events[0].GetAccepted().GetVerdict().GetRule()})
	has(t, run, map[string]string{"toolserver.tool": "count", "toolserver.session": "default", "toolserver.execution": execution, "toolserver.outcome": "succeeded"})
	if line := s.logs.FilterMessage("call").All()[0].ContextMap(); line["trace"] != theirTrace {
		t.Errorf("the line in the log is %v, want that it names the trace", line)
	}
	if first := records()[2]; first.Step != audit.Proposed || first.Trace != theirTrace {
		t.Errorf("the first record of the call is %v, want that it names the trace", first)
	}
	for _, name := range []string{
		"grpc_server_handled_total", "grpc_server_handling_seconds", "toolserver_rpcs_total", "toolserver_calls_total", "toolserver_call_duration_seconds",
	} {
		if id := exemplar(t, s.metrics, name); id != theirTrace {
			t.Errorf("%s has the trace %q as exemplar, want %q", name, id, theirTrace)
		}
	}
}

// TestTracesOfRefusals proves that what did not run has no span of running, and that
// the span of the decision says why.
func TestTracesOfRefusals(t *testing.T) {
	for _, test := range []struct {
		name, tool, input string
		want              map[string]string
	}{
		{"denied", "read_file", `{"path":"a.txt"}`, map[string]string{"toolserver.action": "deny", "toolserver.rule": "rule never", "toolserver.outcome": "denied"}},
		{"not valid", "count", `{"x":1}`, map[string]string{"toolserver.action": "deny", "toolserver.outcome": "invalid_input"}},
		{"no such tool", "nothing", `{}`, map[string]string{"toolserver.action": "deny", "toolserver.outcome": "no_such_tool"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveTraced(t, withPolicy(t, "rules: [{name: never, action: deny, tools: [read_file], paths: [a.txt]}]\n"))
			s.dial("").run(asJSON(test.tool, test.input))
			spans := s.ended()
			has(t, only(t, spans, "decide"), test.want)
			has(t, only(t, spans, executeTool), map[string]string{"toolserver.outcome": test.want["toolserver.outcome"]})
			if len(spans["run"]) > 0 {
				t.Error("there is a span of running")
			}
		})
	}
	t.Run("the caller's mistake", func(t *testing.T) {
		s := serveTraced(t)
		_, err := s.dial("").call(asJSON("", `{}`))
		wantCode(t, err, codes.InvalidArgument)
		call := only(t, s.ended(), executeTool)
		has(t, call, map[string]string{"rpc.response.status_code": "INVALID_ARGUMENT"})
		if call.Status().Code == otelcodes.Error {
			t.Errorf("the server is said to have failed: %v", call.Status())
		}
	})
	t.Run("the server's mistake", func(t *testing.T) {
		s := serveTraced(t)
		if _, err := s.dial("").call(asJSON("panics_early", `{}`)); err == nil {
			t.Fatal("no error")
		}
		if call := only(t, s.ended(), executeTool); call.Status().Code != otelcodes.Error {
			t.Errorf("status %v, want an error", call.Status())
		}
	})
	t.Run("a tool that fails", func(t *testing.T) {
		s := serveTraced(t)
		s.dial("").run(asJSON("panics", `{}`))
		run := only(t, s.ended(), "run")
		has(t, run, map[string]string{"toolserver.outcome": "failed"})
		if run.Status().Code != otelcodes.Error || run.Status().Description != "internal" {
			t.Errorf("status %v", run.Status())
		}
	})
}

// TestTracesOfTransfers proves that files in and out are decided about in a span, too.
func TestTracesOfTransfers(t *testing.T) {
	s := serveTraced(t, withPolicy(t, "rules: [{name: never, action: deny, reads: ['a.txt']}]\n"))
	s.write("a.txt", "hello")
	s.write("b.txt", "hello")
	files := pb.NewWorkspaceServiceClient(s.dial("").conn)
	read := func(path string) error {
		stream, err := files.ReadFile(timeout(t), &pb.ReadFileRequest{Path: path})
		for err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	wantCode(t, read("a.txt"), codes.PermissionDenied)
	if err := read("b.txt"); err != io.EOF {
		t.Fatal(err)
	}
	decides := s.ended()["decide"]
	if len(decides) != 2 {
		t.Fatalf("%d decisions, want 2", len(decides))
	}
	has(t, decides[0], map[string]string{"toolserver.action": "deny", "toolserver.rule": "rule never", "toolserver.tool": "workspace_read"})
	has(t, decides[1], map[string]string{"toolserver.action": "allow"})
}

// TestTracesOfReplays proves that a call that comes again is seen as one, and runs
// nothing.
func TestTracesOfReplays(t *testing.T) {
	s := serveTraced(t)
	c := s.dial("")
	request := asJSON("count", `{}`)
	id := "once"
	request.CallId = &id
	c.run(request)
	c.run(request)
	request.InputJson = []byte(` { } `) // the same, written otherwise
	c.run(request)
	spans := s.ended()
	only(t, spans, "run")
	if len(spans[executeTool]) != 3 || len(spans["decide"]) != 3 {
		t.Fatalf("%v", spans)
	}
	for i, decide := range spans["decide"] {
		want := map[string]string{"toolserver.replayed": "", "toolserver.action": "allow"}
		if i > 0 {
			want = map[string]string{"toolserver.replayed": "true", "toolserver.action": ""}
		}
		has(t, decide, want)
	}
}

// TestTracesOfApprovals proves that waiting for a person is a span, and that what
// outlives the call that began it is part of its trace.
func TestTracesOfApprovals(t *testing.T) {
	t.Run("allowed after the caller left", func(t *testing.T) {
		s := serveTraced(t, withPolicy(t, askToRead))
		s.write("a.txt", "hello")
		c := s.dial("")
		ctx, leave := context.WithCancel(withHeader(timeout(t), "traceparent", theirs))
		request := asJSON("read_file", `{"path":"a.txt"}`)
		request.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_DETACH
		stream, err := c.ExecuteTool(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		var approval *pb.Approval
		for approval == nil {
			response, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			approval = response.GetEvent().GetApprovalRequested().GetApproval()
		}
		leave()
		for !slices.ContainsFunc(s.spans.Ended(), func(span sdk.ReadOnlySpan) bool { return span.Name() == executeTool }) {
			time.Sleep(time.Millisecond)
		}
		c.answer(&pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
		watch, err := c.WatchExecution(timeout(t), &pb.WatchExecutionRequest{ExecutionId: approval.GetExecutionId()})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = watch.Recv()
		}
		spans := s.ended()
		call, wait, run := only(t, spans, executeTool), only(t, spans, "approval.wait"), only(t, spans, "run")
		under(t, wait, call)
		under(t, run, call)
		has(t, only(t, spans, "decide"), map[string]string{"toolserver.action": "ask", "toolserver.rule": "rule look"})
		has(t, wait, map[string]string{"toolserver.answer": "allow_once"})
		has(t, run, map[string]string{"toolserver.outcome": "succeeded"})
		if run.StartTime().Before(wait.EndTime()) || call.SpanContext().TraceID().String() != theirTrace {
			t.Errorf("it ran before it was allowed, or elsewhere: %v, %v", wait.EndTime(), run.StartTime())
		}
		if id := exemplar(t, s.metrics, "toolserver_call_duration_seconds"); id != theirTrace {
			t.Errorf("exemplar %q", id)
		}
	})
	for _, test := range []struct {
		name, want string
		end        func(*client, *pb.Approval)
	}{
		{"denied", "deny_once", func(c *client, a *pb.Approval) {
			c.answer(&pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE})
		}},
		{"cancelled", "withdrawn", func(c *client, a *pb.Approval) {
			if _, err := c.Cancel(timeout(c.t), &pb.CancelRequest{ExecutionId: a.GetExecutionId()}); err != nil {
				c.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveTraced(t, withPolicy(t, askToRead))
			s.write("a.txt", "hello")
			c := s.dial("")
			stream, approval := c.asked(asJSON("read_file", `{"path":"a.txt"}`))
			test.end(c, approval)
			c.end(stream)
			spans := s.ended()
			has(t, only(t, spans, "approval.wait"), map[string]string{"toolserver.answer": test.want})
			if len(spans["run"]) > 0 {
				t.Error("there is a span of running")
			}
		})
	}
}

// TestTraceParents has a row for each kind of traceparent: one that cannot be read
// begins a trace, and never ends a call.
func TestTraceParents(t *testing.T) {
	for _, test := range []struct {
		name, header      string
		follows, exported bool
	}{
		{"none", "", false, true},
		{"sampled", theirs, true, true},
		{"not sampled", strings.TrimSuffix(theirs, "1") + "0", true, false},
		{"other flags", strings.TrimSuffix(theirs, "1") + "3", true, true},
		{"a later version", "01" + strings.TrimPrefix(theirs, "00") + "-more", true, true},
		{"too long", theirs + "-more", false, true},
		{"too short", theirs[:54], false, true},
		{"no version", "ff" + strings.TrimPrefix(theirs, "00"), false, true},
		{"capitals", strings.ToUpper(theirs), false, true},
		{"not hexadecimal", "00-" + strings.Repeat("g", 32) + "-" + theirSpan + "-01", false, true},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + theirSpan + "-01", false, true},
		{"no span", "00-" + theirTrace + "-" + strings.Repeat("0", 16) + "-01", false, true},
		{"no dashes", strings.ReplaceAll(theirs, "-", "0"), false, true},
		{"huge", strings.Repeat("0", 4000), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveTraced(t)
			ctx := timeout(t)
			if test.header != "" {
				ctx = withHeader(ctx, "traceparent", test.header, "tracestate", "a="+strings.Repeat("x", 2000))
			}
			stream, err := s.dial("").ExecuteTool(ctx, asJSON("count", `{}`))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rest(stream); err != nil {
				t.Fatal(err)
			}
			spans := s.ended()
			id := fmt.Sprint(s.logs.FilterMessage("call").All()[0].ContextMap()["trace"])
			if (id == theirTrace) != test.follows || len(id) != 32 {
				t.Errorf("trace %s", id)
			}
			if got := len(spans[executeTool]) == 1 && len(spans["run"]) == 1; got != test.exported {
				t.Fatalf("exported: %v, want %v", got, test.exported)
			}
			if got := exemplar(t, s.metrics, "toolserver_call_duration_seconds") != ""; got != test.exported {
				t.Errorf("an exemplar: %v, want %v", got, test.exported)
			}
		})
	}
}

// TestTracesOfStrangers proves that who does not prove who it is has no say in what is
// exported, nor in which trace: the server's own sampler decides. Of others the sampler
// may trust what they say.
func TestTracesOfStrangers(t *testing.T) {
	for _, test := range []struct {
		name, token string
		root        sdk.Sampler
		exported    bool
		follows     bool
	}{
		{"stranger, nothing is exported", "", sdk.NeverSample(), false, false},
		{"stranger, all is exported", "", sdk.AlwaysSample(), true, false},
		{"wrong token", "alice-alice-malice", sdk.NeverSample(), false, false},
		{"caller", "alice-alice-alice", sdk.NeverSample(), true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithSampler(sdk.ParentBased(test.root)))
			s := traced{serve(t, withTokens, func(c *service.Config) { c.Tracer = provider }), spans}
			_, err := s.dial(test.token).ListTools(withHeader(timeout(t), "traceparent", theirs), &pb.ListToolsRequest{})
			if test.token == "alice-alice-alice" {
				wantCode(t, err, codes.OK)
			} else {
				wantCode(t, err, codes.Unauthenticated)
			}
			all := s.ended()
			id := fmt.Sprint(s.logs.FilterMessage("call").All()[0].ContextMap()["trace"])
			if (id == theirTrace) != test.follows {
				t.Errorf("trace %s", id)
			}
			if len(all) == 0 {
				if test.exported {
					t.Error("nothing is exported")
				}
				return
			}
			call := only(t, all, "toolserver.v1.ToolService/ListTools")
			if !test.exported {
				t.Fatalf("exported: %v", call.SpanContext())
			}
			links := call.Links()
			if linked := len(links) == 1 && links[0].SpanContext.TraceID().String() == theirTrace; linked == test.follows {
				t.Errorf("links %v", links)
			}
		})
	}
}

// TestProbesHaveNoSpans proves that what looks at the server is not traced, nor is
// what would spoil a batch of spans.
func TestProbesHaveNoSpans(t *testing.T) {
	s := serveTraced(t)
	c := s.dial("")
	if _, err := grpc_health_v1.NewHealthClient(c.conn).Check(timeout(t), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	stream, err := reflectionpb.NewServerReflectionClient(c.conn).ServerReflectionInfo(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	reflector{t, stream}.files("toolserver.v1.ToolService")
	stream.CloseSend()
	err = c.conn.Invoke(timeout(t), "/no.such.Service/\xff", &emptypb.Empty{}, &emptypb.Empty{}, grpc.WaitForReady(false))
	if status.Code(err) == codes.OK {
		t.Error("a method that is no text answers")
	}
	if spans := s.ended(); len(spans) > 0 {
		t.Errorf("spans %v", slices.Collect(maps.Keys(spans)))
	}
}

// TestTracesFromInside proves that callers inside the process hand their trace on.
func TestTracesFromInside(t *testing.T) {
	s := serveTraced(t)
	conn, err := s.Connect(auth.Principal{Name: "local", OnBehalfOf: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := pb.NewToolServiceClient(conn).ListTools(timeout(t), &pb.ListToolsRequest{}); err != nil {
		t.Fatal(err)
	}
	both := s.ended()["toolserver.v1.ToolService/ListTools"]
	if len(both) != 2 {
		t.Fatalf("%d spans, want that of the caller and that of the call", len(both))
	}
	if both[0].SpanKind() == trace.SpanKindClient {
		slices.Reverse(both)
	}
	under(t, both[0], both[1])
}

// exemplar returns the trace that a metric names as an example.
func exemplar(t *testing.T, metrics prometheus.Gatherer, name string) string {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			found := []*dto.Exemplar{metric.GetCounter().GetExemplar()}
			for _, bucket := range metric.GetHistogram().GetBucket() {
				found = append(found, bucket.GetExemplar())
			}
			for _, e := range found {
				for _, label := range e.GetLabel() {
					if label.GetName() == "trace_id" {
						return label.GetValue()
					}
				}
			}
		}
	}
	return ""
}
