// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// profile writes CPU profiles of the subject under load into a directory, each
// of a new process. It runs after the figures, which it would disturb.
func profile(ctx context.Context, h *harness, dir string, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const many = 64
	text := lines(work.FileBytes)
	if err := os.WriteFile(filepath.Join(h.dir, work.FileName), text, 0o644); err != nil {
		return err
	}
	for _, p := range []struct {
		name    string
		call    func(*server) caller
		workers int
		config  string
	}{
		{"execute", func(s *server) caller { return noop(s, work.Noop, false) }, many, ""},
		{"list", listTools, many, ""},
		{"read", func(s *server) caller { return readFile(s, text) }, many, ""},
		{"batch", func(s *server) caller { return readBatch(s, len(text)) }, 1, ""},
		{"hook", func(s *server) caller { return noop(s, work.Noop, false) }, 1, hookedConfig},
		{"output", func(s *server) caller {
			return func(ctx context.Context) error {
				_, err := receive(ctx, s.conn, h.plan.outputSlice, func(string) {})
				return err
			}
		}, 1, ""},
		{"commands", runTrueAnywhere, shellWorkers, ""},
		{"command-output", func(s *server) caller {
			return func(ctx context.Context) error {
				return bash(ctx, s, "", flood(h.plan.outputSlice), func(*pb.Output) error { return nil })
			}
		}, 1, ""},
	} {
		path := filepath.Join(dir, p.name+".pprof")
		if err := profileLoad(ctx, h, p.config, p.call, p.workers, path); err != nil {
			return fmt.Errorf("profile %s: %w", p.name, err)
		}
		fmt.Fprintf(out, "Profile: go tool pprof -top %s\n", path)
	}
	return nil
}

// runTrueAnywhere is runTrue in new sessions.
func runTrueAnywhere(s *server) caller {
	call := sync.OnceValues(func() (caller, error) {
		ids, err := sessions(context.Background(), s, shellWorkers)
		return runTrue(s, ids), err
	})
	return func(ctx context.Context) error {
		call, err := call()
		if err != nil {
			return err
		}
		return call(ctx)
	}
}

func profileLoad(ctx context.Context, h *harness, config string, callOf func(*server) caller, workers int, path string) error {
	start := func(ctx context.Context) (*server, error) { return h.startShell(ctx) }
	if config != "" {
		start = func(ctx context.Context) (*server, error) { return h.startHooked(ctx, config) }
	}
	s, err := start(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	call := callOf(s)
	length := 32 * h.plan.slice
	if _, err := load(ctx, s, call, workers, length/8); err != nil { // to warm up
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := load(ctx, s, call, workers, length+length/8)
		done <- err
	}()
	var text bytes.Buffer
	err = follow(ctx, s.client, &pb.ExecuteToolRequest{
		Tool:      work.Profile,
		InputJson: work.JSON(work.ProfileInput{Milliseconds: int(length / time.Millisecond)}),
	}, func(message *pb.ExecuteToolResponse) error {
		text.Write(message.GetEvent().GetOutput().GetData())
		return nil
	})
	if err := <-done; err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}
