// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolserver/toolserver/internal/tools"
)

// commandInput is the input of a tool that runs commands, with one of each
// thing inputs are made of.
type commandInput struct {
	Command   string            `json:"command" check:"min=1,max=65536"`
	Cwd       string            `json:"cwd,omitempty"`
	TimeoutMS int               `json:"timeout_ms,omitempty" check:"min=1,max=600000"`
	Env       map[string]string `json:"env,omitempty"`
	Args      []string          `json:"args,omitempty" check:"max=64"`
	Mode      string            `json:"mode,omitempty" check:"enum=fg|bg|pty"`
	Limits    struct {
		CPUMS int `json:"cpu_ms,omitempty"`
		MemMB int `json:"mem_mb,omitempty"`
	} `json:"limits,omitzero"`
}

// commandJSON is an input of 1 KiB: a command, and words to fill it up.
func commandJSON() []byte {
	const form = `{"command":%q,"cwd":"/workspace/project/src","timeout_ms":120000,` +
		`"env":{"PATH":"/usr/bin:/bin","HOME":"/root","LANG":"C.UTF-8","TOKEN":%q},` +
		`"args":["-n","--color=never","--glob=*.go","a b c d e f"%s],` +
		`"mode":"fg","limits":{"cpu_ms":60000,"mem_mb":1024}}`
	command, token := strings.Repeat("grep -rn needle src | sort | uniq -c; ", 12), strings.Repeat("t", 100)
	words := ""
	for len(fmt.Sprintf(form, command, token, words)) < 1024 {
		words += `,"one more argument"`
	}
	return fmt.Appendf(nil, form, command, token, words)
}

// decodeInput is figure 3. The generic library checks the same input against
// the same schema and leaves it as maps; toolserver's decoder makes it the
// value that runs.
func decodeInput(ctx context.Context, h *harness) ([]row, error) {
	tool := tools.New(tools.Spec{Name: "bench_command", Summary: "Runs nothing.", Level: tools.ReadOnly}, nil,
		func(context.Context, tools.Env, commandInput, tools.Sink) (tools.Result, error) {
			return tools.Result{}, nil
		})
	schema, err := compile(tool.InputSchema())
	if err != nil {
		return nil, err
	}
	input := commandJSON()
	own := func() error {
		_, err := tool.Decode(&tools.Env{}, input)
		return err
	}
	generic := func() error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
		if err != nil {
			return err
		}
		return schema.Validate(value)
	}
	var s sides[float64]
	// A slice is short here, so that many rounds are cheap.
	length := h.plan.slice / 5
	steps := s.entrants(repeat(own, length), repeat(generic, length), repeat(generic, length))
	if err := interleave(ctx, 2*h.plan.rounds, steps); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("decode %d bytes of input (bare: schema library)", len(input))
	return []row{s.row(name, "µs", itself, ratioAtMost(0.4))}, nil
}

// repeat measures how many µs work takes, over and over for a while.
func repeat(work func() error, length time.Duration) func(context.Context) (float64, error) {
	return func(context.Context) (float64, error) {
		begin := time.Now()
		for n := 0; ; {
			for range 64 { // so that reading the clock costs nothing
				if err := work(); err != nil {
					return 0, err
				}
			}
			n += 64
			if took := time.Since(begin); took > length {
				return float64(took) / 1e3 / float64(n), nil
			}
		}
	}
}

func compile(text []byte) (*jsonschema.Schema, error) {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource("input.json", schema); err != nil {
		return nil, err
	}
	return compiler.Compile("input.json")
}

// noLoader refuses to fetch schemas from elsewhere.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, errors.New("not allowed: " + url) }
