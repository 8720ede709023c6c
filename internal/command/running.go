// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/tools"
)

// Running is a command that was started. Its methods are safe for concurrent
// use.
type Running struct {
	command Command
	runner  *Runner
	jail    *jailed
	refused []string // hosts that it could not reach, once it has ended
	process *sandbox.Process
	begun   time.Time
	outputs []outlet
	leave   func() // when it has ended

	input    *os.File // to the command, nil without
	terminal bool

	taking sync.Mutex // held while output is given away
	take   Taker
	bytes  int64
	quiet  *time.Timer

	mark  *integrity.Mark // nil where it cannot write
	live  atomic.Bool     // it was started
	found []string        // what was taken back; once done

	cause   atomic.Pointer[error]
	done    chan struct{}
	outcome Outcome // once done
	failed  error   // the program could not be executed
}

func newRunning(r *Runner, c Command) *Running {
	return &Running{command: c, runner: r, jail: c.jail, done: make(chan struct{}), terminal: c.Terminal != nil}
}

// run takes note that the process that was started is the command's. Somebody has
// to attend to it then.
func (x *Running) run(take Taker, leave func()) {
	x.take, x.leave, x.begun = take, leave, time.Now()
	x.live.Store(true)
	if x.command.Quiet > 0 {
		x.quiet = time.AfterFunc(x.command.Quiet, func() { x.Stop(errQuiet) })
	}
	x.runner.all.disk.begins(x)
}

// start starts the process.
func (x *Running) start(ctx context.Context) (err error) {
	var theirs, ours []*os.File
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
		if err != nil {
			for _, file := range ours {
				file.Close()
			}
			if x.jail != nil {
				x.jail.close()
			}
		}
	}()
	r, c := x.runner, x.command
	program, err := r.program(c.Path)
	if err != nil {
		return err
	}
	dir, err := r.workspace.OpenPath(c.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return tools.Failf("no_such_directory", "Nothing was run: %s is no directory of the workspace. Make it first, or choose another.", c.Dir)
	}
	if err != nil {
		return err
	}
	theirs = append(theirs, dir)

	if x.jail == nil {
		if x.jail, err = r.jailFor(ctx, &c); err != nil {
			return err
		}
	}
	around := x.surroundings()
	around.more = append(r.traceEnv(ctx), around.more...)
	start := sandbox.Command{
		Path: program, Args: append([]string{filepath.Base(c.Path)}, c.Args...), Env: r.environ(around), Dir: dir,
		Grace: r.all.config.Grace, Limits: narrower(r.all.config.Limits.command(), c.Limits), Group: r.group, Terminal: c.Terminal != nil,
	}
	if c.Terminal != nil {
		master, slave, err := x.jail.OpenTerminal(c.Terminal.Rows, c.Terminal.Columns)
		if err != nil {
			return err
		}
		theirs, ours = append(theirs, slave), append(ours, master)
		start.Stdin, start.Stdout, start.Stderr = slave, slave, slave
		x.input = master
		x.outputs = []outlet{{tools.Terminal, master}}
	} else {
		streams := []tools.Stream{tools.Stdout, tools.Stderr}
		if c.Joined {
			streams = streams[:1]
		}
		for _, stream := range streams {
			read, write, err := outputPipe()
			if err != nil {
				return err
			}
			theirs, ours = append(theirs, write), append(ours, read)
			x.outputs = append(x.outputs, outlet{stream, read})
		}
		start.Stdout, start.Stderr = theirs[1], theirs[len(theirs)-1]
		if c.Input {
			read, write, err := os.Pipe()
			if err != nil {
				return err
			}
			theirs, ours = append(theirs, read), append(ours, write)
			start.Stdin, x.input = read, write
		}
	}
	x.process, err = x.jail.Start(start)
	return err
}

// outlet is one end of what a command writes to.
type outlet struct {
	stream tools.Stream
	file   *os.File
}

// attend reads the output until the command has ended, and tells how.
func (x *Running) attend() {
	defer close(x.done)
	defer x.leave() // before, so that who waited for the end can start another
	var reading sync.WaitGroup
	lives := x.lives()
	for i, o := range x.outputs {
		reading.Go(func() { x.copy(o, lives[i]) })
	}
	end, err := x.process.Wait()
	x.jail.left.Store(end.Left)
	x.refused = x.jail.close()
	x.runner.all.disk.ends(x)
	// All that could write is gone, so what was written is there. Only what the
	// kernel could not kill holds the other end open.
	for _, o := range x.outputs {
		o.file.SetReadDeadline(time.Now().Add(patience))
	}
	reading.Wait()
	for _, o := range x.outputs {
		o.file.Close()
	}
	if x.input != nil {
		x.input.Close()
	}
	if x.quiet != nil {
		x.quiet.Stop()
	}
	x.failed = err
	x.outcome = Outcome{Exit: x.exit(end), Usage: usageOf(end), Ran: time.Since(x.begun)}
	x.found = x.mark.End()
}

// lives returns what masks each of the outputs.
func (x *Running) lives() []*output.Live {
	lives := make([]*output.Live, len(x.outputs))
	for i, o := range x.outputs {
		lives[i] = x.runner.all.config.Masker().Live(func(masked []byte, raw int) { x.give(o.stream, masked, int64(raw)) })
	}
	if len(lives) == 2 {
		lives[0].Beside(lives[1])
	}
	return lives
}

// copy gives away what a command writes, as soon as it is there.
func (x *Running) copy(o outlet, live *output.Live) {
	if x.command.Read != nil && o.stream == tools.Stdout {
		x.command.Read(o.file)
		return
	}
	for total, wide := 0, false; ; {
		buffer, n := readPooled(o.file)
		if n == 0 {
			break
		}
		if total += n; total > muchOutput && !wide {
			wide = widen(o.file)
			total = 0
		}
		if x.command.Unmasked {
			x.give(o.stream, buffer[:n], int64(n))
			buffers.Put(buffer)
			continue
		}
		live.Write(buffer[:n])
		buffers.Put(buffer)
		if wide && n < bufferSize {
			time.Sleep(moment)
		}
	}
	live.Close()
}

// readPooled reads once, into a buffer that is taken when there is something to
// read: a command that writes nothing costs none. It returns 0 at the end.
func readPooled(file *os.File) (buffer *[bufferSize]byte, n int) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, 0
	}
	err = conn.Read(func(fd uintptr) bool {
		buffer = buffers.Get().(*[bufferSize]byte)
		var err error
		if n, err = ignoringEINTR(func() (int, error) { return syscall.Read(int(fd), buffer[:]) }); err != nil || n == 0 {
			buffers.Put(buffer)
			n = 0
		}
		return err != syscall.EAGAIN // of a terminal, EIO is the end
	})
	if err != nil {
		return nil, 0
	}
	return buffer, n
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// give hands output on, and counts it.
func (x *Running) give(stream tools.Stream, data []byte, raw int64) {
	x.taking.Lock()
	defer x.taking.Unlock()
	if x.quiet != nil && raw > 0 {
		x.quiet.Reset(x.command.Quiet)
	}
	x.bytes += raw
	if limit, total := x.maxOutput(), x.bytes; limit > 0 && total > limit {
		x.Stop(errOutputLimit)
		data = data[:max(0, int64(len(data))-(total-limit))]
	}
	if len(data) > 0 {
		x.take(stream, data)
	}
}

func (x *Running) maxOutput() int64 {
	return cmp.Or(x.command.MaxOutput, int64(x.runner.all.config.Limits.Output))
}

// Temp returns the temporary directory of the command, and how the command knows it.
func (x *Running) Temp() (dir, seen string) { return x.jail.temp, x.runner.seen(x.jail.temp) }

// Proxy returns the proxy of the command, with the secret by which that knows it; "" where
// it has none.
func (x *Running) Proxy() string {
	if x.jail.hosts == nil {
		return ""
	}
	return x.jail.hosts.client.URL(x.jail.hosts.listener.Addr().String())
}

// Done is closed when the command and everything it started are gone.
func (x *Running) Done() <-chan struct{} { return x.done }

// Wait returns how the command ended, once it has. The error says why the
// program could not be executed, and what would be right.
func (x *Running) Wait() (Outcome, error) {
	<-x.done
	if x.failed != nil {
		return x.outcome, notExecuted(x.command, x.failed)
	}
	return x.outcome, nil
}

// Found returns what was taken back of what the command did, once it has ended.
func (x *Running) Found() []string {
	<-x.done
	return x.found
}

// Stop ends the command and everything it started, for a reason: it is asked to
// end, and killed if it does not. The first reason counts. It returns at once.
func (x *Running) Stop(cause error) {
	if x.cause.CompareAndSwap(nil, &cause) {
		x.runner.rest()
	}
	x.process.Terminate()
}

// Signal sends a signal, by its name without SIG, to the processes the command has in
// the foreground.
func (x *Running) Signal(name string) error {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return tools.Failf("no_such_signal", "There is no signal %s.", name)
	}
	return x.process.Signal(sig)
}

// Write writes to the input of the command, which must have one. It waits while
// the command does not read, until ctx is done or the command has ended. One
// writes at a time.
func (x *Running) Write(ctx context.Context, data []byte) (int, error) {
	x.input.SetWriteDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { x.input.SetWriteDeadline(time.Now()) })()
	n, err := x.input.Write(data)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	return n, err
}

// Offer writes as much to the input of the command as that takes at once, and returns how
// much that was.
func (x *Running) Offer(data []byte) (n int, err error) {
	conn, err := x.input.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Write(func(fd uintptr) bool {
		n, failed = ignoringEINTR(func() (int, error) { return syscall.Write(int(fd), data) })
		return true
	})
	if errors.Is(failed, syscall.EAGAIN) {
		failed = nil
	}
	return max(n, 0), cmp.Or(err, failed)
}

// CloseInput ends the input of the command. On a terminal that is what Ctrl-D
// does.
func (x *Running) CloseInput() error {
	if x.terminal {
		_, err := x.input.Write([]byte{4})
		return err
	}
	return x.input.Close()
}

// exit tells how the command ended, in the words of tools.
func (x *Running) exit(end sandbox.End) tools.Exit {
	exit := tools.Exit{Reason: tools.Exited, Code: end.Code, Message: x.leftover(end.Leftover)}
	switch end.Reason {
	case sandbox.Exited:
		// Who stops a command that has just ended by itself was too late.
	case sandbox.Signaled:
		exit.Reason, exit.Signal = tools.Signaled, signalName(end.Signal)
	case sandbox.Killed:
		exit.Reason = tools.Cancelled
		if cause := x.cause.Load(); cause != nil {
			why, tooMuch := errors.AsType[*overLimit](*cause)
			switch {
			case tooMuch:
				exit.Reason, exit.Message = tools.DiskLimit, "The command was ended: "+why.text
			case errors.Is(*cause, context.DeadlineExceeded):
				exit.Reason = tools.TimedOut
			case errors.Is(*cause, errQuiet):
				exit.Reason, exit.Message = tools.TimedOut, fmt.Sprintf("The command was ended: it had written nothing for %s.", x.command.Quiet)
			case errors.Is(*cause, errPlanted):
				exit.Reason, exit.Message = tools.SandboxViolation, "The command was ended: what it planted was taken back, and then it, or something beside it, did so again."
			case errors.Is(*cause, errOutputLimit):
				exit.Reason, exit.Message = tools.OutputLimit, x.runner.all.config.outputMessage(x.maxOutput())
			}
		}
	case sandbox.OutOfMemory:
		exit.Reason, exit.Message = tools.OutOfMemory, x.runner.memoryMessage(end.Group)
	case sandbox.TooManyProcesses:
		exit.Reason, exit.Message = tools.ProcessLimit, x.runner.processesMessage(end.Group)
	case sandbox.OutOfTime:
		exit.Reason, exit.Message = tools.CPULimit, x.runner.cpuMessage(end.Group)
	case sandbox.FileTooLarge:
		exit.Reason, exit.Message = tools.FileSizeLimit, x.runner.all.config.fileMessage()
	case sandbox.Violation:
		exit.Reason, exit.Message = tools.SandboxViolation, "The command made a system call that the sandbox forbids, and was killed."
	default:
		exit.Reason, exit.Message = tools.Signaled, "The command was lost: something outside the server killed its guard."
	}
	return exit
}

func usageOf(end sandbox.End) tools.Usage {
	return tools.Usage{User: end.User, System: end.System, MaxRSS: end.MaxRSS, Processes: uint32(end.Processes)}
}
