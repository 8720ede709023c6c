// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
)

// Stdio serves one client that writes to in and reads from out, until in ends or ctx
// does. It is the caller of conn. With alone, nobody else can answer questions about its
// calls.
func Stdio(ctx context.Context, conn grpc.ClientConnInterface, version string, settings Settings, alone bool, in io.ReadCloser, out io.Writer) error {
	s := newSession(ctx, conn, version, settings, nil)
	s.alone = alone
	defer s.end(errClosed)
	closed := make(chan struct{})
	s.closed = func() { close(closed) }
	// The end of the input ends the session: calls that run would hold it up.
	l := &lines{in: in, out: out, ended: func() { s.end(errLost) }}
	err := s.server.Run(s.ctx, l)
	if s.begun() {
		s.end(errClosed)
		<-closed
	}
	select {
	case _, ok := <-l.incoming:
		if !ok {
			err = l.err
		}
	default:
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
