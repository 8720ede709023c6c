// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/auth"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestAgentsEndWithTheirParent: what an agent runs, in the background too, ends when the
// session is closed that began it, and when the call is cancelled that did; its streams end, and
// the audit log says who asked whom.
func TestAgentsEndWithTheirParent(t *testing.T) {
	for name, stop := range map[string]func(s *wholeServer, execution string) error{
		"closed": func(s *wholeServer, _ string) error {
			_, err := s.sessions.CloseSession(s.t.Context(), &pb.CloseSessionRequest{SessionId: "main"})
			return err
		},
		"cancelled": func(s *wholeServer, execution string) error {
			_, err := s.Cancel(s.t.Context(), &pb.CancelRequest{ExecutionId: execution})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveAllowing(t, "")
			conn, err := s.inside(auth.Principal{Name: auth.Local.Name, OnBehalfOf: auth.Local.Name})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			inside := pb.NewToolServiceClient(conn)
			s.session("main", pb.Mode_MODE_ALLOW, 0)
			outer, execution := begun(t, s, "main", `{"command":"echo ready; exec sleep 8640001"}`)
			child, err := pb.NewSessionServiceClient(conn).CreateSession(t.Context(), &pb.CreateSessionRequest{
				ParentSessionId: "main", ParentExecutionId: execution, Agent: "worker",
			})
			if err != nil {
				t.Fatal(err)
			}
			id := child.GetSession().GetSessionId()
			wants(t, "in the background", s.in(id, "bash", `{"command":"sleep 8640002","run_in_background":true}`, nil), "SUCCEEDED")
			inner, _ := begun(t, inside, id, `{"command":"sleep 8640003 & echo ready; sleep 8640004"}`)
			waitUntil(t, func() bool { return len(sleeping()) == 4 }, func() string { return "only these run: " + strings.Join(sleeping(), ", ") })
			if err := stop(s, execution); err != nil {
				t.Fatal(err)
			}
			for _, stream := range []events{outer, inner} {
				for {
					next, err := stream.Recv()
					if err != nil {
						t.Fatal(err)
					}
					if end := next.GetEvent().GetFinished(); end != nil {
						if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
							t.Errorf("a call ended %v", end)
						}
						break
					}
				}
			}
			waitUntil(t, func() bool { return len(sleeping()) == 0 }, func() string { return "left running: " + strings.Join(sleeping(), ", ") })
			s.waitForRecord(`"chain":"main (` + execution + `) > worker in ` + id + `"`)
			s.waitForRecord(`"step":"session_closed","principal":"` + auth.Local.Name + `","session":"` + id + `"`)
		})
	}
}

type events = grpc.ServerStreamingClient[pb.ExecuteToolResponse]

// begun starts a command, and returns its stream and id once it has written something.
func begun(t *testing.T, c pb.ToolServiceClient, session, input string) (events, string) {
	t.Helper()
	stream, err := c.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{SessionId: session, Tool: "bash", InputJson: []byte(input)})
	for err == nil {
		var next *pb.ExecuteToolResponse
		if next, err = stream.Recv(); next.GetEvent().GetOutput() != nil {
			return stream, next.GetEvent().GetExecutionId()
		}
	}
	t.Fatal(err)
	return nil, ""
}

// sleeping returns the commands of the test that run.
func sleeping() (commands []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		if command := string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))); strings.HasPrefix(command, "sleep 864000") {
			commands = append(commands, command)
		}
	}
	return commands
}
