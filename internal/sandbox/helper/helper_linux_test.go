// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzRequest lays out requests that nobody has encoded.
func FuzzRequest(f *testing.F) {
	for _, request := range []Request{
		{Kind: Run, Path: "/bin/true"},
		{Kind: Run, Path: "/bin/true", Args: []string{"true", ""}, Env: []string{"A=b"}, Roots: []string{"/tmp"}, Limits: []Limit{{4, 1}}},
	} {
		b, err := request.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headSize {
			return
		}
		head := readHead(b)
		if head.count() > maxStrings {
			return
		}
		request := b[headSize:]
		memory := make([]byte, slotSize)
		g := &guarded{slot: new(slot), memory: memory}
		h := &helper{}
		for i := range h.limits {
			h.limits[i] = unix.Rlimit{Cur: 10, Max: 10}
		}
		pointers := make([]byte, 8*(head.count()+3))
		if !h.prepare(g, head, request, pointers, make([]int, fileRuleset)) {
			return
		}
		if len(g.roots) != head.nroots || g.nlimits > maxLimits || g.path == 0 {
			t.Errorf("%+v from %+v", g, head)
		}
		for _, limit := range g.limits[:g.nlimits] {
			if limit.Max > 10 || limit.Cur > limit.Max {
				t.Errorf("a limit was raised: %+v", limit)
			}
		}
	})
}
