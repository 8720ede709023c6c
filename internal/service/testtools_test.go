// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// runs counts how often the tool "count" ran.
var runs atomic.Int64

type nothing struct{}

type amount struct {
	Bytes int `json:"bytes"`
}

type numbers struct {
	N      int64          `json:"n"`
	Nested map[string]int `json:"nested,omitempty"`
}

// listen tells what it is sent, until the end of it, as a program that ran.
func listen(ctx context.Context, _ tools.Env, _ nothing, out tools.Sink) (tools.Result, error) {
	end := make(chan struct{})
	var size uint64
	stop := out.Listen(ctx, func(_ context.Context, in tools.Input) (int, error) {
		switch in := in.(type) {
		case tools.Data:
			size += uint64(len(in))
			out.Emit(tools.Output{Stream: tools.Terminal, Data: in})
			return len(in), nil
		case tools.EndOfInput:
			close(end)
		case tools.Signal:
			out.Emit(tools.Output{Stream: tools.Terminal, Data: []byte("<" + in + ">")})
		case tools.WindowSize:
			return 0, tools.Failf("no_terminal", "There is no terminal: its size cannot be set.")
		}
		return 0, nil
	})
	defer stop()
	out.Emit(tools.Output{Stream: tools.Terminal, Data: []byte("> ")})
	select {
	case <-end:
		return tools.Result{
			Content: []tools.Content{tools.Text("done")},
			Exit:    &tools.Exit{Reason: tools.Signaled, Code: 3, Signal: "HUP", Message: "gone\xff"},
			Usage:   &tools.Usage{User: 1500 * time.Millisecond, System: time.Second, MaxRSS: size, Processes: 2},
		}, nil
	case <-ctx.Done():
		return tools.Result{Exit: &tools.Exit{Reason: tools.Cancelled}}, context.Cause(ctx)
	}
}

// testTools are tools that misbehave in one way each, or that tests can watch.
func testTools() []tools.Tool {
	spec := func(name string, level tools.Level) tools.Spec {
		return tools.Spec{Name: name, Summary: "A tool for tests.", Category: "test", Level: level}
	}
	return []tools.Tool{
		tools.New(spec("count", tools.ReadOnly), nil,
			func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
				runs.Add(1)
				return tools.TextResult("counted"), nil
			}),
		tools.New(spec("panics", tools.ReadOnly), nil,
			func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) { panic("secret of run") }),
		tools.New(spec("panics_early", tools.ReadOnly),
			func(tools.Env, nothing) []tools.Effect { panic("secret of effects") },
			func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
				return tools.Result{}, nil
			}),
		tools.New(spec("flood", tools.ReadOnly), nil,
			func(_ context.Context, _ tools.Env, in amount, out tools.Sink) (tools.Result, error) {
				block := bytes.Repeat([]byte("0123456789abcdef"), 4000)
				for left := in.Bytes; left > 0; left -= len(block) {
					out.Emit(tools.Output{Stream: tools.Stdout, Data: block[:min(left, len(block))]})
				}
				return tools.TextResult("flooded"), nil
			}),
		tools.New(spec("raw", tools.ReadOnly), nil,
			func(_ context.Context, _ tools.Env, _ nothing, out tools.Sink) (tools.Result, error) {
				out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("\xff\xfe\x80ok")})
				return tools.TextResult("bad \xff text"), nil
			}),
		tools.New(spec("echo_number", tools.ReadOnly), nil,
			func(_ context.Context, _ tools.Env, in numbers, _ tools.Sink) (tools.Result, error) {
				return tools.JSONResult(appendInt(nil, in.N)), nil
			}),
		tools.New(spec("listens", tools.ReadOnly), nil, listen),
		tools.New(spec("keeps", tools.ReadOnly), nil,
			func(_ context.Context, env tools.Env, in amount, _ tools.Sink) (tools.Result, error) {
				if env.Artifacts == nil {
					return tools.TextResult("nothing is kept"), nil
				}
				w, err := env.Artifacts.Create("numbers.txt", "text/plain")
				if err != nil {
					return tools.Result{}, err
				}
				w.Write(bytes.Repeat([]byte("0123456789"), in.Bytes/10))
				return tools.Result{Content: []tools.Content{tools.Text("kept"), w.Close()}}, nil
			}),
		tools.New(spec("writes", tools.WorkspaceWrite),
			func(tools.Env, nothing) []tools.Effect { return toolstest.Writes("a.txt") },
			func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
				return tools.TextResult("wrote"), nil
			}),
		tools.New(spec("dangerous", tools.DangerFullAccess), nil,
			func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
				return tools.TextResult("boom"), nil
			}),
		tools.New(tools.Spec{
			Name: "needs_gpu", Summary: "A tool for tests.", Level: tools.ReadOnly, RequiredCapabilities: []string{"gpu"},
		}, nil, func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
			return tools.Result{}, nil
		}),
	}
}
