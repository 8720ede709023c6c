// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/tools"
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
		tools.New(spec("writes", tools.WorkspaceWrite),
			func(tools.Env, nothing) []tools.Effect { return tools.Writes("a.txt") },
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
