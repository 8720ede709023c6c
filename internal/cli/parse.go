// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newParse(in Inside) *cobra.Command {
	var (
		to    Target
		start pb.ParseStart
	)
	cmd := &cobra.Command{
		Use:   "parse",
		Short: "Find the calls in what a model wrote, and run none",
		Long: `parse reads what a model wrote from standard input, or what its provider sent, and
prints one piece a line as JSON, as soon as it is complete: text, calls, and calls that
cannot be read, with what the model should be told. Nothing is run.`,
		Example: `  toolserver parse < answer.txt
  curl -sN … | toolserver parse --dialect openai`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.Connect(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			stream, err := client.ParseCalls(cmd.Context())
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.ParseCallsRequest{Kind: &pb.ParseCallsRequest_Start{Start: &start}}); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			go sendChunks(stream, os.Stdin)
			return showPieces(NewStream(os.Stdout), stream)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&start.Dialect, "dialect", toolcall.Auto, "how the calls are written: auto, text for any form in text, or the name of one")
	flags.StringVar(&start.SessionId, "session", "", "session whose tools are called (default: your default session)")
	Complete(cmd, "dialect", append([]string{toolcall.Auto, toolcall.AnyText}, toolcall.Names()...)...)
	to.AddFlags(cmd, in)
	return cmd
}

// sendChunks sends what can be read, as it comes. Who receives learns of errors.
func sendChunks(stream pb.DialectService_ParseCallsClient, from io.Reader) {
	defer stream.CloseSend()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && stream.Send(&pb.ParseCallsRequest{Kind: &pb.ParseCallsRequest_Chunk{Chunk: buffer[:n]}}) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// showPieces prints pieces, to the last.
func showPieces(out io.Writer, stream pb.DialectService_ParseCallsClient) error {
	type piece struct {
		Text  string          `json:"text,omitempty"`
		ID    string          `json:"id,omitempty"`
		Tool  string          `json:"tool,omitempty"`
		Input json.RawMessage `json:"input,omitempty"`
		Error string          `json:"error,omitempty"`
		Raw   string          `json:"raw,omitempty"`
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	broken := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		p := piece{Text: m.GetText(), ID: m.GetCall().GetCallId(), Tool: m.GetCall().GetTool(), Input: m.GetCall().GetInputJson()}
		if b := m.GetBroken(); b != nil {
			p = piece{ID: b.GetCallId(), Tool: b.GetTool(), Error: b.GetMessage(), Raw: b.GetRaw()}
			broken++
		}
		if err := encoder.Encode(p); err != nil {
			return err
		}
	}
	if broken > 0 {
		return &ExitError{exitInvalidInput, fmt.Errorf("%d of the calls cannot be read", broken)}
	}
	return nil
}
