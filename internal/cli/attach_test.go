// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"time"
)

func TestDetachKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"ctrl-]": "\x1d", "ctrl-p,ctrl-q": "\x10\x11", "CTRL-A, d": "\x01d", "": ""} {
		if got, err := parseDetachKeys(text); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"ctrl-", "ctrl-1", "ab", ",", "ctrl-é", " "} {
		if got, err := parseDetachKeys(text); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
	for _, test := range []struct {
		keys     string
		typed    []string
		sent     string
		detached bool
	}{
		{"\x1d", []string{"ab", "c\x1dd"}, "abc", true},
		{"\x10\x11", []string{"\x10", "x\x10\x10", "\x11y"}, "\x10x\x10", true},
		{"\x10\x11", []string{"\x11\x10"}, "\x11", false},
		{"", []string{"\x1d"}, "\x1d", false},
	} {
		d := detachKeys{keys: []byte(test.keys)}
		var sent []byte
		detached := false
		for _, typed := range test.typed {
			send, done := d.feed([]byte(typed))
			sent, detached = append(sent, send...), detached || done
		}
		if string(sent) != test.sent || detached != test.detached {
			t.Errorf("%q typed for %q: sent %q, detached %v", test.typed, test.keys, sent, detached)
		}
	}
}

// A closing is a view that notes that it was closed.
type closing struct {
	jsonView
	closed bool
}

func (v *closing) close()         { v.closed = true }
func (v *closing) tick(time.Time) {}

func TestRestoresWhenItBreaksDown(t *testing.T) {
	t.Parallel()
	v := new(closing)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is hidden")
			}
		}()
		defer restoring(v)
		panic("a mistake")
	}()
	if !v.closed {
		t.Error("the terminal is not given back")
	}
}
