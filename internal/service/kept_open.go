// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/executor"
)

// endKeptOpen is a link that ends the streams that are left open once closing ends, when
// everything that runs has ended: a shutdown would wait for them in vain. Those who watch
// approvals leave when the approvals are closed.
func endKeptOpen(closing context.Context) link {
	return link{
		unary: func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(ctx, request)
		},
		stream: func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if !methods[info.FullMethod].open {
				return next(server, stream)
			}
			return untilClosing(closing, server, stream, next)
		},
	}
}

func untilClosing(closing context.Context, server any, stream grpc.ServerStream, next grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(closing, cancel)()
	err := next(server, &closingStream{middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx}})
	if err != nil && closing.Err() != nil {
		return executor.ErrDraining
	}
	return err
}

// closingStream is a stream that ends with ctx, also for who waits for the next
// message of the client.
type closingStream struct{ middleware.WrappedServerStream }

func (s *closingStream) RecvMsg(message any) error {
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(message) }() // until the handler has returned, at the latest
	select {
	case err := <-received:
		return err
	case <-s.Context().Done():
		return s.Context().Err()
	}
}
