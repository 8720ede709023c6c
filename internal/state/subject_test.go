// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// subjects are what the engine takes for a key, and short enough for one of its lines.
var subjects = regexp.MustCompile(`^[-_=a-zA-Z0-9]+(\.[-_=a-zA-Z0-9]+)*$`)

const maxSubject = 1024

// FuzzSubject: each text has a subject that the engine takes, different texts have different
// ones, text and data come back, and a filter has all that is below its prefix.
func FuzzSubject(f *testing.F) {
	for _, text := range []string{"a", "*", ">", ".", "a.b", " ", "=", "=h", "=r", "=2E", "/", "//", "a/b/c", "\x00\xff", "é", strings.Repeat("x", 96), strings.Repeat("x", 97), strings.Repeat("/", 7), strings.Repeat("/", 8), strings.Repeat("a/", 5000), longPart + digest("x"), moreParts + digest("a/b")} {
		f.Add(text, text+"x", []byte("data"))
		f.Add(text, strings.ReplaceAll(text, "/", "."), []byte{})
	}
	f.Fuzz(func(t *testing.T, one, other string, data []byte) {
		subject, packed, err := pack(one, data)
		if one == "" || len(one) > maxText || len(data) > MaxValue {
			if err == nil {
				t.Fatalf("%d bytes with %d of data are taken", len(one), len(data))
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !subjects.MatchString(subject) || len(subject) > maxSubject {
			t.Fatalf("%q has the subject %q", one, subject)
		}
		if text, got := unpack(subject, packed); text != one || !bytes.Equal(got, data) {
			t.Fatalf("%q and %q come back as %q and %q", one, data, text, got)
		}
		if second, _, err := subjectOf(other); err == nil && (second == subject) != (one == other) {
			t.Fatalf("%q and %q have the subjects %q and %q", one, other, subject, second)
		}
		for i, c := range one {
			if c != '/' {
				continue
			}
			filter, err := filterOf(one[:i+1])
			if err != nil || !strings.HasPrefix(subject, strings.TrimSuffix(filter, ">")) || len(filter) > maxSubject {
				t.Fatalf("%q is not found below %q: %q, %v", one, one[:i+1], filter, err)
			}
			if i > 100 {
				break // a long one is slow, and no different
			}
		}
	})
}

// FuzzUnpack: what others wrote is no cause to fail.
func FuzzUnpack(f *testing.F) {
	f.Add("a.b", []byte("x"))
	f.Add("=", []byte{})
	f.Add("=h00", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add("=Z", []byte{1})
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		if text, rest := unpack(subject, data); len(rest) > len(data) || len(text) > len(subject)+len(data) {
			t.Errorf("%q and %q become %q and %q", subject, data, text, rest)
		}
	})
}

// FuzzKey: parts come back, and different ones make different keys.
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("a/b", "", "%2F")
	f.Add("%", "%25", "/")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		parts := []string{a, b, c}
		if got := Parts(Key(parts...)); !slices.Equal(got, parts) {
			t.Errorf("%q come back as %q", parts, got)
		}
	})
}
