// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSearch finds records over several files, the newest first, a page after the other, and
// while the log is written.
func TestSearch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit[1]")
	l, err := Open(Options{Config: Config{File: path, MaxBytes: 4096}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 100 {
		record := Record{Step: Finished, Principal: fmt.Sprint("p", i%2), Tool: "read_file", Reason: fmt.Sprint("reason ", i)}
		if err := l.Append(record); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			l.Flush() // so that files become full
		}
	}
	files, err := l.files()
	if err != nil || len(files) < 3 {
		t.Fatalf("the files are %v: %v", files, err)
	}
	var reasons []string
	for before, pages := uint64(0), 0; ; pages++ {
		found, next, err := l.Search(t.Context(), Query{Principal: "p1", Step: Finished, Limit: 7, Before: before})
		if err != nil || pages > 20 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, f := range found {
			reasons = append(reasons, f.Reason)
		}
		if before = next; next == 0 {
			break
		}
	}
	if len(reasons) != 50 || reasons[0] != "reason 99" || reasons[49] != "reason 1" {
		t.Errorf("found %d: %v", len(reasons), reasons)
	}
	if found, next, err := l.Search(t.Context(), Query{Text: "REASON 42", Limit: 10}); err != nil || next != 0 || len(found) != 1 || !bytes.Contains([]byte(found[0].Line), []byte(`"hash"`)) {
		t.Errorf("%v, %d, %v", found, next, err)
	}
	if err := os.WriteFile(files[0]+".gz", []byte("what an operator put beside it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := l.Verify(t.Context()); err != nil || report.Records < 100 {
		t.Errorf("%+v: %v", report, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], bytes.Replace(text, []byte("reason 3"), []byte("reason 4"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := l.Verify(t.Context()); !errors.Is(err, ErrBroken) || len(report.Problems) == 0 {
		t.Errorf("%+v: %v", report, err)
	}
	var none *Log
	if _, _, err := none.Search(t.Context(), Query{Limit: 1}); !errors.Is(err, ErrNoFile) {
		t.Error(err)
	}
	if err := none.Append(Record{Step: Finished}); err != nil {
		t.Error(err)
	}
}

// counted counts what is read of a file.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes += n
	return n, err
}

// TestUncleanNames: also where the name of the log is written in a roundabout way, its full files
// count.
func TestUncleanNames(t *testing.T) {
	for _, name := range []string{"./audit.log", "logs//audit.log", "logs/nowhere/nowhere/../../audit.log"} {
		t.Chdir(t.TempDir())
		if err := os.Mkdir("logs", 0o700); err != nil {
			t.Fatal(err)
		}
		l := open(t, name, Options{Config: Config{MaxBytes: 3000}})
		for i := range 20 {
			add(t, l, aCall(fmt.Sprint(i))...)
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		report, err := l.Verify(t.Context())
		if err != nil || report.First.Seq != 1 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		full := fullFiles(filepath.Clean(name))
		if err := os.WriteFile(full[0], []byte(strings.Replace(readFile(t, full[0]), `"call_id":"`, `"call_id":"x`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Verify(t.Context()); err == nil {
			t.Errorf("%s: a full file was changed, and nobody is told", name)
		}
		mustClose(t, l)
	}
}

// TestBelow: where a search goes on is found without reading what was searched before.
func TestBelow(t *testing.T) {
	var log strings.Builder
	ends := []int64{0} // of records, by number
	for seq := 1; seq <= 300; seq++ {
		fmt.Fprintf(&log, `{"seq":%d,"step":"finished","reason":%q}`+"\n", seq, strings.Repeat("x", seq*7%500))
		ends = append(ends, int64(log.Len()))
		if seq%50 == 0 {
			log.WriteString("no record\n\n")
		}
	}
	size := int64(log.Len())
	for number := uint64(1); number <= 301; number++ {
		if at := below(strings.NewReader(log.String()), size, number); at != ends[number-1] {
			t.Errorf("those below %d end at %d, not at %d", number, at, ends[number-1])
		}
	}
	large := strings.Repeat(`{"seq":7,"step":"finished"}`+"\n", 1<<20)
	file := &counted{ReaderAt: strings.NewReader(large)}
	if at := below(file, int64(len(large)), 7); at != 0 || file.bytes > len(large)/10 {
		t.Errorf("it is %d, and %d of %d bytes were read", at, file.bytes, len(large))
	}
}
