// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// A Jail is where commands run that may reach the same things.
type Jail struct {
	sandbox *Sandbox
	ruleset *os.File // nil where nothing is restricted
	filter  []helper.Instr
}

// Jail returns a jail. Close it after use; what runs in it goes on.
func (s *Sandbox) Jail(p Profile) (*Jail, error) {
	j := &Jail{sandbox: s}
	if s.config.Off {
		return j, nil
	}
	if s.landlock > 0 {
		ruleset, err := newRuleset(p, s.landlock)
		if err != nil {
			return nil, err
		}
		j.ruleset = ruleset
	}
	j.filter = s.filters[p.Network]
	return j, nil
}

// Close lets go of what the jail holds.
func (j *Jail) Close() error {
	if j.ruleset == nil {
		return nil
	}
	return j.ruleset.Close()
}

// A Process is a running command and everything it started. Its methods are
// safe for concurrent use, but only one may Wait.
type Process struct {
	sandbox *Sandbox
	control *os.File
	limits  Limits
	cause   atomic.Int32  // the Reason it was killed for
	guard   atomic.Uint32 // its process id; 0 until it has told
}

// Start starts a command. Whether the program could be executed is told by
// Wait.
func (j *Jail) Start(c Command) (*Process, error) {
	request := helper.Request{Path: c.Path, Args: c.Args, Env: c.Env, Limits: c.Limits.encode(), Filter: j.filter}
	if j.sandbox.landlock >= landlockScopes {
		request.Flags |= helper.Scoped
	}
	if j.ruleset != nil {
		request.Flags |= helper.Restricted
		if os.Geteuid() == 0 {
			request.Flags |= helper.DropCapabilities
		}
	}
	if c.Terminal {
		request.Flags |= helper.Terminal
	}
	message, err := request.Encode()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	defer unix.Close(pair[1])
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, err
	}
	p := &Process{sandbox: j.sandbox, control: os.NewFile(uintptr(pair[0]), "control"), limits: c.Limits}

	files := []int{pair[1]}
	for _, file := range []*os.File{c.Stdin, c.Stdout, c.Stderr, c.Dir, j.ruleset} {
		switch {
		case file != nil:
			files = append(files, int(file.Fd()))
		case len(files) <= 3:
			files = append(files, int(j.sandbox.null.Fd()))
		}
	}
	if err := j.sandbox.send(message, files); err != nil {
		p.control.Close()
		return nil, err
	}
	j.sandbox.monitor.add(p)
	return p, nil
}

// encode returns the limits that the kernel keeps. Memory and processes are
// watched by the monitor.
func (l Limits) encode() []helper.Limit {
	limits := []helper.Limit{{Resource: unix.RLIMIT_CORE}}
	add := func(resource uint32, value uint64) {
		if value > 0 {
			limits = append(limits, helper.Limit{Resource: resource, Value: value})
		}
	}
	add(unix.RLIMIT_NOFILE, l.OpenFiles)
	add(unix.RLIMIT_FSIZE, l.FileSize)
	add(unix.RLIMIT_AS, l.Addressing)
	add(unix.RLIMIT_CPU, uint64((l.CPU+time.Second-1)/time.Second))
	return limits
}

// Signal sends a signal to the process group of the command.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig <= 0 || sig > 64 {
		return syscall.EINVAL
	}
	if _, err := p.control.Write([]byte{byte(sig)}); err != nil {
		return os.ErrProcessDone
	}
	return nil
}

// Kill ends the command and everything it started. It returns at once: Wait
// tells when they are gone.
func (p *Process) Kill() { p.kill(Killed) }

func (p *Process) kill(cause Reason) {
	p.cause.CompareAndSwap(0, int32(cause))
	p.control.Write([]byte{helper.Kill})
}

// Wait returns when the command and everything it started are gone. It must be
// called, once. The error is a [*StartError] if the program could not be
// executed.
func (p *Process) Wait() (End, error) {
	defer p.control.Close()
	defer p.sandbox.monitor.remove(p)
	var failed error
	var buf [128]byte
	for {
		n, err := p.control.Read(buf[:])
		if n == 0 || err != nil {
			if failed == nil && err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				failed = err
			}
			return End{Reason: Lost}, failed
		}
		report, err := helper.DecodeReport(buf[:n])
		if err != nil {
			return End{Reason: Lost}, err
		}
		switch report.Kind {
		case helper.Started:
			p.guard.Store(report.Guard)
		case helper.Failed:
			failed = &StartError{Doing: report.Step.String(), Errno: syscall.Errno(report.Errno)}
		case helper.Ended:
			return p.end(report), failed
		}
	}
}

func (p *Process) end(r helper.Report) End {
	status := syscall.WaitStatus(r.Status)
	end := End{
		Reason: Exited,
		User:   time.Duration(r.User) * time.Microsecond, System: time.Duration(r.System) * time.Microsecond,
		MaxRSS: r.MaxRSS, Left: r.Left != 0,
	}
	cause := Reason(p.cause.Load())
	switch {
	case status.Exited():
		end.Code = status.ExitStatus()
	case cause != 0:
		end.Reason = cause
	case status.Signaled():
		end.Reason, end.Signal = Signaled, status.Signal()
		switch end.Signal {
		case syscall.SIGSYS:
			end.Reason = Violation
		case syscall.SIGXCPU:
			end.Reason = OutOfTime
		case syscall.SIGXFSZ:
			end.Reason = FileTooLarge
		}
	}
	if cause == OutOfMemory || cause == TooManyProcesses {
		end.Reason = cause // also where the command itself got away
	}
	return end
}

// Sandbox starts commands. Its methods are safe for concurrent use.
type Sandbox struct {
	config   Config
	landlock int // its version
	filters  map[Network][]helper.Instr
	null     *os.File
	monitor  monitor

	mu     sync.Mutex // held while a request is sent
	socket int        // to the helper; -1 while there is none
	closed bool
}

// Open returns a sandbox. The helper is started with the first command.
func Open(config Config) (*Sandbox, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{config: config, landlock: landlockVersion(), null: null, socket: -1}
	if !config.Off {
		s.filters = map[Network][]helper.Instr{
			NetworkNone: newFilter(NetworkNone), NetworkProxy: newFilter(NetworkProxy), NetworkOpen: newFilter(NetworkOpen),
		}
	}
	return s, nil
}

// Restricts reports whether the kernel can restrict what commands reach.
func (s *Sandbox) Restricts() bool { return s.landlock > 0 }

// Close ends the helper. What runs is killed when its Process is closed, at the
// latest when the server ends.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.hangUp()
	return s.null.Close()
}

func (s *Sandbox) hangUp() {
	if s.socket >= 0 {
		unix.Close(s.socket)
		s.socket = -1
	}
}

// send gives a request to the helper; to a new one if the old one has died.
func (s *Sandbox) send(message []byte, files []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for try := 0; ; try++ {
		if s.closed {
			return os.ErrClosed
		}
		if s.socket < 0 {
			if err := s.startHelper(); err != nil {
				return fmt.Errorf("%w: starting toolserver-exec: %w", ErrUnavailable, err)
			}
		}
		err := sendAll(s.socket, message, files)
		if err == nil {
			return nil
		}
		s.hangUp()
		if try > 0 {
			return fmt.Errorf("%w: toolserver-exec does not answer: %w", ErrUnavailable, err)
		}
	}
}

func sendAll(socket int, message []byte, files []int) error {
	rights := unix.UnixRights(files...)
	for len(message) > 0 {
		n, err := unix.SendmsgN(socket, message, rights, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		message, rights = message[n:], nil
	}
	return nil
}

// startHelper starts the helper. It ends by itself when its socket does.
func (s *Sandbox) startHelper() error {
	path := s.config.Helper
	if path == "" {
		image, err := s.image()
		if err != nil {
			return err
		}
		defer image.Close()
		path = fmt.Sprintf("/proc/self/fd/%d", image.Fd())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "helper")
	defer theirs.Close()
	process, err := os.StartProcess(path, []string{"toolserver-exec"}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{s.null, s.null, os.Stderr, theirs},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	go process.Wait()
	s.socket = pair[0]
	return nil
}

// image returns the program as a file that has no name.
func (s *Sandbox) image() (*os.File, error) {
	if len(s.config.Image) == 0 {
		return nil, errors.New("this server was built without it: put toolserver-exec beside the server, or build with make")
	}
	fd, err := unix.MemfdCreate("toolserver-exec", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all are executable
		fd, err = unix.MemfdCreate("toolserver-exec", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "toolserver-exec")
	if _, err := file.Write(s.config.Image); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
