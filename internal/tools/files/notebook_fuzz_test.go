// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/tools"
)

// FuzzNotebook changes any notebook: other cells stay byte for byte, and what
// is inserted and deleted again leaves no trace.
func FuzzNotebook(f *testing.F) {
	f.Add(`{"cells":[{"cell_type":"code","source":["a\n","b"],"outputs":[],"execution_count":1,"metadata":{}}],"nbformat":4,"nbformat_minor":4}`, "x\ny", 0)
	f.Add("{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"x\",\n   \"metadata\": {},\n   \"source\": \"t\"\n  },\n  {\"cell_type\":\"code\",\"source\":[]}\n ],\n \"nbformat\": 4, \"nbformat_minor\": 5\n}\n", "", 1)
	f.Add(`{"nbformat":4,"cells":[]}`, "é\u2028<", 3)
	f.Add("{\n\t\"nbformat\": 4,\n\t\"cells\": [ ]\n}", "a", 0)
	f.Fuzz(func(t *testing.T, text, source string, at int) {
		n, err := parseNotebook(tools.Words{}, "f", text)
		if err != nil {
			return
		}
		if !utf8.ValidString(text) || !utf8.ValidString(source) {
			return
		}
		index := max(at%(len(n.cells)+1), 0)
		inserted := again(t, n.insert(index, "code", source))
		if len(inserted.cells) != len(n.cells)+1 || inserted.cells[index].Source != source {
			t.Fatalf("inserted at %d:\n%s", index, inserted.text)
		}
		if back := inserted.remove(index); len(n.cells) > 0 && back != text {
			t.Errorf("inserted and deleted again:\n%q\nwas\n%q", back, text)
		}
		if index == len(n.cells) {
			return
		}
		for _, clear := range []bool{false, true} {
			after, err := n.replace(index, "", source, clear)
			if err != nil {
				continue
			}
			replaced := again(t, after)
			if len(replaced.cells) != len(n.cells) {
				t.Fatalf("replaced:\n%s", after)
			}
			for i, c := range replaced.cells {
				was := n.cells[i]
				if i == index && c.Source != source || i != index && after[c.start:c.end] != text[was.start:was.end] {
					t.Errorf("cell %d is\n%s", i, after[c.start:c.end])
				}
			}
			if after[:n.cells[index].start] != text[:n.cells[index].start] {
				t.Error("what is before the cell has changed")
			}
		}
		if removed := again(t, n.remove(index)); len(removed.cells) != len(n.cells)-1 {
			t.Errorf("removed:\n%s", removed.text)
		}
	})
}

// again parses what was made.
func again(t *testing.T, text string) *notebook {
	t.Helper()
	if !json.Valid([]byte(text)) {
		t.Fatalf("no JSON:\n%s", text)
	}
	n, err := parseNotebook(tools.Words{}, "f", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return n
}
