// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
)

// program returns the path of a program.
func (r *Runner) program(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path, ok := r.all.Find(name); ok {
		return path, nil
	}
	return "", tools.Failf("program_not_found", "There is no program %s on this machine: it is in none of %s.", name, strings.Join(r.all.config.Path, ", "))
}

// Find returns where a program is, if it is: one with a slash in its name is nowhere else.
func (r *Runners) Find(name string) (path string, ok bool) { return find(r.config.Path, name) }

// Find returns where commands find a program, as [Runners.Find] does.
func (p *Programs) Find(name string) (path string, ok bool) { return find(p.Path, name) }

// NoProgram says that there is no program of a name, and what would help.
func NoProgram(name string) string {
	return fmt.Sprintf("there is no program %s in the PATH of commands: install it, or name its directory in sandbox.path", name)
}

func find(dirs []string, name string) (path string, ok bool) {
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// surroundings are what an environment depends on, beside the session.
type surroundings struct {
	confinement tools.Confinement
	network     tools.Network
	temp        string     // the temporary directory
	terminal    bool       // there is one
	apart       bool       // nothing that calls can write is in it
	more        []string   // variables of the command
	hosts       *hostProxy // nil where none can be reached
}

// surroundings returns those of a command.
func (x *Running) surroundings() surroundings {
	c, temp := &x.command, x.jail.temp
	if c.SharedTemp {
		temp = x.runner.temp()
	}
	return surroundings{
		confinement: c.Rights.Confinement, network: c.Rights.Network, temp: x.runner.seen(temp),
		terminal: c.Terminal != nil, apart: c.Apart, more: c.Env, hosts: x.jail.hosts,
	}
}

// traceEnv returns what tells a command which trace it is part of.
func (r *Runner) traceEnv(ctx context.Context) []string {
	if !r.all.config.Trace {
		return nil
	}
	return span.Environ(ctx)
}

// seen returns a path below the temporary directory as commands know it.
func (r *Runner) seen(temp string) string {
	if !r.all.config.Sandbox.Namespaces() {
		return temp
	}
	if rest, ok := strings.CutPrefix(temp, r.calls()); ok {
		return sandbox.CallsPath + rest
	}
	if rest, ok := strings.CutPrefix(temp, r.temp()); ok {
		return "/tmp" + rest
	}
	return temp
}

// environ returns the environment of a command. Nothing comes from the
// environment of the server.
func (r *Runner) environ(s surroundings) []string {
	term := "dumb"
	if s.terminal {
		term = "xterm-256color"
	}
	env := []string{
		"TMPDIR=" + s.temp,
		"LC_CTYPE=C.UTF-8", // LANG would have each program read a dozen files more, which say the same as none
		"TERM=" + term,
		"USER=agent", "LOGNAME=agent", "SHELL=/bin/bash",
		// Nobody is there to turn pages or to write messages.
		"PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "GIT_EDITOR=true", "EDITOR=true", "VISUAL=true",
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "DEBIAN_FRONTEND=noninteractive", "PYTHONUNBUFFERED=1",
		// Python takes a .pyc for good by its size and by seconds, and an agent edits and runs again within one.
		"PYTHONDONTWRITEBYTECODE=1",
		// What asks for news of itself waits for a network.
		"GOTOOLCHAIN=local", "npm_config_update_notifier=false", "npm_config_fund=false", "npm_config_audit=false", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_ROOT_USER_ACTION=ignore",
	}
	path := strings.Join(r.all.config.Path, ":")
	if s.apart {
		env = append(env, "PATH="+path, "HOME="+s.temp)
		env = append(env, apart...)
	} else {
		local := filepath.Join(r.Home(), ".local") // where programs are put by who may write no other place
		env = append(env, "PATH="+path+":"+filepath.Join(local, "bin"), "HOME="+r.Home(),
			// Programs that are installed by go, cargo and npm are found in PATH.
			"GOBIN="+filepath.Join(local, "bin"), "CARGO_INSTALL_ROOT="+local, "npm_config_prefix="+local)
		env = append(env, caches(r.caches, r.Home(), s)...)
	}
	if s.hosts != nil {
		env = append(env, s.hosts.environ()...)
	} else if s.network <= tools.NetworkLoopback {
		env = append(env, offline...)
	}
	for _, pair := range slices.Concat(r.all.config.Env, s.more) {
		name, _, _ := strings.Cut(pair, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, pair)
	}
	return env
}

// apart has programs look at nothing but what they were given: modules beside them or in
// the working directory are none of theirs.
var apart = []string{"PYTHONNOUSERSITE=1", "PYTHONSAFEPATH=1", "GIT_CONFIG_GLOBAL=/dev/null", "GOENV=off", "GOFLAGS="}

// caches returns where programs keep what they have fetched and built: in dir,
// which outlives the session. A command that may not write there finds what was
// fetched, and builds in its temporary directory. Java does not look at HOME.
func caches(dir, home string, s surroundings) []string {
	built := dir
	if s.confinement < tools.SessionWide {
		built = filepath.Join(s.temp, "cache")
	}
	return []string{
		"XDG_CACHE_HOME=" + filepath.Join(built, "xdg"),
		"GOCACHE=" + filepath.Join(built, "go-build"),
		"GOMODCACHE=" + filepath.Join(dir, "go-mod"),
		"npm_config_cache=" + filepath.Join(built, "npm"),
		"PIP_CACHE_DIR=" + filepath.Join(built, "pip"),
		"CARGO_HOME=" + filepath.Join(dir, "cargo"),
		"GRADLE_USER_HOME=" + filepath.Join(built, "gradle"),
		"MAVEN_OPTS=-Duser.home=" + home + " -Dmaven.repo.local=" + filepath.Join(dir, "maven"),
	}
}

// offline has programs fail at once where there is no network, with the words
// they have for it, instead of trying again. What they have in their caches, or
// find on loopback, they still use.
var offline = []string{"GOPROXY=off", "npm_config_fetch_retries=0", "npm_config_prefer_offline=true", "PIP_RETRIES=0", "CARGO_NET_RETRY=0"}
