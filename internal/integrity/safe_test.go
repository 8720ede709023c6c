// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSafeConfig keeps what a repository is read by, and no key that runs something.
func TestSafeConfig(t *testing.T) {
	const config = `[core]
	repositoryformatversion = 1
	fileMode = true ; as it was
	bare = false
	fsmonitor = /tmp/evil
	hooksPath = /tmp/hooks
	sshCommand = evil
	worktree = /
[extensions]
	objectFormat = sha256
	worktreeConfig = true
	partialClone = origin
[include]
	path = /etc/evil
[alias]
	x = !evil
[remote "origin"]
	url = git@github.com:some/repo.git
	fetch = +refs/heads/*:refs/remotes/origin/*
	uploadpack = evil
	vcs = evil
	proxy = http://evil
[remote "web"]
	url = https://example.com/r.git
[remote "password"]
	url = https://me:secret@example.com/r.git
[remote "helper"]
	url = ext::sh -c evil
[remote "flag"]
	url = ssh://-oProxyCommand=evil/x
[remote "path"]
	url = /home/me/repo
[branch "main"]
	remote = origin
	merge = refs/heads/main
[branch "evil"]
	remote = ext::evil
[branch "up"]
	remote = ../elsewhere
[filter "lfs"]
	process = git-lfs filter-process
[user]
	name = Zoë O'Neil "zo" # not this
	email = me@example.com
	signingKey = evil
[user "evil"]
	name = evil
[author]
	name = evil
[User]
	Name = "evil <evil@evil>"
	email = "evil\nevil"
	email =
[url "ext::evil"]
	insteadOf = https://
`
	const want = `[core]
	repositoryformatversion = "1"
	filemode = "true"
	bare = "false"
[extensions]
	objectformat = "sha256"
[remote "origin"]
	url = "git@github.com:some/repo.git"
	fetch = "+refs/heads/*:refs/remotes/origin/*"
[remote "web"]
	url = "https://example.com/r.git"
[branch "main"]
	remote = "origin"
	merge = "refs/heads/main"
[user]
	name = "Zoë O'Neil zo"
	email = "me@example.com"
`
	got, dropped := SafeConfig([]byte(config))
	if string(got) != want {
		t.Errorf("got:\n%s", got)
	}
	if len(dropped) != 23 || !slices.Contains(dropped, "core.fsmonitor") || !slices.Contains(dropped, "remote.password.url") {
		t.Errorf("%d left out: %q", len(dropped), dropped)
	}
	if strings.Contains(string(got), "secret") || strings.Contains(string(got), "evil") {
		t.Errorf("got:\n%s", got)
	}
	// git reads it as it was meant.
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, got, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "--file", path, "--list").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nextensions.objectformat=sha256\n") || strings.Count(string(out), "\n") != 11 {
		t.Errorf("git reads %s (%v)", out, err)
	}
}

// TestSafeConfigOfNone keeps nothing of what git would not read.
func TestSafeConfigOfNone(t *testing.T) {
	for _, data := range []string{"", "[core\n\tbare = false\n", "[core]\n\tbare = \"false\n", "\x00\x01", "[core]\nbare=false\n" + strings.Repeat("#", MaxConfig)} {
		if config, _ := SafeConfig([]byte(data)); len(config) > 0 {
			t.Errorf("%.30q: %q", data, config)
		}
	}
	// A name with a quote or a line feed stays in its place.
	config, dropped := SafeConfig([]byte("[branch \"a\\\"]\\\\\"]\nremote = origin\n[core]\nbare = \"false\\n[alias]\\nx=!evil\"\n"))
	if len(config) > 0 || len(dropped) != 2 {
		t.Errorf("%q, %q", config, dropped)
	}
}
