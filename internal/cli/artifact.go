// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newArtifact() *cobra.Command {
	var (
		to      Target
		request pb.ReadArtifactRequest
		output  string
	)
	cmd := &cobra.Command{
		Use:     "artifact URI",
		Aliases: []string{"artifacts"},
		Short:   "Read what a result points to",
		Long: `artifact writes the bytes of an artifact to standard output, or to a file. One
that is being written is read as far as it is. What is missing at its end is told
on standard error.`,
		Args: Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			request.Uri = args[0]
			stream, err := client.ReadArtifact(ctx, &request)
			if err != nil {
				return err
			}
			first, err := stream.Recv() // before the file is made
			if err != nil {
				return err
			}
			var sink io.Writer = NewStream(os.Stdout)
			if output != "" {
				file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
				if err != nil {
					return err
				}
				defer file.Close()
				sink = file
			}
			for response := first; ; {
				if _, err := sink.Write(response.GetData()); err != nil {
					return err
				}
				if response, err = stream.Recv(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return err
				}
			}
			if why := first.GetInfo().GetIncomplete(); why != "" {
				fmt.Fprintf(NewStream(os.Stderr), "toolserver: %d of %d bytes were kept: %s\n",
					first.GetInfo().GetSize(), first.GetInfo().GetWrittenBytes(), why)
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "", "file to write to, instead of standard output")
	flags.Uint64Var(&request.Offset, "offset", 0, "first byte to read")
	flags.Uint64Var(&request.Limit, "limit", 0, "how many bytes to read; 0: to the end")
	to.addOutsideFlags(cmd)
	return cmd
}
