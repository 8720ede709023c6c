// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// startedHeader names the server that a request is for, by when it started. Another one
// refuses the request, and names itself in a trailer: so a call that may have been sent
// can be sent again, and does not run twice.
const startedHeader = "toolserver-started"

// server names the server at the other end, as far as is known. It is asked where there
// is no connection: a call that finds no server here was not sent.
func (c *Client) server(ctx context.Context) (string, error) {
	c.link.mu.Lock()
	known := c.link.server
	c.link.mu.Unlock()
	conn, remote := c.link.conn.(*grpc.ClientConn)
	if known != "" && (!remote || conn.GetState() == connectivity.Ready) {
		return known, nil
	}
	info, err := c.Tools.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	if err != nil {
		return "", err
	}
	server := fmt.Sprintf("%d.%d", info.GetStartTime().GetSeconds(), info.GetStartTime().GetNanos())
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.link.server, c.link.limits = server, info.GetLimits()
	return server, nil
}

// tooLarge returns the ending of a call whose input no server takes; nil where it is not too
// large. It is not sent: a message that is too large ends a stream, and all that is in it.
func (c *Client) tooLarge(call *pb.ExecuteToolRequest) *pb.Event {
	c.link.mu.Lock()
	most := c.link.limits.GetMaxInputBytes()
	c.link.mu.Unlock()
	if most == 0 || uint64(len(call.GetInputJson())) <= most {
		return nil
	}
	message := fmt.Sprintf("the input has %d bytes: the maximum is %d", len(call.GetInputJson()), most)
	return unsent(&pb.Finished{Outcome: pb.Outcome_OUTCOME_INVALID_INPUT, Failure: &pb.Failure{Code: "invalid_input", Message: message}})
}

// unsent is the ending of a call that no server was sent.
func unsent(finished *pb.Finished) *pb.Event {
	finished.Content = textContent(finished.GetFailure().GetMessage())
	return &pb.Event{Sequence: 1, Time: timestamppb.Now(), Kind: &pb.Event_Finished{Finished: finished}}
}

// addressed has a request be for one server; empty: for whichever takes it.
func addressed(ctx context.Context, server string) context.Context {
	if server == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, startedHeader, server)
}

// otherServer is the refusal of a request that was for another server.
type otherServer struct {
	error         // a status
	server string // that refused
}

func (e *otherServer) Unwrap() error { return e.error }

// replaced reports whether an error says that another server took the place of the one
// that a request was for, and notes which.
func (c *Client) replaced(err error) bool {
	other, ok := errors.AsType[*otherServer](err)
	if ok {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		c.link.server = other.server
	}
	return ok
}

// endOf returns what the error of a stream says. A stream whose end nobody waited for is
// a lost connection.
func endOf(stream grpc.ClientStream, err error) error {
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Unavailable, "the stream ended before what it tells of")
	}
	if status.Code(err) == codes.FailedPrecondition {
		if server := stream.Trailer().Get(startedHeader); len(server) == 1 {
			return &otherServer{err, server[0]}
		}
	}
	return err
}
