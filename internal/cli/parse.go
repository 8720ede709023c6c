// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newParse(in Inside) *cobra.Command {
	var (
		to               Target
		session, dialect string
	)
	cmd := &cobra.Command{
		Use:   "parse",
		Short: "Find the calls in what a model wrote, and run none",
		Long: `parse reads what a model wrote from standard input, or what its provider sent, and
prints one piece a line as JSON, as soon as it is complete: text, calls, and calls that
cannot be read, with what the model should be told. Nothing is run.`,
		Example: `  toolserver parse < answer.txt
  curl -sN … | toolserver parse --dialect openai`,
		Args: Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.Connect(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return showPieces(NewStream(os.Stdout), client.calls.In(session).Parse(cmd.Context(), dialect, os.Stdin))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dialect, "dialect", toolcall.Auto, "how the calls are written: auto, text for any form in text, or the name of one")
	flags.StringVar(&session, "session", "", "session whose tools are called (default: your default session)")
	Complete(cmd, "dialect", append([]string{toolcall.Auto, toolcall.AnyText}, toolcall.Names()...)...)
	to.AddFlags(cmd, in)
	return cmd
}

// showPieces prints pieces, to the last.
func showPieces(out io.Writer, pieces iter.Seq2[*pb.ParseCallsResponse, error]) error {
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
	for m, err := range pieces {
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
