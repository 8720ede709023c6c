// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdktest has what tests of clients need: a real server that can be killed and
// started again at its address, and a network that can be cut.
package sdktest

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Build builds the server and returns its path. One that is built already is named by
// SDKTEST_SERVER.
func Build(t testing.TB) string {
	t.Helper()
	if program := os.Getenv("SDKTEST_SERVER"); program != "" {
		return program
	}
	program := filepath.Join(t.TempDir(), "toolserver")
	cmd := exec.Command("go", "build", "-o", program, "github.com/toolserver/toolserver/cmd/toolserver")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// A Server is a server as a process of its own.
type Server struct {
	// Address is where it listens, also after it was started again.
	Address string

	t           testing.TB
	program     string
	environment []string
	cmd         *exec.Cmd
}

// Start starts a server on a port of its own, with variables for its environment;
// TOOLSERVER_LISTEN is another address. It ends with the test.
func Start(t testing.TB, program string, environment ...string) *Server {
	t.Helper()
	s := &Server{Address: "127.0.0.1:0", t: t, program: program, environment: append(environment, "XDG_STATE_HOME="+t.TempDir())}
	for _, pair := range environment {
		if address, ok := strings.CutPrefix(pair, "TOOLSERVER_LISTEN="); ok {
			s.Address = address
		}
	}
	s.Restart()
	t.Cleanup(func() {
		if s.cmd == nil {
			return
		}
		s.cmd.Process.Signal(syscall.SIGTERM)
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return s
}

// Kill ends the server as a power failure does.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

// Restart starts the server at its address.
func (s *Server) Restart() {
	s.t.Helper()
	cmd := exec.Command(s.program, "serve", "--listen", s.Address, "--admin", "off")
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TOOLSERVER_") && !strings.HasPrefix(pair, "OTEL_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, s.environment...)
	log, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
			if !strings.HasPrefix(s.Address, "unix:") {
				s.Address = entry.Address
			}
			go io.Copy(io.Discard, log) // so that the server never waits for us
			return
		}
		s.t.Log(lines.Text())
	}
	s.t.Fatal("the server does not serve")
}

// A Wire leads to a server, and can be cut.
type Wire struct {
	// Address is what clients connect to.
	Address string

	server string
	mu     sync.Mutex
	ends   []net.Conn
}

// NewWire returns a wire to a server.
func NewWire(t testing.TB, server string) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: listener.Addr().String(), server: server}
	t.Cleanup(func() {
		listener.Close()
		w.Cut()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", w.server)
			if err != nil {
				near.Close() // the server is not there, as clients see now
				continue
			}
			w.mu.Lock()
			w.ends = append(w.ends, near, far)
			w.mu.Unlock()
			go carry(near, far)
			go carry(far, near)
		}
	}()
	return w
}

func carry(from, to net.Conn) {
	io.Copy(to, from)
	to.Close()
}

// Cut ends every connection there is. New ones can be made.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.ends {
		end.Close()
	}
	w.ends = nil
}
