// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// allowAll is a policy that stops nothing by itself: what is left is the jail.
const allowAll = `version: 1
unclear: contained
rules:
  - name: everything
    action: allow
    tools: ["*"]
`

// TestRandom runs random commands under a policy that allows everything, and sees
// what they touch: nothing outside of the rights of their verdicts may be.
func TestRandom(t *testing.T) {
	if os.Getenv("TRIAL_PLAIN") != "" {
		t.Skip("TRIAL_PLAIN")
	}
	count := 150
	switch {
	case soak:
		count = 10_000
	case os.Getuid() != 0:
		count = 50
	}
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("TRIAL_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("TRIAL_SEED=%d", seed)

	etc := t.TempDir()
	policy := filepath.Join(etc, "policy.yaml")
	if err := os.WriteFile(policy, []byte(allowAll), 0o644); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, "--policy", policy)
	session, other := server.newSession(t, settings[0]), server.newSession(t, settings[0])
	setUp(t, session.workspace, "cp -a "+newTemplate(t)+"/. .")
	if got := other.bash(t.Context(), "echo mine > mine.txt"); got.outcome != "SUCCEEDED" {
		t.Fatalf("another session: %s", got)
	}
	if got := session.bash(t.Context(), "cat README.md"); got.outcome != "SUCCEEDED" {
		t.Fatalf("the session: %s", got)
	}
	trees := []canaryTree{
		{root: filepath.Join(other.workspace, "canary"), servers: true},
		{root: filepath.Join(server.dir, "home", ".local", "state", "toolserver", "canary"), servers: true},
	}
	for _, dir := range []string{os.TempDir(), "/var/tmp", "/dev/shm"} {
		if root, err := os.MkdirTemp(dir, "trial-canary"); err == nil { // a container has not all of them
			t.Cleanup(func() { os.RemoveAll(root) })
			trees = append(trees, canaryTree{root: root})
		}
	}
	canaries := newCanaries(t, server, trees)
	g := &grammar{
		random: rand.New(rand.NewPCG(seed, 1)), outside: append(canaries.paths(), policy), tcp: canaries.tcp, udp: canaries.udp,
		sockets: canaries.sockets, pids: []int{server.cmd.Process.Pid}, marker: canaries.marker,
		inside: []string{"README.md", "docs", "docs/guide.md", "data/config.json", "scripts/build.sh", "fresh.txt"},
	}
	for _, cmd := range canaries.processes {
		g.pids = append(g.pids, cmd.Process.Pid)
	}

	outcomes, violations := make(map[string]int), 0
	var before []string // the last commands, of which something may still run
	for i := range count {
		command, inside := g.next()
		got := session.call(t.Context(), "bash", map[string]any{"command": command, "timeout_ms": 5_000}, nil)
		where := " outside"
		if inside {
			where = " inside"
		}
		outcomes[got.outcome+where]++
		seen := canaries.touches(got.rights.opens)
		if strings.Contains(got.text, canaries.token) && !slices.ContainsFunc(got.rights, filepath.IsAbs) { // else the verdict opened one
			seen = append(seen, "it shows what a canary holds")
		}
		if len(seen) > 0 {
			violations++
			t.Errorf("command %d of TRIAL_SEED=%d touched what it has no right to:\n    %s\n    $ %s\n  came: %s\n  before it: %q",
				i, seed, strings.Join(seen, "\n    "), command, got, before)
		}
		if got.outcome == "ERROR" || got.outcome == "HANGS" {
			t.Errorf("command %d of TRIAL_SEED=%d: $ %s\n  came: %s\n%s", i, seed, command, got, server.log)
		}
		if violations > 20 {
			t.Fatal("and so on")
		}
		if before = append(before, command); len(before) > 3 {
			before = before[1:]
		}
		if i%50 == 49 { // what they broke of their own
			setUp(t, session.workspace, "until chmod -R u+rwX . 2>&1; find . -mindepth 1 -delete 2>&1; do sleep 0.1; done; cp -a "+newTemplate(t)+"/. .")
		}
	}
	for path := range holding(session.workspace, canaries.token) {
		t.Errorf("%s has got what a canary holds", path)
	}
	t.Logf("summary: %d random commands, %d violations; %v; the server listed directories to judge commands %d times", count, violations, outcomes, canaries.judged)
	if outcomes["SUCCEEDED inside"] == 0 {
		t.Error("nothing that is inside works, so this proves nothing")
	}
}

// holding returns the files of a directory that have a text in them.
func holding(root, text string) map[string]bool {
	found := make(map[string]bool)
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), text) {
				found[path] = true
			}
		}
		return nil
	})
	return found
}
