// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"
)

// TestDiskFull proves that a full disk neither stops calls nor breaks the chain:
// what fits in memory is written when there is room, and what was lost is counted.
func TestDiskFull(t *testing.T) {
	for _, how := range []func(*faultyFile){
		func(f *faultyFile) { f.room = 0 },
		func(f *faultyFile) { f.room = 100 },
		func(f *faultyFile) { f.room, f.noCut = 100, true },
	} {
		faulty(t, Options{MaxQueued: 10_000}, func(t *testing.T, l *Log, f *faultyFile, path string, logs *observer.ObservedLogs) {
			add(t, l, Record{Step: Started, CallID: "before"})
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			f.set(func() { how(f) })
			for i := range 100 {
				add(t, l, Record{Step: Started, CallID: fmt.Sprint("c", i)})
				time.Sleep(100 * time.Millisecond)
			}
			if err := l.Flush(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errDisk) {
				t.Errorf("Flush: %v", err)
			}
			stats := l.Stats()
			if stats.Lost == 0 || !errors.Is(stats.Failing, errDisk) || stats.Queued > 10_000 || stats.Head.Seq != 2 {
				t.Errorf("%+v", stats)
			}
			f.set(func() { f.room, f.noCut = -1, false })
			time.Sleep(2 * time.Second)
			add(t, l, Record{Step: Finished, CallID: "after"})
			if err := l.Flush(); err != nil {
				t.Error(err)
			}
			mustClose(t, l)
			report := verified(t, path)
			if report.Lost != stats.Lost {
				t.Errorf("the log says that %d are lost, want %d", report.Lost, stats.Lost)
			}
			if want := 2 + 100 - stats.Lost + 1 + 1 + 1; report.Records != want { // a gap, after, closed
				t.Errorf("%d records, want %d", report.Records, want)
			}
			if s := steps(t, readFile(t, path)); !strings.HasSuffix(s, "started gap finished closed") {
				t.Error(s)
			}
			if n := logs.FilterMessage("the audit log cannot be written").Len(); n != 1 {
				t.Errorf("logged %d times: %v", n, logs.All())
			}
			if n := logs.FilterMessage("the audit log can be written again").Len(); n != 1 {
				t.Errorf("the end was logged %d times", n)
			}
		})
	}
}

// TestCloseOnAFullDisk proves that Close says what is lost.
func TestCloseOnAFullDisk(t *testing.T) {
	faulty(t, Options{}, func(t *testing.T, l *Log, f *faultyFile, path string, _ *observer.ObservedLogs) {
		f.set(func() { f.room = 20 })
		add(t, l, Record{Step: Started})
		if err := l.Close(); err == nil || !strings.Contains(err.Error(), "are lost") {
			t.Errorf("got %v", err)
		}
		if s := steps(t, readFile(t, path)); s != "opened" {
			t.Error(s)
		}
		verified(t, path)
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, bench := range []struct {
		name    string
		options Options
	}{
		{"none", Options{}},
		{"interval", Options{Config: Config{Sync: SyncInterval}}},
		{"always", Options{Config: Config{Sync: SyncAlways}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := open(b, filepath.Join(b.TempDir(), "audit.jsonl"), bench.options)
			records := aCall("1")
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				l.Append(records[i%len(records)])
				if i++; i%1000 == 0 { // Append is measured, not the disk behind it
					b.StopTimer()
					l.Flush()
					b.StartTimer()
				}
			}
			mustClose(b, l)
		})
	}
	b.Run("in place", func(b *testing.B) { // what Append would cost if it did all but write
		c := &chain{}
		records := aCall("1")
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			c.pending = c.pending[:0]
			c.add(&records[i%len(records)])
			i++
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	text := []byte(written(b, 200))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Verify(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
