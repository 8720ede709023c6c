// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// BenchmarkTree brings a tree of 2000 files and fetches it again.
func BenchmarkTree(b *testing.B) {
	entries := make([]entry, 2000)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("d%d/f%d", i/100, i), "some content")
	}
	data := archive(entries...)
	s, ctx, made := benchFiles(b), context.Background(), 0
	b.Run("upload", func(b *testing.B) {
		for b.Loop() {
			made++
			stream, err := s.UploadTree(ctx)
			if err != nil {
				b.Fatal(err)
			}
			stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Header{Header: &pb.UploadTreeHeader{Path: fmt.Sprint("up", made)}}})
			for part := range slices.Chunk(data, 64<<10) {
				stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Data{Data: part}})
			}
			if got, err := stream.CloseAndRecv(); err != nil || got.GetSummary().GetFiles() != 2000 {
				b.Fatal(got, err)
			}
		}
	})
	b.Run("download", func(b *testing.B) {
		for b.Loop() {
			stream, err := s.DownloadTree(ctx, &pb.DownloadTreeRequest{Path: "up1"})
			if err != nil {
				b.Fatal(err)
			}
			for !errors.Is(err, io.EOF) {
				if _, err = stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
		}
	})
}

// benchFiles is a client of a server in this process, in a session of mode allow.
func benchFiles(b *testing.B) pb.WorkspaceServiceClient {
	s, err := service.New(service.Config{
		Logger: zap.NewNop(), Registry: new(tools.Registry), Policy: policy.Builtin(), Authenticator: auth.None{}, Metrics: prometheus.NewRegistry(),
		Sessions: session.NewStore(session.Config{
			WorkspaceRoot: b.TempDir(), MaxLevel: tools.WorkspaceWrite,
			Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAllow},
		}),
	})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := s.Connect(auth.Principal{Name: "local", OnBehalfOf: "test"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		s.Shutdown(context.Background())
	})
	return pb.NewWorkspaceServiceClient(conn)
}
