// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// birth is what the start of a server showed.
type birth struct {
	first float64 // ms from exec to the answer of the first call
	idle  float64 // MiB in memory after that, at rest
}

// startup is figure 6. It starts toolserver as it is shipped, and the bare
// server without anything to answer with.
func startup(ctx context.Context, h *harness) ([]row, error) {
	var s sides[birth]
	subject := func(address string) *exec.Cmd { return h.toolserver(h.release, address) }
	bare := func(address string) *exec.Cmd { return h.yardstick(address) }
	side := func(command func(string) *exec.Cmd) func(context.Context) (birth, error) {
		return func(ctx context.Context) (birth, error) { return h.bear(ctx, command) }
	}
	steps := s.entrants(side(subject), side(bare), side(bare))
	if err := interleave(ctx, 1, steps); err != nil { // the files come into memory
		return nil, err
	}
	s.forget()
	if err := interleave(ctx, h.plan.startupRounds, steps); err != nil {
		return nil, err
	}
	return []row{
		s.row("start to first served call", "ms", func(b birth) float64 { return b.first }, valueAtMost(300)),
		s.row("idle RSS", "MiB", func(b birth) float64 { return b.idle }, valueAtMost(64)),
	}, nil
}

// bear starts a server and calls it as soon as it can be reached.
func (h *harness) bear(ctx context.Context, command func(address string) *exec.Cmd) (birth, error) {
	address, err := freeAddress()
	if err != nil {
		return birth{}, err
	}
	// The client is ready, and knocks until somebody answers: waiting for a line
	// of the log would measure when the server likes to write it.
	conn, err := grpc.NewClient("passthrough:"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(knock))
	if err != nil {
		return birth{}, err
	}
	defer conn.Close()
	client := pb.NewToolServiceClient(conn)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	process := command(address)
	begin := time.Now()
	if err := process.Start(); err != nil {
		return birth{}, err
	}
	s := &server{name: filepath.Base(process.Path), process: process}
	defer s.stop()
	if _, err := client.ListTools(ctx, &pb.ListToolsRequest{}, grpc.WaitForReady(true)); err != nil {
		return birth{}, fmt.Errorf("%s: first call: %w", s.name, err)
	}
	took := time.Since(begin)
	if err := pause(ctx, h.plan.settle); err != nil {
		return birth{}, err
	}
	idle, _, err := memory(s.pid())
	return birth{first: float64(took) / 1e6, idle: idle / mib}, err
}

// knock connects to an address as soon as somebody listens there.
func knock(ctx context.Context, address string) (net.Conn, error) {
	const interval = 100 * time.Microsecond
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		if err := pause(ctx, interval); err != nil {
			return nil, err
		}
	}
}

// freeAddress returns an address nobody listens at.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", anyPort)
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
