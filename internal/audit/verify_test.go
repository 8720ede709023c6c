// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// resealed returns a record as a line that is right by itself, as somebody would
// make it who knows how.
func resealed(t *testing.T, line string, change func(*Record)) string {
	t.Helper()
	var r Record
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	return string(r.appendLine(nil))
}

// Verify says what is wrong with one file.
func Verify(r io.Reader) (Report, error) {
	var v Verifier
	if err := v.Read("", r); err != nil {
		return v.report, err
	}
	return v.Report()
}

// TestSize: every text counts as memory that a record holds.
func TestSize(t *testing.T) {
	var r Record
	for _, field := range reflect.VisibleFields(reflect.TypeOf(r)) {
		if text := reflect.ValueOf(&r).Elem().FieldByIndex(field.Index); field.Name != "Step" && text.Kind() == reflect.String {
			before := r.size()
			if text.SetString("0123456789"); r.size() != before+10 {
				t.Errorf("%s does not count", field.Name)
			}
		}
	}
}

// TestTampering does everything to every line of a log, and wants it found in
// the right place.
func TestTampering(t *testing.T) {
	lines := slices.Collect(strings.Lines(written(t, 4)))
	end := len(lines) - 1
	for i, line := range lines {
		with := func(middle ...string) []string { // in place of the line
			return slices.Concat(lines[:i], middle, lines[i+1:])
		}
		type tampering struct {
			name  string
			lines []string
			line  int // where the first problem is, counted from 1; 0 means that it is nowhere
			kind  ProblemKind
		}
		cases := []tampering{
			{"repeated", with(line, line), i + 2, Misplaced},
			{"empty line", with("\n", line), i + 1, Garbled},
			{"text inserted", with("hello\n", line), i + 1, Garbled},
			{"JSON inserted", with("{}\n", line), i + 1, Garbled},
			{"cut in the middle", with(line[:len(line)/2]), i + 1, Garbled},
			{"end cut off", with(line[:len(line)-2] + "\n"), i + 1, Garbled},
			{"joined with the next", with(line[:len(line)-1]), i + 1, Garbled},
			{"carriage return", with(line[:len(line)-1] + "\r\n"), i + 1, Garbled},
			{"space at the end", with(line[:len(line)-1] + " \n"), i + 1, Garbled},
			{"space in it", with(strings.Replace(line, `,"time"`, `, "time"`, 1)), i + 1, Changed},
			{"hash in capitals", with(line[:len(line)-70] + strings.ToUpper(line[len(line)-70:])), i + 1, Garbled},
			{"another number", with(strings.Replace(line, `{"seq":`, `{"seq":9`, 1)), i + 1, Changed},
			{"another step", with(strings.Replace(line, `"step":"`, `"step":"x`, 1)), i + 1, Changed},
			{"member added", with(strings.Replace(line, `,"prev"`, `,"comment":"ok","prev"`, 1)), i + 1, Changed},
			{"too long", with(strings.Repeat("x", 3*maxLine)+"\n", line), i + 1, Garbled},
		}
		if i == end {
			// The end of a chain shows only to those who know it.
			cases[4] = tampering{"cut in the middle", with(line[:len(line)/2]), i + 1, Torn}
			cases[6] = tampering{"without newline", with(line[:len(line)-1]), i + 1, Torn}
			cases = append(cases,
				tampering{"removed", with(), 0, Absent},
				tampering{"resealed", with(resealed(t, line, func(r *Record) { r.Tool = "other" })), 0, Absent},
			)
		} else {
			cases = append(cases,
				tampering{"removed", with(), i + 1, Missing},
				tampering{"swapped with the next", slices.Concat(lines[:i], []string{lines[i+1], line}, lines[i+2:]), i + 1, Missing},
				tampering{"resealed", with(resealed(t, line, func(r *Record) { r.Tool = "other" })), i + 2, Unlinked},
				tampering{"inserted after it and sealed", with(line, resealed(t, lines[i+1], func(r *Record) { r.Tool = "other" })), i + 3, Misplaced},
				tampering{"all from here removed", lines[:i+1], 0, Absent},
			)
			if i == 0 {
				cases[len(cases)-4].kind = Missing
			}
		}
		if i > 0 {
			cases = append(cases,
				tampering{"moved to the front", slices.Concat([]string{line}, lines[:i], lines[i+1:]), 1, Missing},
				tampering{"everything before it removed", lines[i:], 1, Missing},
				tampering{"record of another chain", with(resealed(t, line, func(r *Record) { r.Prev[3] ^= 1 })), i + 1, Unlinked},
			)
		}
		var last Verifier
		if err := last.Read("", strings.NewReader(strings.Join(lines, ""))); err != nil {
			t.Fatal(err)
		}
		for _, test := range cases {
			v := Verifier{Last: last.last.Hash}
			if err := v.Read("log", strings.NewReader(strings.Join(test.lines, ""))); err != nil {
				t.Fatal(err)
			}
			report, err := v.Report()
			if !errors.Is(err, ErrBroken) {
				t.Errorf("line %d: %s: not found", i+1, test.name)
				continue
			}
			if p := report.Problems[0]; p.Line != test.line || p.Kind != test.kind {
				t.Errorf("line %d: %s: got %+v, want line %d, %s", i+1, test.name, p, test.line, test.kind)
			}
			if test.line == 0 && len(report.Problems) != 1 {
				t.Errorf("line %d: %s: %v", i+1, test.name, report.Problems)
			}
		}
	}
}

// TestEveryByte changes every byte of a log, in several ways.
func TestEveryByte(t *testing.T) {
	c := &chain{}
	for _, r := range []Record{{Step: Opened}, aCall("1")[1], {Step: Closed}} {
		c.add(&r)
	}
	text := string(c.pending)
	report, err := Verify(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	line := 1
	for i := range len(text) {
		for _, with := range []string{"", string(text[i] ^ 1), string(text[i] ^ 0x20), "\x00", text[i:i+1] + text[i:i+1], "\n" + text[i:i+1]} {
			changed := text[:i] + with + text[i+1:]
			if changed == text {
				continue
			}
			v := Verifier{Last: report.Last.Hash}
			if err := v.Read("", strings.NewReader(changed)); err != nil {
				t.Fatal(err)
			}
			got, err := v.Report()
			if err == nil {
				t.Fatalf("byte %d as %q: not found", i, with)
			}
			if at := got.Problems[0].Line; at != line && at != line+1 {
				t.Fatalf("byte %d as %q, in line %d: %v", i, with, line, got.Problems[0])
			}
		}
		if text[i] == '\n' {
			line++
		}
	}
}

func TestMessages(t *testing.T) {
	lines := slices.Collect(strings.Lines(written(t, 2)))
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{slices.Delete(slices.Clone(lines), 3, 4), "log:4: record 4 is missing before record 5"},
		{slices.Delete(slices.Clone(lines), 3, 6), "log:4: records 4 to 6 are missing before record 7"},
		{slices.Insert(slices.Clone(lines), 3, lines[1]), "log:4: record 2 comes after record 3: it was moved, repeated or inserted"},
	} {
		var v Verifier
		if err := v.Read("log", strings.NewReader(strings.Join(test.lines, ""))); err != nil {
			t.Fatal(err)
		}
		report, _ := v.Report()
		if len(report.Problems) != 1 || report.Problems[0].String() != test.want {
			t.Errorf("got %v, want %s", report.Problems, test.want)
		}
	}
}

func TestKnownHashes(t *testing.T) {
	text := written(t, 1)
	report, err := Verify(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		v    Verifier
		good bool
	}{
		{Verifier{}, true},
		{Verifier{Last: report.Last.Hash}, true},
		{Verifier{Last: report.First.Hash}, false},
		{Verifier{Has: report.First.Hash}, true},
		{Verifier{Has: Digest{1}}, false},
	} {
		if err := test.v.Read("", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := test.v.Report(); (err == nil) != test.good {
			t.Errorf("got %v", err)
		}
	}
	if _, err := Verify(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
	if report, err := Verify(strings.NewReader(strings.Repeat("x\n", 1000))); err == nil || len(report.Problems) != maxProblems || report.More != 900 {
		t.Errorf("%d problems, %d more, %v", len(report.Problems), report.More, err)
	}
}

func FuzzVerify(f *testing.F) {
	text := written(f, 1)
	f.Add([]byte(text))
	f.Add([]byte(text[:len(text)-7]))
	f.Add([]byte(text[100:] + text))
	f.Add([]byte(`{"seq":18446744073709551615,"step":"x","prev":"","hash":""}`))
	want, err := Verify(strings.NewReader(text))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v := Verifier{Last: want.Last.Hash}
		if err := v.Read("", strings.NewReader(string(data))); err != nil {
			t.Fatal(err)
		}
		// Nobody finds another text with the same hash at its end.
		if _, err := v.Report(); err == nil && string(data) != text {
			t.Errorf("another log passes: %q", data)
		}
	})
}

// FuzzText proves that any JSON decoder reads back what was recorded, as far as
// it is text and short enough.
func FuzzText(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\x1b[31m\"\\\u202e\u0085\xff\n😀")
	f.Fuzz(func(t *testing.T, text string) {
		line := appendText(nil, "", text, maxWord)
		if text == "" {
			return
		}
		var got string
		if err := json.Unmarshal(line, &got); err != nil || !utf8.Valid(line) {
			t.Fatalf("%q: %q: %v", text, line, err)
		}
		if want := strings.ToValidUTF8(text, "\ufffd"); len(text) <= maxWord && utf8.ValidString(text) && got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, r := range string(line) {
			if r < ' ' || r >= 0x7f && r <= 0x9f || r == 0x202e {
				t.Errorf("%q has %q as it is", line, r)
			}
		}
	})
}
