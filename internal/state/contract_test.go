// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/state/statetest"
)

// TestContract holds every kind of engine to what the package promises. Each test is
// given two engines: replicas of one cluster, or twice the same in this process.
func TestContract(t *testing.T) {
	tests := []struct {
		name string
		test func(t *testing.T, a, b state.Engine)
	}{
		{"Entries", testEntries},
		{"Races", testRaces},
		{"TTL", testTTL},
		{"Watch", testWatch},
		{"SnapshotIsWhole", testSnapshotIsWhole},
		{"Log", testLog},
		{"HostileKeys", testHostileKeys},
		{"Limits", testLimits},
		{"Health", testHealth},
	}
	engines := []struct {
		name string
		open func(t *testing.T) (a, b state.Engine)
	}{
		{"file", func(t *testing.T) (a, b state.Engine) {
			e := open(t, state.Options{Dir: t.TempDir()})
			return e, e
		}},
		{"memory", func(t *testing.T) (a, b state.Engine) {
			e := open(t, state.Options{})
			return e, e
		}},
		{"cluster", func(t *testing.T) (a, b state.Engine) {
			c := statetest.NewCluster(t, 3, nil)
			return open(t, state.Options{URL: c.Server(0)}), open(t, state.Options{URL: c.Server(1)})
		}},
	}
	for _, kind := range engines {
		t.Run(kind.name, func(t *testing.T) {
			a, b := kind.open(t)
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) { test.test(t, a, b) })
			}
		})
	}
}

func open(t testing.TB, options state.Options) state.Engine {
	t.Helper()
	e, err := state.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func bucket(t testing.TB, e state.Engine, space state.Space) state.KV {
	t.Helper()
	kv, err := e.KV(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func logOf(t testing.TB, e state.Engine, space state.Space) state.Log {
	t.Helper()
	l, err := e.Log(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// wants checks the value of an entry; "" is that there is none.
func wants(t testing.TB, kv state.KV, key, value string) state.Revision {
	t.Helper()
	entry, err := kv.Get(t.Context(), key)
	if value == "" && errors.Is(err, state.ErrNotFound) {
		return 0
	}
	if err != nil || entry.Key != key || string(entry.Value) != value {
		t.Fatalf("Get(%.40q) = %.40q, %v, want %.40q", key, entry.Value, err, value)
	}
	return entry.Revision
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func testEntries(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	kv, other := bucket(t, a, state.Space{Name: "entries"}), bucket(t, b, state.Space{Name: "entries"})
	wants(t, kv, "k", "")
	first := must[state.Revision](t)(kv.Create(ctx, "k", []byte("1"), 0))
	if got := wants(t, other, "k", "1"); got != first {
		t.Errorf("the revision is %d, want %d", got, first)
	}
	if _, err := other.Create(ctx, "k", []byte("x"), 0); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Create of what is there: %v", err)
	}
	second := must[state.Revision](t)(other.Update(ctx, "k", []byte("2"), first, 0))
	if second <= first {
		t.Errorf("revision %d follows %d", second, first)
	}
	if _, err := kv.Update(ctx, "k", []byte("x"), first, 0); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Update of an older revision: %v", err)
	}
	if _, err := kv.Update(ctx, "none", []byte("x"), second, 0); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Update of what is not there: %v", err)
	}
	third := must[state.Revision](t)(kv.Put(ctx, "k", []byte("3"), 0))
	if err := other.Delete(ctx, "k", second); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Delete of an older revision: %v", err)
	}
	wants(t, other, "k", "3")
	if err := other.Delete(ctx, "k", third); err != nil {
		t.Fatal(err)
	}
	wants(t, kv, "k", "")
	if _, err := kv.Update(ctx, "k", []byte("x"), third, 0); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Update of what was deleted: %v", err)
	}
	must[state.Revision](t)(kv.Create(ctx, "k", []byte("again"), 0)) // over the marker
	wants(t, other, "k", "again")
	for range 2 {
		if err := kv.Delete(ctx, "k", 0); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, other, "k", "")
	must[state.Revision](t)(kv.Put(ctx, "empty", nil, 0))
	if entry, err := other.Get(ctx, "empty"); err != nil || len(entry.Value) != 0 {
		t.Errorf("an empty value is %q, %v", entry.Value, err)
	}
	large := bytes.Repeat([]byte("x"), state.MaxValue)
	must[state.Revision](t)(kv.Put(ctx, "large", large, 0))
	wants(t, other, "large", string(large))
	if _, err := kv.Put(ctx, "large", append(large, 'x'), 0); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("a value that is too large: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := kv.Put(gone, "k", nil, 0); !errors.Is(err, context.Canceled) || errors.Is(err, state.ErrUnavailable) {
		t.Errorf("Put of a caller who is gone: %v", err)
	}
}

// testRaces: of many who create one entry, one wins, and no increment is lost or counted twice.
func testRaces(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	kvs := []state.KV{bucket(t, a, state.Space{Name: "races"}), bucket(t, b, state.Space{Name: "races"})}
	const racers = 8
	for round := range 20 {
		key := fmt.Sprint("claim/", round)
		var won atomic.Int64
		var winner atomic.Value
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				me := fmt.Sprint("racer", i)
				switch _, err := kvs[i%2].Create(ctx, key, []byte(me), 0); {
				case err == nil:
					won.Add(1)
					winner.Store(me)
				case !errors.Is(err, state.ErrConflict):
					t.Errorf("Create: %v", err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d won", won.Load())
		}
		wants(t, kvs[0], key, winner.Load().(string))
	}
	rev := must[state.Revision](t)(kvs[0].Create(ctx, "count", nil, 0))
	var all sync.WaitGroup
	const each = 25
	for i := range 4 {
		all.Go(func() {
			kv, last, have := kvs[i%2], rev, 0
			for added := 0; added < each; {
				next, err := kv.Update(ctx, "count", bytes.Repeat([]byte("1"), have+1), last, 0)
				switch {
				case err == nil:
					last, have, added = next, have+1, added+1
				case errors.Is(err, state.ErrConflict):
					entry, err := kv.Get(ctx, "count")
					if err != nil {
						t.Errorf("Get: %v", err)
						return
					}
					last, have = entry.Revision, len(entry.Value)
				default:
					t.Errorf("Update: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	wants(t, kvs[1], "count", strings.Repeat("1", 4*each))
}

// testTTL: an entry goes, never early, and watches are told; an update gives it more time.
func testTTL(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	kv, other := bucket(t, a, state.Space{Name: "ttl"}), bucket(t, b, state.Space{Name: "ttl"})
	changes := watch(t, other, "")
	changes.caughtUp(t)
	const ttl = 1500 * time.Millisecond
	begun := time.Now()
	long := strings.Repeat("long", 100)
	must[state.Revision](t)(kv.Create(ctx, "short", []byte("v"), ttl))
	must[state.Revision](t)(kv.Create(ctx, long, []byte("v"), ttl))
	lease := must[state.Revision](t)(kv.Create(ctx, "lease", []byte("1"), ttl))
	renewed := time.Now()
	must[state.Revision](t)(other.Update(ctx, "lease", []byte("2"), lease, 3*time.Second))
	ends := make(map[string]time.Duration)
	for len(ends) < 3 {
		if entry := changes.next(t); entry.Deleted {
			ends[entry.Key] = time.Since(begun)
		}
	}
	if ends["short"] < ttl || ends[long] < ttl || ends["lease"] < 3*time.Second-renewed.Sub(begun) {
		t.Errorf("entries went early: %v", ends)
	}
	for _, key := range []string{"short", long, "lease"} {
		wants(t, kv, key, "")
		must[state.Revision](t)(kv.Create(ctx, key, []byte("again"), 0))
	}
}

// watched collects what a watch tells.
type watched struct {
	entries chan state.Entry
	ended   chan error
}

func watch(t testing.TB, kv state.KV, prefix string) *watched {
	w := &watched{make(chan state.Entry, 1000), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ended <- kv.Watch(ctx, prefix, func(e state.Entry) { w.entries <- e })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *watched) next(t testing.TB) state.Entry {
	t.Helper()
	select {
	case e := <-w.entries:
		return e
	case err := <-w.ended:
		t.Fatalf("the watch ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the watch tells nothing")
	}
	return state.Entry{}
}

// caughtUp returns the snapshot.
func (w *watched) caughtUp(t testing.TB) []string {
	t.Helper()
	var list []string
	for {
		e := w.next(t)
		if e.Key == "" {
			slices.Sort(list)
			return list
		}
		if !e.Deleted {
			list = append(list, e.Key+"="+string(e.Value))
		}
	}
}

func testWatch(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	kv, other := bucket(t, a, state.Space{Name: "watch"}), bucket(t, b, state.Space{Name: "watch"})
	if got := watch(t, kv, "").caughtUp(t); len(got) != 0 {
		t.Errorf("an empty bucket has %q", got)
	}
	deep := strings.Repeat("d/", 12)
	for _, key := range []string{"a/1", "a/2", "a", "ab/1", "b/1", deep + "x", deep + "y"} {
		must[state.Revision](t)(kv.Put(ctx, key, []byte("1"), 0))
	}
	must[state.Revision](t)(kv.Put(ctx, "a/2", []byte("2"), 0))
	if err := kv.Delete(ctx, "b/1", 0); err != nil {
		t.Fatal(err)
	}
	all, below, far := watch(t, other, ""), watch(t, other, "a/"), watch(t, other, deep)
	for _, check := range []struct {
		w    *watched
		want []string
	}{
		{all, []string{"a/1=1", "a/2=2", "a=1", "ab/1=1", deep + "x=1", deep + "y=1"}},
		{below, []string{"a/1=1", "a/2=2"}},
		{far, []string{deep + "x=1", deep + "y=1"}},
	} {
		if got := check.w.caughtUp(t); !slices.Equal(got, check.want) {
			t.Errorf("the snapshot is %q, want %q", got, check.want)
		}
	}
	must[state.Revision](t)(kv.Put(ctx, "ab/1", []byte("3"), 0))
	revision := must[state.Revision](t)(kv.Put(ctx, "a/1", []byte("3"), 0))
	if err := kv.Delete(ctx, "a/2", 0); err != nil {
		t.Fatal(err)
	}
	if e := below.next(t); e.Key != "a/1" || string(e.Value) != "3" || e.Revision != revision || e.Deleted {
		t.Errorf("the change is %+v", e)
	}
	if e := below.next(t); e.Key != "a/2" || !e.Deleted || len(e.Value) != 0 {
		t.Errorf("the removal is %+v", e)
	}
	if err := kv.Delete(ctx, deep+"x", 0); err != nil {
		t.Fatal(err)
	}
	if e := far.next(t); e.Key != deep+"x" || !e.Deleted {
		t.Errorf("the removal is %+v", e)
	}
	if err := kv.Watch(ctx, "a", func(state.Entry) {}); err == nil || !strings.Contains(err.Error(), `ends in "/"`) {
		t.Errorf("a prefix within a part: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	err := kv.Watch(ended, "", func(e state.Entry) {
		if e.Key == "" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that was ended: %v", err)
	}
}

func testLog(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	l, other := logOf(t, a, state.Space{Name: "log"}), logOf(t, b, state.Space{Name: "log"})
	var last uint64
	long := strings.Repeat("/long", 3000)
	for i := range 30 {
		topic := []string{"x/1", "x/2", long}[i%3]
		seq := must[uint64](t)(l.Append(ctx, topic, fmt.Append(nil, i)))
		if seq <= last {
			t.Fatalf("number %d follows %d", seq, last)
		}
		last = seq
	}
	for _, check := range []struct {
		topic       string
		from        uint64
		limit, want int
	}{{"", 0, 100, 30}, {"", 0, 7, 7}, {"x/1", 0, 100, 10}, {"x/", 0, 100, 20}, {long, 0, 100, 10}, {"none", 0, 100, 0}, {"", last, 100, 1}, {"", last + 1, 100, 0}, {"x", 0, 100, 0}} {
		records, err := other.Read(ctx, check.topic, check.from, check.limit)
		if err != nil || len(records) != check.want {
			t.Errorf("Read(%.20q, %d, %d) has %d records, %v, want %d", check.topic, check.from, check.limit, len(records), err, check.want)
		}
		before := -1
		for _, r := range records {
			var n int
			if _, err := fmt.Sscan(string(r.Data), &n); err != nil || n <= before || r.Topic != []string{"x/1", "x/2", long}[n%3] || r.Time.IsZero() {
				t.Errorf("record %+v follows that of %d", r, before)
			}
			before = n
		}
	}
	rest := must[[]state.Record](t)(other.Read(ctx, "x/1", must[[]state.Record](t)(other.Read(ctx, "x/1", 0, 4))[3].Seq+1, 100))
	if len(rest) != 6 {
		t.Errorf("%d records follow the first 4 of 10", len(rest))
	}
}

// testHostileKeys: keys are text of any kind, and none stands for another.
func testHostileKeys(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	kv, other := bucket(t, a, state.Space{Name: "hostile"}), bucket(t, b, state.Space{Name: "hostile"})
	keys := []string{"*", ">", ".", "..", "a.b", "a b", " ", "a.*", "a.>", "=", "=2E", "/", "//", "a/", "/a", "$KV", "$JS.API.>", "\x00", "\r\n", "ü", "\xff", "%2F", "_INBOX",
		strings.Repeat("x", 10_000), strings.Repeat("x", 10_000) + "y", strings.Repeat("/", 10_000), strings.Repeat("a/", 5_000), strings.Repeat("*", 97), strings.Repeat("*", 98)}
	for i, key := range keys {
		if _, err := kv.Create(ctx, key, fmt.Append(nil, i), 0); err != nil {
			t.Errorf("Create(%.30q): %v", key, err)
		}
	}
	var want []string
	for i, key := range keys {
		wants(t, other, key, fmt.Sprint(i))
		want = append(want, key+"="+fmt.Sprint(i))
	}
	slices.Sort(want)
	if got := watch(t, other, "").caughtUp(t); !slices.Equal(got, want) {
		t.Errorf("a watch has %.2000q", got)
	}
	for _, key := range []string{"", strings.Repeat("x", 40_000)} {
		if _, err := kv.Put(ctx, key, nil, 0); err == nil || !strings.Contains(err.Error(), "1 to 32768 bytes") {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
	for _, name := range []string{"", "A", "a.b", "*", strings.Repeat("a", 33)} {
		if _, err := a.KV(ctx, state.Space{Name: name}); err == nil || !strings.Contains(err.Error(), "a-z") {
			t.Errorf("a bucket %q: %v", name, err)
		}
	}
}

// testLimits: a bucket that is full refuses, goes on reading, and takes again what fits; a
// log forgets its oldest.
func testLimits(t *testing.T, a, b state.Engine) {
	ctx := t.Context()
	kv := bucket(t, a, state.Space{Name: "small", MaxBytes: 64 << 10})
	value := bytes.Repeat([]byte("v"), 4<<10)
	var err error
	n := 0
	for err == nil && n < 100 {
		if _, err = kv.Create(ctx, fmt.Sprint(n), value, 0); err == nil {
			n++
		}
	}
	if !errors.Is(err, state.ErrFull) || n < 8 {
		t.Fatalf("after %d entries: %v", n, err)
	}
	wants(t, kv, "0", string(value))
	changes := watch(t, kv, "")
	changes.caughtUp(t)
	second := wants(t, kv, "2", string(value))
	if err := kv.Delete(ctx, "1", 0); err != nil {
		t.Errorf("Delete in a full bucket: %v", err)
	}
	if err := kv.Delete(ctx, "2", second-1); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Delete of an older revision in a full bucket: %v", err)
	}
	wants(t, kv, "2", string(value))
	if err := kv.Delete(ctx, "2", second); err != nil {
		t.Errorf("Delete of a revision in a full bucket: %v", err)
	}
	for _, key := range []string{"1", "2"} {
		wants(t, kv, key, "")
		if e := changes.next(t); e.Key != key || !e.Deleted {
			t.Errorf("a watch is told %+v", e)
		}
	}
	must[state.Revision](t)(kv.Create(ctx, "new", value[:2<<10], 0))

	l := logOf(t, a, state.Space{Name: "small", MaxBytes: 64 << 10})
	var last uint64
	for range 100 {
		last = must[uint64](t)(l.Append(ctx, "t", value))
	}
	records := must[[]state.Record](t)(l.Read(ctx, "t", 0, 1000))
	if len(records) == 0 || len(records) > 16 || records[len(records)-1].Seq != last {
		t.Errorf("%d records are kept", len(records))
	}
	aged := logOf(t, a, state.Space{Name: "aged", MaxAge: time.Second})
	must[uint64](t)(aged.Append(ctx, "t", value))
	for len(must[[]state.Record](t)(aged.Read(ctx, "t", 0, 1))) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	// What a later version asks for is in force, for both.
	bucket(t, b, state.Space{Name: "small", MaxBytes: 128 << 10})
	for i := n; i < 2*n; i++ {
		if a != b {
			must[state.Revision](t)(kv.Create(ctx, fmt.Sprint("more", i), value, 0))
		}
	}
}

func testHealth(t *testing.T, a, b state.Engine) {
	for _, e := range []state.Engine{a, b} {
		if err := e.Health(t.Context()); err != nil {
			t.Error(err)
		}
	}
	names := func(e state.Engine) (list []string) {
		for _, u := range must[[]state.Usage](t)(e.Usage(t.Context())) {
			list = append(list, fmt.Sprint(u.Name, u.Log))
		}
		return list
	}
	if got := names(b); !slices.IsSorted(got) || !slices.Contains(got, "smallfalse") || !slices.Contains(got, "smalltrue") {
		t.Errorf("Usage tells of %v", got)
	}
}

// testSnapshotIsWhole: a snapshot has what was written before, whichever server of a cluster takes it.
func testSnapshotIsWhole(t *testing.T, a, b state.Engine) {
	kv, other := bucket(t, a, state.Space{Name: "whole"}), bucket(t, b, state.Space{Name: "whole"})
	for i := range 50 {
		key := fmt.Sprint("k/", i%5)
		must[state.Revision](t)(kv.Put(t.Context(), key, fmt.Append(nil, i), 0))
		found := ""
		err := state.Snapshot(t.Context(), other, "k/", func(e state.Entry) {
			if e.Key == key {
				found = string(e.Value)
			}
		})
		if err != nil || found != fmt.Sprint(i) {
			t.Fatalf("the snapshot has %q, want %d: %v", found, i, err)
		}
	}
}
