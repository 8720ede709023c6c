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

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newApprovalsWatch() *cobra.Command {
	var (
		to      Target
		session string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch what waits, and answer it with a key",
		Long: `watch shows what waits for an answer as it comes and goes, one of it in full.

  j, k, arrows       choose what to look at
  space, enter, b    see more of it, and go back
  y                  yes, this once; or answer the questions of an agent
  a                  always, as far as you then choose
  n                  no, this once
  d                  never, as far as you then choose
  c                  write a comment that the model gets with the answer
  q                  quit

Where it is no terminal it prints a line for each change, with --json as JSON.`,
		Args: Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, _ []string) error {
			changes := client.approvalChanges(ctx, session)
			switch {
			case asJSON:
				return printChanges(changes, func(c *pb.WatchApprovalsResponse) error { return WriteJSON(NewStream(os.Stdout), c) })
			case !atTerminal():
				log := changeLog{to: NewStream(os.Stdout), known: make(map[string]bool)}
				return printChanges(changes, log.print)
			}
			return client.watchBoard(ctx, changes)
		}),
	}
	cmd.Flags().StringVar(&session, "session", "", "only what this session waits for")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one change a line, as JSON")
	to.addOutsideFlags(cmd)
	return cmd
}

// maxTries is how often a broken stream is opened again before giving up.
const maxTries = 8

// approvalChanges yields what begins and ends to wait. When the connection
// breaks it continues on a new one, with a new snapshot.
func (c *Client) approvalChanges(ctx context.Context, session string) iter.Seq2[*pb.WatchApprovalsResponse, error] {
	return func(yield func(*pb.WatchApprovalsResponse, error) bool) {
		connected, tries := false, 0
		for {
			stream, err := c.WatchApprovals(ctx, &pb.WatchApprovalsRequest{SessionId: session})
			for err == nil {
				var change *pb.WatchApprovalsResponse
				if change, err = stream.Recv(); err == nil {
					connected, tries = true, 0
					if !yield(change, nil) {
						return
					}
				}
			}
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Unavailable, "it shuts down")
			}
			if !connected || tries == maxTries || status.Code(err) != codes.Unavailable {
				yield(nil, err)
				return
			}
			select {
			case <-time.After(min(100*time.Millisecond<<tries, 3*time.Second)):
			case <-ctx.Done():
				return
			}
			tries++
		}
	}
}

// printChanges prints each change, until there are no more.
func printChanges(changes iter.Seq2[*pb.WatchApprovalsResponse, error], print func(*pb.WatchApprovalsResponse) error) error {
	for change, err := range changes {
		if err == nil {
			err = print(change)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A changeLog writes a line for each change.
type changeLog struct {
	to    *Stream
	known map[string]bool // what waits, by id
}

func (l *changeLog) print(c *pb.WatchApprovalsResponse) error {
	switch change := c.GetChange().(type) {
	case *pb.WatchApprovalsResponse_Snapshot:
		before := l.known
		l.known = make(map[string]bool)
		for _, a := range change.Snapshot.GetApprovals() {
			if l.known[a.GetApprovalId()] = true; before[a.GetApprovalId()] {
				delete(before, a.GetApprovalId())
				continue
			}
			if err := l.asked(a); err != nil {
				return err
			}
		}
		for id := range before {
			if err := l.ended(time.Now(), id, "it no longer waits"); err != nil {
				return err
			}
		}
	case *pb.WatchApprovalsResponse_Asked:
		l.known[change.Asked.GetApprovalId()] = true
		return l.asked(change.Asked)
	case *pb.WatchApprovalsResponse_Ended:
		delete(l.known, change.Ended.GetApprovalId())
		answer := change.Ended.GetAnswer()
		return l.ended(answer.GetTime().AsTime(), change.Ended.GetApprovalId(), answerText(answer))
	}
	return nil
}

func (l *changeLog) asked(a *pb.Approval) error {
	_, err := fmt.Fprintf(l.to, "%s asked %s %s: %s\n", a.GetCreateTime().AsTime().Local().Format(time.DateTime),
		shortID(a.GetApprovalId()), callerText(a.GetTenant(), a.GetPrincipal(), a.GetOnBehalfOf())+"/"+sessionText(a), approvalText(a))
	return err
}

func (l *changeLog) ended(at time.Time, id, how string) error {
	_, err := fmt.Fprintf(l.to, "%s ended %s %s\n", at.Local().Format(time.DateTime), shortID(id), how)
	return err
}

// watchBoard shows changes on the screen and sends what is answered there.
func (c *Client) watchBoard(ctx context.Context, changes iter.Seq2[*pb.WatchApprovalsResponse, error]) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	b := newBoard(func(request *pb.ResolveApprovalRequest) error {
		_, err := c.ResolveApproval(ctx, request)
		return err
	})
	program := tea.NewProgram(b, tea.WithoutSignalHandler())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		select {
		case <-signals:
			program.Send(boardEnd{&ExitError{Code: ExitCancelled}})
		case <-ctx.Done():
		}
	}()
	go func() {
		err := printChanges(changes, func(change *pb.WatchApprovalsResponse) error {
			program.Send(change)
			return ctx.Err()
		})
		program.Send(boardEnd{err})
	}()
	if _, err := program.Run(); err != nil {
		return err
	}
	return b.end
}
