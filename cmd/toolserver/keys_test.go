// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestKeys(t *testing.T) {
	var all []key
	plain := func(codes ...rune) (keys []key) {
		for _, code := range codes {
			keys = append(keys, key{code: code})
		}
		return keys
	}
	for _, test := range []struct {
		name   string
		chunks []string
		want   []key
	}{
		{"characters", []string{"yn", "é漢"}, plain('y', 'n', 'é', '漢')},
		{"a character in two parts", []string{"\xc3", "\xa9"}, plain('é')},
		{"arrows", []string{"\x1b[A\x1b[B\x1bOA\x1bOB"}, plain(keyUp, keyDown, keyUp, keyDown)},
		{"pages", []string{"\x1b[5~\x1b[6~\x1b[H\x1b[4~"}, plain(keyPageUp, keyPageDown, keyHome, keyEnd)},
		{"an arrow in two parts", []string{"\x1b[", "A"}, plain(keyUp)},
		{"escape", []string{"\x1b", "y"}, plain(keyEscape, 'y')},
		{"escape and a letter", []string{"\x1by"}, plain(keyEscape, 'y')},
		{"sequences that mean nothing", []string{"\x1b[1;5C\x1b[24~y"}, plain(keyOther, keyOther, 'y')},
		{"control characters", []string{"\x03\x15\r\x7f"}, plain(keyInterrupt, keyClear, keyEnter, keyBackspace)},
		{"a paste", []string{"a\x1b[200~y\ny\x1b[A\x1b[201~b"}, []key{{code: 'a'}, {code: keyPaste, text: "y\ny\x1b[A"}, {code: 'b'}}},
		{"a paste in parts", []string{"\x1b[200~on", "e\x1b[20", "1~x"}, []key{{code: keyPaste, text: "one"}, {code: 'x'}}},
	} {
		var p keyParser
		all = nil
		for _, chunk := range test.chunks {
			all = append(all, p.keys([]byte(chunk))...)
		}
		if !slices.Equal(all, test.want) {
			t.Errorf("%s: %v, want %v", test.name, all, test.want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("y\x1b[A\x1b[200~text\x1b[201~\xc3"), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if cut < 0 || cut > len(data) {
			t.Skip()
		}
		var p keyParser
		for _, chunk := range [][]byte{data[:cut], data[cut:], []byte("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\x1b[201~z")} {
			for _, k := range p.keys(chunk) {
				if len(k.text) > maxPaste || k.text != "" && k.code != keyPaste {
					t.Errorf("%v", k)
				}
			}
			if len(p.rest) > 64 {
				t.Errorf("%d bytes are kept", len(p.rest))
			}
		}
	})
}
