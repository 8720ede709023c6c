// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/output"
)

// TestLive has a program that writes and waits: what a prompt ends with is seen,
// and of a secret not more than two bytes, whenever it comes.
func TestLive(t *testing.T) {
	m := output.NewMasker([]string{"hunter2-secret"})
	const pause = "" // the program waits
	for _, test := range []struct {
		pieces []string
		want   []string // what was seen after each piece
	}{
		{[]string{"Password:", pause, " ok\n"}, []string{"Password", "Password:", "Password: ok\n"}},
		{[]string{"[y/h", pause, pause, "]? "}, []string{"[y/", "[y/h", "[y/h", "[y/h]? "}},
		{[]string{"h", pause, "unter2-secret."}, []string{"", "h", "h[masked: secret]."}},
		{[]string{"hu", pause, "n", pause, "ter2-secret."}, []string{"", "hu", "hu", "hu", "hu[masked: secret]."}},
		{[]string{"hun", pause, "dred "}, []string{"", "", "hundred "}},
		{[]string{"h", pause, "h", pause, "hunter2-secret"}, []string{"", "h", "h", "hh", "hh[masked: secret]"}},
		{[]string{"g", pause, "hp_0123456789abcdefghijABCDEFGHIJ012345 "}, []string{"", "g", "g[masked: github token] "}},
		{[]string{"see http:", pause, "//user:swordfish@host/ "}, []string{"see http", "see http:", "see http://user:[masked: password]@host/ "}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var text string
			raw := 0
			live := m.Live(func(masked []byte, n int) {
				mu.Lock()
				defer mu.Unlock()
				text += string(masked)
				raw += n
			})
			seen := func() string {
				mu.Lock()
				defer mu.Unlock()
				return text
			}
			for i, piece := range test.pieces {
				if piece == pause {
					time.Sleep(time.Second)
					synctest.Wait()
				} else {
					live.Write([]byte(piece))
				}
				if got := seen(); got != test.want[i] {
					t.Errorf("%q: after piece %d %q is seen, want %q", test.pieces, i, got, test.want[i])
				}
			}
			live.Close()
			time.Sleep(time.Second)
			if got, want := seen(), test.want[len(test.want)-1]; got != want || raw != len(strings.Join(test.pieces, "")) {
				t.Errorf("%q: at the end %q is seen, of %d bytes", test.pieces, got, raw)
			}
		})
	}
}

// TestBeside has a program that writes to two streams: what is seen has the order
// in which it was written, and of a secret not more than two bytes.
func TestBeside(t *testing.T) {
	m := output.NewMasker([]string{"hunter2-secret"})
	for _, test := range []struct {
		pieces []string // of the one and the other stream, by turns
		want   string
	}{
		{[]string{"path", "ls: no file\n", "path", "again\n"}, "pathls: no file\npathagain\n"},
		{[]string{"hu", "error\n", "nter2-secret.\n"}, "huerror\n[masked: secret].\n"},
		{[]string{"hunt", "error\n", "er2-secret.\n"}, "error\n[masked: secret].\n"},
		{[]string{"hunter2-", "hunter2-", "secret", "secret"}, "[masked: secret][masked: secret]"},
	} {
		var text string
		give := func(masked []byte, _ int) { text += string(masked) }
		streams := []*output.Live{m.Live(give), m.Live(give)}
		streams[0].Beside(streams[1])
		for i, piece := range test.pieces {
			streams[i%2].Write([]byte(piece))
		}
		streams[0].Close()
		streams[1].Close()
		if text != test.want {
			t.Errorf("%q: %q, want %q", test.pieces, text, test.want)
		}
	}
}

// TestRelease proves that what is released changes nothing of what is masked, but
// for the bytes that were seen before: any secret, cut at any place.
func TestRelease(t *testing.T) {
	m := output.NewMasker(values)
	for _, test := range secrets {
		whole := masked(m, []byte(test.text))
		for cut := range test.text {
			stream := m.Stream()
			out := stream.Append(nil, []byte(test.text[:cut]))
			before := len(out)
			out = stream.Release(out)
			released := string(out[before:])
			out = stream.Flush(stream.Append(out, []byte(test.text[cut:])))
			got := string(out)
			if len(released) > 2 || got != whole && got[:before]+got[before+len(released):] != whole {
				t.Errorf("%q, cut at %d, where %q is released: %q, want %q", test.text, cut, released, got, whole)
			}
		}
	}
}
