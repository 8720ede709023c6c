// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// repository makes the workspace a git repository with a file a.txt, and returns what runs
// git there.
func (s *wholeServer) repository() func(args ...string) string {
	s.t.Helper()
	git := needs(s.t, "git")
	run := func(args ...string) string {
		s.t.Helper()
		cmd := exec.Command(git, append([]string{"-C", s.workspace, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Fatalf("git %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "-b", "main")
	s.file("a.txt", "0\n")
	run("add", ".")
	run("commit", "-q", "-m", "first")
	return run
}

// TestAgentMaxMode proves that what the server does for an agent in the session of its
// caller is judged in no other mode than what the caller does there.
func TestAgentMaxMode(t *testing.T) {
	t.Parallel()
	free, bound := strings.Repeat("f", 40), strings.Repeat("b", 40)
	s := serveAgents(t, modeltest.Turns(modeltest.Turn{Text: "Done."}), `{list: [{name: writer, prompt: You write.}]}
authentication:
  tokens: [{principal: ann, token: `+free+`}, {principal: ann, token: `+bound+`, max_mode: plan}]
`)
	git := s.repository()
	by := func(token string) *pb.Finished {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		if token == free {
			if _, err := s.sessions.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "repo", Workspace: s.workspace, Mode: pb.Mode_MODE_ALLOW}); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := s.ExecuteTool(ctx, &pb.ExecuteToolRequest{SessionId: "repo", Tool: "agent", InputJson: []byte(`{"prompt":"x","isolation":"worktree"}`)})
		for err == nil {
			var response *pb.ExecuteToolResponse
			if response, err = stream.Recv(); err == nil && response.GetEvent().GetFinished() != nil {
				return response.GetEvent().GetFinished()
			}
		}
		t.Fatal(err)
		return nil
	}
	if end := by(free); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(end)
	}
	if end := by(bound); end.GetFailure().GetCode() != "isolation_failed" {
		t.Error(end, git("reflog", "--all"))
	}
}

// TestAgentLeavesNoTrap proves that nothing that an isolated agent leaves in its worktree runs
// when the server takes it over in the session of the caller; that nothing of it gets into
// the repository around it but by the merge; and that hooks of the repository stay, which
// the sandbox keeps out of the worktree.
func TestAgentLeavesNoTrap(t *testing.T) {
	t.Parallel()
	for name, trap := range map[string]func(sprung string) toolcall.Call{
		"hook that the repository looks for there": func(sprung string) toolcall.Call {
			return modeltest.Call("write_file", map[string]any{"path": "githooks/post-commit", "content": "#!/bin/sh\ntouch " + sprung + "\n"})
		},
		"repository in place of its own": func(sprung string) toolcall.Call {
			plant := "rm -rf .git; git init -q . && mv .git/config plain; mkdir c; mv .git/* c/; mv c/HEAD .git/; mv plain c/config; echo ../c > .git/commondir; " +
				"printf '[core]\\nfsmonitor = touch " + sprung + ";false\\n' >> c/config; echo x > a.txt"
			return modeltest.Call("bash", map[string]any{"command": "echo " + base64.StdEncoding.EncodeToString([]byte(plant)) + " | base64 -d | sh", "description": "x"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s *wholeServer
			s = serveAgents(t, func(r *modeltest.Request) modeltest.Turn {
				if r.Said() > 0 {
					return modeltest.Turn{Text: "Done."}
				}
				return modeltest.Turn{Calls: []toolcall.Call{trap(filepath.Join(s.workspace, "sprung"))}}
			}, `{list: [{name: writer, prompt: You write.}]}`)
			git := s.repository()
			hooks := filepath.Join(s.workspace, "githooks")
			if err := errors.Join(os.Mkdir(hooks, 0o700), os.WriteFile(filepath.Join(hooks, "post-commit"), []byte("#!/bin/sh\n"), 0o700)); err != nil {
				t.Fatal(err)
			}
			git("add", ".")
			git("commit", "-q", "-m", "hooks")
			git("config", "core.hooksPath", "githooks")
			if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "repo", Workspace: s.workspace, Mode: pb.Mode_MODE_ALLOW}); err != nil {
				t.Fatal(err)
			}
			_, end := s.call(&pb.ExecuteToolRequest{SessionId: "repo", Tool: "agent", InputJson: []byte(`{"prompt":"x","isolation":"worktree"}`)}, nil)
			if _, err := os.Stat(filepath.Join(s.workspace, "sprung")); err == nil {
				t.Errorf("the trap was sprung: %v", end)
			}
			if got := git("ls-files"); strings.Contains(got, ".worktrees") || s.read("githooks/post-commit") != "#!/bin/sh\n" {
				t.Errorf("%v; the repository has %s", end, got)
			}
		})
	}
}
