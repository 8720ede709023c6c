// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"google.golang.org/grpc"
)

// A link is one step of the chain, for both kinds of call.
type link struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// chain makes server options of links, the outermost first. Both kinds of
// call go through the same links: they cannot drift apart.
func chain(links ...link) []grpc.ServerOption {
	unary := make([]grpc.UnaryServerInterceptor, len(links))
	stream := make([]grpc.StreamServerInterceptor, len(links))
	for i, l := range links {
		unary[i], stream[i] = l.unary, l.stream
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)}
}

// onEntry is a link that checks a call before its handler runs: one check after the
// other, up to the first that refuses.
func onEntry(checks ...func(ctx context.Context, method string) error) link {
	check := func(ctx context.Context, method string) error {
		for _, check := range checks {
			if err := check(ctx, method); err != nil {
				return err
			}
		}
		return nil
	}
	return link{
		unary: func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := check(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, request)
		},
		stream: func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := check(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(server, stream)
		},
	}
}

// onMessage is a link that checks each request message as it is received,
// before the handler has it. A stream interceptor alone would not see them.
func onMessage(check func(ctx context.Context, message any) error) link {
	return link{
		unary: func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := check(ctx, request); err != nil {
				return nil, err
			}
			return next(ctx, request)
		},
		stream: func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(server, &checkedStream{stream, check})
		},
	}
}

type checkedStream struct {
	grpc.ServerStream
	check func(context.Context, any) error
}

func (s *checkedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	return s.check(s.Context(), message)
}
