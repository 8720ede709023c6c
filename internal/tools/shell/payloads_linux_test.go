// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	_ "embed"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

//go:embed testdata/payloads.jsonl
var payloads string

// TestPayloads runs the commands for real that a policy has to see through, and
// that no policy has looked at here: what they are after is outside of the sandbox.
// In their texts {WS} is the workspace, {OUT} a directory that has a secret, {MARK}
// a file in it that an attack would make, and {PORT} where something listens.
func TestPayloads(t *testing.T) {
	runners := runners(t)
	for line := range strings.Lines(payloads) {
		var p struct {
			ID      string `json:"id"`
			Command string `json:"command"`
			Setup   string `json:"setup"`   // commands that prepare the workspace, outside of the sandbox
			Works   bool   `json:"works"`   // it is harmless, and must succeed
			Warning string `json:"warning"` // part of what is said of something that cannot be put back
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		t.Run(p.ID, func(t *testing.T) {
			t.Parallel()
			env, out := toolstest.Env(t, nil), filepath.Join(t.TempDir(), "out")
			if err := os.Mkdir(out, 0o755); err != nil {
				t.Fatal(err)
			}
			secret, mark := filepath.Join(out, "secret"), filepath.Join(out, "pwned")
			if err := os.WriteFile(secret, []byte("CANARY-7f3a"), 0o644); err != nil {
				t.Fatal(err)
			}
			connected, port := listening(t)
			place := strings.NewReplacer("{WS}", env.Workspace.Dir(), "{OUT}", out, "{MARK}", mark, "{PORT}", port)
			prepareRepository(t, env, place.Replace(p.Setup))
			before := ofOthers(t, env)

			result := attempt(t, shell.Bash(runners, companion.New(runners, companion.Config{})), env, place.Replace(p.Command))
			text := toolstest.Text(result)
			if p.Works && (result.Exit == nil || result.Exit.Reason != tools.Exited || result.Exit.Code != 0) {
				t.Errorf("it does not work: %+v %s", result.Exit, text)
			}
			if _, err := os.Lstat(mark); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it made what it must not: %v", err)
			}
			if now, err := os.ReadFile(secret); err != nil || string(now) != "CANARY-7f3a" || strings.Contains(text, "CANARY") {
				t.Errorf("the secret is %q, %v; it says %s", now, err, text)
			}
			if connected() {
				t.Error("it has a connection")
			}
			if p.Warning != "" {
				// Where there are namespaces the kernel refuses it instead.
				if !strings.Contains(strings.Join(result.Warnings, "; "), p.Warning) && !strings.Contains(text, "Read-only file system") {
					t.Errorf("it is not told: %+v %s", result.Exit, text)
				}
			} else if now := ofOthers(t, env); now != before {
				t.Errorf("what other programs run was %.80q and is %.80q; %+v", before, now, result.Exit)
			}
			noneLeft(t, env)
		})
	}
}

// prepareRepository makes the workspace what the catalogue says it is.
func prepareRepository(t *testing.T, env tools.Env, setup string) {
	t.Helper()
	const begin = `git init -q . && for f in notes one keep; do echo hello >$f.txt; done && git add . && git commit -qm one &&
		git commit -q --allow-empty -m two && echo changed >>notes.txt`
	for _, commands := range []string{begin, setup} {
		cmd := exec.Command("bash", "-c", commands)
		cmd.Dir = env.Workspace.Dir()
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_AUTHOR_EMAIL=me@x", "GIT_COMMITTER_EMAIL=me@x", "GIT_AUTHOR_NAME=me", "GIT_COMMITTER_NAME=me"}
		if out, err := cmd.CombinedOutput(); err != nil && commands == begin {
			t.Fatalf("%v\n%s", err, out)
		} else if err != nil {
			t.Skipf("it cannot be prepared here: %v\n%s", err, out)
		}
	}
}

// ofOthers returns what of a workspace other programs run, or run by.
func ofOthers(t *testing.T, env tools.Env) string {
	t.Helper()
	var all strings.Builder
	const keys = `^(core\.(hookspath|fsmonitor|sshcommand|pager|editor|askpass)|(alias|filter|include|includeif|credential|diff|merge)\..*)`
	out, _ := exec.Command("git", "config", "-f", filepath.Join(env.Workspace.Dir(), ".git/config"), "--get-regexp", keys).CombinedOutput()
	all.Write(out)
	for _, pattern := range []string{".git/hooks/*", ".husky/*"} {
		files, err := filepath.Glob(filepath.Join(env.Workspace.Dir(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(filepath.Base(file) + "\n" + string(text))
		}
	}
	return all.String()
}

// listening listens on a port; connected reports whether somebody has connected
// since.
func listening(t *testing.T) (connected func() bool, port string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close(); listener.Close() })
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		found := false
		_ = conn.Control(func(fd uintptr) {
			client, _, err := syscall.Accept4(int(fd), syscall.SOCK_CLOEXEC)
			if found = err == nil; found {
				syscall.Close(client)
			}
		})
		return found
	}, port
}
