// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package command runs the commands of sessions: it knows where they run, with
// what environment and limits, what becomes of their output, and how they ended.
// How a process is confined and killed is the secret of package sandbox.
//
// Locks: of a [Runner], mu comes before jailing and that before spacing. Of the disk, walking comes
// before mu. Runners.mu comes after all of these. Running.taking comes before all: it is held while output
// is given to a Taker, which may take locks of its caller.
//
// Goroutines: a command has one that waits for its end, and one for each of its outputs; they end with
// the command. The proxy to hosts has one for each jail that may reach hosts, until the jail's listener is
// closed. A count of the files of a session has one, which ends by itself.
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

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Command is what to run.
type Command struct {
	Path string   // of the program; a name without a slash is looked for in PATH
	Args []string // without the name
	Dir  string   // the working directory, a resolved path of the workspace
	Env  []string // in addition to what every command has

	// Input has the command read what [Running.Write] writes; otherwise its input
	// is empty.
	Input bool

	// Terminal gives the command a terminal of this size, for input and output.
	Terminal *Size

	// Rights are what the command may touch.
	Rights tools.Rights

	// Restrictions judge the hosts that the command reaches; nil where nobody does.
	Restrictions tools.Restrictions

	// Proxied, if set, judges the hosts that the command reaches, in place of its rights
	// and Restrictions: with it, a proxy of the server is all the network that the command is
	// given, and its way to the loopback of the session.
	Proxied *egress.Judge

	// Apart keeps what calls of the session can write out of the environment: HOME is
	// TMPDIR, which is empty where the command can only read, PATH is the server's, and no
	// cache or setting of the session is used. It is for checks of the operator.
	Apart bool

	// SharedTemp has the command find $TMPDIR where other calls put it, also if it
	// can only read there.
	SharedTemp bool

	// Finding, if set, is what exit status 1 means where nothing is written to
	// standard error, and that is no terminal.
	Finding Finding

	// Deletes says that the command does nothing but delete, so that it may run
	// where there are too many files.
	Deletes bool

	// Limits replaces those of the server where they are narrower.
	Limits sandbox.Limits

	// MaxOutput is how many bytes the command may write; 0 means what the server says.
	MaxOutput int64

	// Quiet is how long the command may write nothing; 0 means for ever.
	Quiet time.Duration

	// Lasting says that the command is not part of a call.
	Lasting bool

	// Unmasked gives output to the Taker as it is: whoever takes it masks it.
	Unmasked bool

	// Read, if set, reads standard output in place of the Taker, as it is and however much
	// it is. The command is over when Read has returned; nobody reads what it leaves.
	Read func(out *os.File)

	// Joined has what the command writes to standard error come as standard output.
	Joined bool

	jail    *jailed // where it runs; nil: one is made for its rights
	rebases bool    // its words have git rebase
}

// readOnly reports whether the command can write nothing that stays.
func (c *Command) readOnly() bool { return c.Rights.Confinement == tools.Reading }

// Size is the size of a terminal.
type Size struct{ Rows, Columns uint16 }

// A Taker takes the output of a command, which is masked already. It is called
// by one goroutine at a time.
type Taker func(stream tools.Stream, data []byte)

// Outcome is how a command ended.
type Outcome struct {
	Exit  tools.Exit
	Usage tools.Usage
	Ran   time.Duration
}

// ErrSessionEnds is why the commands of a session that ends are stopped.
var ErrSessionEnds = errors.New("the session ends")

// Why a command was stopped. What stops it otherwise is a cancellation.
var (
	errOutputLimit = errors.New("output limit")
	errQuiet       = errors.New("quiet for too long")
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

// Start starts a command, unless ctx ends before. Its output goes to take until it
// has ended.
func (r *Runner) Start(ctx context.Context, c Command, take Taker) (*Running, error) {
	return r.start(ctx, c, take, func() {})
}

// start is Start with something that is done when the command has ended, or was not
// started.
func (r *Runner) start(ctx context.Context, c Command, take Taker, cleanup func()) (*Running, error) {
	ctx, ran := traced(ctx, &c)
	x, err := r.begin(ctx, c, take)
	if err != nil {
		ran(nil)
		cleanup()
		return nil, err
	}
	go func() {
		x.attend()
		ran(x)
		cleanup()
	}()
	return x, nil
}

// traced begins the span of a command, which names its program and nothing of its
// words. What it returns ends it: with nil for one that was not started.
func traced(ctx context.Context, c *Command) (context.Context, func(*Running)) {
	ctx, s := span.Start(ctx, "command")
	if !s.Sampled() {
		return ctx, func(*Running) {}
	}
	s.Set("process.executable.name", filepath.Base(c.Path))
	return ctx, func(x *Running) {
		defer s.End()
		if x == nil || x.failed != nil {
			s.Fail("not_started")
			return
		}
		exit := &x.outcome.Exit
		s.Set("toolserver.exit", exit.Reason.String())
		switch {
		case exit.Reason == tools.Exited:
			s.SetInt("process.exit.code", exit.Code)
		case exit.Signal != "":
			s.Set("toolserver.signal", exit.Signal)
		}
		if exit.Reason != tools.Exited || exit.Code != 0 {
			s.Fail(exit.Reason.String())
		}
	}
}

// begin is Start for whoever attends to the command.
func (r *Runner) begin(ctx context.Context, c Command, take Taker) (*Running, error) {
	leave, err := r.enter(c)
	if err != nil {
		return nil, err
	}
	x := newRunning(r, c)
	x.note(c)
	if err := x.start(ctx); err != nil {
		x.mark.Drop()
		leave()
		return nil, err
	}
	x.run(take, leave)
	return x, nil
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

// outlet is one end of what a command writes to.
type outlet struct {
	stream tools.Stream
	file   *os.File
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

const bufferSize = 64_000 // what fills events of 32,000 bytes

// buffers are what output is read into.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

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

// A command that writes more than muchOutput gets a pipe of widePipe bytes, and
// what it writes is left there for a moment, so that it is taken in large pieces.
const (
	muchOutput = 256 << 10
	widePipe   = 1 << 20
	moment     = 500 * time.Microsecond
)

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

// Resize changes the size of the terminal.
func (x *Running) Resize(size Size) error {
	if !x.terminal {
		return errors.ErrUnsupported
	}
	return sandbox.ResizeTerminal(x.input, size.Rows, size.Columns)
}

// exit tells how the command ended, in the words of tools.
func (x *Running) exit(end sandbox.End) tools.Exit {
	exit := tools.Exit{Reason: tools.Exited, Code: end.Code, Message: leftover(end.Leftover)}
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
