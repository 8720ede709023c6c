// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"sync"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
)

// openRPCs are the RPCs under way whose caller is known, so that those can be ended
// whose caller may no longer go on. Their executions are not theirs to end.
type openRPCs struct {
	mu  sync.Mutex
	all map[*openRPC]struct{}
}

// An openRPC is an RPC that is under way. Of what is known of it, only its method, its
// principal and what that has shown are looked at, which never change any more.
type openRPC struct {
	*rpc
	inside bool // it comes from inside the process, or from another replica, which looks itself whether it may go on
	cancel context.CancelCauseFunc
}

// link has the calls that pass it known, and ends them with the reason for which they
// were cut. A call is known before refuse is asked about it, so that whoever changes the
// answer of refuse, and then looks at the calls, misses none.
func (o *openRPCs) link(refuse func(ctx context.Context, method string) error) link {
	return link{
		unary: func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (response any, err error) {
			if methods[info.FullMethod].anybody {
				return next(ctx, request)
			}
			ctx, call := o.enter(ctx)
			defer func() { err = o.leave(ctx, call, err) }()
			if err := refuse(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, request)
		},
		stream: func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			if methods[info.FullMethod].anybody {
				return next(server, stream)
			}
			ctx, call := o.enter(stream.Context())
			defer func() { err = o.leave(ctx, call, err) }()
			if err := refuse(ctx, info.FullMethod); err != nil {
				return err
			}
			return next(server, &middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx})
		},
	}
}

// enter has a call known. The context that it returns ends when the call is cut.
func (o *openRPCs) enter(ctx context.Context) (context.Context, *openRPC) {
	ctx, cancel := context.WithCancelCause(ctx)
	call := &openRPC{rpc: rpcOf(ctx), inside: isInside(ctx) || isRelayed(ctx), cancel: cancel}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[*openRPC]struct{})
	}
	o.all[call] = struct{}{}
	return ctx, call
}

// leave forgets a call that ends with err, and returns why it was cut, if it was.
func (o *openRPCs) leave(ctx context.Context, call *openRPC, err error) error {
	o.mu.Lock()
	delete(o.all, call)
	o.mu.Unlock()
	if cut, ok := context.Cause(ctx).(*cutError); ok && err != nil { //nolint:errorlint // it is the cause itself
		err = cut.error
	}
	call.cancel(nil)
	return err
}

// cutError is why a call was ended before its time.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

// end ends the calls for which why returns an error, with that error, and returns how
// many they were.
func (o *openRPCs) end(why func(*openRPC) error) (n int) {
	for _, call := range o.list() {
		if err := why(call); err != nil {
			call.cancel(&cutError{err})
			n++
		}
	}
	return n
}

func (o *openRPCs) list() []*openRPC {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]*openRPC, 0, len(o.all))
	for call := range o.all {
		list = append(list, call)
	}
	return list
}
