// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// calls returns a tree of calls that have arguments, which are all the same.
func calls(places, arguments int) *tree {
	t := &tree{grammar: &grammar{kinds: []string{"file", "call", "name"}}, nodes: []node{{kind: 0, flags: isNamed}}}
	for range places {
		call := len(t.nodes)
		from := uint32(len(t.text))
		t.nodes = append(t.nodes, node{kind: 1, flags: isNamed, size: uint32(1 + arguments)})
		for range arguments {
			at := uint32(len(t.text))
			t.text = append(t.text, "a "...)
			t.nodes = append(t.nodes, node{span: span{at, at + 1}, kind: 2, flags: isNamed, size: 1})
		}
		t.nodes[call].span = span{from, uint32(len(t.text))}
	}
	t.nodes[0].size, t.nodes[0].end = uint32(len(t.nodes)), uint32(len(t.text))
	return t
}

// manyWays is a call with several parts for any number of arguments and a between
// them; the last one is b, which no call has.
func manyWays(several int) *pattern {
	call := &part{kind: "call", named: true}
	c := &pattern{nodes: []*part{call}, branches: several}
	for range several {
		call.children = append(call.children, &part{variable: "_", several: true}, &part{kind: "name", named: true, text: "a"})
	}
	call.children = append(call.children, &part{kind: "name", named: true, text: "b"})
	return c
}

// TestStepsOfManyWays counts what it takes to find that six $$$ match nowhere: there
// are fifty million ways to lay them on sixty arguments.
func TestStepsOfManyWays(t *testing.T) {
	c := manyWays(6)
	c.setFree(c.nodes)
	m := &matcher{tree: calls(1, 60), ctx: t.Context(), pattern: c, failed: make(map[attempt]bool)}
	if found, err := m.all(1); err != nil || len(found) > 0 || m.steps > 50_000 {
		t.Errorf("%d matches, %d steps, %v", len(found), m.steps, err)
	}
}

// TestStepsAreBounded holds a file and a call to their steps where failures cannot
// be remembered, as where a name is there twice.
func TestStepsAreBounded(t *testing.T) {
	c := manyWays(9)
	c.spent.Store(callSteps - 100_000)
	m := &matcher{tree: calls(50, 60), ctx: t.Context(), pattern: c, failed: make(map[attempt]bool)}
	_, err := m.all(1)
	if !IsPattern(err) || !strings.Contains(err.Error(), "$$$") || m.steps > 200_000 {
		t.Errorf("%d steps of a call: %v", m.steps, err)
	}
	m = &matcher{tree: calls(50, 60), ctx: t.Context(), pattern: manyWays(9), steps: fileSteps, failed: make(map[attempt]bool)}
	if _, err := m.all(1); !IsPattern(err) || m.steps > fileSteps+100_000 {
		t.Errorf("%d steps of a file: %v", m.steps, err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	m = &matcher{tree: calls(50, 60), ctx: ctx, pattern: manyWays(9), failed: make(map[attempt]bool)}
	if _, err := m.all(1); !errors.Is(err, stop) || m.steps > 2*checked {
		t.Errorf("%d steps after the end: %v", m.steps, err)
	}
}
