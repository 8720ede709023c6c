// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An opener yields the events of an execution, each once and in order, to the finished
// one. When the connection breaks it goes on over a new one.
type opener func(ctx context.Context) iter.Seq2[*pb.Event, error]

// execute yields the events of a new call.
func (c *Client) execute(request *pb.ExecuteToolRequest) opener {
	return func(ctx context.Context) iter.Seq2[*pb.Event, error] { return c.calls.ExecuteRequest(ctx, request) }
}

// watch yields the events of an execution there is.
func (c *Client) watch(request *pb.WatchExecutionRequest) opener {
	return func(ctx context.Context) iter.Seq2[*pb.Event, error] { return c.calls.WatchRequest(ctx, request) }
}

// oneInterrupt is how long signals after the first are the same wish: timeout(1)
// signals its child and then the group that this is in.
const oneInterrupt = 500 * time.Millisecond

// interrupts are the signals that ask to end.
type interrupts struct{ first time.Time }

// again takes a signal and reports whether it repeats the wish of the first.
func (i *interrupts) again() bool {
	if i.first.IsZero() {
		i.first = time.Now()
	}
	return time.Since(i.first) >= oneInterrupt
}

// follow shows events until the execution has ended, and returns what to exit
// with. What the execution waits for is passed to asker, if there is one. The
// first Ctrl-C is passed to interrupt, with the id of the execution; a later one
// leaves at once, as does the first where interrupt is nil. Whoever leaves a
// terminal that the execution has ends it with the reason of that.
func follow(v view, asker *asker, open opener, interrupt func(ctx context.Context, id string) error) error {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	defer v.close()

	type received struct {
		event *pb.Event
		err   error
	}
	events := make(chan received)
	go func() {
		defer restoring(v)
		for event, err := range open(ctx) {
			select {
			case events <- received{event, err}:
			case <-ctx.Done():
				return
			}
		}
	}()

	var lines chan typed
	var refusals chan error
	if asker != nil {
		lines, refusals = asker.lines, asker.errors
	}
	var left chan error
	if t, ok := v.(*terminalView); ok {
		left = t.left
	}
	var id string
	var asked interrupts
	var wanted, sent bool // to interrupt
	answers := make(chan error, 1)
	for {
		if wanted && !sent && id != "" {
			sent = true
			go func() { answers <- interrupt(ctx, id) }()
		}
		select {
		case r := <-events:
			if r.err != nil {
				return r.err
			}
			id = r.event.GetExecutionId()
			if err := v.show(r.event); err != nil {
				return err
			}
			if finished := r.event.GetFinished(); finished != nil {
				return exitOf(finished.GetOutcome())
			}
			if asker != nil {
				asker.event(ctx, r.event)
			}
		case line := <-lines:
			asker.typed(ctx, line)
		case err := <-refusals:
			asker.failed(err)
		case err := <-left:
			return err
		case now := <-ticks.C:
			v.tick(now)
		case err := <-answers:
			if err != nil {
				v.note("cannot cancel: " + StatusText(status.Convert(err)))
			}
		case <-signals:
			if asked.again() || interrupt == nil {
				v.close()
				os.Exit(ExitCancelled) // at once, whatever is unfinished
			}
			if wanted {
				continue
			}
			wanted = true
			v.note("cancelling; Ctrl-C again leaves at once")
		}
	}
}
