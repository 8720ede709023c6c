// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestRotation proves that a chain goes on from file to file, also where a
// server died between two.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit[1].jsonl")
	l := open(t, path, Options{Config: Config{MaxBytes: 3000, Keep: 3}})
	for i := range 40 {
		add(t, l, aCall(fmt.Sprint(i))...)
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	files := fullFiles(path)
	if len(files) != 3 {
		t.Fatalf("%d full files are kept, want 3", len(files))
	}
	for _, name := range files {
		if s := steps(t, readFile(t, name)); !strings.HasPrefix(s, "continued ") || !strings.HasSuffix(s, " rotated") {
			t.Errorf("%s: %s", name, s)
		}
		if r := verified(t, name); !r.Ended || r.First.Seq < 2 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	whole := func() (Report, error) {
		var v Verifier
		for _, name := range append(fullFiles(path), path) {
			if err := v.Read(name, strings.NewReader(readFile(t, name))); err != nil {
				t.Fatal(err)
			}
		}
		return v.Report()
	}
	report, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	// The server died after it had renamed the file.
	renamed := fmt.Sprintf("%s.%012d", path, report.Last.Seq)
	if err := os.Rename(path, renamed); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", `{"seq":`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		mustClose(t, open(t, path, Options{Config: Config{MaxBytes: 3000}}))
		if s := steps(t, readFile(t, path)); !strings.HasPrefix(s, "continued ") {
			t.Errorf("got %s", s)
		}
		if _, err := whole(); err != nil {
			t.Error(err)
		}
	}
	// A file in the middle that is gone shows.
	if err := os.Remove(fullFiles(path)[1]); err != nil {
		t.Fatal(err)
	}
	if report, err := whole(); err == nil || report.Problems[0].Kind != Missing || report.Problems[0].Line != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A faultyFile is a file on a disk with troubles.
type faultyFile struct {
	file
	mu     sync.Mutex
	room   int // bytes that can be written; -1 means any
	noCut  bool
	noSync bool
	syncs  int
}

var errDisk = errors.New("no space left on device")

func (f *faultyFile) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room < 0 || len(p) <= f.room {
		return f.file.Write(p)
	}
	n, err := f.file.Write(p[:f.room])
	return n, errors.Join(err, errDisk)
}

func (f *faultyFile) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noCut {
		return errDisk
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncs++
	if f.noSync {
		return errDisk
	}
	return f.file.Sync()
}

// faulty opens a log on a faulty file, under a fake clock.
func faulty(t *testing.T, options Options, test func(t *testing.T, l *Log, f *faultyFile, path string, logs *observer.ObservedLogs)) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		f := &faultyFile{room: -1}
		core, logs := observer.New(zap.InfoLevel)
		options.Logger = zap.New(core)
		options.wrap = func(inner file) file { f.file = inner; return f }
		test(t, open(t, path, options), f, path, logs)
	})
}
