// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"fmt"
	"strings"
	"testing"
)

// TestLongTextInPieces has texts read that take hours where each piece has all before it
// read again.
func TestLongTextInPieces(t *testing.T) {
	for dialect, text := range map[string]string{
		Auto:    `{"a":"` + strings.Repeat("x", 1<<20),
		"llama": "<function=a>x" + strings.Repeat("{", 1<<20),
	} {
		p, err := NewParser(dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		for ; text != ""; text = text[min(8, len(text)):] {
			p.Write([]byte(text[:min(8, len(text))]))
		}
		p.Close()
	}
	p, _ := NewParser(Auto, nil)
	for range 1000 {
		p.Write([]byte("    "))
	}
	if len(p.undecided) > 2*maxGap {
		t.Errorf("%d blanks are held back", len(p.undecided))
	}
}

// TestOpenCalls has a stream begin calls and end none: what is held of them is bounded.
func TestOpenCalls(t *testing.T) {
	p, err := NewParser("anthropic", nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	write := func(format string, args ...any) {
		for _, piece := range p.Write(fmt.Appendf(nil, format, args...)) {
			if b, ok := piece.(Broken); ok && b.Message != "" {
				refused++
			}
		}
	}
	for i := range maxOpen + 5 {
		write(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"c%d","name":"a"}}`, i, i)
	}
	if refused != 5 || len(p.stream.open) != maxOpen {
		t.Errorf("%d calls are open, %d were refused", len(p.stream.open), refused)
	}
	large := strings.Repeat("x", maxCall/2)
	for i := range 10 {
		write(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"{%s"}}`, i, large)
		if p.stream.held > 4*maxCall {
			t.Fatalf("%d bytes are held", p.stream.held)
		}
	}
	if refused <= 5 {
		t.Error("all arguments are held")
	}
	p.Close()
	if p.stream.held != 0 {
		t.Errorf("%d bytes are held after the end", p.stream.held)
	}
}

// TestManyPairs: a call of very many arguments takes hours where each is compared with all
// before it.
func TestManyPairs(t *testing.T) {
	d := &draft{}
	for i := range 300_000 {
		d.pairs = append(d.pairs, pair{fmt.Sprint("key", i), "x", asText})
	}
	if text, err := pairsInput(nil, d); err != nil || len(text) < 300_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	d.pairs = append(d.pairs, pair{" key7", "y", asText})
	if _, err := pairsInput(nil, d); err == nil {
		t.Error("a key is there twice")
	}
}
