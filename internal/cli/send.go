// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newInput() *cobra.Command {
	var (
		to     Target
		which  executionFlags
		send   sending
		window string
	)
	cmd := &cobra.Command{
		Use:   "input [EXECUTION] [TEXT...]",
		Short: "Send input to an execution that runs",
		Long: `input sends text to an execution that takes it, and a newline behind it; "-", or
no text and none of the flags below, sends standard input as it is. Then it sends the
window size, the end of input and the signal that flags ask for, in this order. It waits while
the program does not read, and tells how many bytes were taken in all.

` + shortHelp,
		Example: `  toolserver input 36oux yes
  toolserver input 36oux - --eof <answers.txt
  toolserver input 36oux --signal INT`,
		ValidArgsFunction: completeExecutions(&to, pb.ExecutionState_EXECUTION_STATE_RUNNING),
		RunE: func(cmd *cobra.Command, args []string) error {
			named := args[:min(len(args), 1)]
			if which.callID != "" {
				named = nil
			}
			id, err := which.id(named)
			if err != nil {
				return err
			}
			var size *pb.WindowSize
			if window != "" {
				size = new(pb.WindowSize)
				if n, err := fmt.Sscanf(window+"\n", "%dx%d\n", &size.Rows, &size.Columns); n != 2 || err != nil {
					return fmt.Errorf("--window %q: want rows and columns, such as 24x80", window)
				}
			}
			client, err := to.connectOutside(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if id, err = client.wholeExecution(cmd.Context(), id); err != nil {
				return err
			}
			send.client = client
			send.request = &pb.WriteInputRequest{ExecutionId: id, SessionId: which.session, CallId: which.callID}
			if err := send.all(cmd.Context(), args[len(named):], size); err != nil {
				return client.unknownExecution(cmd.Context(), err, id, which)
			}
			fmt.Fprintln(os.Stdout, send.taken)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&send.bare, "no-newline", "n", false, "send text without a newline behind it")
	flags.StringVar(&window, "window", "", "size of the terminal in rows and columns, such as 24x80")
	flags.BoolVar(&send.eof, "eof", false, "end the input")
	flags.StringVar(&send.signal, "signal", "", "signal to send, such as INT")
	names := make([]string, len(tools.Signals()))
	for i, signal := range tools.Signals() {
		names[i] = string(signal)
	}
	Complete(cmd, "signal", names...)
	which.AddFlags(cmd)
	to.addOutsideFlags(cmd)
	return cmd
}

// sending is what is sent to one execution.
type sending struct {
	client    *Client
	request   *pb.WriteInputRequest // without its input
	bare, eof bool
	signal    string
	taken     uint64
}

// all sends everything that was asked for, in order.
func (s *sending) all(ctx context.Context, words []string, size *pb.WindowSize) error {
	var err error
	switch {
	case len(words) == 1 && words[0] == "-", len(words) == 0 && size == nil && !s.eof && s.signal == "":
		err = s.copy(ctx, os.Stdin)
	case len(words) > 0:
		text := strings.Join(words, " ")
		if !s.bare {
			text += "\n"
		}
		err = s.copy(ctx, strings.NewReader(text))
	}
	if err == nil && size != nil {
		s.request.Input = &pb.WriteInputRequest_WindowSize{WindowSize: size}
		err = s.send(ctx)
	}
	if err == nil && s.eof {
		s.request.Input = &pb.WriteInputRequest_End{End: &pb.EndOfInput{}}
		err = s.send(ctx)
	}
	if err == nil && s.signal != "" {
		s.request.Input = &pb.WriteInputRequest_Signal{Signal: strings.ToUpper(s.signal)}
		err = s.send(ctx)
	}
	return err
}

// copy sends data as it comes.
func (s *sending) copy(ctx context.Context, from io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			s.request.Input = &pb.WriteInputRequest_Data{Data: buffer[:n]}
			if err := s.send(ctx); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *sending) send(ctx context.Context) error {
	response, err := s.client.WriteInput(ctx, s.request)
	if err == nil {
		s.taken = response.GetTakenBytes()
	}
	return err
}
