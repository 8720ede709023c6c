// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// scriptWorkshop is "workshop": it serves tools for scripts and sets ADDRESS, also
// TOOLSERVER_ADDRESS.
func scriptWorkshop(ts *testscript.TestScript, _ bool, _ []string) {
	address, stop, err := serveWorkshop(ts.MkAbs("."))
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv("ADDRESS", address)
	ts.Setenv("TOOLSERVER_ADDRESS", address)
}

// serveWorkshop serves tools for tests, with what it keeps in a directory. "listens"
// writes what it is sent, to the end of it; "keeps" keeps so many bytes as an
// artifact, of which at most 1000 are kept; "works" is at three of ten and stays
// there.
func serveWorkshop(dir string) (address string, stop func(), err error) {
	registry := new(tools.Registry)
	if err := registry.Replace("workshop",
		tools.New(tools.Spec{Name: "listens", Summary: "Listens.", Level: tools.ReadOnly}, nil, listens),
		tools.New(tools.Spec{Name: "works", Summary: "Works.", Level: tools.ReadOnly}, nil, works),
		tools.New(tools.Spec{Name: "keeps", Summary: "Keeps.", Level: tools.ReadOnly}, nil, keeps)); err != nil {
		return "", nil, err
	}
	store, err := artifact.Open(artifact.Config{Dir: filepath.Join(dir, "state"), MaxBytes: 1000})
	if err != nil {
		return "", nil, err
	}
	served, err := service.New(service.Config{
		Logger: zap.NewNop(), Registry: registry, Policy: policy.Builtin(), Authenticator: auth.None{},
		Metrics: prometheus.NewRegistry(), Artifacts: store,
		Sessions: session.NewStore(session.Config{
			WorkspaceRoot: filepath.Join(dir, "workspaces"), MaxLevel: tools.ReadOnly,
			Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAllow},
		}),
	})
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go served.Serve(listener)
	return listener.Addr().String(), func() { server.ShutDown(served, 0) }, nil
}

func works(ctx context.Context, _ tools.Env, _ struct{}, out tools.Sink) (tools.Result, error) {
	out.Emit(tools.Progress{Message: "reading", Done: 3, Total: 10, Unit: "files"})
	<-ctx.Done()
	return tools.Result{}, context.Cause(ctx)
}

func listens(ctx context.Context, _ tools.Env, _ struct{}, out tools.Sink) (tools.Result, error) {
	end := make(chan struct{})
	defer out.Listen(ctx, func(_ context.Context, in tools.Input) (int, error) {
		switch in := in.(type) {
		case tools.Data:
			out.Emit(tools.Output{Stream: tools.Stdout, Data: in})
			return len(in), nil
		case tools.Signal:
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("<" + in + ">\n")})
		case tools.WindowSize:
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("<resized>\n")})
		case tools.EndOfInput:
			close(end)
		}
		return 0, nil
	})()
	out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("ready\n")})
	select {
	case <-end:
		return tools.TextResult("done"), nil
	case <-ctx.Done():
		return tools.Result{}, context.Cause(ctx)
	}
}

func keeps(_ context.Context, env tools.Env, in struct {
	Bytes int `json:"bytes"`
}, _ tools.Sink) (tools.Result, error) {
	w, err := env.Artifacts.Create("numbers.txt", "text/plain")
	if err != nil {
		return tools.Result{}, err
	}
	w.Write(bytes.Repeat([]byte("0123456789"), in.Bytes/10))
	return tools.Result{Content: []tools.Content{w.Close()}}, nil
}

// scriptListening is "listening NAME CALL-ID": it calls listens, waits until it
// does, and sets a variable to the execution's id.
func scriptListening(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := grpc.NewClient(ts.Getenv("ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := pb.NewToolServiceClient(conn).ExecuteTool(ctx, &pb.ExecuteToolRequest{
		Tool: "listens", CallId: proto.String(args[1]), OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_DETACH,
	})
	ts.Check(err)
	for {
		response, err := stream.Recv()
		ts.Check(err)
		if response.GetEvent().GetOutput() != nil {
			ts.Setenv(args[0], response.GetEvent().GetExecutionId())
			return
		}
	}
}

// scriptURI is "uri NAME": it sets a variable to the URI of the artifact in
// standard output.
func scriptURI(ts *testscript.TestScript, _ bool, args []string) {
	uri := regexp.MustCompile(`artifact:[a-z0-9]+`).FindString(ts.ReadFile("stdout"))
	if uri == "" {
		ts.Fatalf("no artifact in standard output")
	}
	ts.Setenv(args[0], uri)
}
