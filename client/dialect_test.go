// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/client"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// turnInText has a model write its calls as text, a byte at a time, and compares what it is
// given back with a golden file, which the other clients keep to as well.
func turnInText(t *testing.T, c *client.Client) {
	rendered, err := c.RenderTools(t.Context(), "hermes", "read_file", "write_file")
	if err != nil || !strings.Contains(rendered.GetDefinitions(), "<tool_call>") || len(rendered.GetNames()) != 2 {
		t.Fatalf("%v %v", rendered, err)
	}
	written, err := os.Open("../sdk/testdata/turn.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	batch := c.Batch(t.Context(), nil)
	var text string
	var unread []*pb.CallResult
	for piece, err := range c.Parse(t.Context(), "hermes", iotest.OneByteReader(written)) {
		if err != nil {
			t.Fatal(err)
		}
		text += piece.GetText()
		if call := piece.GetCall(); call != nil {
			if _, err := batch.Add(call); err != nil {
				t.Fatal(err)
			}
		}
		if broken := piece.GetBroken(); broken != nil {
			unread = append(unread, client.Unread(broken))
		}
	}
	results, err := batch.Results()
	if err != nil {
		t.Fatal(err)
	}
	var list []*pb.CallResult
	for _, result := range results {
		list = append(list, result.ForModel())
	}
	next, err := c.RenderResults(t.Context(), "hermes", append(list, unread...)...)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.TrimSpace(text) + "\n---\n" + next.GetMessages() + "\n"
	const golden = "../sdk/testdata/turn.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || got != string(want) {
		t.Errorf("%s\nwant\n%s%v", got, want, err)
	}
	gone := errors.New("the model is gone")
	for _, err := range c.Parse(t.Context(), "auto", iotest.ErrReader(gone)) {
		if !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	}
	for _, err := range c.Parse(t.Context(), "klingon", strings.NewReader("x")) {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v", err)
		}
	}
}
