// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// recordAnswers asks the subject for what the bare server is to say, and
// proves that it then says the same.
func (b *binaries) recordAnswers(ctx context.Context) error {
	subject, err := b.startSubject(ctx)
	if err != nil {
		return err
	}
	defer subject.stop()
	said, err := answersOf(ctx, subject)
	if err != nil {
		return err
	}
	if n := len(said[0].(*pb.ListToolsResponse).GetTools()); n != work.IndexTools {
		return fmt.Errorf("%s has %d tools, want %d: see benchTools", subject.name, n, work.IndexTools)
	}
	b.answers = filepath.Join(b.dir, "answers")
	if err := writeAnswers(b.answers, said); err != nil {
		return err
	}

	bare, err := b.startBare(ctx)
	if err != nil {
		return err
	}
	defer bare.stop()
	repeated, err := answersOf(ctx, bare)
	if err != nil {
		return err
	}
	return sameSizes(said, repeated)
}

// answersOf returns what a server answers to ListTools and to one call.
func answersOf(ctx context.Context, s *server) ([]proto.Message, error) {
	list, err := s.client.ListTools(ctx, &pb.ListToolsRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: ListTools: %w", s.name, err)
	}
	answers := []proto.Message{list}
	err = follow(ctx, s.client, noopRequest(), func(message *pb.ExecuteToolResponse) error {
		answers = append(answers, message)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return answers, nil
}

func writeAnswers(path string, answers []proto.Message) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for _, message := range answers {
		if _, err := protodelim.MarshalTo(w, message); err != nil {
			return err
		}
	}
	return w.Flush()
}

// sameSizes reports where two servers say different things. The few bytes it
// allows are those of times, durations and numbers.
func sameSizes(a, b []proto.Message) error {
	const leeway = 12
	if len(a) != len(b) {
		return fmt.Errorf("toolserver sends %d messages and bare %d", len(a), len(b))
	}
	for i := range a {
		if n, m := proto.Size(a[i]), proto.Size(b[i]); max(n, m)-min(n, m) > leeway {
			return fmt.Errorf("message %d has %d bytes from toolserver and %d from bare:\n%v\n%v", i, n, m, a[i], b[i])
		}
	}
	return nil
}

// noopRequest is a call as an agent makes it: about 240 bytes.
func noopRequest() *pb.ExecuteToolRequest {
	return &pb.ExecuteToolRequest{
		Tool:      work.Noop,
		InputJson: work.JSON(work.NoopInput{Text: strings.Repeat("x", 200)}),
	}
}
