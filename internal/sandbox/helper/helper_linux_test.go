// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"syscall"
	"testing"
	"unsafe"

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
		s := new(slot)
		for i := range s.own {
			s.own[i] = unix.Rlimit{Cur: 10, Max: 10}
		}
		memory := make([]uint64, (len(b)+7)/8) // at an address that words may have
		at := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), len(b)), b)
		if !lay(s, at, uintptr(len(b)), fileRuleset) {
			return
		}
		inside := func(what string, address uintptr) {
			if address < at || address >= at+uintptr(len(b)) {
				t.Errorf("%s is outside of the request", what)
			}
		}
		inside("the path", s.path)
		for name, list := range map[string]uintptr{"an argument": s.args, "a variable": s.env, "a root": s.roots} {
			for inside(name, list); *wordAt(list) != 0; list += 8 {
				inside(name, uintptr(*wordAt(list)))
			}
		}
		for _, limit := range s.limits[:s.nlimits] {
			if limit.Max > 10 || limit.Cur > limit.Max {
				t.Errorf("a limit was raised: %+v", limit)
			}
		}
	})
}

// TestReapsSome holds that a guard hears the server however many children have ended: a
// command can leave orphans faster than they are reaped.
func TestReapsSome(t *testing.T) {
	const children = reapedAtOnce + 3
	for range children {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // it has ended
			t.Fatal(err)
		}
	}
	s := new(slot)
	if reap(s, 0) || !s.unreaped || s.outgoing.reaped != reapedAtOnce {
		t.Errorf("first it reaps %d, more: %t", s.outgoing.reaped, s.unreaped)
	}
	if !reap(s, 0) || s.unreaped || s.outgoing.reaped != children {
		t.Errorf("then it has reaped %d, more: %t", s.outgoing.reaped, s.unreaped)
	}
}
