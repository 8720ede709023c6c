// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package trial_test uses the server as agents do: it builds it, starts it as a
// newcomer would, and gives it a day's ordinary work with nobody to ask.
//
//	TRIAL_PLAIN=1  runs the commands with bash and without a server: all must pass,
//	               or the trial expects what is not so
//	TRIAL_PRINT=1  prints what falls short and fails nothing
//	TOOLSERVER_SOAK=1  tries everything in every setting
//	TRIAL_SANDBOX=off  shows what the tests see without a sandbox: they must fail
//	TRIAL_SEED=N   repeats the random commands of a run
//
// A case alone: go test ./internal/trial -run 'TestTrial/allow/git/stash$'; one
// that is chained needs those before it.
package trial_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/soaktest"
)

var (
	soak      = soaktest.Long()
	printOnly = os.Getenv("TRIAL_PRINT") != ""
)

// TestTrial gives every command to the server, in every setting.
func TestTrial(t *testing.T) {
	if os.Getenv("TRIAL_PLAIN") != "" {
		t.Skip("TRIAL_PLAIN: see TestPlain")
	}
	server := startServer(t)
	template := newTemplate(t)
	bare := !namespaces()
	var sum tally
	t.Run("in", func(t *testing.T) {
		for _, with := range settings {
			for _, script := range readScripts(t) {
				t.Run(with.name+"/"+script.name, func(t *testing.T) {
					t.Parallel()
					tr := &trial{script: script, with: with, bare: bare, sum: &sum}
					if with.name == "allow" && script.name == "git" {
						tr.session = server.defaultSession()
					} else {
						tr.session = server.newSession(t, with)
					}
					tr.workspace = tr.session.workspace
					tr.run(t, template)
				})
			}
		}
	})
	sum.log(t)
	if t.Failed() {
		t.Logf("the last lines of the server's log:\n%s", server.log)
	}
}

// TestPlain runs what is tried in mode allow with bash and nothing else, so that
// what the trial expects is true.
func TestPlain(t *testing.T) {
	if os.Getenv("TRIAL_PLAIN") == "" {
		t.Skip("TRIAL_PLAIN=1 runs the trial without a server")
	}
	template := newTemplate(t)
	var sum tally
	t.Run("in", func(t *testing.T) {
		for _, script := range readScripts(t) {
			t.Run("plain/"+script.name, func(t *testing.T) {
				t.Parallel()
				tr := &trial{script: script, with: settings[0], sum: &sum, workspace: t.TempDir()}
				tr.run(t, template)
			})
		}
	})
	sum.log(t)
}

// TestUnprivileged runs the trial as a user who may do nothing.
func TestUnprivileged(t *testing.T) {
	if os.Getenv("TRIAL_PLAIN") != "" {
		t.Skip("TRIAL_PLAIN")
	}
	sandboxtest.Unprivileged(t, "^(TestTrial|TestIsolation|TestRandom)$", "")
}

// TestPod runs the trial in a container.
func TestPod(t *testing.T) {
	sandboxtest.Pod(t, "^(TestTrial|TestIsolation|TestRandom)$", "")
}

// namespaces reports whether a process of this user can have namespaces, so that
// the server's commands must.
func namespaces() bool {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	return cmd.Run() == nil
}

// A trial is one script in one setting.
type trial struct {
	script    *script
	with      setting
	bare      bool
	session   *session // nil: bash alone
	workspace string
	home      string // of bash alone
	sum       *tally
}

func (tr *trial) run(t *testing.T, template string) {
	if tr.session == nil {
		tr.home = t.TempDir()
	}
	setUp(t, tr.workspace, "cp -a "+template+"/. .\n"+tr.script.setup)
	ports, files := freePorts(t, 4), make(snapshooter)
	for i, c := range tr.script.cases {
		t.Run(c.name, func(t *testing.T) {
			c := c.with(ports)
			if why := tr.leavesOut(i, c); why != "" {
				tr.sum.count("left out: " + why)
				t.Skip(why)
			}
			setUp(t, tr.workspace, c.setup)
			before := files.tree(t, tr.workspace)
			got := tr.call(t, c)
			if wrong := tr.judge(c, got, before, files.tree(t, tr.workspace)); wrong != "" {
				tr.sum.count("fell short")
				tr.sum.add(tr.with.name, false)
				report := fmt.Sprintf("%s (%s) in %s: %s\n    $ %s\n  came: %s", c.name, c.class, tr.with.name, wrong,
					strings.ReplaceAll(c.command, "\n", "\n    > "), got)
				if printOnly {
					t.Log("FALLS SHORT " + report)
				} else {
					t.Error(report)
				}
				return
			}
			tr.sum.count("as expected")
			tr.sum.add(tr.with.name, true)
		})
	}
}

// leavesOut returns why a case is not tried; "" if it is.
func (tr *trial) leavesOut(number int, c *trialCase) string {
	for _, name := range c.needs {
		if _, err := exec.LookPath(name); err != nil {
			return "programs are missing"
		}
	}
	if c.condition != "" && !holds(c.condition) {
		return "the machine is not like that"
	}
	others := tr.with.name != "allow"
	// The short form tries everything in mode allow, what is understood in every
	// setting, and every sixth of the rest in each of the others; as a plain user,
	// every sixth of all in the others.
	sampled := os.Getuid() == 0 && (c.class == reads || c.class == edits) || (number+slices.Index(settings, tr.with))%6 == 0
	switch {
	case tr.session == nil && (c.served || c.tool != "bash" || c.cancel != nil):
		return "only a server can do it"
	case others && c.chained:
		return "depends on changes"
	case !soak && (c.soak || others && (c.long || !sampled) || c.long && os.Getuid() != 0):
		return "in the long form"
	case tr.bare && c.skip != "":
		return "needs namespaces"
	}
	return ""
}

// holds reports whether a command succeeds on this machine.
func holds(condition string) bool {
	conditions.Lock()
	defer conditions.Unlock()
	known, ok := conditions.known[condition]
	if !ok {
		cmd := exec.Command("bash", "-c", condition)
		cmd.Env = setupEnviron()
		known = cmd.Run() == nil
		conditions.known[condition] = known
	}
	return known
}

var conditions = struct {
	sync.Mutex
	known map[string]bool
}{known: make(map[string]bool)}

func (tr *trial) call(t *testing.T, c *trialCase) result {
	if tr.session == nil {
		return tr.bash(c)
	}
	input := maps.Clone(c.input)
	if input == nil {
		input = make(map[string]any)
	}
	if c.command != "" {
		input["command"] = c.command
	}
	return tr.session.call(t.Context(), c.tool, input, c.cancel)
}

// judge returns what is wrong with what came of a case; "" if nothing is.
func (tr *trial) judge(c *trialCase, got result, before, after tree) string {
	want, demand := c.want, c.class.in(tr.with.name)
	if tr.bare && c.bare != nil {
		want = *c.bare
	}
	if own := c.in[tr.with.name]; own != nil {
		demand.outcome, demand.asExpected = own, false
	}
	if demand.outcome == nil {
		demand.outcome = want.outcome
	}
	if !demand.outcome.MatchString(got.outcome) {
		return fmt.Sprintf("expected outcome %s", demand.outcome)
	}
	if demand.unchanged {
		if tr.with.name == "allow" {
			delete(before, ".git/index") // which looking refreshes
			delete(after, ".git/index")
		}
		if diff := before.diff(after); diff != "" {
			return "expected the workspace as before; changed: " + diff
		}
	}
	if !demand.asExpected {
		return ""
	}
	for _, pattern := range want.text {
		if !pattern.MatchString(got.text) {
			return fmt.Sprintf("expected text %s", strings.TrimPrefix(pattern.String(), "(?m)"))
		}
	}
	if want.not != nil && want.not.MatchString(got.text) {
		return fmt.Sprintf("expected no %q in the text", want.not.FindString(got.text))
	}
	for _, name := range want.files {
		if _, ok := after[name]; !ok {
			return "expected file " + name
		}
	}
	for _, name := range want.absent {
		if _, ok := after[name]; ok {
			return "expected no file " + name
		}
	}
	return ""
}

// with returns the case with the ports of its script in place of @PORT1@ and so on.
func (c *trialCase) with(ports []string) *trialCase {
	filled := *c
	for i, port := range ports {
		mark := fmt.Sprintf("@PORT%d@", i+1)
		filled.command = strings.ReplaceAll(filled.command, mark, port)
		filled.setup = strings.ReplaceAll(filled.setup, mark, port)
	}
	return &filled
}

// setUp runs what a case needs, as the person does who keeps the workspace.
func setUp(t *testing.T, workspace, text string) {
	t.Helper()
	if text == "" {
		return
	}
	cmd := exec.Command("bash", "-e", "-c", text)
	cmd.Dir, cmd.Env = workspace, setupEnviron()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("setting up: %v\n%s\n%s", err, text, out)
	}
}

// bash runs a case without a server.
func (tr *trial) bash(c *trialCase) result {
	limit := 3 * time.Minute
	if ms, ok := c.input["timeout_ms"].(float64); ok {
		limit = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	workdir, _ := c.input["workdir"].(string)
	cmd := exec.CommandContext(ctx, "bash", "-c", c.command)
	cmd.Dir = filepath.Join(tr.workspace, workdir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tr.home, "TMPDIR=" + tr.home, "LANG=C.UTF-8", "USER=trial"}
	env, _ := c.input["env"].(map[string]any)
	for name, value := range env {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s", name, value))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond // what stays in the background holds the pipe
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		cancel()
		return result{outcome: "ERROR", text: err.Error()}
	}
	if c.input["run_in_background"] == true {
		tr.sum.later(func() { kill(); cmd.Wait(); cancel() })
		return result{outcome: "SUCCEEDED"}
	}
	defer cancel()
	err := cmd.Wait()
	kill()
	got := result{outcome: "SUCCEEDED", text: out.String(), took: time.Since(began)}
	if cmp.Or(err, exec.ErrWaitDelay) != exec.ErrWaitDelay {
		got.outcome = "FAILED"
	}
	return got
}

// A tally counts what came of cases.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	passed map[string][2]int // of a setting: as expected, and not
	ends   []func()
}

func (s *tally) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]int)
	}
	s.counts[what]++
}

func (s *tally) add(setting string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passed == nil {
		s.passed = make(map[string][2]int)
	}
	n := s.passed[setting]
	if ok {
		n[0]++
	} else {
		n[1]++
	}
	s.passed[setting] = n
}

// later has something done when all is over.
func (s *tally) later(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, do)
}

// log writes the summary.
func (s *tally) log(t *testing.T) {
	for _, end := range s.ends {
		end()
	}
	var parts []string
	for _, with := range settings {
		if n, ok := s.passed[with.name]; ok {
			parts = append(parts, fmt.Sprintf("%s %d of %d", with.name, n[0], n[0]+n[1]))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.counts[what], what))
	}
	t.Logf("summary: %s", strings.Join(parts, "; "))
}
