// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// cutter is a proxy whose first connection ends after some bytes. It counts what
// it brings to the server.
type cutter struct {
	address string
	sent    atomic.Int64
}

func cutConnections(t *testing.T, server string, after int64) *cutter {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	c := &cutter{address: listener.Addr().String()}
	go func() {
		for first := true; ; first = false {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				in.Close()
				return
			}
			go func() {
				io.Copy(in, out)
				in.Close()
			}()
			go func() {
				var r io.Reader = in
				if first {
					r = io.LimitReader(in, after)
				}
				n, _ := io.Copy(out, r)
				c.sent.Add(n)
				in.Close()
				out.Close()
			}()
		}
	}()
	return c
}

// TestCopyGoesOn has the connection end in the middle of an upload: the rest is
// sent over the next, and nothing twice.
func TestCopyGoesOn(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "allow.yaml")
	if err := os.WriteFile(config, []byte("sessions: {mode: allow}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, "--config", config)
	const size = 16 << 20
	proxy := cutConnections(t, server.address, size/2)
	local := filepath.Join(t.TempDir(), "large")
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	if err := os.WriteFile(local, content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("toolserver", "cp", "--address", proxy.address, local, ":large").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	back := filepath.Join(t.TempDir(), "back")
	if out, err := exec.Command("toolserver", "cp", "--address", server.address, ":large", back).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	// What was on its way when the connection ended is sent again.
	if sent := proxy.sent.Load(); sent > size+size/4 {
		t.Errorf("%d bytes were sent for a file of %d", sent, size)
	}
}

// TestCopyCompletes: all sessions are offered, also those beyond the first page.
func TestCopyCompletes(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	sessions := pb.NewSessionServiceClient(server.conn(t))
	for i := range 101 {
		if _, err := sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: fmt.Sprintf("s%03d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("toolserver", "__complete", "--address", server.address, "cp", "s10").Output()
	if err != nil || !strings.HasPrefix(string(out), "s100:\n") {
		t.Errorf("%q, %v", out, err)
	}
}
