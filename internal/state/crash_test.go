// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/state"
)

// childVariable names the directory to a child that writes until it is killed.
const childVariable = "TOOLSERVER_STATE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		fmt.Fprintln(os.Stderr, writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	childWriters = 4
	childBucket  = "calls"
	childLog     = "audit"
)

// writeForEver writes numbers that grow, in one bucket and one log, and says each one that
// was acknowledged: those are promised.
func writeForEver(dir string) error {
	ctx := context.Background()
	e, err := state.Open(ctx, state.Options{Dir: dir})
	if err != nil {
		return err
	}
	kv, err := e.KV(ctx, state.Space{Name: childBucket})
	if err != nil {
		return err
	}
	l, err := e.Log(ctx, state.Space{Name: childLog})
	if err != nil {
		return err
	}
	failed := make(chan error)
	var say sync.Mutex
	for w := range childWriters {
		go func() { failed <- writeNumbers(ctx, kv, l, &say, w) }()
	}
	return <-failed
}

func writeNumbers(ctx context.Context, kv state.KV, l state.Log, say *sync.Mutex, w int) error {
	key := fmt.Sprint("writer/", w)
	entry, err := kv.Get(ctx, key)
	if err != nil {
		if entry.Revision, err = kv.Create(ctx, key, []byte("0"), 0); err != nil {
			return err
		}
		entry.Value = []byte("0")
	}
	n, err := strconv.Atoi(string(entry.Value))
	for err == nil {
		n++
		if entry.Revision, err = kv.Update(ctx, key, strconv.AppendInt(nil, int64(n), 10), entry.Revision, 0); err != nil {
			return err
		}
		if _, err = kv.Create(ctx, fmt.Sprint("made/", w, "/", n), make([]byte, n%5000), 0); err != nil {
			return err
		}
		if _, err = l.Append(ctx, key, strconv.AppendInt(nil, int64(n), 10)); err != nil {
			return err
		}
		say.Lock()
		_, err = fmt.Println(w, n)
		say.Unlock()
	}
	return err
}

// promise is a number that was acknowledged to a writer.
type promise struct{ writer, number int }

// TestKilled kills a process that writes, again and again: its directory opens, and has all
// that was acknowledged.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	var all, unchecked []promise
	for round := range soaktest.Times(6, 100) {
		said := killed(t, dir, rand.IntN(200))
		all, unchecked = append(all, said...), append(unchecked, said...)
		if round%3 == 1 {
			continue // the next one finds what a killed one left
		}
		checkPromised(t, dir, unchecked)
		unchecked = nil
	}
	checkPromised(t, dir, all)
	t.Logf("%d were promised, in three writes each", len(all))
}

// killed runs a child until it has said some lines, kills it, and returns what it said.
func killed(t *testing.T, dir string, lines int) (promised []promise) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childVariable+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for n := 0; said.Scan(); n++ {
		var p promise
		if _, err := fmt.Sscan(said.Text(), &p.writer, &p.number); err == nil {
			promised = append(promised, p)
		}
		if n == lines {
			child.Process.Kill()
		}
	}
	child.Process.Kill()
	if err := child.Wait(); err == nil || child.ProcessState.Exited() {
		t.Fatalf("the child was not killed: %v", err)
	}
	return promised
}

func checkPromised(t *testing.T, dir string, promised []promise) {
	t.Helper()
	core, said := observer.New(zap.WarnLevel)
	e, err := state.Open(t.Context(), state.Options{Dir: dir, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range said.Filter(func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, "TTL state is outdated") }).All() {
		t.Errorf("what a kill leaves is mended, and the operator is told %q", entry.Message)
	}
	kv, l := bucket(t, e, state.Space{Name: childBucket}), logOf(t, e, state.Space{Name: childLog})
	stored := make(map[string]bool)
	for _, r := range must[[]state.Record](t)(l.Read(t.Context(), "", 0, 1<<30)) {
		stored[r.Topic+" "+string(r.Data)] = true
	}
	for _, p := range promised {
		key := fmt.Sprint("writer/", p.writer)
		entry := must[state.Entry](t)(kv.Get(t.Context(), key))
		if got, err := strconv.Atoi(string(entry.Value)); err != nil || got < p.number {
			t.Errorf("%+v, and the entry has %q", p, entry.Value)
		}
		must[state.Entry](t)(kv.Get(t.Context(), fmt.Sprint("made/", p.writer, "/", p.number)))
		if !stored[fmt.Sprint(key, " ", p.number)] {
			t.Errorf("%+v, and the log does not have it", p)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
