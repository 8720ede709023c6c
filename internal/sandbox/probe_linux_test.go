// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// TestProbe says of this machine what a server says of its own at start.
func TestProbe(t *testing.T) {
	image, err := os.ReadFile(helperPath)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]sandbox.Config{"file": {Helper: helperPath}, "image": {Image: image}} {
		t.Run(name, func(t *testing.T) {
			s, err := sandbox.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			t.Logf("%+v", s.Capabilities())
			for _, c := range s.Probe(t.Context(), t.TempDir()) {
				if !c.Tried || !c.Holds {
					t.Errorf("%s: %s: tried %t, holds %t: %s", c.Name, c.What, c.Tried, c.Holds, c.Detail)
				}
			}
		})
	}
}

// TestProbeOff proves that the probes can fail.
func TestProbeOff(t *testing.T) {
	s, err := sandbox.Open(sandbox.Config{Helper: helperPath, Off: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// These hold because everything is killed, by a guard that is out of reach.
	always := map[string]bool{
		"write_inside": true, "chmod_inside": true, "descriptors": true, "no_new_privileges": true,
		"leftover": true, "proxy_reached": true, "loopback_own": true,
	}
	// These hold where the kernel has signal scopes, or has no such calls, or the
	// user may not, or a container has walls of its own.
	sometimes := map[string]bool{
		"signal_server": true, "signal_guard": true, "server_memory": true, "server_files": true, "server_environment": true,
		"server_limits": true, "server_priority": true, "capabilities": true, "x32_calls": true, "i386_calls": true,
		"user_namespace": true, "io_uring": true, "bpf": true, "keyring": true, "attribute_outside": true,
		"seccomp": true, "mptcp": true,
	}
	for _, c := range s.Probe(t.Context(), t.TempDir()) {
		if c.Holds != always[c.Name] && !sometimes[c.Name] {
			t.Errorf("%s: holds: %t, %s", c.Name, c.Holds, c.Detail)
		}
	}
}

// TestProbeNotTried proves that a probe which something else keeps from trying
// does not say that the sandbox is weak.
func TestProbeNotTried(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	for name, test := range map[string]struct {
		helper, dir string
		tried       bool
	}{
		"a directory that is none":          {helperPath, file, false},
		"a helper that fails":               {"/bin/false", t.TempDir(), false},
		"a helper that is none":             {file, t.TempDir(), false},
		"longer than addresses of sockets":  {helperPath, long, true},
		"a directory that is not there yet": {helperPath, filepath.Join(t.TempDir(), "a", "b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sandbox.Open(sandbox.Config{Helper: test.helper})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, c := range s.Probe(t.Context(), test.dir) {
				if c.Tried != test.tried || c.Holds != test.tried || c.Detail == "" {
					t.Errorf("%s: tried %t, holds %t, want %t: %s", c.Name, c.Tried, c.Holds, test.tried, c.Detail)
				}
			}
			if left, err := os.ReadDir(test.dir); test.tried && (err != nil || len(left) > 0) {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
