// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/artifact"
)

var alice = artifact.SessionID{Owner: "alice", Session: "one"}

func open(t *testing.T, config artifact.Config) *artifact.Store {
	t.Helper()
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	s, err := artifact.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func create(t *testing.T, s *artifact.Store, of artifact.SessionID) *artifact.Writer {
	t.Helper()
	w, err := s.Create(of, "stdout.txt", "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// keep makes an artifact of n bytes.
func keep(t *testing.T, s *artifact.Store, of artifact.SessionID, n int) artifact.Info {
	t.Helper()
	w := create(t, s, of)
	if got, err := w.Write(bytes.Repeat([]byte("x"), n)); got != n || err != nil {
		t.Fatalf("Write: %d, %v", got, err)
	}
	return w.Close()
}

func read(s *artifact.Store, owner, id string, offset, limit uint64) (string, error) {
	_, r, err := s.Read(owner, id, offset, limit)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func is(s *artifact.Store, owner string, info artifact.Info) bool {
	_, err := read(s, owner, info.ID, 0, 0)
	return err == nil
}

func TestReadRanges(t *testing.T) {
	s := open(t, artifact.Config{})
	w := create(t, s, alice)
	w.Write([]byte("hello "))
	if got, err := read(s, "alice", w.Info().ID, 0, 0); got != "hello " || err != nil {
		t.Errorf("while it is written: %q, %v", got, err)
	}
	w.Write([]byte("world"))
	info := w.Close()
	if info.Size != 11 || info.Written != 11 || !info.Complete || info.Incomplete != "" || info.Name != "stdout.txt" || info.MediaType != "text/plain" {
		t.Errorf("info %+v", info)
	}
	w.Write([]byte("late"))
	if again := w.Close(); again != info {
		t.Errorf("closed again: %+v", again)
	}
	for _, test := range []struct {
		offset, limit uint64
		want          string
		err           error
	}{
		{0, 0, "hello world", nil},
		{6, 0, "world", nil},
		{0, 5, "hello", nil},
		{6, 100, "world", nil},
		{11, 0, "", nil},
		{12, 0, "", artifact.ErrBeyond},
		{1 << 63, 1 << 63, "", artifact.ErrBeyond},
		{1, 1<<64 - 1, "ello world", nil},
	} {
		if got, err := read(s, "alice", info.ID, test.offset, test.limit); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%d, %d: %q, %v", test.offset, test.limit, got, err)
		}
	}
}

// TestOwners proves that somebody else's artifact is not told from none.
func TestOwners(t *testing.T) {
	s := open(t, artifact.Config{})
	info := keep(t, s, alice, 10)
	_, theirs := read(s, "bob", info.ID, 0, 0)
	_, nobodys := read(s, "bob", strings.Repeat("a", len(info.ID)), 0, 0)
	if !errors.Is(theirs, artifact.ErrNotFound) || strings.ReplaceAll(theirs.Error(), info.ID, strings.Repeat("a", len(info.ID))) != nobodys.Error() {
		t.Errorf("%v, but %v for one that never was", theirs, nobodys)
	}
	if _, err := read(s, "bob", info.ID, 99, 0); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("beyond the end of somebody else's: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		s := open(t, artifact.Config{MaxBytes: 10})
		w := create(t, s, alice)
		for range 4 {
			w.Write([]byte("1234567"))
		}
		info := w.Close()
		if info.Size != 10 || info.Written != 28 || info.Complete || !strings.Contains(info.Incomplete, "first 10 bytes") {
			t.Errorf("%+v", info)
		}
		if got, err := read(s, "alice", info.ID, 0, 0); got != "1234567123" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("session", func(t *testing.T) {
		s := open(t, artifact.Config{MaxSessionBytes: 100})
		other := keep(t, s, artifact.SessionID{Owner: "alice", Session: "two"}, 90)
		first, second := keep(t, s, alice, 40), keep(t, s, alice, 40)
		third := keep(t, s, alice, 40)
		if is(s, "alice", first) || !is(s, "alice", second) || !is(s, "alice", third) || !is(s, "alice", other) {
			t.Error("not the oldest of the session made room")
		}
	})
	t.Run("total", func(t *testing.T) {
		s := open(t, artifact.Config{MaxTotalBytes: 100})
		bob := artifact.SessionID{Owner: "bob", Session: "one"}
		first, second := keep(t, s, alice, 40), keep(t, s, bob, 40)
		third := keep(t, s, bob, 40)
		if is(s, "alice", first) || !is(s, "bob", second) || !is(s, "bob", third) {
			t.Error("not the oldest of all made room")
		}
	})
	t.Run("being written", func(t *testing.T) {
		s := open(t, artifact.Config{MaxTotalBytes: 100})
		w := create(t, s, alice)
		w.Write(make([]byte, 70))
		info := keep(t, s, alice, 40)
		if info.Size != 30 || info.Complete || !strings.Contains(info.Incomplete, "server") {
			t.Errorf("%+v", info)
		}
		if end := w.Close(); !end.Complete || !is(s, "alice", end) {
			t.Errorf("what was being written went: %+v", end)
		}
	})
	t.Run("count", func(t *testing.T) {
		s := open(t, artifact.Config{MaxCount: 2})
		first, second := keep(t, s, alice, 1), create(t, s, alice)
		third := create(t, s, alice)
		if is(s, "alice", first) {
			t.Error("the oldest did not make room")
		}
		if _, err := s.Create(alice, "", ""); err == nil {
			t.Error("three at once were created")
		}
		second.Close()
		third.Close()
	})
}

func TestExpires(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, artifact.Config{Dir: dir, TTL: time.Minute})
		w := create(t, s, alice)
		first := keep(t, s, alice, 5)
		time.Sleep(30 * time.Second)
		second := keep(t, s, alice, 5)
		_, r, err := s.Read("alice", first.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if is(s, "alice", first) || !is(s, "alice", second) {
			t.Error("not what was due expired")
		}
		if data, err := io.ReadAll(r); len(data) != 5 || err != nil {
			t.Errorf("one that expired while it was read: %q, %v", data, err)
		}
		r.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if is(s, "alice", second) || !is(s, "alice", w.Info()) {
			t.Error("the second is there, or what is being written is not")
		}
		w.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := files(t, dir); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// files returns what artifacts are on the disk.
func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "artifacts-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEndOfSession(t *testing.T) {
	dir := t.TempDir()
	s := open(t, artifact.Config{Dir: dir, MaxTotalBytes: 100})
	done, w := keep(t, s, alice, 10), create(t, s, alice)
	other := keep(t, s, artifact.SessionID{Owner: "alice", Session: "two"}, 10)
	w.Write([]byte("some"))
	s.End(alice)
	w.Write([]byte("more"))
	info := w.Close()
	if is(s, "alice", done) || is(s, "alice", info) || !is(s, "alice", other) {
		t.Error("not what belongs to the session went")
	}
	if info.Complete || info.Incomplete == "" || info.Written != 8 {
		t.Errorf("%+v", info)
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if info := keep(t, s, alice, 90); !info.Complete || !is(s, "alice", other) {
		t.Errorf("what went still counts: %+v", info)
	}
}

// TestDirectory looks at the disk: nothing before the first artifact, nobody else
// may read it, nothing after the end, and what a dead server left goes.
func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, artifact.Config{Dir: dir})
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the first artifact: %v", err)
	}
	keep(t, s, alice, 10)
	file := files(t, dir)[0]
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): os.ModeDir | 0o700} {
		if stat, err := os.Stat(path); err != nil || stat.Mode() != want {
			t.Errorf("%s: %v, %v", path, stat.Mode(), err)
		}
	}

	// Another server leaves what is in use, and removes what is not.
	dead := filepath.Join(dir, "artifacts-dead")
	if err := errors.Join(os.Mkdir(dead, 0o700), os.WriteFile(filepath.Join(dead, "a"), nil, 0o600), os.WriteFile(dead+".lock", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	open(t, artifact.Config{Dir: dir})
	if left := files(t, dir); len(left) != 1 || left[0] != file {
		t.Errorf("after another server began: %v", left)
	}
	s.Close()
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("after the end: %v, %v", left, err)
	}
	if _, err := s.Create(alice, "", ""); !errors.Is(err, artifact.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestMany writes, reads and ends at the same time, within limits.
func TestMany(t *testing.T) {
	s := open(t, artifact.Config{MaxBytes: 1000, MaxSessionBytes: 5000, MaxTotalBytes: 8000, MaxCount: 30})
	var all sync.WaitGroup
	for i := range 8 {
		of := artifact.SessionID{Owner: "alice", Session: string(rune('a' + i%3))}
		all.Go(func() {
			for n := range 100 {
				w, err := s.Create(of, "x", "")
				if err != nil {
					t.Error(err)
					return
				}
				var parts sync.WaitGroup
				for range 3 {
					parts.Go(func() { w.Write(bytes.Repeat([]byte{byte(n)}, 400)) })
				}
				if data, err := read(s, "alice", w.Info().ID, 0, 0); err == nil && strings.Trim(data, string([]byte{byte(n)})) != "" {
					t.Errorf("read %q", data)
				}
				parts.Wait()
				if info := w.Close(); info.Written != 1200 || info.Complete {
					t.Errorf("%+v", info)
				}
				if n%10 == 0 {
					s.End(of)
				}
			}
		})
	}
	all.Wait()
	for _, session := range []string{"a", "b", "c"} {
		s.End(artifact.SessionID{Owner: "alice", Session: session})
	}
	for range 8 { // nothing counts that is not there
		if info := keep(t, s, alice, 625); !info.Complete {
			t.Fatalf("%+v", info)
		}
	}
}

// TestLastingArtifacts: complete artifacts are there when a store is opened again, until
// their time is over or their session ends; what was being written is not, and leaves
// nothing behind.
func TestLastingArtifacts(t *testing.T) {
	dir := t.TempDir()
	open := func(installation string) *artifact.Store {
		s, err := artifact.OpenLasting(artifact.Config{Dir: dir, TTL: time.Hour}, installation)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open("a")
	whole := create(t, first, alice)
	whole.Write([]byte("kept"))
	info := whole.Close()
	create(t, first, alice).Write([]byte("half"))
	ended := create(t, first, artifact.SessionID{Owner: "alice", Session: "ends"})
	ended.Close()
	first.End(artifact.SessionID{Owner: "alice", Session: "ends"})
	// The first store is not closed: its process was killed.
	for range 2 {
		s := open("a")
		if got, err := read(s, "alice", info.ID, 1, 0); err != nil || got != "ept" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := read(s, "bob", info.ID, 0, 0); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("somebody else reads it: %v", err)
		}
		if n, bytes := s.Stats(); n != 1 || bytes != 4 {
			t.Errorf("%d artifacts of %d bytes", n, bytes)
		}
		if list, _ := s.List(alice); len(list) != 1 || !list[0].Complete || !list[0].Expires.Equal(info.Expires) {
			t.Errorf("%+v, want %+v", list, info)
		}
		s.Close()
	}
	if n, _ := open("b").Stats(); n != 0 {
		t.Errorf("another installation has %d", n)
	}
	s := open("a")
	s.End(alice)
	s.Close()
	if files, err := os.ReadDir(filepath.Join(dir, "installation-a")); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}
