// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/service"
	searchtools "github.com/toolserver/toolserver/internal/tools/search"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// watches counts the queues of changes that this process has the kernel keep:
// one for every workspace that is in memory.
func watches(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if target, _ := os.Readlink("/proc/self/fd/" + f.Name()); target == "anon_inode:inotify" {
			n++
		}
	}
	return n
}

// TestSearchEnds proves that what is kept in memory of a workspace goes with its
// session, and with the server.
func TestSearchEnds(t *testing.T) {
	before, running := watches(t), goleak.IgnoreCurrent()
	s := serve(t, func(c *service.Config) {
		if err := c.Registry.Replace("search", searchtools.Tools(search.NewPool(index.NewPool(index.Config{})))...); err != nil {
			t.Fatal(err)
		}
	})
	s.write("a.txt", "hello\n")
	c := s.dial("")
	session, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "short"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(session.GetSession().GetWorkspace()+"/b.txt", []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := timeout(t)
	for _, id := range []string{"", "short"} {
		had := watches(t)
		for watches(t) == had { // it is read into memory beside the searches
			if ctx.Err() != nil {
				t.Fatal("the workspace is never kept in memory")
			}
			request := asJSON("grep", `{"pattern":"hello"}`)
			request.SessionId = id
			if end := c.run(request); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Fatal(end)
			}
		}
	}
	if _, err := c.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "short"}); err != nil {
		t.Fatal(err)
	}
	if now := watches(t); now != before+2 { // one for its directories, one for files
		t.Errorf("%d things are watched, want those of one workspace", now-before)
	}
	c.conn.Close()
	s.shutdown()
	if now := watches(t); now != before {
		t.Errorf("%d things are watched after the end", now-before)
	}
	goleak.VerifyNone(t, running)
}
