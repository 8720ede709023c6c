// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/tools"
)

// TestAskingOfOthers: sessions of two owners may have the same id, and a question for one
// is not put to the other.
func TestAskingOfOthers(t *testing.T) {
	alice := tools.Env{Tenant: "a", Principal: "alice", SessionID: "main"}
	for name, c := range map[string]struct {
		other tools.Env
		asked bool
	}{
		"the same":         {alice, true},
		"another session":  {tools.Env{Tenant: "a", Principal: "alice", SessionID: "x"}, false},
		"another caller":   {tools.Env{Tenant: "a", Principal: "bob", SessionID: "main"}, false},
		"another tenant":   {tools.Env{Tenant: "b", Principal: "alice", SessionID: "main"}, false},
		"for another user": {tools.Env{Tenant: "a", Principal: "alice", SessionID: "main", OnBehalfOf: "u"}, false},
	} {
		s := New(Server{Name: "x"}, Options{})
		s.calls = map[int64]*running{1: {env: alice}, 2: {env: c.other}}
		if call, why := s.asking(); (call != nil) != c.asked {
			t.Errorf("%s: asked %v, %s", name, call != nil, why)
		}
	}
}

// TestEndlessList: a server whose list of tools has no end is not listened to for long.
func TestEndlessList(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "x"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}})
	pages := 0
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, r)
			}
			pages++
			return &sdk.ListToolsResult{NextCursor: "more", Tools: []*sdk.Tool{{
				Name: "a", Description: strings.Repeat("x", 4<<20), InputSchema: map[string]any{"type": "object"},
			}}}, nil
		}
	})
	here, there := sdk.NewInMemoryTransports()
	go server.Run(t.Context(), there)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "y"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s := New(Server{Name: "x", StartTimeout: time.Hour}, Options{})
	if err := s.list(t.Context(), &connection{ClientSession: session}); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("%v", err)
	}
	if pages > 10 {
		t.Errorf("%d pages were taken", pages)
	}
}
