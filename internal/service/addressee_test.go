// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestAddressee sends requests that name the server they are for: another one refuses
// them before anything runs, and tells which it is.
func TestAddressee(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	info, err := c.GetServerInfo(timeout(t), &pb.GetServerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	this := fmt.Sprintf("%d.%d", info.GetStartTime().GetSeconds(), info.GetStartTime().GetNanos())
	for name, test := range map[string]struct {
		header []string
		code   codes.Code
	}{
		"none":    {nil, codes.OK},
		"this":    {[]string{this}, codes.OK},
		"another": {[]string{"1.2"}, codes.FailedPrecondition},
		"empty":   {[]string{""}, codes.FailedPrecondition},
		"two":     {[]string{this, this}, codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.NewOutgoingContext(timeout(t), metadata.MD{"toolserver-started": test.header})
			var trailer metadata.MD
			stream, err := c.ExecuteTool(ctx, &pb.ExecuteToolRequest{CallId: &name, Tool: "list_dir"})
			if err == nil {
				for err == nil {
					_, err = stream.Recv()
				}
				trailer = stream.Trailer()
			}
			want := []string(nil)
			if test.code != codes.OK {
				want = []string{this}
			}
			if got := status.Code(err); err.Error() != "EOF" && got != test.code || err.Error() == "EOF" && test.code != codes.OK || fmt.Sprint(trailer["toolserver-started"]) != fmt.Sprint(want) {
				t.Errorf("it ended with %v, trailer %v", err, trailer)
			}
			_, err = c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: name})
			if ran := err == nil; ran != (test.code == codes.OK) {
				t.Errorf("the call ran: %t, %v", ran, err)
			}
			_, err = c.GetServerInfo(ctx, &pb.GetServerInfoRequest{}, grpc.Trailer(&trailer))
			if status.Code(err) != test.code || fmt.Sprint(trailer["toolserver-started"]) != fmt.Sprint(want) {
				t.Errorf("a unary request: %v, trailer %v", err, trailer)
			}
		})
	}
}
