// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string, options Options) *Log {
	t.Helper()
	options.File = path
	l, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func add(t testing.TB, l *Log, records ...Record) {
	t.Helper()
	for _, r := range records {
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func verified(t testing.TB, path string) Report {
	t.Helper()
	report, err := Verify(strings.NewReader(readFile(t, path)))
	if err != nil {
		t.Fatalf("%v: %+v", err, report)
	}
	return report
}

// steps returns the steps of the records of a log.
func steps(t testing.TB, text string) string {
	t.Helper()
	var words []string
	for line := range strings.Lines(text) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		words = append(words, string(r.Step))
	}
	return strings.Join(words, " ")
}

// aCall is what a call leaves behind.
func aCall(id string) []Record {
	call := Record{
		Principal: "ann", SessionID: "default", ExecutionID: "x" + id, CallID: id, Tool: "write_file",
		InputDigest: sha256.Sum256([]byte(id)), InputBytes: 31, InputShape: "path:string(9) content:string(12)",
	}
	proposed, verdict, approval, started, finished := call, call, call, call, call
	proposed.Step, verdict.Step, approval.Step, started.Step, finished.Step = Proposed, Verdict, Approval, Started, Finished
	verdict.Policy, verdict.Action, verdict.Rule, verdict.Reason = "v7", "ask", "mode ask", "The session asks before anything is changed."
	approval.Action, approval.By, approval.From, approval.Comment, approval.DurationMs = "allow", "bob", "192.0.2.7:41", "fine — “go on”", 1234.5678
	finished.Outcome, finished.DurationMs = "succeeded", 12
	return []Record{proposed, verdict, approval, started, finished}
}

// written returns a log of some calls.
func written(t testing.TB, calls int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, Options{})
	for i := range calls {
		add(t, l, aCall(fmt.Sprint(i))...)
	}
	mustClose(t, l)
	return readFile(t, path)
}

// TestChain checks a log by the rule in the package's documentation, and that
// any JSON decoder reads back what was recorded.
func TestChain(t *testing.T) {
	text := written(t, 3)
	var prev string = strings.Repeat("0", 64)
	want := append(append([]Record{{Step: Opened}}, append(append(aCall("0"), aCall("1")...), aCall("2")...)...), Record{Step: Closed})
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		body, rest, _ := strings.Cut(line, `,"hash":"`)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
		if rest != hash+`"}` || !strings.HasSuffix(body, `,"prev":"`+prev+`"`) {
			t.Fatalf("line %d: %s", i+1, line)
		}
		prev = hash
		var got Record
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if got.Seq != uint64(i+1) || got.Time.IsZero() || got.Hash.String() != hash {
			t.Errorf("line %d: %+v", i+1, got)
		}
		got.Seq, got.Time, got.Prev, got.Hash = 0, time.Time{}, Digest{}, Digest{}
		want[i].DurationMs = math.Round(want[i].DurationMs*1000) / 1000
		if got != want[i] {
			t.Errorf("line %d:\ngot  %+v\nwant %+v", i+1, got, want[i])
		}
	}
	report, err := Verify(strings.NewReader(text))
	if err != nil || report.Records != 17 || !report.Ended || report.Last.Hash.String() != prev || report.First.Seq != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestFileMode proves that a log is for its owner alone.
func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	mustClose(t, open(t, path, Options{}))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestOtherNames has a second server write the log by another name.
func TestOtherNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	l := open(t, path, Options{Config: Config{MaxBytes: 1000}})
	check := func(name string, link func(string, string) error) {
		t.Helper()
		other := filepath.Join(dir, name)
		if err := link(path, other); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Config: Config{File: other}}); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("linked", os.Symlink)
	check("the same", os.Link)
	for range 20 { // into the next file
		add(t, l, Record{Step: Started})
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if len(fullFiles(path)) == 0 {
		t.Fatal("there is no second file")
	}
	check("the next", os.Link)
	mustClose(t, l)
	mustClose(t, open(t, path, Options{}))
}

// TestFileIsTakenAway removes and renames the file that is written, as other
// programs do that rotate logs.
func TestFileIsTakenAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, Options{})
	step := func() error {
		add(t, l, Record{Step: Started})
		return l.Flush()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(step())
	must(os.Rename(path, path+".old"))
	must(step())
	must(os.WriteFile(path+".other", []byte("something else\n"), 0o600))
	must(os.Rename(path, path+".second"))
	must(os.Rename(path+".other", path))
	if err := step(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("another file is in its place: %v", err)
	}
	must(os.Remove(path))
	must(step())
	must(os.Remove(path))
	must(os.WriteFile(path, nil, 0o600))
	must(step())
	mustClose(t, l)

	var v Verifier
	for _, name := range []string{path + ".old", path + ".second"} {
		f, err := os.Open(name)
		must(err)
		must(v.Read(name, f))
		must(f.Close())
	}
	if report, err := v.Report(); err != nil || report.Records < 4 {
		t.Errorf("%+v, %v", report, err)
	}
	if report := verified(t, path); report.First.Seq < 6 || !report.Ended || report.Lost != 0 {
		t.Errorf("%+v", report)
	}
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for range 3 {
		l := open(t, path, Options{Config: Config{Sync: SyncInterval}})
		if _, err := Open(Options{Config: Config{File: path}}); !errors.Is(err, ErrLocked) {
			t.Errorf("a second server: %v", err)
		}
		add(t, l, Record{Step: Started})
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if stats, report := l.Stats(), verified(t, path); stats.Head != report.Last || report.Ended || stats.Queued != 0 {
			t.Errorf("%+v, %+v", stats, report)
		}
		mustClose(t, l)
		mustClose(t, l)
		if l.Append(Record{}) != ErrClosed || l.Flush() != ErrClosed {
			t.Error("used after Close")
		}
	}
	if got, want := steps(t, readFile(t, path)), strings.TrimSpace(strings.Repeat("opened started closed ", 3)); got != want {
		t.Errorf("got %s", got)
	}
	verified(t, path)
	if !strings.HasPrefix(readFile(t, path), `{"seq":1,`) {
		t.Error("the chain does not begin with 1")
	}
}

// TestTornEnd proves that whatever a crash leaves of the last line is put aside
// and noted, and that the chain goes on.
func TestTornEnd(t *testing.T) {
	text := written(t, 1)
	whole := strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1
	tails := []string{strings.Repeat("\x00", 4096)}
	for i := whole + 1; i < len(text); i++ {
		tails = append(tails, text[whole:i], text[whole:i]+"\x00\x00")
	}
	for _, tail := range tails {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, []byte(text[:whole]+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Verify(strings.NewReader(text[:whole] + tail))
		if !errors.Is(err, ErrBroken) || report.Problems[0].Kind != Torn || report.Problems[0].Line != 7 {
			t.Fatalf("%+v, %v", report, err)
		}
		mustClose(t, open(t, path, Options{}))
		got := readFile(t, path)
		if !strings.HasPrefix(got, text[:whole]) {
			t.Fatal("whole records were touched")
		}
		if s := steps(t, got[whole:]); s != "recovered opened closed" {
			t.Fatalf("got %s", s)
		}
		if !strings.Contains(got, `"reason":"the log was not closed before"`) {
			t.Error("the opening does not say that the log was not closed")
		}
		if r := verified(t, path); r.Recovered != 1 {
			t.Fatalf("%+v", r)
		}
		if readFile(t, path+".torn") != tail {
			t.Fatal("the torn end was not kept")
		}
	}
}

// TestTornFirstLine is a crash within the first record of all.
func TestTornFirstLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"seq":1,"ti`), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, open(t, path, Options{}))
	if s := steps(t, readFile(t, path)); s != "recovered opened closed" {
		t.Errorf("got %s", s)
	}
	verified(t, path)
}

// TestNotOurs proves that a file which is not a log, or is broken at its end, is
// neither extended nor touched.
func TestNotOurs(t *testing.T) {
	text := written(t, 1)
	for _, content := range []string{
		"hello\n", "hello", "\n", strings.Replace(text, `"step":"closed"`, `"step":"opened"`, 1), text + "{}\n",
		strings.Repeat("x", 3*maxLine), `{"seq":` + strings.Repeat("1", 3*maxLine), text + "\n",
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(Options{Config: Config{File: path}}); !errors.Is(err, ErrBroken) {
			t.Errorf("%.20q: %v", content, err)
			if err == nil {
				l.Close()
			}
		}
		if readFile(t, path) != content {
			t.Errorf("%.20q was changed", content)
		}
	}
	if _, err := Open(Options{Config: Config{File: t.TempDir()}}); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := Open(Options{Config: Config{File: ""}}); err == nil {
		t.Error("a log without a place was opened")
	}
}

// TestHugeFields proves that no record makes a line longer than what is read
// back, and that what was cut says so.
func TestHugeFields(t *testing.T) {
	for _, unit := range []string{"x", "\x00", "\xff", "ü", "\u202e", "😀", `"`} {
		huge := strings.Repeat(unit, 1<<20)
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		l := open(t, path, Options{MaxQueued: 1 << 30})
		add(t, l, Record{
			Step: Step(huge), Principal: huge, SessionID: huge, ExecutionID: huge, CallID: huge, Trace: huge, Tool: huge,
			InputShape: huge, Input: huge, Policy: huge, Action: huge, Rule: huge, Reason: huge,
			By: huge, From: huge, Comment: huge, Outcome: huge,
			InputBytes: math.MaxInt, DurationMs: math.MaxFloat64, Count: math.MaxUint64,
		}, Record{Step: Started, DurationMs: math.NaN()}, Record{Step: Started, DurationMs: math.Inf(1)})
		mustClose(t, l)
		verified(t, path)
		for line := range strings.Lines(readFile(t, path)) {
			if len(line) > maxLine {
				t.Errorf("%q: a line of %d bytes", unit, len(line))
			}
		}
		if !strings.Contains(readFile(t, path), " bytes more)") {
			t.Errorf("%q: nothing says that it was cut", unit)
		}
	}
}

func TestConcurrentAppends(t *testing.T) {
	for _, options := range []Options{
		{}, {Config: Config{Sync: SyncInterval}, Interval: time.Millisecond}, {Config: Config{Sync: SyncAlways}}, {Config: Config{MaxBytes: 20_000}},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		var copied bytes.Buffer
		options.Copy = &copied
		l := open(t, path, options)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 20 {
					add(t, l, aCall(fmt.Sprint(i))...)
					if i%7 == 0 {
						l.Flush()
					}
					l.Stats()
				}
			})
		}
		wg.Wait()
		mustClose(t, l)
		if _, err := Verify(&copied); err != nil {
			t.Errorf("the copy: %v", err)
		}
		var v Verifier
		files := append(fullFiles(path), path)
		for _, name := range files {
			if err := v.Read(name, strings.NewReader(readFile(t, name))); err != nil {
				t.Fatal(err)
			}
		}
		report, err := v.Report()
		own := uint64(2 * len(files)) // opened and closed, rotated and continued
		if err != nil || report.Records != 8*20*5+own || report.Lost != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if options.MaxBytes > 0 && len(files) < 5 {
			t.Errorf("%d files", len(files))
		}
	}
}

// TestOnlyCopied is a log without a file.
func TestOnlyCopied(t *testing.T) {
	var out bytes.Buffer
	l := open(t, "", Options{Copy: &out})
	add(t, l, aCall("1")...)
	mustClose(t, l)
	if report, err := Verify(&out); err != nil || report.Records != 7 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRequired proves that a call can be refused when its record cannot be
// written.
func TestRequired(t *testing.T) {
	for _, sync := range []Sync{SyncNone, SyncInterval, SyncAlways} {
		faulty(t, Options{Config: Config{Required: true, Sync: sync}}, func(t *testing.T, l *Log, f *faultyFile, path string, _ *observer.ObservedLogs) {
			add(t, l, Record{Step: Started})
			f.set(func() { f.room = 0 })
			err := l.Append(Record{Step: Started})
			if sync == SyncAlways != (err != nil) {
				t.Errorf("the first: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
			if err := l.Append(Record{Step: Started}); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errDisk) {
				t.Errorf("while the disk is full: %v", err)
			}
			f.set(func() { f.room = -1 })
			time.Sleep(2 * time.Second)
			add(t, l, Record{Step: Finished})
			mustClose(t, l)
			if s := steps(t, readFile(t, path)); s != "opened started started gap finished closed" {
				t.Error(s)
			}
			verified(t, path)
		})
	}
	faulty(t, Options{Config: Config{Required: true}, MaxQueued: 2000}, func(t *testing.T, l *Log, _ *faultyFile, _ string, _ *observer.ObservedLogs) {
		var err error
		for range 10 { // faster than the disk
			err = errors.Join(err, l.Append(Record{Step: Started}))
		}
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("a full queue: %v", err)
		}
		mustClose(t, l)
	})
}

// TestAlways proves that with SyncAlways a record is on the disk before Append
// returns, that many share one sync, and that a disk that fails stops no call.
func TestAlways(t *testing.T) {
	faulty(t, Options{Config: Config{Sync: SyncAlways}}, func(t *testing.T, l *Log, f *faultyFile, path string, _ *observer.ObservedLogs) {
		before := f.syncs
		add(t, l, Record{Step: Started, CallID: "here"})
		if !strings.Contains(readFile(t, path), `"call_id":"here"`) || f.syncs != before+1 {
			t.Error("not on the disk")
		}
		f.set(func() { f.noSync = true })
		for range 10 {
			add(t, l, Record{Step: Started})
		}
		if l.Stats().Failing == nil {
			t.Error("nobody noticed")
		}
		time.Sleep(5 * time.Second)
		if l.Stats().Failing == nil {
			t.Error("a sync that failed was not tried again")
		}
		f.set(func() { f.noSync = false })
		time.Sleep(2 * time.Second)
		if err := l.Stats().Failing; err != nil {
			t.Error(err)
		}
		mustClose(t, l)
		if r := verified(t, path); r.Lost != 0 || r.Records != 13 {
			t.Errorf("%+v", r)
		}
	})
}

// TestInterval proves that records reach the file within milliseconds, and the
// disk every interval, and only where there are any.
func TestInterval(t *testing.T) {
	faulty(t, Options{Config: Config{Sync: SyncInterval}, Interval: 5 * time.Second}, func(t *testing.T, l *Log, f *faultyFile, path string, _ *observer.ObservedLogs) {
		syncs := func() (n int) { f.set(func() { n = f.syncs }); return n }
		before := syncs()
		add(t, l, Record{Step: Started, CallID: "here"})
		time.Sleep(10 * time.Millisecond)
		if !strings.Contains(readFile(t, path), `"call_id":"here"`) || syncs() != before {
			t.Error("not in the file, or on the disk too soon")
		}
		time.Sleep(5 * time.Second)
		if syncs() != before+1 {
			t.Error("not on the disk")
		}
		time.Sleep(time.Hour)
		if syncs() != before+1 {
			t.Error("synced for nothing")
		}
		mustClose(t, l)
	})
}
