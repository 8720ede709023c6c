// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An opener opens a stream of events; what it returns receives the next one.
type opener func(ctx context.Context) (receive func() (*pb.Event, error), err error)

// execute opens the stream of a new call.
func (c *Client) execute(request *pb.ExecuteToolRequest) opener {
	return func(ctx context.Context) (func() (*pb.Event, error), error) {
		stream, err := c.ExecuteTool(ctx, request)
		return receiver(stream, err)
	}
}

// watch opens a stream of an execution there is.
func (c *Client) watch(request *pb.WatchExecutionRequest) opener {
	return func(ctx context.Context) (func() (*pb.Event, error), error) {
		stream, err := c.WatchExecution(ctx, request)
		return receiver(stream, err)
	}
}

// receiver returns what receives the events of either kind of stream.
func receiver[M any, Response interface {
	*M
	GetEvent() *pb.Event
}](stream grpc.ServerStreamingClient[M], err error) (func() (*pb.Event, error), error) {
	if err != nil {
		return nil, err
	}
	return func() (*pb.Event, error) {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) { // after the finished event nobody asks
			err = status.Error(codes.Unavailable, "the stream ended before the execution did")
		}
		return Response(response).GetEvent(), err
	}, nil
}

// maxTries is how often a broken stream is opened again before giving up. With
// the pauses between them it is less than the grace servers give by default.
const maxTries = 8

// events yields the events of an execution after a sequence, each once and in
// order, to the finished one. When the connection breaks it continues on a new
// stream.
func (c *Client) events(ctx context.Context, open opener, after uint64) iter.Seq2[*pb.Event, error] {
	return func(yield func(*pb.Event, error) bool) {
		id, tries := "", 0
		receive, err := open(ctx)
		for {
			var event *pb.Event
			if err == nil {
				event, err = receive()
			}
			if err == nil {
				id, tries = event.GetExecutionId(), 0
				if event.GetSequence() <= after {
					continue // a heartbeat, which has no number of its own
				}
				after = event.GetSequence()
				if !yield(event, nil) || event.GetFinished() != nil {
					return
				}
				continue
			}
			if tries > 0 && status.Code(err) == codes.NotFound {
				err = &ExitError{ExitLost, fmt.Errorf("lost: the connection broke, and the server now knows no execution %s", id)}
			}
			if id == "" || tries == maxTries || status.Code(err) != codes.Unavailable {
				yield(nil, err)
				return
			}
			select {
			case <-time.After(min(100*time.Millisecond<<tries, 3*time.Second)):
			case <-ctx.Done():
				return
			}
			tries++
			receive, err = c.watch(&pb.WatchExecutionRequest{ExecutionId: id, AfterSequence: after})(ctx)
		}
	}
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
func (c *Client) follow(v view, asker *asker, open opener, after uint64, interrupt func(ctx context.Context, id string) error) error {
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
		for event, err := range c.events(ctx, open, after) {
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
