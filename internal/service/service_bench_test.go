// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// BenchmarkExecuteTool measures what this server adds to a call: the chain, the
// handler, the executor and the codec, with everything switched on but the
// transport below them.
func BenchmarkExecuteTool(b *testing.B) {
	registry := new(tools.Registry)
	text := strings.Repeat("abcdefghijklmno\n", 64)
	type input struct {
		Text string `json:"text"`
	}
	err := registry.Replace("builtin", tools.New(
		tools.Spec{Name: "noop", Summary: "Nothing.", Level: tools.ReadOnly}, nil,
		func(context.Context, tools.Env, input, tools.Sink) (tools.Result, error) {
			return tools.TextResult(text), nil
		}))
	if err != nil {
		b.Fatal(err)
	}
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.InfoLevel))
	sessions := session.NewStore(session.Config{
		WorkspaceRoot: b.TempDir(), MaxLevel: tools.ReadOnly,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk},
	})
	s, err := New(Config{
		Logger: logger, Registry: registry, Sessions: sessions, Policy: policy.Builtin(),
		Authenticator: auth.None{}, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Shutdown(b.Context())
	handler := &toolService{server: s, registry: registry, sessions: sessions, executor: s.executor}
	links := s.links()
	info := &grpc.StreamServerInfo{FullMethod: pb.ToolService_ExecuteTool_FullMethodName, IsServerStream: true}
	run := func(server any, stream grpc.ServerStream) error {
		request := new(pb.ExecuteToolRequest)
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		return handler.ExecuteTool(request, &grpc.GenericServerStream[pb.ExecuteToolRequest, pb.ExecuteToolResponse]{ServerStream: stream})
	}
	for i := len(links) - 1; i >= 0; i-- {
		next, through := run, links[i].stream
		run = func(server any, stream grpc.ServerStream) error { return through(server, stream, info, next) }
	}
	stream := &memoryStream{
		ctx:     grpc.NewContextWithServerTransportStream(b.Context(), transportStream{}),
		request: []byte(`{"text":"` + strings.Repeat("x", 200) + `"}`),
		codec:   newCodec(),
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := run(nil, stream); err != nil {
			b.Fatal(err)
		}
	}
}

// memoryStream is a stream without a transport.
type memoryStream struct {
	grpc.ServerStream
	ctx     context.Context
	request []byte
	codec   codec
}

func (s *memoryStream) Context() context.Context { return s.ctx }

func (s *memoryStream) RecvMsg(m any) error {
	request := m.(*pb.ExecuteToolRequest)
	request.Tool, request.InputJson = "noop", s.request
	return nil
}

func (s *memoryStream) SendMsg(m any) error {
	_, err := s.codec.Marshal(m)
	return err
}

type transportStream struct{}

func (transportStream) Method() string               { return pb.ToolService_ExecuteTool_FullMethodName }
func (transportStream) SetHeader(metadata.MD) error  { return nil }
func (transportStream) SendHeader(metadata.MD) error { return nil }
func (transportStream) SetTrailer(metadata.MD) error { return nil }
