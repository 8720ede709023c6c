// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/state/statetest"
)

// TestNodeRestarts stops the server that leads a bucket while two replicas write: nothing
// that was acknowledged is lost, no write is refused for ever, and watches go on or say
// that they were cut off.
func TestNodeRestarts(t *testing.T) {
	c := statetest.NewCluster(t, 3, nil)
	space := state.Space{Name: "calls"}
	engines := []state.Engine{open(t, state.Options{URL: c.URL()}), open(t, state.Options{URL: c.URL()})}
	seen := newSeen(t, bucket(t, engines[1], space))
	log := logOf(t, engines[0], state.Space{Name: "events"})
	ctx, cancel := context.WithCancel(t.Context())
	var acked [2][]string
	var appended []uint64 // their numbers
	var writing sync.WaitGroup
	for i, e := range engines {
		kv := bucket(t, e, space)
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprint(i, "/", n)
				switch _, err := kv.Create(ctx, key, []byte(key), 0); {
				case err == nil:
					acked[i] = append(acked[i], key)
				case ctx.Err() == nil && !errors.Is(err, state.ErrUnavailable):
					t.Errorf("Create: %v", err)
				}
			}
		})
	}
	writing.Go(func() {
		for ctx.Err() == nil {
			if seq, err := log.Append(ctx, "t", fmt.Append(nil, len(appended))); err == nil {
				appended = append(appended, seq)
			}
		}
	})
	for range 2 {
		for _, e := range engines {
			for e.Health(t.Context()) != nil { // it has a space of its own, which is made then
				time.Sleep(10 * time.Millisecond)
			}
		}
		c.CaughtUp("KV_ts-calls", "LOG_ts-events", "KV_ts-health")
		leader := c.Leader("calls")
		c.Stop(leader)
		progress(t, engines, space)
		c.Start(leader)
		progress(t, engines, space)
	}
	cancel()
	writing.Wait()
	kv := bucket(t, engines[0], space)
	for _, keys := range acked {
		if len(keys) == 0 {
			t.Error("nothing was written")
		}
		for _, key := range keys {
			if entry := patient(t, func() (state.Entry, error) { return kv.Get(t.Context(), key) }); string(entry.Value) != key {
				t.Errorf("%s has %.40q", key, entry.Value)
			}
			seen.wait(t, key)
		}
	}
	for n, seq := range appended {
		found := patient(t, func() ([]state.Record, error) { return log.Read(t.Context(), "t", seq, 1) })
		if len(found) != 1 || found[0].Seq != seq || string(found[0].Data) != fmt.Sprint(n) {
			t.Errorf("record %d, which was stored as %d: %+v", n, seq, found)
		}
	}
	t.Logf("%d and %d entries, %d records", len(acked[0]), len(acked[1]), len(appended))
}

// progress waits until each engine writes.
func progress(t *testing.T, engines []state.Engine, space state.Space) {
	t.Helper()
	for i, e := range engines {
		kv := bucket(t, e, space)
		patient(t, func() (state.Revision, error) { return kv.Put(t.Context(), fmt.Sprint("progress/", i), nil, 0) })
	}
}

// patient does something that may be unavailable during an election.
func patient[T any](t *testing.T, do func() (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(statetest.ElectionTime); ; {
		begun := time.Now()
		done, err := do()
		if err == nil {
			return done
		}
		if !errors.Is(err, state.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// seen is what a replica knows by watching, as replicas do: again after each cut.
type seen struct {
	mu   sync.Mutex
	keys map[string]bool
	more chan struct{}
}

func newSeen(t *testing.T, kv state.KV) *seen {
	s := &seen{keys: make(map[string]bool), more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := kv.Watch(ctx, "", func(e state.Entry) {
				s.mu.Lock()
				s.keys[e.Key] = true
				s.mu.Unlock()
				select {
				case s.more <- struct{}{}:
				default:
				}
			})
			if ctx.Err() == nil && !errors.Is(err, state.ErrWatchCut) && !errors.Is(err, state.ErrUnavailable) {
				t.Errorf("Watch: %v", err)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *seen) wait(t *testing.T, key string) {
	t.Helper()
	for {
		s.mu.Lock()
		known := s.keys[key]
		s.mu.Unlock()
		if known {
			return
		}
		select {
		case <-s.more:
		case <-time.After(statetest.ElectionTime):
			t.Fatalf("a watch was not told of %s", key)
		}
	}
}

// TestNoQuorum: where nothing can be decided, everything says so, and goes on by itself
// when it can.
func TestNoQuorum(t *testing.T) {
	c := statetest.NewCluster(t, 3, nil)
	e := open(t, state.Options{URL: c.Server(0)})
	kv, l := bucket(t, e, state.Space{Name: "calls"}), logOf(t, e, state.Space{Name: "events"})
	must[state.Revision](t)(kv.Put(t.Context(), "k", []byte("before"), 0))
	must[uint64](t)(l.Append(t.Context(), "t", []byte("before")))
	if err := e.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.CaughtUp("KV_ts-calls", "LOG_ts-events", "KV_ts-health")
	c.Stop(1)
	c.Stop(2)
	for name, try := range map[string]func(context.Context) error{
		"Create": func(ctx context.Context) error { _, err := kv.Create(ctx, "new", nil, 0); return err },
		"Update": func(ctx context.Context) error { _, err := kv.Update(ctx, "k", nil, 1, 0); return err },
		"Put":    func(ctx context.Context) error { _, err := kv.Put(ctx, "k", nil, 0); return err },
		"Delete": func(ctx context.Context) error { return kv.Delete(ctx, "k", 0) },
		"Append": func(ctx context.Context) error { _, err := l.Append(ctx, "t", nil); return err },
		"Health": func(ctx context.Context) error { return e.Health(ctx) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := try(ctx)
		cancel()
		if !errors.Is(err, state.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s without a quorum: %v", name, err)
		}
	}
	c.Start(1)
	progress(t, []state.Engine{e}, state.Space{Name: "calls"})
	for deadline := time.Now().Add(statetest.ElectionTime); e.Health(t.Context()) != nil; {
		if time.Now().After(deadline) {
			t.Fatal(e.Health(t.Context()))
		}
	}
	c.Start(2)
}

// TestWrongCluster: who cannot be connected, or not trusted, is told why.
func TestWrongCluster(t *testing.T) {
	single := statetest.NewCluster(t, 1, func(o *server.Options) { o.Username, o.Password = "us", "secret" })
	user := strings.Replace(single.Server(0), "nats://", "nats://us:secret@", 1)
	bare := statetest.NewCluster(t, 1, func(o *server.Options) { o.JetStream = false })
	small := statetest.NewCluster(t, 1, func(o *server.Options) { o.MaxPayload = 1000 })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, test := range []struct {
		name    string
		options state.Options
		want    string
	}{
		{"no URL", state.Options{URL: "cluster:4222"}, "write nats://host:4222"},
		{"another scheme", state.Options{URL: "http://127.0.0.1:1"}, "write nats://host:4222"},
		{"nobody", state.Options{URL: "nats://us:secret@127.0.0.1:1"}, "no NATS server answers at nats://us:xxxxx@127.0.0.1:1"},
		{"silence", state.Options{URL: "nats://" + silent.Addr().String()}, "unavailable"},
		{"no user", state.Options{URL: single.Server(0)}, "refuses the credentials"},
		{"wrong password", state.Options{URL: strings.Replace(user, "secret", "wrong", 1)}, "refuses the credentials"},
		{"no credentials", state.Options{URL: user, Credentials: "/none/user.creds"}, "/none/user.creds"},
		{"no authority", state.Options{URL: user, CA: "/none/ca.pem"}, "/none/ca.pem"},
		{"no store", state.Options{URL: bare.Server(0)}, "no JetStream"},
		{"small messages", state.Options{URL: small.Server(0)}, "set its max_payload to 1048576"},
		{"bad prefix", state.Options{Prefix: "a.b"}, `the prefix "a.b"`},
		{"both", state.Options{URL: user, Dir: t.TempDir()}, "give one of them"},
	} {
		_, err := state.Open(t.Context(), test.options)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	three := open(t, state.Options{URL: user})
	if _, err := three.KV(t.Context(), state.Space{Name: "calls"}); err == nil || !strings.Contains(err.Error(), "cannot keep 3 replicas") {
		t.Errorf("three replicas on one server: %v", err)
	}
	one := open(t, state.Options{URL: user, Replicas: 1})
	must[state.Revision](t)(bucket(t, one, state.Space{Name: "calls"}).Put(t.Context(), "k", nil, 0))
	// Installations beside each other do not see each other.
	other := open(t, state.Options{URL: user, Replicas: 1, Prefix: "other"})
	wants(t, bucket(t, other, state.Space{Name: "calls"}), "k", "")
	if _, err := other.Usage(t.Context()); err != nil {
		t.Error(err)
	}
	cluster := statetest.NewCluster(t, 3, nil)
	if _, err := state.Open(t.Context(), state.Options{URL: cluster.URL(), Replicas: 1}); err == nil || !strings.Contains(err.Error(), "set 3 replicas") {
		t.Errorf("one replica in a cluster: %v", err)
	}
}
