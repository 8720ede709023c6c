// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestAttackSteps has the attacks of the catalogue that are more than one call.
func TestAttackSteps(t *testing.T) {
	for id, attack := range map[string]func(t *testing.T){
		"P-145 cancel the call of another session": func(t *testing.T) {
			c := serve(t).dial("")
			request := asJSON("sleep", `{"duration_ms":600000}`)
			request.SessionId, request.CallId = newSession(c, "a"), proto.String("mine")
			stream, _ := c.begin(request)
			_, err := c.Cancel(timeout(t), &pb.CancelRequest{SessionId: newSession(c, "b"), CallId: "mine"})
			wantCode(t, err, codes.NotFound)
			// P-207: who names it right cancels it.
			if _, err := c.Cancel(timeout(t), &pb.CancelRequest{SessionId: "a", CallId: "mine"}); err != nil {
				t.Fatal(err)
			}
			events, err := rest(stream)
			if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
				t.Errorf("%v %v", events, err)
			}
		},
		// Sessions are named in messages, which have one name each; what comes as
		// metadata is who the caller is.
		"P-146 be two callers at once": func(t *testing.T) {
			s := serve(t, withTokens)
			for _, order := range [][]int{{0, 1}, {1, 0}, {0, 0}} {
				var pairs []string
				for _, i := range order {
					pairs = append(pairs, "authorization", "Bearer "+tokens[i].Secret)
				}
				_, err := s.dial("").ListSessions(withHeader(timeout(t), pairs...), &pb.ListSessionsRequest{})
				wantCode(t, err, codes.Unauthenticated)
			}
		},
		"P-147 work in the workspace of another": func(t *testing.T) {
			s := serve(t, withTokens)
			alice, bob := s.dial(tokens[0].Secret), s.dial(tokens[1].Secret)
			ws := os.Getenv("TEST_ALLOWED") + "/hers"
			for _, dir := range []string{ws, ws + "/sub"} {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("hers", os.Getenv("TEST_ALLOWED")+"/link"); err != nil {
				t.Fatal(err)
			}
			if _, err := alice.CreateSession(timeout(t), &pb.CreateSessionRequest{Workspace: ws}); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{ws, ws + "/", ws + "/sub", ws + "/sub/..", os.Getenv("TEST_ALLOWED"), os.Getenv("TEST_ALLOWED") + "/link", s.workspace} {
				_, err := bob.CreateSession(timeout(t), &pb.CreateSessionRequest{Workspace: dir})
				wantCode(t, err, codes.PermissionDenied)
			}
		},
		"P-151 send ten times what is allowed": func(t *testing.T) {
			s := serve(t, withTokens, withPolicy(t, "limits: [{name: few, tools: [count], rate: 3/h, per: principal}]\n"))
			alice, bob := s.dial(tokens[0].Secret), s.dial(tokens[1].Secret)
			var ends []pb.Outcome
			for range 30 {
				end := alice.run(asJSON("count", `{}`))
				ends = append(ends, end.GetOutcome())
				if end.GetOutcome() == pb.Outcome_OUTCOME_RATE_LIMITED && end.GetFailure().GetRetryAfter().AsDuration() <= 0 {
					t.Errorf("nothing says when to come back: %v", end)
				}
			}
			want := slices.Concat(slices.Repeat([]pb.Outcome{pb.Outcome_OUTCOME_SUCCEEDED}, 3), slices.Repeat([]pb.Outcome{pb.Outcome_OUTCOME_RATE_LIMITED}, 27))
			if !slices.Equal(ends, want) {
				t.Errorf("%v", ends)
			}
			for range 3 {
				if end := bob.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
					t.Errorf("another caller: %v", end)
				}
			}
		},
		"P-152 bring a tool of a name that is taken": func(t *testing.T) {
			var registry *tools.Registry
			s := serve(t, func(c *service.Config) { registry = c.Registry })
			s.write("f", "built in")
			for _, name := range []string{"read_file", "glob_of_mine"} {
				spec := tools.Spec{Name: name, Aliases: []string{"Read"}, Summary: "A tool for tests.", Kind: tools.Dynamic, Level: tools.ReadOnly}
				nothing := func(context.Context, tools.Env, struct{}, tools.Sink) (tools.Result, error) {
					return tools.TextResult("mine"), nil
				}
				if err := registry.Replace("session a", tools.New(spec, nil, nothing)); err == nil {
					t.Errorf("%s is taken", name)
				}
			}
			for _, name := range []string{"read_file", "Read"} {
				if end := s.dial("").run(asJSON(name, `{"path":"f"}`)); !strings.Contains(text(end), "built in") {
					t.Errorf("%s: %v", name, end)
				}
			}
		},
		// There are no agents below agents; what a session may be given is bounded by
		// the operator, and stays so.
		"P-153 rise above one's level": func(t *testing.T) {
			c := serve(t).dial("")
			_, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{Level: pb.Level_LEVEL_DANGER_FULL_ACCESS})
			wantCode(t, err, codes.PermissionDenied)
			if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "low", Level: pb.Level_LEVEL_READ_ONLY}); err != nil {
				t.Fatal(err)
			}
			for _, level := range []pb.Level{pb.Level_LEVEL_DANGER_FULL_ACCESS, 99} {
				_, err := c.UpdateSession(timeout(t), &pb.UpdateSessionRequest{
					Session: &pb.Session{SessionId: "low", Level: level}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"level"}},
				})
				if err == nil {
					t.Errorf("the level became %v", level)
				}
			}
			got, err := c.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: "low"})
			if err != nil || got.GetSession().GetLevel() != pb.Level_LEVEL_READ_ONLY {
				t.Errorf("%v %v", got, err)
			}
		},
	} {
		t.Run(id, attack)
	}
}

// newSession makes a session with an id, and returns it.
func newSession(c *client, id string) string {
	c.t.Helper()
	if _, err := c.CreateSession(timeout(c.t), &pb.CreateSessionRequest{SessionId: id}); err != nil {
		c.t.Fatal(err)
	}
	return id
}
