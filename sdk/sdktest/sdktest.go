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
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/programtest"
)

var directory string // has the server, once it is built

var build = sync.OnceValues(func() (program string, err error) {
	if directory, err = os.MkdirTemp("", "sdktest"); err != nil {
		return "", err
	}
	return programtest.Build(directory, "cmd/toolserver")
})

// Build builds the server, once for all tests of a package, and returns its path.
// [Remove] removes it.
func Build(t testing.TB) string {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Remove removes what Build made, and ends the tests with a code.
func Remove(code int) {
	os.RemoveAll(directory)
	os.Exit(code)
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
		if s.cmd != nil {
			s.Stop()
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

// Pause has the server do nothing until Continue, as a machine that was put to sleep.
func (s *Server) Pause() { s.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends a pause.
func (s *Server) Continue() { s.cmd.Process.Signal(syscall.SIGCONT) }

// Wait waits for the server to end by itself, and returns how it did.
func (s *Server) Wait() error {
	err := s.cmd.Wait()
	s.cmd = nil
	return err
}

// Stop ends the server in peace.
func (s *Server) Stop() {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
	s.cmd = nil
}

// Replace ends the server in peace, and starts another program at its address.
func (s *Server) Replace(program string) {
	s.t.Helper()
	s.Stop()
	s.program = program
	s.Restart()
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
			go io.Copy(s.rest(), log) // so that the server never waits for us
			return
		}
		s.t.Log(lines.Text())
	}
	s.t.Fatal("the server does not serve")
}

// rest is where what the server says later goes: nowhere, unless somebody looks for a
// mistake and names a file in SDKTEST_LOG.
func (s *Server) rest() io.Writer {
	if name := os.Getenv("SDKTEST_LOG"); name != "" {
		if file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			return file // until the process ends
		}
	}
	return io.Discard
}

// A Wire leads to a server, and can be cut.
type Wire struct {
	// Address is what clients connect to.
	Address string
	// Refused has a value for connections that ended because there was no server.
	Refused chan struct{}

	server string
	mu     sync.Mutex
	ends   []net.Conn
	left   int // bytes until the wire is cut; negative: it is not
}

// NewWire returns a wire to a server.
func NewWire(t testing.TB, server string) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: listener.Addr().String(), Refused: make(chan struct{}, 1), server: server, left: -1}
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
				select {
				case w.Refused <- struct{}{}:
				default:
				}
				continue
			}
			w.mu.Lock()
			w.ends = append(w.ends, near, far)
			w.mu.Unlock()
			go w.carry(near, far)
			go w.carry(far, near)
		}
	}()
	return w
}

func (w *Wire) carry(from, to net.Conn) {
	defer to.Close()
	for buffer := make([]byte, 4096); ; {
		n, err := from.Read(buffer)
		whole := w.pass(n)
		if _, failed := to.Write(buffer[:whole]); failed != nil || err != nil {
			return
		}
		if whole < n {
			w.Cut()
		}
	}
}

// pass returns how many of so many bytes go through before the wire is cut.
func (w *Wire) pass(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.left < 0:
	case w.left < n:
		n, w.left = w.left, -1
	default:
		w.left -= n
	}
	return n
}

// CutAfter cuts the wire once so many bytes have passed, whichever way. It reports
// whether the cut that was asked for before has come.
func (w *Wire) CutAfter(bytes int) (came bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	came, w.left = w.left < 0, bytes
	return came
}

// Cut ends every connection there is. New ones can be made.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.ends {
		end.Close()
	}
	w.ends, w.left = nil, -1
}
