// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthServer is gRPC's, but its watches end with the server: clients keep
// them open for good, and a shutdown would wait for them in vain.
type healthServer struct {
	*health.Server
	closing chan struct{}
	close   func() // ends all watches
}

func newHealthServer() *healthServer {
	closing := make(chan struct{})
	return &healthServer{health.NewServer(), closing, sync.OnceFunc(func() { close(closing) })}
}

// Watch tells how a service is, now and whenever that changes.
func (h *healthServer) Watch(request *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() { // until the watch ends, or the server does
		select {
		case <-h.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return h.Server.Watch(request, &healthWatch{stream, ctx})
}

type healthWatch struct {
	grpc.ServerStreamingServer[healthpb.HealthCheckResponse]
	ctx context.Context
}

func (w *healthWatch) Context() context.Context { return w.ctx }
