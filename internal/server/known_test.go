// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestKnownBy: what is done later for a user is done while its principal may act for that user.
func TestKnownBy(t *testing.T) {
	actsFor, err := auth.NewActsFor([]string{"user:*"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.NewTokens([]auth.Token{
		{Secret: "the-first-token-of-bot", Principal: auth.Principal{Name: "bot", ActsFor: actsFor}},
		{Secret: "the-second-token-of-bot", Principal: auth.Principal{Name: "bot"}},
		{Secret: "the-only-token-of-alone", Principal: auth.Principal{Name: "alone"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	known := knownBy(&auth.Chain{Tokens: tokens})
	for who, may := range map[errand.Who]bool{
		{Principal: "bot"}:                         true,
		{Principal: "bot", OnBehalfOf: "bot"}:      true,
		{Principal: "bot", OnBehalfOf: "user:ann"}: true,
		{Principal: "bot", OnBehalfOf: "ann"}:      false,
		{Principal: "alone", OnBehalfOf: "user:a"}: false,
		{Principal: "gone"}:                        false,
	} {
		if _, err := known(who); (err == nil) != may {
			t.Errorf("%v: %v", who, err)
		}
	}
}

// passes is a connection whose calls all arrive.
type passes struct{ service.Conn }

var errArrived = errors.New("it arrived")

func (passes) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return errArrived }
func (passes) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errArrived
}

// TestAgentsOfThoseWhoMay: an agent that goes on in the background makes no call any more when its
// principal has lost its token, or the mode or the user that it began with; it ends its session.
func TestAgentsOfThoseWhoMay(t *testing.T) {
	actsFor, err := auth.NewActsFor([]string{"user:*"})
	if err != nil {
		t.Fatal(err)
	}
	token := auth.Token{Secret: "the-first-token-of-bot", Principal: auth.Principal{Name: "bot", Roles: auth.Agent, ActsFor: actsFor}}
	for name, change := range map[string]func(*auth.Token){
		"another principal": func(token *auth.Token) { token.Principal.Name = "other" },
		"no agent":          func(token *auth.Token) { token.Principal.Roles = auth.Viewer },
		"a lower mode":      func(token *auth.Token) { token.Principal.MaxMode = tools.ModePlan },
		"not for the user":  func(token *auth.Token) { token.Principal.ActsFor = "" },
	} {
		t.Run(name, func(t *testing.T) {
			all, err := auth.NewTokens(nil)
			if err == nil {
				err = all.Replace([]auth.Token{token})
			}
			if err != nil {
				t.Fatal(err)
			}
			connect := connectKnown(func(auth.Principal) (service.Conn, error) { return passes{}, nil }, knownBy(&auth.Chain{Tokens: all}))
			conn, err := connect(auth.Principal{Name: "bot", OnBehalfOf: "user:ann"})
			if err != nil {
				t.Fatal(err)
			}
			calls := func() (invoked, streamed error) {
				invoked = conn.Invoke(t.Context(), pb.SessionService_CreateSession_FullMethodName, nil, nil)
				_, streamed = conn.NewStream(t.Context(), nil, pb.ToolService_ExecuteBatch_FullMethodName)
				return invoked, streamed
			}
			if invoked, streamed := calls(); !errors.Is(invoked, errArrived) || !errors.Is(streamed, errArrived) {
				t.Errorf("before: %v, %v", invoked, streamed)
			}
			next := token
			change(&next)
			if err := all.Replace([]auth.Token{next}); err != nil {
				t.Fatal(err)
			}
			if invoked, streamed := calls(); status.Code(invoked) != codes.Unauthenticated || status.Code(streamed) != codes.Unauthenticated {
				t.Errorf("after: %v, %v", invoked, streamed)
			}
			if err := conn.Invoke(t.Context(), pb.SessionService_CloseSession_FullMethodName, nil, nil); !errors.Is(err, errArrived) {
				t.Errorf("closing: %v", err)
			}
		})
	}
}
