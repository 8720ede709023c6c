// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/recording"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newReplay() *cobra.Command {
	p := player{speed: 1}
	var noWait bool
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a recording back",
		Long: `replay shows what a recording has, as "toolserver watch" would have shown it, and with
the same pauses. Nothing runs, and no server is needed. Of several executions each is
shown after the other, with a line about the call before it. For a single one it exits
as "toolserver call" does.

` + exitHelp(),
		Example: `  toolserver replay build.rec
  toolserver replay --speed 8 session.rec
  toolserver replay --no-wait --json session.rec`,
		Args: Arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			if !(p.speed > 0) || math.IsInf(p.speed, 0) {
				return fmt.Errorf("--speed %v: want more than 0", p.speed)
			}
			if noWait {
				p.speed = math.Inf(1)
			}
			return p.play(args[0])
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&p.speed, "speed", 1, "how many times as fast as it was")
	flags.BoolVar(&noWait, "no-wait", false, "show everything at once")
	flags.BoolVar(&p.json, "json", false, "print one event a line, as JSON")
	flags.BoolVar(&p.raw, "raw", false, rawUsage)
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
	cmd.MarkFlagsMutuallyExclusive("speed", "no-wait")
	return cmd
}

// player shows recordings.
type player struct {
	speed     float64
	json, raw bool

	last   time.Time      // when what was shown last had happened
	beyond recording.Item // that was read behind an execution without an end
}

// play shows a file. It is read twice: nothing of a file is shown that is not whole.
func (p *player) play(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	executions := 0
	err = eachItem(file, func(item recording.Item) error {
		if item.Execution != nil {
			executions++
		}
		return nil
	})
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r, err := recording.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var ended error
	for item, err := r.Next(); !errors.Is(err, io.EOF); item, err = r.Next() {
		for err == nil && item.Execution != nil {
			v := newView(NewStream(os.Stderr), p.json, p.raw)
			if executions > 1 && !p.json {
				v.note("> " + Visible(item.Execution.GetTool()) + " " + OneLine(item.Execution.GetInputJson()))
			}
			p.beyond = recording.Item{}
			ended = follow(v, nil, p.events(r, item.Execution.GetExecutionId()), nil)
			if errors.Is(ended, errNoEnd) {
				v.note(ended.Error())
				ended = &ExitError{Code: ExitLost}
			} else if exit := (*ExitError)(nil); ended != nil && !errors.As(ended, &exit) {
				return ended
			}
			item = p.beyond
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if executions == 1 {
		return ended
	}
	return nil
}

// eachItem gives all of a recording to f.
func eachItem(from io.Reader, f func(recording.Item) error) error {
	r, err := recording.NewReader(from)
	for err == nil {
		var item recording.Item
		if item, err = r.Next(); err == nil {
			err = f(item)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

var errNoEnd = errors.New("(its end is not recorded)")

// events yields the events of an execution, each when it is its time.
func (p *player) events(r *recording.Reader, id string) opener {
	return func(ctx context.Context) iter.Seq2[*pb.Event, error] {
		return func(yield func(*pb.Event, error) bool) {
			for {
				item, err := r.Next()
				if err != nil || item.Event.GetExecutionId() != id {
					p.beyond = item
					yield(nil, errNoEnd)
					return
				}
				// Nothing is read behind the end: whoever plays goes on from there.
				if !p.wait(ctx, item.Event.GetTime().AsTime()) || !yield(item.Event, nil) || item.Event.GetFinished() != nil {
					return
				}
			}
		}
	}
}

// wait waits until it is the time of what happened at one moment.
func (p *player) wait(ctx context.Context, at time.Time) bool {
	pause := time.Duration(float64(at.Sub(p.last)) / p.speed)
	if p.last.IsZero() || pause < 0 {
		pause = 0
	}
	if at.After(p.last) {
		p.last = at
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
