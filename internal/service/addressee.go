// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// startedHeader names the server that a request is for, by its start_time in seconds and
// nanoseconds, such as 1763371561.120000007. Where another server has taken its place, that
// one refuses the request and names itself, in the same way, in a trailer.
const startedHeader = "toolserver-started"

// addressee refuses requests that are for another server. Call ids and batches are known
// to the server alone that was sent them, so a client that may have sent a call can send
// it again with the header, and it cannot run twice.
func (s *Server) addressee(ctx context.Context, _ string) error {
	wanted := metadata.ValueFromIncomingContext(ctx, startedHeader)
	if len(wanted) == 0 || s.relay != nil { // replicas know the call ids of each other
		return nil
	}
	started := fmt.Sprintf("%d.%d", s.started.Unix(), s.started.Nanosecond())
	if len(wanted) == 1 && wanted[0] == started {
		return nil
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs(startedHeader, started)); err != nil {
		return err
	}
	return status.Errorf(codes.FailedPrecondition,
		"the request is for the server that started at %.64q, and this one started at %s: nothing of it ran here. Leave out the header %s to have this server take it",
		wanted, started, startedHeader)
}
