// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A target is what a process tries to reach; see testdata/probe.py.
type target struct {
	Kind   string `json:"kind"`
	Host   string `json:"host,omitempty"`
	Port   int    `json:"port,omitempty"`
	Path   string `json:"path,omitempty"`
	Entry  string `json:"entry,omitempty"`
	File   string `json:"file,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Marker string `json:"marker,omitempty"`
	Say    string `json:"say,omitempty"`
	Secret string `json:"secret,omitempty"` // what shows that it was reached
}

func (t target) String() string {
	text, _ := json.Marshal(t)
	return string(text)
}

// optional says that the commands of a session need not reach it of each other:
// sockets without a path, and processes where each command has a jail of its own.
func (t target) optional(bare bool) bool {
	return strings.HasPrefix(t.Path, "@") || bare && t.Kind == "process"
}

// TestIsolation proves that sessions reach nothing of each other and nothing of
// the server, while those to whom it belongs do.
func TestIsolation(t *testing.T) {
	if os.Getenv("TRIAL_PLAIN") != "" {
		t.Skip("TRIAL_PLAIN")
	}
	if python() == "" {
		t.Skip("there is no Python")
	}
	t.Run("sessions", testSessionsApart)
	t.Run("server", func(t *testing.T) { testServerApart(t) })
	t.Run("server_on_socket", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "s") // the path of a socket is short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		testServerApart(t, "--listen", "unix:"+dir+"/grpc", "--admin", "unix:"+dir+"/admin")
	})
}

// python returns an interpreter that every user has; "" if there is none.
func python() string {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// testSessionsApart has two sessions open what they can and look for the other's.
func testSessionsApart(t *testing.T) {
	server := startServer(t)
	owned := make([][]target, 2)
	var sessions []*session
	port := freePorts(t, 2)
	for i := range owned {
		s := server.newSession(t, settings[0])
		sessions = append(sessions, s)
		name := fmt.Sprintf("%c%d", 'a'+i, os.Getpid())
		owned[i] = s.own(t, name, port[i], "canary-of-"+name)
	}
	bare := !namespaces()
	for i, s := range sessions {
		for j, answer := range s.probe(t, owned[i]) {
			if !answer.reached && !owned[i][j].optional(bare) {
				t.Errorf("a session does not reach what is its own, so it proves nothing that others do not: %s: %s", owned[i][j], answer.why)
			}
		}
	}
	for i, s := range sessions {
		other := 1 - i
		targets := append(owned[other], outsideNames(t, server, sessions[other], owned[other])...)
		for j, answer := range s.probe(t, targets) {
			// A hit may meet what has the same name or number here: whether it met
			// what is the other's is looked at below.
			if answer.reached && !strings.HasPrefix(targets[j].Kind, "hit") {
				t.Errorf("session %d reaches what is session %d's: %s", i, other, targets[j])
			}
		}
		if signalled, _ := filepath.Glob(sessions[other].workspace + "/signalled-*"); signalled != nil {
			t.Errorf("session %d sent a signal to a process of session %d", i, other)
		}
		// What has that number here is the session's own, and it may signal that.
		own, _ := filepath.Glob(s.workspace + "/signalled-*")
		for _, file := range own {
			os.Remove(file)
		}
	}
	for i, s := range sessions {
		for j, answer := range s.probe(t, owned[i]) {
			if !answer.reached && owned[i][j].Kind != "process" && !owned[i][j].optional(bare) {
				t.Errorf("after another session looked for it, a session has lost its own: %s: %s", owned[i][j], answer.why)
			}
		}
	}
	if !bare { // the port that one has is the other's to take
		got := sessions[0].bash(t.Context(), fmt.Sprintf(`%s -c 'import socket; socket.create_server(("127.0.0.1", %s)); print("bound")'`, python(), port[1]))
		if !strings.Contains(got.text, "bound") {
			t.Errorf("a port is taken that another session has: %s", got)
		}
	}
}

// own starts the program in a session that opens all it can, and returns what
// that is.
func (s *session) own(t *testing.T, name, port, secret string) []target {
	t.Helper()
	s.write(t, "owner.py")
	s.write(t, "probe.py")
	t.Cleanup(func() { // where the session had no place of its own
		for _, dir := range []string{"/tmp", "/dev/shm"} {
			os.Remove(filepath.Join(dir, "secret-of-"+name))
		}
	})
	command := fmt.Sprintf("%s owner.py %s %s %s", python(), name, port, secret)
	got := s.call(t.Context(), "bash", map[string]any{"command": command, "run_in_background": true}, nil)
	if got.outcome != "SUCCEEDED" {
		t.Fatalf("$ %s\n%s", command, got)
	}
	ready := s.bash(t.Context(), "for i in $(seq 1 200); do test -e targets.json && exit 0; sleep 0.05; done; exit 1")
	text, err := os.ReadFile(filepath.Join(s.workspace, "targets.json"))
	if err != nil {
		processes := s.call(t.Context(), "process_output", map[string]any{"id": "p1"}, nil)
		t.Fatalf("%v: %s\n%s\n%s", err, ready, got, processes)
	}
	var targets []target
	if err := json.Unmarshal(text, &targets); err != nil {
		t.Fatal(err)
	}
	return targets
}

// write puts a program of testdata into the workspace, as its owner would.
func (s *session) write(t *testing.T, name string) {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.workspace, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// outsideNames returns more ways to what a session has: by the names and numbers
// that it has outside of its jail.
func outsideNames(t *testing.T, server *server, owner *session, owned []target) []target {
	t.Helper()
	var more []target
	for _, o := range owned {
		switch o.Kind {
		case "file":
			more = append(more, target{Kind: "hit_file", Path: o.Path})
		case "tcp":
			for _, host := range []string{"localhost", "0.0.0.0", "127.0.0.2", "::"} {
				more = append(more, target{Kind: "tcp", Host: host, Port: o.Port, Secret: o.Secret})
			}
		case "process":
			more = append(more, target{Kind: "hit", PID: o.PID}, target{Kind: "search", File: "cmdline", Marker: o.Marker})
			for _, pid := range processesWith(o.Marker) {
				more = append(more, target{Kind: "process", PID: pid, Marker: o.Marker}, target{Kind: "hit", PID: pid})
				for _, link := range []string{"cwd", "root" + owner.workspace} {
					more = append(more, target{Kind: "listing", Path: fmt.Sprintf("/proc/%d/%s", pid, link), Entry: "owner.py"})
				}
			}
		}
	}
	secret := owned[0].Secret
	name := "secret-of-" + strings.TrimPrefix(secret, "canary-of-")
	for _, root := range []string{server.dir, os.TempDir(), "/dev/shm", "/var/tmp"} {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.Count(path, "/") > 14 {
				return fs.SkipDir
			}
			if !d.IsDir() && d.Name() == name {
				more = append(more, target{Kind: "file", Path: path, Secret: secret}, target{Kind: "hit_file", Path: path})
			}
			return nil
		})
	}
	return more
}

// processesWith returns the processes of this machine with a marker among their
// arguments.
func processesWith(marker string) []int {
	var pids []int
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), marker) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// An answer is whether a target was reached, and why not.
type answer struct {
	reached bool
	why     string
}

// probe has a session try to reach targets.
func (s *session) probe(t *testing.T, targets []target) []answer {
	t.Helper()
	s.write(t, "probe.py")
	list := writeTargets(t, s.workspace, targets)
	got := s.bash(t.Context(), python()+" probe.py "+list)
	if got.outcome != "SUCCEEDED" {
		t.Fatalf("probing: %s", got)
	}
	return answersOf(t, got.text, len(targets))
}

// probeOutside tries to reach targets without a sandbox.
func probeOutside(t *testing.T, targets []target) []answer {
	t.Helper()
	program, err := testdata.ReadFile("testdata/probe.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(python(), "-c", string(program), writeTargets(t, dir, targets))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return answersOf(t, string(out), len(targets))
}

// writeTargets writes a list for a probe and returns its name in a directory.
func writeTargets(t *testing.T, dir string, targets []target) string {
	t.Helper()
	text, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "list.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return "list.json"
}

func answersOf(t *testing.T, text string, n int) []answer {
	t.Helper()
	answers := make([]answer, n)
	found := 0
	for line := range strings.Lines(text) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i, err := strconv.Atoi(number); err == nil && i < n {
			found++
			verdict, why, _ := strings.Cut(rest, " ")
			answers[i] = answer{reached: verdict == "REACHED", why: why}
		}
	}
	if found != n {
		t.Fatalf("%d answers to %d targets:\n%s", found, n, text)
	}
	return answers
}

// testServerApart proves that a session reaches nothing of its server.
func testServerApart(t *testing.T, flags ...string) {
	server := startServer(t, flags...)
	pid := server.cmd.Process.Pid
	state := filepath.Join(server.dir, "home", ".local", "state", "toolserver")
	const planted = "canary-of-the-state-1d7b"
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(state, "canary"), filepath.Join(server.dir, "canary")} {
		if err := os.WriteFile(path, []byte(planted), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	_, value, _ := strings.Cut(serverSecret, "=")
	targets := []target{
		{Kind: "process", PID: pid, Marker: "serve"},
		{Kind: "file", Path: fmt.Sprintf("/proc/%d/environ", pid), Secret: value},
		{Kind: "search", File: "environ", Marker: value},
		{Kind: "search", File: "cmdline", Marker: "serve\x00--listen"},
		{Kind: "file", Path: filepath.Join(state, "canary"), Secret: planted},
		{Kind: "file", Path: filepath.Join(server.dir, "canary"), Secret: planted},
		{Kind: "file", Path: fmt.Sprintf("/proc/%d/root%s/canary", pid, state), Secret: planted},
		{Kind: "file", Path: fmt.Sprintf("/proc/%d/cwd/../canary", pid), Secret: planted},
		{Kind: "listing", Path: state, Entry: "canary"},
	}
	for _, address := range []string{server.address, server.admin} {
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			targets = append(targets, target{Kind: "unix", Path: path})
			continue
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatalf("%q: %v", address, err)
		}
		number, _ := strconv.Atoi(port)
		targets = append(targets, target{Kind: "tcp", Host: "127.0.0.1", Port: number})
	}
	for i, answer := range probeOutside(t, targets) {
		if !answer.reached {
			t.Fatalf("nobody reaches %s, so it proves nothing that a session does not: %s", targets[i], answer.why)
		}
	}
	targets = append(targets,
		target{Kind: "search", File: "environ", Marker: planted},
		target{Kind: "file", Path: "/proc/self/environ", Secret: value},
		target{Kind: "file", Path: "/proc/1/environ", Secret: value},
		target{Kind: "file", Path: fmt.Sprintf("/proc/%d/environ", os.Getppid()), Secret: value})
	for _, s := range []*session{server.defaultSession(), server.newSession(t, settings[0])} {
		for i, answer := range s.probe(t, targets) {
			if answer.reached {
				t.Errorf("a session reaches what is the server's: %s", targets[i])
			}
		}
	}
}
