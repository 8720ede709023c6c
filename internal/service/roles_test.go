// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const rolesPage = "../../docs/operations.md"

// TestRoles calls every RPC in every role, without one and without credentials, and
// compares with the table of the documents. UPDATE=1 writes the table.
func TestRoles(t *testing.T) {
	callers := []string{"agent", "approver", "operator", "viewer"}
	var tokens []auth.Token
	for i, role := range callers {
		tokens = append(tokens, auth.Token{Principal: auth.Principal{Name: role, Roles: 1 << i}, Secret: "the-token-of-" + role})
	}
	all, err := auth.NewTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Logger: zap.NewNop(), Registry: new(tools.Registry), Policy: policy.Builtin(), Authenticator: roleless{&auth.Chain{Tokens: all}},
		Metrics: prometheus.NewRegistry(), Reflection: true, Channelz: true,
		Sessions: session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), Default: session.Settings{Mode: tools.ModeAsk, Level: tools.ReadOnly}, MaxLevel: tools.ReadOnly}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(listener)
	conn, err := grpc.NewClient("passthrough:"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	var table strings.Builder
	table.WriteString("| method | agent | approver | operator | viewer |\n| --- | --- | --- | --- | --- |\n")
	for _, method := range slices.Sorted(methodsOf(s)) {
		_, public, err := call(t, conn, method, "")
		if !public && status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without credentials: %v", method, err)
		}
		if refused, _, err := call(t, conn, method, "the-token-of-nobody-in-particular"); !public && !refused {
			t.Errorf("%s without a role: %v", method, err)
		}
		row := "| `" + strings.TrimPrefix(method, "/") + "` |"
		for _, role := range callers {
			refused, _, err := call(t, conn, method, "the-token-of-"+role)
			switch {
			case public:
				row += " without credentials |"
			case refused:
				row += "  |"
			default:
				row += " yes |"
			}
			if code := status.Code(err); code == codes.Unauthenticated || code == codes.Internal {
				t.Errorf("%s as %s: %v", method, role, err)
			}
		}
		table.WriteString(strings.ReplaceAll(row, "|  |", "| |") + "\n")
	}
	text, err := os.ReadFile(rolesPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- roles -->\n")
	printed, after, ok := strings.Cut(rest, "<!-- /roles -->")
	if !ok {
		t.Fatalf("%s has no table of roles", rolesPage)
	}
	want := strings.ReplaceAll(table.String(), "|  |", "| |")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(rolesPage, []byte(before+"<!-- roles -->\n"+want+"<!-- /roles -->"+after), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if printed != want {
		t.Errorf("%s says\n%s\nand the server does\n%s", rolesPage, printed, want)
	}
}

// roleless knows one principal more, who has no role.
type roleless struct{ auth.Authenticator }

func (r roleless) Authenticate(ctx context.Context, shown auth.Credentials) (auth.Principal, error) {
	if len(shown.Authorization) == 1 && shown.Authorization[0] == "Bearer the-token-of-nobody-in-particular" {
		return auth.Principal{Name: "nobody"}, nil
	}
	return r.Authenticator.Authenticate(ctx, shown)
}

// methodsOf returns every RPC of the server.
func methodsOf(s *Server) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name, info := range s.grpc.GetServiceInfo() {
			for _, method := range info.Methods {
				if !yield("/" + name + "/" + method.Name) {
					return
				}
			}
		}
	}
}

// call sends an empty message and reports whether the role was refused, and whether the
// answer is more than that of a caller without a right.
func call(t *testing.T, conn Conn, method, token string) (refused, answered bool, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		var message any = new(emptypb.Empty)
		if method == pb.SessionService_WatchSession_FullMethodName { // which would wait
			message = &pb.WatchSessionRequest{SessionId: "nix"}
		}
		stream.SendMsg(message) // where that fails, there is an answer already
		stream.CloseSend()
		err = stream.RecvMsg(new(emptypb.Empty))
	}
	refused = status.Code(err) == codes.PermissionDenied && strings.Contains(err.Error(), fmt.Sprintf("%s is for callers with a role of", method))
	return refused, status.Code(err) != codes.Unauthenticated && !refused, err
}
