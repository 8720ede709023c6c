// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/state"
)

// TestFullDisk fills a real file system, by what is written and by others: writes are
// refused and reads go on, where there is room again it is used, and what was acknowledged
// is there after another start.
func TestFullDisk(t *testing.T) {
	value := bytes.Repeat([]byte("v"), 100<<10)
	for name, fill := range map[string]func(t *testing.T, kv state.KV, ballast string) (acked int, err error){
		"ourselves": func(t *testing.T, kv state.KV, ballast string) (acked int, err error) {
			if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			for err == nil || errors.Is(err, state.ErrUnavailable) { // a slow machine
				if _, err = kv.Put(t.Context(), fmt.Sprint(acked), value, 0); err == nil {
					acked++
				}
			}
			return acked, err
		},
		"others": func(t *testing.T, kv state.KV, ballast string) (acked int, err error) {
			must[state.Revision](t)(kv.Create(t.Context(), "0", value, 0))
			if err := os.WriteFile(ballast, make([]byte, 32<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			for { // the first before anybody looks; on a slow machine several do not learn their end
				if _, err = kv.Put(t.Context(), "1", value, 0); !errors.Is(err, state.ErrUnavailable) {
					return 1, err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := small(t)
			dir, ballast := filepath.Join(root, "state"), filepath.Join(root, "ballast")
			e := open(t, state.Options{Dir: dir})
			kv, memory := bucket(t, e, state.Space{Name: "calls"}), bucket(t, e, state.Space{Name: "limits", Volatile: true})
			acked, err := fill(t, kv, ballast)
			if !errors.Is(err, state.ErrFull) {
				t.Errorf("a full disk: %v", err)
			}
			if err := e.Health(t.Context()); !errors.Is(err, state.ErrFull) {
				t.Errorf("the health of a full disk: %v", err)
			}
			wants(t, kv, "0", string(value))
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			for _, kv := range []state.KV{kv, memory} {
				for deadline := time.Now().Add(time.Minute); ; {
					_, err := kv.Put(t.Context(), "room", value, 0)
					if err == nil {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("there is room again: %v", err)
					}
				}
			}
			wants(t, kv, "0", string(value))
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = open(t, state.Options{Dir: dir})
			kv = bucket(t, e, state.Space{Name: "calls"})
			for i := range acked {
				wants(t, kv, fmt.Sprint(i), string(value))
			}
			wants(t, kv, "room", string(value))
		})
	}
}

// small mounts a file system of 16 MiB.
func small(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(root, 0); err != nil {
			t.Error(err)
		}
	})
	return root
}
