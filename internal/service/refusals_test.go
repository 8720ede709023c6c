// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func mustStruct(t *testing.T, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRefusedByResult covers what a model can do wrong: the call ends with a
// finished event that tells what would be right.
func TestRefusedByResult(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for _, test := range []struct {
		name    string
		request *pb.ExecuteToolRequest
		outcome pb.Outcome
		says    []string
	}{
		{"unknown tool", asJSON("read_fil", `{}`), pb.Outcome_OUTCOME_NO_SUCH_TOOL, []string{`"read_fil"`, "read_file"}},
		{"nothing like it", asJSON("zzzzzzzz", `{}`), pb.Outcome_OUTCOME_NO_SUCH_TOOL, []string{"Its tools are: ", "read_file"}},
		{"unavailable", asJSON("needs_gpu", `{}`), pb.Outcome_OUTCOME_NO_SUCH_TOOL, []string{"gpu"}},
		{"not JSON", asJSON("read_file", `path=README`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"JSON"}},
		{"no object", asJSON("read_file", `[1,2]`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"object"}},
		{"missing", asJSON("read_file", ``), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/path", "required"}},
		{"wrong type", asJSON("read_file", `{"path":7}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/path", "string"}},
		{"unknown key", asJSON("read_file", `{"path":"a","ofset":1}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/ofset", `"offset"`}},
		{"case variant", asJSON("read_file", `{"Path":"a"}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/Path", `"path"`}},
		{"twice", asJSON("read_file", `{"path":"a","path":"b"}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/path", "twice"}},
		{"several", asJSON("read_file", `{"limit":0,"offset":"x"}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/limit", "/offset"}},
		{"NUL", asJSON("read_file", "{\"path\":\"a\x00b\"}"), pb.Outcome_OUTCOME_INVALID_INPUT, nil},
		{"escaped NUL", asJSON("read_file", `{"path":"a\u0000b"}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"NUL"}},
		{"invalid UTF-8", asJSON("read_file", "{\"path\":\"a\xff\"}"), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"UTF-8"}},
		{"20,000 levels", asJSON("structured_output", `{"data":`+deep+`}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"deep"}},
		{"3 MiB", asJSON("send_user_message", `{"message":"`+strings.Repeat("x", 3<<20)+`"}`), pb.Outcome_OUTCOME_INVALID_INPUT, []string{"bytes"}},
		{"too large an integer in a Struct", &pb.ExecuteToolRequest{Tool: "echo_number",
			Input: mustStruct(t, map[string]any{"n": float64(1 << 60)})}, pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/n", "input_json"}},
		{"not a number in a Struct", &pb.ExecuteToolRequest{Tool: "echo_number",
			Input: mustStruct(t, map[string]any{"n": math.NaN()})}, pb.Outcome_OUTCOME_INVALID_INPUT, []string{"/n"}},
		{"above the session's level", asJSON("dangerous", `{}`), pb.Outcome_OUTCOME_DENIED, []string{"danger_full_access"}},
		{"a file that is not there", asJSON("read_file", `{"path":"none.txt"}`), pb.Outcome_OUTCOME_FAILED, []string{"none.txt", "no such file"}},
		{"a file outside", asJSON("read_file", `{"path":"../../etc/passwd"}`), pb.Outcome_OUTCOME_DENIED, []string{"outside"}},
		{"a panic", asJSON("panics", `{}`), pb.Outcome_OUTCOME_FAILED, []string{"log"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.t = t
			end := c.run(test.request)
			if end.GetOutcome() != test.outcome {
				t.Fatalf("%v %s, want %v", end.GetOutcome(), text(end), test.outcome)
			}
			if end.GetFailure().GetCode() == "" || end.GetFailure().GetMessage() == "" {
				t.Errorf("no failure for programs: %v", end.GetFailure())
			}
			for _, word := range test.says {
				if !strings.Contains(text(end), word) {
					t.Errorf("%q does not say %q", text(end), word)
				}
			}
			if strings.Contains(text(end), "secret") {
				t.Errorf("%q tells a secret", text(end))
			}
			if (end.GetOutcome() == pb.Outcome_OUTCOME_DENIED) != (end.GetVerdict() != nil) {
				t.Errorf("verdict %v with %v", end.GetVerdict(), end.GetOutcome())
			}
		})
	}
}

// TestRefusedByStatus covers what a caller can do wrong: a gRPC status, and
// nothing that ran.
func TestRefusedByStatus(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	seconds := func(n int64) *pb.ExecuteToolRequest {
		r := asJSON("count", `{}`)
		r.Timeout = &durationpb.Duration{Seconds: n}
		return r
	}
	nested := &structpb.Value{}
	for range 20_000 {
		nested = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nested}})
	}
	before := runs.Load()
	for _, test := range []struct {
		name    string
		request *pb.ExecuteToolRequest
		code    codes.Code
		says    string
	}{
		{"no tool", asJSON("", `{}`), codes.InvalidArgument, "name the tool"},
		{"long name", asJSON(strings.Repeat("x", 200), `{}`), codes.InvalidArgument, "128"},
		{"both inputs", &pb.ExecuteToolRequest{Tool: "count", Input: mustStruct(t, nil), InputJson: []byte(`{}`)}, codes.InvalidArgument, "both"},
		{"5 MiB", asJSON("count", `{"x":"`+strings.Repeat("x", 5<<20)+`"}`), codes.ResourceExhausted, "larger"},
		{"Struct of 20,000 levels", &pb.ExecuteToolRequest{Tool: "count", Input: &structpb.Struct{Fields: map[string]*structpb.Value{"a": nested}}}, codes.Internal, "recursion"},
		{"timeout 0", seconds(0), codes.InvalidArgument, "more than 0"},
		{"timeout -1", seconds(-1), codes.InvalidArgument, "more than 0"},
		{"timeout of a year", seconds(365 * 24 * 3600), codes.InvalidArgument, "1h0m0s"},
		{"timeout beyond all", seconds(math.MaxInt64), codes.InvalidArgument, "1h0m0s"},
		{"unknown session", &pb.ExecuteToolRequest{Tool: "count", SessionId: "nope"}, codes.NotFound, "nope"},
		{"empty call id", &pb.ExecuteToolRequest{Tool: "count", CallId: proto.String("")}, codes.InvalidArgument, "call_id"},
		{"long call id", &pb.ExecuteToolRequest{Tool: "count", CallId: proto.String(strings.Repeat("x", 257))}, codes.InvalidArgument, "256"},
		{"long purpose", &pb.ExecuteToolRequest{Tool: "count", Purpose: strings.Repeat("x", 5000)}, codes.InvalidArgument, "4096"},
		{"unknown on_disconnect", &pb.ExecuteToolRequest{Tool: "count", OnDisconnect: 77}, codes.InvalidArgument, "77"},
		{"a panic before it runs", asJSON("panics_early", `{}`), codes.Internal, "internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.t = t
			_, err := c.call(test.request)
			wantCode(t, err, test.code, test.says)
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("%q tells a secret", err)
			}
		})
	}
	if runs.Load() != before {
		t.Error("a refused call ran")
	}
	if n := s.logs.FilterMessage("panic").Len(); n != 1 {
		t.Errorf("%d panics in the log, want 1", n)
	}
	counted := false
	for _, entry := range s.logs.FilterMessage("call").All() {
		counted = counted || entry.ContextMap()["tool"] == "panics_early" && entry.ContextMap()["code"] == "Internal"
	}
	if !counted {
		t.Error("the call that panicked has no line of its own")
	}
}

// TestHugeNamesStaySmall sends names of megabytes: neither answers nor the log
// repeat them.
func TestHugeNamesStaySmall(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	huge := strings.Repeat("x", 3<<20)
	_, err := c.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: huge})
	wantCode(t, err, codes.NotFound)
	_, err2 := c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: huge})
	_, err3 := c.call(&pb.ExecuteToolRequest{Tool: "count", SessionId: huge})
	_, err4 := c.Cancel(timeout(t), &pb.CancelRequest{CallId: huge, SessionId: huge})
	for _, err := range []error{err, err2, err3, err4} {
		if n := len(err.Error()); n > 1000 {
			t.Errorf("an error of %d bytes: %.80s", n, err)
		}
	}
	for _, entry := range s.logs.All() {
		if n := len(fmt.Sprint(entry.ContextMap())); n > 4000 {
			t.Errorf("a line of %d bytes", n)
		}
	}
}

// TestManyProblemsOfAStruct sends a small request that has thousands of
// problems below a long key.
func TestManyProblemsOfAStruct(t *testing.T) {
	c := serve(t).dial("")
	numbers := make([]any, 5000)
	for i := range numbers {
		numbers[i] = math.NaN()
	}
	end := c.run(&pb.ExecuteToolRequest{Tool: "count", Input: mustStruct(t, map[string]any{strings.Repeat("k", 1<<20): numbers})})
	if n := len(end.GetFailure().GetProblems()); end.GetOutcome() != pb.Outcome_OUTCOME_INVALID_INPUT || n != 20 || proto.Size(end) > 20_000 {
		t.Errorf("%v with %d problems in %d bytes", end.GetOutcome(), n, proto.Size(end))
	}
}

func TestUnknownExecutions(t *testing.T) {
	c := serve(t).dial("")
	ctx := timeout(t)
	_, err := c.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: "never-was"})
	wantCode(t, err, codes.NotFound, "never-was")
	_, err = c.GetExecution(ctx, &pb.GetExecutionRequest{})
	wantCode(t, err, codes.InvalidArgument, "execution_id")
	_, err = c.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: "a", CallId: "b"})
	wantCode(t, err, codes.InvalidArgument, "one way")
	_, err = c.Cancel(ctx, &pb.CancelRequest{ExecutionId: "never-was"})
	wantCode(t, err, codes.NotFound)
	_, err = c.Cancel(ctx, &pb.CancelRequest{CallId: "never-was"})
	wantCode(t, err, codes.NotFound)
	_, err = c.Cancel(ctx, &pb.CancelRequest{CallId: "x", Reason: strings.Repeat("x", 5000)})
	wantCode(t, err, codes.InvalidArgument, "4096")
	watch, err := c.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: "never-was"})
	if err == nil {
		_, err = watch.Recv()
	}
	wantCode(t, err, codes.NotFound)
	_, err = c.ListExecutions(ctx, &pb.ListExecutionsRequest{PageToken: "x"})
	wantCode(t, err, codes.InvalidArgument, "page_token")
	_, err = c.ListExecutions(ctx, &pb.ListExecutionsRequest{PageSize: -1})
	wantCode(t, err, codes.InvalidArgument, "page_size")
	_, err = c.ListTools(ctx, &pb.ListToolsRequest{Names: []string{"["}})
	wantCode(t, err, codes.InvalidArgument, "[")
}

func TestIntegersStayExact(t *testing.T) {
	c := serve(t).dial("")
	end := c.run(asJSON("echo_number", `{"n":9007199254740993}`))
	if got := text(end); got != "9007199254740993" {
		t.Errorf("input_json: %s", got)
	}
	end = c.run(&pb.ExecuteToolRequest{Tool: "echo_number", Input: mustStruct(t, map[string]any{"n": 1 << 53})})
	if got := text(end); got != "9007199254740992" {
		t.Errorf("Struct: %s", got)
	}
	end = c.run(asJSON("echo_number", `"{\"n\":3,\"nested\":\"{\\\"a\\\":1}\"}"`))
	if got := text(end); got != "3" {
		t.Errorf("objects as strings: %s", got)
	}
}

func TestBytesThatAreNoText(t *testing.T) {
	c := serve(t).dial("")
	events, err := c.call(asJSON("raw", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(events[2].GetOutput().GetData()); got != "\xff\xfe\x80ok" {
		t.Errorf("output %q was altered", got)
	}
	if got := text(events[3].GetFinished()); got != "bad \uFFFD text" {
		t.Errorf("text %q", got)
	}
}

func TestFullServerSaysWhenToRetry(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.MaxRunning = 1 })
	c := s.dial("")
	c.begin(asJSON("sleep", `{"duration_ms":60000}`))
	_, err := c.call(asJSON("count", `{}`))
	wantCode(t, err, codes.ResourceExhausted, "1 executions")
	if retryDelay(err) == 0 {
		t.Error("no RetryInfo")
	}
}

func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func TestLargeMetadataIsRefused(t *testing.T) {
	c := serve(t).dial("")
	ctx := timeout(t)
	for i := range 64 {
		ctx = withHeader(ctx, fmt.Sprintf("x-%d", i), strings.Repeat("v", 16<<10))
	}
	if _, err := c.GetServerInfo(ctx, &pb.GetServerInfoRequest{}); err == nil {
		t.Error("a megabyte of metadata was accepted")
	}
	if _, err := c.GetServerInfo(timeout(t), &pb.GetServerInfoRequest{}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestStreamsPerConnection opens more streams than a connection may have: the
// rest waits at the client and the server stays small.
func TestStreamsPerConnection(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Wire.MaxStreams = 8 })
	c := s.dial("")
	for range 8 {
		c.begin(asJSON("sleep", `{"duration_ms":60000}`))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := c.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	wantCode(t, err, codes.DeadlineExceeded)
	if _, err := s.dial("").GetServerInfo(timeout(t), &pb.GetServerInfoRequest{}); err != nil {
		t.Errorf("another connection: %v", err)
	}
}

func TestLogsHaveNoInput(t *testing.T) {
	s := serve(t)
	s.write("secret-name.txt", "x")
	c := s.dial("")
	c.run(asJSON("read_file", `{"path":"secret-name.txt"}`))
	c.run(asJSON("read_file", `{"secret-name":1}`))
	found := false
	for _, entry := range s.logs.FilterMessage("call").All() {
		line := fmt.Sprint(entry.ContextMap())
		if strings.Contains(line, "secret-name") {
			t.Errorf("the log has input: %s", line)
		}
		found = found || entry.ContextMap()["outcome"] == "succeeded" && entry.ContextMap()["input_bytes"] == 26 && entry.ContextMap()["input"] == "path:string(15)"
	}
	if !found {
		t.Errorf("no line about the call: %v", s.logs.All())
	}
}

// TestLogsTellOutcomes: the line of an RPC has the outcome that it saw, and none where it saw
// no end.
func TestLogsTellOutcomes(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	request := asJSON("echo_number", `{"n":1}`)
	request.CallId = new("a")
	c.run(request)
	if _, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: "a"}); err != nil {
		t.Fatal(err)
	}
	outcomes := make(map[any]any)
	for _, entry := range s.logs.FilterMessage("call").All() {
		if line := entry.ContextMap(); line["execution"] != nil {
			outcomes[path.Base(fmt.Sprint(line["method"]))] = line["outcome"]
		}
	}
	if want := map[any]any{"ExecuteTool": "succeeded", "GetExecution": nil}; !maps.Equal(outcomes, want) {
		t.Errorf("%v, want %v", outcomes, want)
	}
}

// TestNumbersAsText sends numbers as texts: rules, call ids and the tool see the
// number.
func TestNumbersAsText(t *testing.T) {
	c := serve(t, withPolicy(t, "rules: [{name: one, action: deny, tools: [echo_number], when: 'input.n == 1'}]\n")).dial("")
	call := func(id, input string) *pb.Finished {
		request := asJSON("echo_number", input)
		request.CallId = &id
		return c.run(request)
	}
	if end := call("a", `{"n":"9007199254740993"}`); text(end) != "9007199254740993" {
		t.Errorf("%v %s", end.GetOutcome(), text(end))
	}
	if end := call("a", `{"n":9007199254740993}`); text(end) != "9007199254740993" { // the same call
		t.Errorf("%v %s", end.GetOutcome(), text(end))
	}
	for i, input := range []string{`{"n":1}`, `{"n":"1"}`} {
		if end := call(fmt.Sprint("b", i), input); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
			t.Errorf("%s: %v %s", input, end.GetOutcome(), text(end))
		}
	}
	if end := call("c", `{"n":"one"}`); end.GetOutcome() != pb.Outcome_OUTCOME_INVALID_INPUT {
		t.Errorf("%v %s", end.GetOutcome(), text(end))
	}
}
