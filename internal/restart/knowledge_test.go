// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestIngestKilled kills a server while it stores what it ingests: the source is not there, or
// as it was before, and ingesting it once more makes it whole.
func TestIngestKilled(t *testing.T) {
	t.Parallel()
	w := start(t)
	session := w.as("agent").session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	const files = 120
	write := func(word string) {
		t.Helper()
		for i := range files {
			var b strings.Builder
			fmt.Fprintf(&b, "%s%d\n", word, i)
			for b.Len() < 100_000 {
				fmt.Fprintf(&b, "%x ", rand.Uint64())
			}
			if err := os.WriteFile(filepath.Join(session.GetWorkspace(), fmt.Sprint(i, ".txt")), []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// found returns how many files are found that have a word.
	found := func(word string) (n int) {
		t.Helper()
		agent := w.as("agent")
		for strings.Contains(agent.say("s", "knowledge_ingest", `{"operation":"list"}`), "partial") {
		}
		for i := range files {
			if text := agent.say("s", "knowledge_search", fmt.Sprintf(`{"query":"%s%d","limit":1}`, word, i)); strings.Contains(text, fmt.Sprintf("%s%d\n", word, i)) {
				n++
			}
		}
		return n
	}
	killed := func(id string) {
		t.Helper()
		w.as("agent").begun("s", id, "knowledge_ingest", `{"path":"."}`, func(e *pb.Event) bool { return e.GetProgress().GetMessage() == "Storing" })
		w.again()
	}
	write("alpha")
	killed("first")
	if n := found("alpha"); n != 0 && n != files {
		t.Errorf("%d of %d files are there after the first kill", n, files)
	}
	w.as("agent").say("s", "knowledge_ingest", `{"path":"."}`)
	if n := found("alpha"); n != files {
		t.Errorf("%d of %d files are there", n, files)
	}
	write("beta")
	killed("second")
	before, after := found("alpha"), found("beta")
	if before+after != files || before != 0 && after != 0 {
		t.Errorf("after the second kill %d files are as before, and %d are new", before, after)
	}
	w.as("agent").say("s", "knowledge_ingest", `{"path":"."}`)
	if before, after := found("alpha"), found("beta"); before != 0 || after != files {
		t.Errorf("%d files are as before, and %d are new", before, after)
	}
}
