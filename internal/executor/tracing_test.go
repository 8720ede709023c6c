// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestSpansEndWithTheExecution proves that the span of a run is as long as its
// execution, whether the tool stops or not, and that of a question as
// long as that waits.
func TestSpansEndWithTheExecution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{Limits: executor.Limits{StopGrace: 5 * time.Second}}, approval.Config{})
		spans := tracetest.NewSpanRecorder()
		ctx, root := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "call")
		root.End()
		free := make(chan struct{})
		x, err := f.Start(ctx, f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			out.Ask(ctx, colour)
			<-free
			return tools.Result{}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if x.Trace != root.SpanContext().TraceID().String() {
			t.Errorf("trace %q", x.Trace)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		x.Cancel("enough", "alice")
		<-x.Done()
		ended := spans.Ended()[1:]
		if len(ended) != 2 || ended[0].Name() != "answer.wait" || ended[1].Name() != "run" {
			t.Fatalf("%v", ended)
		}
		wait, run := ended[0], ended[1]
		if wait.Parent().SpanID() != run.SpanContext().SpanID() || run.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Error("the question is not below the run, or that is not below the call")
		}
		if waited, ran := wait.EndTime().Sub(wait.StartTime()), run.EndTime().Sub(run.StartTime()); waited != time.Second || ran != 6*time.Second {
			t.Errorf("waited %s and ran %s", waited, ran)
		}
		for _, a := range run.Attributes() {
			if a.Key == "toolserver.outcome" && a.Value.AsString() != executor.Cancelled.String() {
				t.Errorf("outcome %s", a.Value.AsString())
			}
		}
		close(free)
		synctest.Wait()
		if n := len(spans.Ended()); n != 3 {
			t.Errorf("%d spans in the end, want 3", n)
		}
	})
}
