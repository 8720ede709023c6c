// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/state"
)

// filled makes a directory with a bucket and a log of several blocks.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	e := open(t, state.Options{Dir: dir})
	kv, l := bucket(t, e, state.Space{Name: "calls"}), logOf(t, e, state.Space{Name: "events"})
	for i := range 100 {
		must[state.Revision](t)(kv.Put(t.Context(), fmt.Sprint(i), fmt.Appendf(nil, "value %d", i), 0))
		must[uint64](t)(l.Append(t.Context(), "t", bytes.Repeat([]byte{byte(i)}, 200<<10)))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree returns the digests of all files in a directory, but for the lock.
func tree(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	files := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "lock" {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestReopen(t *testing.T) {
	dir := filled(t)
	for range 2 {
		e := open(t, state.Options{Dir: dir})
		kv := bucket(t, e, state.Space{Name: "calls"})
		wants(t, kv, "7", "value 7")
		if n := len(must[[]state.Record](t)(logOf(t, e, state.Space{Name: "events"}).Read(t.Context(), "t", 0, 1000))); n != 100 {
			t.Errorf("%d records are left of 100", n)
		}
		if _, err := kv.Create(t.Context(), "7", nil, 0); !errors.Is(err, state.ErrConflict) {
			t.Errorf("Create of what was there before: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory's mode is %v, %v", info.Mode(), err)
	}
}

// TestDamagedDirectory: a directory that is not what was written is refused with where and
// what to do, and nothing in it changes.
func TestDamagedDirectory(t *testing.T) {
	overwrite := func(t *testing.T, name string, change func([]byte) []byte) {
		t.Helper()
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, change(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 1; return b }
	}
	whole := filled(t)
	const calls, events = "jetstream/$G/streams/KV_ts-calls/", "jetstream/$G/streams/LOG_ts-events/"
	for name, damage := range map[string]func(t *testing.T, dir string){
		"bit in the first record": func(t *testing.T, dir string) { overwrite(t, dir+"/"+calls+"msgs/1.blk", flip(40)) },
		"bit in the last record":  func(t *testing.T, dir string) { overwrite(t, dir+"/"+calls+"msgs/1.blk", flip(-1)) },
		"bit in the last block":   func(t *testing.T, dir string) { overwrite(t, dir+"/"+lastBlock(t, dir, events), flip(-20)) },
		"half a block": func(t *testing.T, dir string) {
			overwrite(t, dir+"/"+calls+"msgs/1.blk", func(b []byte) []byte { return b[:len(b)/2] })
		},
		"zeros": func(t *testing.T, dir string) {
			overwrite(t, dir+"/"+calls+"msgs/1.blk", func(b []byte) []byte { clear(b[len(b)/2:]); return b })
		},
		"missing block": func(t *testing.T, dir string) { os.Remove(dir + "/" + lastBlock(t, dir, events)) },
		"missing space": func(t *testing.T, dir string) { os.RemoveAll(dir + "/" + calls) },
		"configuration": func(t *testing.T, dir string) { overwrite(t, dir+"/"+calls+"meta.inf", flip(30)) },
		"checksum":      func(t *testing.T, dir string) { overwrite(t, dir+"/"+calls+"meta.sum", flip(3)) },
		"no manifest":   func(t *testing.T, dir string) { os.Remove(dir + "/state.json") },
		"manifest": func(t *testing.T, dir string) {
			overwrite(t, dir+"/state.json", func(b []byte) []byte { return []byte("{}") })
		},
		"everything": func(t *testing.T, dir string) { os.RemoveAll(dir + "/jetstream") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if out, err := exec.Command("cp", "-a", whole, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			damage(t, dir)
			before := tree(t, dir)
			for range 2 {
				_, err := state.Open(t.Context(), state.Options{Dir: dir})
				if !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "toolserver state restore") {
					t.Fatalf("Open: %v", err)
				}
				if after := tree(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("files changed: %d, and %d before", len(after), len(before))
				}
			}
		})
	}
}

func lastBlock(t *testing.T, dir, stream string) string {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, stream, "msgs", "*.blk"))
	if err != nil || len(blocks) < 2 {
		t.Fatalf("the blocks of %s are %v, %v", stream, blocks, err)
	}
	name, err := filepath.Rel(dir, blocks[len(blocks)-1])
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNewerDirectory(t *testing.T) {
	dir := filled(t)
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"version":2,"new":"field"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	_, err := state.Open(t.Context(), state.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir+" is of a newer toolserver: its version is 2, and this one knows 1") {
		t.Errorf("Open: %v", err)
	}
	if after := tree(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("files changed")
	}
}

func TestTwoOnOneDirectory(t *testing.T) {
	dir := filled(t)
	first := open(t, state.Options{Dir: dir})
	_, err := state.Open(t.Context(), state.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "another process uses the state in "+dir) {
		t.Errorf("Open: %v", err)
	}
	wants(t, bucket(t, first, state.Space{Name: "calls"}), "7", "value 7")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, state.Options{Dir: dir})
}

func TestBadDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/none"} {
		if _, err := state.Open(t.Context(), state.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(dir, "/below")) {
			t.Errorf("Open on %s: %v", dir, err)
		}
	}
}

// TestVolatile: what is kept in memory is forgotten with the engine, and missed by nobody.
func TestVolatile(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		e := open(t, state.Options{Dir: dir})
		kv := bucket(t, e, state.Space{Name: "limits", Volatile: true})
		must[state.Revision](t)(kv.Create(t.Context(), "k", nil, 0))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClosed: a closed engine says so at once.
func TestClosed(t *testing.T) {
	e := open(t, state.Options{})
	kv, l := bucket(t, e, state.Space{Name: "calls"}), logOf(t, e, state.Space{Name: "events"})
	watch := watch(t, kv, "")
	watch.caughtUp(t)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-watch.ended; !errors.Is(err, state.ErrWatchCut) {
		t.Errorf("Watch: %v", err)
	}
	begun := time.Now()
	_, put := kv.Put(t.Context(), "k", nil, 0)
	_, appended := l.Append(t.Context(), "t", nil)
	for _, err := range []error{put, appended, e.Health(t.Context())} {
		if !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := e.Close(); err != nil || time.Since(begun) > time.Minute {
		t.Errorf("Close again: %v", err)
	}
}
