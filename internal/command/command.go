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
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
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

const bufferSize = 64_000 // what fills events of 32,000 bytes

// buffers are what output is read into.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// A command that writes more than muchOutput gets a pipe of widePipe bytes, and
// what it writes is left there for a moment, so that it is taken in large pieces.
const (
	muchOutput = 256 << 10
	widePipe   = 1 << 20
	moment     = 500 * time.Microsecond
)
