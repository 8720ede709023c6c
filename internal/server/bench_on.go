// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package server

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/tools"
	agenttools "github.com/toolserver/toolserver/internal/tools/agent"
)

// benchTools returns the tools that make bench measures with, and as many more
// as make an index of work.IndexTools with the others.
func benchTools(others int) []tools.Tool {
	list := []tools.Tool{benchNoop(work.Noop), benchOutput(), benchProfile()}
	others += len(agenttools.Tools(agent.New(agent.Config{}, agent.Options{}), "")) // which are offered by themselves
	for i := range work.IndexTools - others - len(list) {
		list = append(list, benchFiller(i))
	}
	return list
}

func benchSpec(name, summary string) tools.Spec {
	return tools.Spec{
		Name: name, Label: strings.ReplaceAll(name, "_", " "), Summary: summary,
		Category: "bench", Level: tools.ReadOnly, ConcurrencySafe: true,
	}
}

func benchNoop(name string) tools.Tool {
	text := strings.Repeat("x", work.ResultBytes)
	spec := benchSpec(name, "Does nothing and returns 1 KiB of text.")
	return tools.New(spec, nil,
		func(context.Context, tools.Env, work.NoopInput, tools.Sink) (tools.Result, error) {
			return tools.TextResult(text), nil
		})
}

func benchOutput() tools.Tool {
	return tools.New(benchSpec(work.Output, "Writes so many bytes of output."), nil,
		func(ctx context.Context, _ tools.Env, in work.OutputInput, out tools.Sink) (tools.Result, error) {
			buffer := make([]byte, in.Chunk)
			for left := in.Bytes; left > 0; left -= int64(len(buffer)) {
				if ctx.Err() != nil {
					return tools.Result{}, context.Cause(ctx)
				}
				out.Emit(tools.Output{Stream: tools.Stdout, Data: buffer[:min(left, int64(len(buffer)))]})
			}
			return tools.TextResult("done"), nil
		})
}

// benchProfile writes its profile as output, so that the harness needs no
// admin port.
func benchProfile() tools.Tool {
	return tools.New(benchSpec(work.Profile, "Writes a CPU profile of the server as output."), nil,
		func(ctx context.Context, _ tools.Env, in work.ProfileInput, out tools.Sink) (tools.Result, error) {
			var profile bytes.Buffer
			if err := pprof.StartCPUProfile(&profile); err != nil {
				return tools.Result{}, err
			}
			select {
			case <-time.After(time.Duration(in.Milliseconds) * time.Millisecond):
			case <-ctx.Done():
			}
			pprof.StopCPUProfile()
			out.Emit(tools.Output{Stream: tools.Stdout, Data: profile.Bytes()})
			return tools.TextResult("done"), nil
		})
}

// benchFiller makes the index as long, and its lines as wide, as those of a
// server with many tools.
func benchFiller(i int) tools.Tool {
	spec := benchSpec(fmt.Sprintf("bench_filler_%02d", i),
		"Stands in for a tool, with a line as long as those that tell a model when to use it.")
	spec.Aliases = []string{fmt.Sprintf("BenchFiller%02d", i)}
	spec.DefaultTimeout = time.Minute
	return tools.New(spec, nil,
		func(context.Context, tools.Env, struct{}, tools.Sink) (tools.Result, error) {
			return tools.TextResult("done"), nil
		})
}
