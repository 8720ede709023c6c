// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// A Process is a running command and everything it started. Its methods are
// safe for concurrent use, but only one may Wait.
type Process struct {
	jail    *Jail
	id      uint64
	control *os.File
	limits  Limits
	group   *Group
	grace   time.Duration
	onTTY   bool                  // its input is a terminal
	view    *view                 // nil without
	cause   atomic.Pointer[cause] // what it was killed for; nil if it was not
	guard   atomic.Uint32         // its process id; 0 until it has told
	before  time.Duration         // CPU time of commands that the guard had before; set with guard

	leftover []Leftover // see End
}

// cause is why a command is killed.
type cause struct {
	reason Reason
	group  *Group // whose limit it was; nil: its own
}

// Start starts a command. Whether the program could be executed is told by
// Wait.
func (j *Jail) Start(c Command) (_ *Process, err error) {
	s := j.space.sandbox
	view, ruleset, err := j.enter()
	if err != nil {
		return nil, err
	}
	request := helper.Request{
		Kind: helper.Run, ID: s.last.Add(1), Path: c.Path, Args: c.Args, Env: c.Env,
		Roots: j.roots, Limits: c.Limits.encode(), Flags: j.flags(ruleset), Filter: j.filter(),
	}
	if c.Terminal {
		request.Flags |= helper.Terminal
	}
	if c.Grace > 0 {
		request.Flags |= helper.Mannered
	}
	if view != nil {
		if request.Place, err = view.place(c.Dir); err != nil {
			return nil, err
		}
		view.commands.Add(1)
		defer func() {
			if err != nil {
				view.commands.Add(-1)
			}
		}()
	}
	message, err := request.Encode()
	if err != nil {
		return nil, err
	}
	// Neither end is read or written before it is polled, or without need.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	defer unix.Close(pair[1])
	// Who says something is told by the kernel: a guard knows itself by another id
	// in its namespace.
	if err := unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	p := &Process{jail: j, id: request.ID, control: os.NewFile(uintptr(pair[0]), "control"), limits: c.Limits, group: c.Group, grace: c.Grace, onTTY: c.Terminal, view: view}
	files, err := j.files(pair[1], &c, ruleset)
	if err == nil {
		err = s.add(p)
	}
	if err == nil {
		if err = j.space.link.run(message, files); err != nil {
			s.remove(p)
		}
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(ruleset)
	if err != nil {
		p.control.Close()
		return nil, err
	}
	s.monitor.add(p)
	return p, nil
}

// files returns the files that go with a request.
func (j *Jail) files(control int, c *Command, ruleset *os.File) ([]int, error) {
	if c.Dir == nil {
		return nil, errors.New("a command needs a working directory")
	}
	files := []int{control}
	for _, file := range [...]*os.File{c.Stdin, c.Stdout, c.Stderr, c.Dir, ruleset} {
		switch {
		case file != nil:
			fd := int(file.Fd())
			if fd < 0 {
				return nil, fmt.Errorf("%s: %w", file.Name(), os.ErrClosed)
			}
			files = append(files, fd)
		case len(files) <= 3:
			files = append(files, int(j.space.sandbox.null.Fd()))
		}
	}
	return files, nil
}

func (s *Sandbox) add(p *Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	s.running[p] = struct{}{}
	return nil
}

func (s *Sandbox) remove(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, p)
}

// encode returns the limits that the kernel keeps. Memory and processes are
// watched by the monitor.
func (l Limits) encode() []helper.Limit {
	// A limit of 0 would not hold where cores are piped to a program.
	limits := []helper.Limit{{Resource: unix.RLIMIT_CORE, Value: 1}}
	add := func(resource uint32, value uint64) {
		if value > 0 {
			limits = append(limits, helper.Limit{Resource: resource, Value: value})
		}
	}
	add(unix.RLIMIT_NOFILE, l.OpenFiles)
	add(unix.RLIMIT_FSIZE, l.FileSize)
	add(unix.RLIMIT_AS, l.Addressing)
	add(unix.RLIMIT_NPROC, uint64(maxTogether()))
	add(unix.RLIMIT_CPU, uint64((l.CPU+time.Second-1)/time.Second))
	return limits
}

// Signal sends a signal to the process group of the command.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig <= 0 || sig > 64 {
		return syscall.EINVAL
	}
	switch err := p.say(byte(sig)); err {
	case nil, syscall.EAGAIN:
		return err
	default:
		return os.ErrProcessDone
	}
}

// say sends a byte to the guard. It does not wait for a guard that is busy.
func (p *Process) say(b byte) error {
	conn, err := p.control.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) {
		sent = unix.Sendto(int(fd), []byte{b}, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil)
	}); err != nil {
		return err
	}
	return sent
}

// spoken reports whether the guard has said something that was not heard yet, or
// has said that the command has ended.
func (p *Process) spoken() bool {
	conn, err := p.control.SyscallConn()
	if err != nil {
		return true
	}
	var peeked error
	err = conn.Control(func(fd uintptr) {
		var b [1]byte
		_, _, peeked = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err != nil || peeked != unix.EAGAIN
}

// Kill ends the command and everything it started. It returns at once: Wait
// tells when they are gone.
func (p *Process) Kill() { p.kill(Killed, nil) }

// Terminate asks the command and everything it started to end, and kills after
// the grace of the command what has not. It returns at once.
func (p *Process) Terminate() {
	if p.grace == 0 || !p.cause.CompareAndSwap(nil, &cause{reason: Killed}) || p.say(helper.Terminate) != nil {
		p.Kill()
		return
	}
	time.AfterFunc(p.grace, p.hangUp)
	p.remind(reminder)
}

// reminder is after what time an interactive shell is told again that its terminal is
// gone. Each time it is twice as long.
const reminder = 50 * time.Millisecond

// remind sends HangUp to the processes of a terminal that is gone, again and again until they end: a shell
// that was about to read a line may miss the first one.
func (p *Process) remind(after time.Duration) {
	if !p.onTTY {
		return
	}
	time.AfterFunc(after, func() {
		if err := p.say(helper.HangUp); err == nil || err == syscall.EAGAIN {
			p.remind(2 * after)
		}
	})
}

func (p *Process) kill(reason Reason, of *Group) {
	p.cause.CompareAndSwap(nil, &cause{reason, of})
	p.hangUp()
}

// hangUp has the guard kill everything.
func (p *Process) hangUp() {
	conn, err := p.control.SyscallConn()
	if err != nil {
		return // it has ended
	}
	// Hanging up needs no room in a buffer, and what the guard says still comes.
	conn.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
	p.control.SetReadDeadline(time.Now().Add(answerTime))
}

// Wait returns when the command and everything it started are gone. It must be
// called, once. The error is a [*StartError] if the program could not be
// executed.
func (p *Process) Wait() (end End, err error) {
	s := p.jail.space.sandbox
	defer p.control.Close()
	defer s.remove(p)
	defer func() {
		end.Processes = max(1, s.monitor.remove(p, end.User+end.System))
		p.jail.space.link.running.Add(-1)
		if p.view != nil {
			p.view.commands.Add(-1)
		}
	}()
	var failed error
	for {
		report, guard, err := p.hear()
		if errors.Is(err, syscall.ECONNRESET) {
			// The guard ended before it read all we said. This comes first, once,
			// and then what it has said.
			report, guard, err = p.hear()
		}
		if err != nil {
			return p.lost(!errors.Is(err, io.EOF)), failed
		}
		switch report.Kind {
		case helper.Running:
			if p.guard.Load() == 0 {
				p.before = time.Duration(report.User+report.System) * time.Microsecond
				p.guard.Store(guard)
			}
		case helper.Failed:
			failed = &StartError{Doing: report.Step.String(), Errno: syscall.Errno(report.Errno), inExec: report.Step == helper.StepExec}
		case helper.Leaving:
			if p.cause.Load() == nil {
				time.Sleep(forkTime)
				p.leftover = leftBelow(int(guard))
			}
			p.say(helper.Terminate)
			time.AfterFunc(p.grace, p.hangUp)
		case helper.Ended:
			if report.Again != 0 {
				p.jail.space.link.rest()
			}
			return p.end(report), failed
		}
	}
}

// forkTime is how long a process that was just started has to become a program, so
// that it can be told which.
const forkTime = 10 * time.Millisecond

// hear returns what the guard says next, and the id that the guard has here.
func (p *Process) hear() (report helper.Report, guard uint32, err error) {
	conn, err := p.control.SyscallConn()
	if err != nil {
		return report, 0, err
	}
	var buf [128]byte
	var rights [64]byte
	var n, size int
	waited := conn.Read(func(fd uintptr) bool {
		for {
			n, size, _, _, err = unix.Recvmsg(int(fd), buf[:], rights[:], unix.MSG_CMSG_CLOEXEC)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case waited != nil:
		return report, 0, waited
	case err != nil:
		return report, 0, err
	case n == 0:
		return report, 0, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil {
		return report, 0, err
	}
	for _, m := range messages {
		if who, err := unix.ParseUnixCredentials(&m); err == nil {
			guard = uint32(who.Pid)
		}
	}
	report, err = helper.DecodeReport(buf[:n])
	return report, guard, err
}

// lost is the end of a command whose guard does not answer, or is gone. What
// the command has started comes to the helper then, and is killed there.
func (p *Process) lost(left bool) End {
	abandon := helper.Request{Kind: helper.Abandon, ID: p.id}
	if message, err := abandon.Encode(); err == nil {
		p.jail.space.link.tell(message)
	}
	if cause := p.cause.Load(); cause != nil {
		return End{Reason: cause.reason, Group: cause.group, Left: left}
	}
	return End{Reason: Lost, Left: left}
}

func (p *Process) end(r helper.Report) End {
	status := syscall.WaitStatus(r.Status)
	end := End{
		Reason: Exited,
		User:   time.Duration(r.User) * time.Microsecond, System: time.Duration(r.System) * time.Microsecond,
		MaxRSS: r.MaxRSS, Left: r.Left != 0, Leftover: p.leftover,
	}
	cause := p.cause.Load()
	switch {
	case cause != nil && r.Stopped != 0:
		end.Reason, end.Group = cause.reason, cause.group // whatever it made of that
	case status.Exited():
		end.Code = status.ExitStatus()
	case cause != nil:
		end.Reason, end.Group = cause.reason, cause.group
	case status.Signaled():
		end.Reason, end.Signal = Signaled, status.Signal()
		switch end.Signal {
		case syscall.SIGSYS:
			end.Reason = Violation
		case syscall.SIGXCPU:
			end.Reason = OutOfTime
		case syscall.SIGKILL: // who ignores SIGXCPU
			if p.limits.CPU > 0 && end.User+end.System > p.limits.CPU {
				end.Reason = OutOfTime
			}
		case syscall.SIGXFSZ:
			end.Reason = FileTooLarge
		}
	}
	if cause != nil && (cause.reason == OutOfMemory || cause.reason == TooManyProcesses) {
		end.Reason, end.Group = cause.reason, cause.group // also where the command itself got away
	}
	return end
}
