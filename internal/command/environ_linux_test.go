// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// cachedSession is a session whose principal has a cache.
type cachedSession struct {
	*toolstest.Session
	dir string
}

func (s cachedSession) Cache() (string, error) { return s.dir, nil }

// newRunner returns the runner of a session that has a cache, which is returned too.
func newRunner(t *testing.T, change ...func(*command.Config)) (r *command.Runner, cache string) {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	config := command.Config{Sandbox: s, View: sandbox.View{Read: sandbox.SystemPaths()}, Network: tools.NetworkLoopback}
	for _, f := range change {
		f(&config)
	}
	env := toolstest.Env(t, nil)
	if cache, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	env.Session = cachedSession{env.Session.(*toolstest.Session), cache}
	if r, err = command.New(config).Of(env); err != nil {
		t.Fatal(err)
	}
	return r, cache
}

// run runs a command to its end and returns what it wrote.
func run(t *testing.T, r *command.Runner, c command.Command) string {
	t.Helper()
	var out bytes.Buffer
	c.Dir = "."
	x, err := r.Start(t.Context(), c, func(_ tools.Stream, data []byte) { out.Write(data) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func variables(t *testing.T, r *command.Runner, c command.Command) map[string]string {
	t.Helper()
	all := make(map[string]string)
	c.Path = "env"
	for line := range strings.Lines(run(t, r, c)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[name] = value
	}
	return all
}

func TestEnvironment(t *testing.T) {
	r, cache := newRunner(t, func(c *command.Config) { c.Env = []string{"npm_config_fund=true"} })
	home := r.Home()
	session := tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
	all := variables(t, r, command.Command{Rights: session})
	for name, want := range map[string]string{
		"PATH": strings.Join(command.DefaultPath, ":") + ":" + home + "/.local/bin",
		"HOME": home, "GOBIN": home + "/.local/bin", "GOTOOLCHAIN": "local", "GOPROXY": "off",
		"GOCACHE": cache + "/go-build", "GOMODCACHE": cache + "/go-mod", "XDG_CACHE_HOME": cache + "/xdg", "CARGO_HOME": cache + "/cargo",
		"npm_config_cache": cache + "/npm", "PIP_CACHE_DIR": cache + "/pip", "MAVEN_OPTS": "-Duser.home=" + home + " -Dmaven.repo.local=" + cache + "/maven",
		"npm_config_fetch_retries": "0", "PIP_RETRIES": "0", "npm_config_fund": "true",
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	reading := variables(t, r, command.Command{})
	if !strings.Contains(reading["TMPDIR"], "/calls/") {
		t.Errorf("what only reads has the temporary directory %s", reading["TMPDIR"])
	}
	temp := reading["TMPDIR"]
	for name, want := range map[string]string{
		"GOCACHE": temp + "/cache/go-build", "XDG_CACHE_HOME": temp + "/cache/xdg", "npm_config_cache": temp + "/cache/npm",
		"GOMODCACHE": cache + "/go-mod", "CARGO_HOME": cache + "/cargo",
	} {
		if reading[name] != want {
			t.Errorf("where nothing may be written %s is %q, want %q", name, reading[name], want)
		}
	}
	own := variables(t, r, command.Command{Rights: session, Env: []string{"GOCACHE=/elsewhere", "GOPROXY=file:///x"}})
	if own["GOCACHE"] != "/elsewhere" || own["GOPROXY"] != "file:///x" {
		t.Errorf("a command cannot choose: %v", maps.Collect(maps.All(own)))
	}
}

// TestEnvironmentOfANetwork finds nothing there that keeps programs off it.
func TestEnvironmentOfANetwork(t *testing.T) {
	r, _ := newRunner(t, func(c *command.Config) { c.Network = tools.NetworkOpen })
	all := variables(t, r, command.Command{Rights: tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkOpen}})
	for _, name := range []string{"GOPROXY", "npm_config_fetch_retries", "npm_config_prefer_offline", "PIP_RETRIES", "CARGO_NET_RETRY"} {
		if value, set := all[name]; set {
			t.Errorf("%s is %q", name, value)
		}
	}
}

// TestPythonRunsWhatIsThere runs a module again that is changed within a second, with
// its size as before.
func TestPythonRunsWhatIsThere(t *testing.T) {
	const change = `echo 'x = 1' >m.py && touch -d @1000000000 m.py && python3 -c 'import m; print(m.x)' &&
		echo 'x = 2' >m.py && touch -d @1000000000.5 m.py && python3 -c 'import m; print(m.x)'`
	session := tools.Rights{Confinement: tools.SessionWide}
	for _, test := range []struct {
		name     string
		operator []string
		command  []string
		want     string
	}{
		{name: "by default", want: "1\n2\n"},
		{name: "where the operator has it otherwise", operator: []string{"PYTHONDONTWRITEBYTECODE="}, want: "1\n1\n"},
		{name: "where the command has it otherwise", command: []string{"PYTHONDONTWRITEBYTECODE="}, want: "1\n1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _ := newRunner(t, func(c *command.Config) { c.Env = test.operator })
			if out := run(t, r, command.Command{Path: "bash", Args: []string{"-c", change}, Env: test.command, Rights: session}); out != test.want {
				t.Errorf("%q, want %q", out, test.want)
			}
		})
	}
}

// TestCacheIsWritten writes to the cache, which a command that may only read can
// only read.
func TestCacheIsWritten(t *testing.T) {
	r, _ := newRunner(t)
	const write = `mkdir -p "$GOMODCACHE" && echo kept > "$GOMODCACHE/x"`
	if out := run(t, r, command.Command{Path: "bash", Args: []string{"-c", write}, Rights: tools.Rights{Confinement: tools.SessionWide}}); out != "" {
		t.Error(out)
	}
	out := run(t, r, command.Command{Path: "bash", Args: []string{"-c", `exec 2>&1; cat "$GOMODCACHE/x"; echo no > "$GOMODCACHE/x"; mkdir -p "$GOCACHE" && echo can build`}})
	if !strings.HasPrefix(out, "kept\n") || !strings.Contains(out, "Permission denied") || !strings.HasSuffix(out, "can build\n") {
		t.Error(out)
	}
}

// TestNamedIsWritten writes where a command was judged to write, also where the session may write
// anyway, and to nothing beside it.
func TestNamedIsWritten(t *testing.T) {
	home, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(home, 0o700)
	given, err := os.MkdirTemp(home, "toolserver-test-") // not below /tmp, which all commands write
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(given) })
	if err := os.Mkdir(given+"/named", 0o700); err != nil {
		t.Fatal(err)
	}
	r, _ := newRunner(t, func(c *command.Config) { c.View.Write = []string{given} })
	c := command.Command{Path: "bash", Rights: tools.Rights{Confinement: tools.Named, Write: []string{given + "/named"}}}
	c.Args = []string{"-c", `exec 2>&1; echo kept >"$0/named/x" && cat "$0/named/x"; echo no >"$0/x"`, given}
	if out := run(t, r, c); !strings.HasPrefix(out, "kept\n") || !strings.Contains(out, "Permission denied") {
		t.Error(out)
	}
}
