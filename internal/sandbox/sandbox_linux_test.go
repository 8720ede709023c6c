// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/soaktest"
)

// helperPath is the helper, built for these tests.
var helperPath string

// What a copy of the test program is told by its environment.
const (
	helperVariable = sandboxtest.HelperVariable
	serverVariable = "TOOLSERVER_TEST_SERVER" // be a server, in this directory
)

func TestMain(m *testing.M) {
	if what := os.Getenv(jailedVariable); what != "" {
		jailed[what](os.Args[1:])
		os.Exit(0)
	}
	os.Exit(sandboxtest.Run(m, func(helper string) {
		helperPath = helper
		if dir := os.Getenv(serverVariable); dir != "" {
			serve(dir)
		}
	}))
}

// TestUnprivileged runs the other tests as a user who may do nothing.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	skip := "TestPod|GuardStopped" // which take their time
	if !soaktest.Long() {
		skip += "|NothingLeaks|GroupsCount|LoopbackLeaks" // which count the same for every user
	}
	sandboxtest.Unprivileged(t, "", skip)
}

// place is a jail with a workspace.
type place struct {
	*sandbox.Jail
	sandbox *sandbox.Sandbox
	dir     string
}

func newPlace(t testing.TB, config sandbox.Config, change func(*sandbox.Profile)) *place {
	t.Helper()
	config.Helper = cmp.Or(config.Helper, helperPath)
	config.NoNamespaces = true // these tests know processes by the ids they have outside
	s, err := sandbox.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	dir := t.TempDir()
	profile := sandbox.Profile{View: sandbox.View{Read: sandbox.SystemPaths(), Write: []string{dir}}, Write: []string{dir}}
	if change != nil {
		change(&profile)
	}
	space := s.Space(sandbox.SpaceConfig{Open: profile.Network == sandbox.NetworkOpen})
	t.Cleanup(space.Close)
	jail, err := space.Jail(profile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jail.Close() })
	return &place{jail, s, dir}
}

// TestBackground proves that what runs in a space in the background comes last, also
// where the kernel shares processors out among sessions.
func TestBackground(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	space := p.sandbox.Space(sandbox.SpaceConfig{Background: true})
	defer space.Close()
	jail, err := space.Jail(sandbox.Profile{View: sandbox.View{Read: sandbox.SystemPaths()}})
	if err != nil {
		t.Fatal(err)
	}
	defer jail.Close()
	p.Jail = jail
	process, r := p.start(t, "echo $$ $(nice); sleep 300", sandbox.Limits{})
	defer process.Wait()
	defer process.Kill()
	defer r.Close()
	var pid, nice int
	if _, err := fmt.Fscan(r, &pid, &nice); err != nil || nice != 19 {
		t.Errorf("it is as nice as %d: %v", nice, err)
	}
	if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", pid)); err == nil && !strings.Contains(string(group), "nice 19") {
		t.Errorf("its session is as nice as %s", group)
	}
}

// start starts a bash command; its output comes from the reader.
func (p *place) start(t testing.TB, command string, limits sandbox.Limits) (*sandbox.Process, *os.File) {
	t.Helper()
	process, r, err := p.tryStart(command, limits)
	if err != nil {
		t.Fatal(err)
	}
	return process, r
}

func (p *place) tryStart(command string, limits sandbox.Limits) (*sandbox.Process, *os.File, error) {
	return p.startIn(nil, command, limits)
}

func (p *place) startIn(group *sandbox.Group, command string, limits sandbox.Limits) (*sandbox.Process, *os.File, error) {
	dir, err := os.Open(p.dir)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	process, err := p.Start(sandbox.Command{
		Path: "/bin/bash", Args: []string{"bash", "-c", command}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.dir, "TMPDIR=" + p.dir},
		Dir: dir, Stdout: w, Stderr: w, Limits: limits, Group: group,
	})
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return process, r, nil
}

// run runs a bash command and returns its output.
func (p *place) run(t testing.TB, command string, limits sandbox.Limits) (string, sandbox.End) {
	t.Helper()
	process, r := p.start(t, command, limits)
	defer r.Close()
	var out bytes.Buffer
	copied := make(chan struct{})
	go func() { io.Copy(&out, r); close(copied) }()
	end, err := process.Wait()
	<-copied
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return out.String(), end
}

// alive returns the processes that commands in dir have started, wherever they
// went: they cannot lose the environment they were given by us.
func alive(t testing.TB, dir string) (pids []int) {
	t.Helper()
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", process.Name(), "environ"))
		if bytes.Contains(environ, []byte("HOME="+dir+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (p *place) wantNothingLeft(t testing.TB) {
	t.Helper()
	if pids := alive(t, p.dir); len(pids) > 0 {
		t.Errorf("still running: %v", pids)
	}
}

func TestRun(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	out, end := p.run(t, "echo hello; pwd; exit 3", sandbox.Limits{})
	if want := "hello\n" + p.dir + "\n"; out != want || end.Reason != sandbox.Exited || end.Code != 3 {
		t.Errorf("got %q %+v, want %q and 3", out, end, want)
	}
}

// TestWalls tries with a shell what a command must not be able to do. TestProbe
// tries the rest.
func TestWalls(t *testing.T) {
	for _, network := range []sandbox.Network{sandbox.NetworkNone, sandbox.NetworkLoopback, sandbox.NetworkOpen} {
		p := newPlace(t, sandbox.Config{}, func(profile *sandbox.Profile) { profile.Network = network })
		outside := filepath.Join(t.TempDir(), "other workspace")
		if err := os.Mkdir(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		secret := filepath.Join(outside, "secret")
		if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		env := fmt.Sprintf("OUT='%s' F='%s' S=%d; ln -sf / root; ", outside, secret, os.Getpid())
		for _, command := range []string{
			`cat "$F"`, `cat "root$F"`, `ls "$OUT"`, `echo x >>"$F"`, `: >"$OUT/new"`, `ln "$F" here`, `mv "$F" .`, `rm "$F"`, `mkdir "$OUT/d"`,
			`chmod 000 "$OUT"`, `chmod 777 "root$F"`, `cd "$OUT" && chmod 600 secret`, `ln -s "$F" l; chmod 600 l`, `chmod 600 "/proc/$S/cwd"`,
			`touch -d 2001-01-01 "$F"`, `touch -h -d 2001-01-01 "$OUT"`, `chmod 600 /dev/null`, `chmod 000 /usr/bin`, `chmod 600 /dev/stdout`,
			`chown 12345 .`, `chgrp 12345 .`,
			`kill -0 $PPID`, `kill -9 $PPID`, `kill -STOP $PPID`, `kill -0 $S`, `kill -CONT 1`, `kill -9 -1 && sleep 1; kill -0 $S`,
			`cat /proc/$S/environ`, `cat /proc/$PPID/environ`, `cat /proc/1/environ`, `ls -l /proc/*/cwd | grep .`, `cat /proc/[0-9]*/cmdline`,
			`prlimit --pid $S --nofile=3`, `prlimit --pid $PPID --nofile=3`, `renice 5 $S`, `renice 5 -u $(id -u)`, `ionice -c 3 -p $S`, `ionice -c 3 -u $(id -u)`, `taskset -p 1 $S`,
			`unshare -U true`, `unshare -r true`, `unshare -n true`, `stty -a </dev/tty`,
			`exec 5<>/dev/tcp/127.0.0.1/9 && sleep 1; exit 1`,
		} {
			out, end := p.run(t, env+command, sandbox.Limits{})
			if end.Reason != sandbox.Exited || end.Code == 0 || out == "" || strings.Contains(out, "not found") {
				t.Errorf("network %d: %s: %q %+v", network, command, out, end)
			}
		}
		info, err := os.Stat(secret)
		if err != nil || info.Mode() != 0o644 || info.Size() != 6 || info.ModTime().Year() < 2020 {
			t.Errorf("%v, %v", info, err)
		}
		if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o755 || info.ModTime().Year() < 2020 {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// TestInside does what commands do with files of their own.
func TestInside(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	for command, want := range map[string]string{
		`touch a && chmod 640 a && stat -c %a a`:                                                     "640\n",
		`touch b && cd / && chmod 604 "$HOME/b" && stat -c %a "$HOME/b"`:                             "604\n",
		`touch c && ln -s c d && chmod 600 d && stat -c %a c`:                                        "600\n",
		`touch e && exec 5<e && chmod 610 /proc/self/fd/5; stat -c %a e`:                             "610\n",
		`touch -d 2001-02-03T04:05:06Z f && TZ=UTC stat -c %y f`:                                     "2001-02-03 04:05:06.000000000 +0000\n",
		`ln -s nowhere g && touch -h -d @0 g && stat -c %Y g`:                                        "0\n",
		`touch h && chmod 750 h && cp -a h i && stat -c %a i`:                                        "750\n",
		`mkdir -p j/k && chmod -R 700 j && stat -c %a j/k`:                                           "700\n",
		`install -m 711 /dev/null l && stat -c %a l`:                                                 "711\n",
		`touch m; chmod 600 m; touch -d @1 m; tar cf m.tar m; rm m; tar xf m.tar; stat -c '%a %Y' m`: "600 1\n",
		`chmod 600 missing 2>&1 | grep -o 'No such file'`:                                            "No such file\n",
		`touch n && chown "$(id -u):$(id -g)" n && echo yes`:                                         "yes\n",
		`mkdir o && cd o && rmdir ../o && echo still`:                                                "still\n",
		`cat`:                     "",
		`cat <(echo substituted)`: "substituted\n",
		`ulimit -c`:               "0\n",
		`trap -p`:                 "",
	} {
		if out, end := p.run(t, command, sandbox.Limits{}); out != want || end.Reason != sandbox.Exited {
			t.Errorf("%s: %q %+v, want %q", command, out, end, want)
		}
	}
}

func TestReasons(t *testing.T) {
	const mib = 1 << 20
	p := newPlace(t, sandbox.Config{MaxProcesses: 400}, nil) // or a bomb takes a busy machine before it is seen
	for _, test := range []struct {
		command string
		limits  sandbox.Limits
		want    sandbox.End
	}{
		{command: "exit 42", want: sandbox.End{Reason: sandbox.Exited, Code: 42}},
		{command: "kill -9 $$", want: sandbox.End{Reason: sandbox.Signaled, Signal: syscall.SIGKILL}},
		{command: "kill -SEGV $$", want: sandbox.End{Reason: sandbox.Signaled, Signal: syscall.SIGSEGV}},
		{command: "bash -c 'kill -9 $PPID'; sleep 300", want: sandbox.End{Reason: sandbox.Signaled, Signal: syscall.SIGKILL}},
		{command: "while :; do :; done", limits: sandbox.Limits{CPU: 1}, want: sandbox.End{Reason: sandbox.OutOfTime, Signal: syscall.SIGXCPU}},
		{command: "trap '' XCPU; while :; do :; done", limits: sandbox.Limits{CPU: 1}, want: sandbox.End{Reason: sandbox.OutOfTime, Signal: syscall.SIGKILL}},
		{command: "exec head -c 2M /dev/zero >file", limits: sandbox.Limits{FileSize: mib}, want: sandbox.End{Reason: sandbox.FileTooLarge, Signal: syscall.SIGXFSZ}},
		{command: "exec 40</dev/null", limits: sandbox.Limits{OpenFiles: 20}, want: sandbox.End{Reason: sandbox.Exited, Code: 1}},
		{command: "exec tail /dev/zero", limits: sandbox.Limits{Memory: 64 * mib}, want: sandbox.End{Reason: sandbox.OutOfMemory}},
		{command: "tail /dev/zero; echo went on; sleep 300", limits: sandbox.Limits{Memory: 64 * mib}, want: sandbox.End{Reason: sandbox.OutOfMemory}},
		{command: ":(){ :|:& };:; sleep 300", limits: sandbox.Limits{Processes: 40}, want: sandbox.End{Reason: sandbox.TooManyProcesses}},
		{command: "for i in {1..60}; do sleep 300 & done; wait", limits: sandbox.Limits{Processes: 40}, want: sandbox.End{Reason: sandbox.TooManyProcesses}},
		{command: "for i in {1..10}; do sleep 0.2 & done; wait", limits: sandbox.Limits{Processes: 40, Memory: 64 * mib}, want: sandbox.End{Reason: sandbox.Exited}},
	} {
		out, end := p.run(t, test.command, test.limits)
		if end.Reason != test.want.Reason || end.Code != test.want.Code || end.Signal != test.want.Signal || end.Left {
			t.Errorf("%s: %+v, want %+v; %s", test.command, end, test.want, out)
		}
		p.wantNothingLeft(t)
	}
}

func TestCannotStart(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	dir, err := os.Open(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(p.dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	outside := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(outside, []byte("#!/bin/true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		args []string
		want error
	}{
		{path: "/no/such/program", want: syscall.ENOENT},
		{path: "", want: syscall.ENOENT},
		{path: "/usr", want: syscall.EACCES},
		{path: outside, want: syscall.EACCES},
		{path: script("mode", "#!/bin/sh\n", 0o644), want: syscall.EACCES},
		{path: script("interpreter", "#!/no/such/interpreter\n", 0o755), want: syscall.ENOENT},
		{path: script("text", "echo hello\n", 0o755), want: syscall.ENOEXEC},
		{path: "/bin/true", args: []string{strings.Repeat("x", 1<<20)}, want: syscall.E2BIG},
		{path: "/bin/true", args: slices.Repeat([]string{strings.Repeat("x", 100_000)}, 30), want: syscall.E2BIG},
	} {
		process, err := p.Start(sandbox.Command{Path: test.path, Args: append([]string{"program"}, test.args...), Dir: dir})
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		_, err = process.Wait()
		if failure, ok := errors.AsType[*sandbox.StartError](err); !ok || !errors.Is(err, test.want) || len(failure.Error()) < 30 {
			t.Errorf("%s: %v, want %v", test.path, err, test.want)
		}
	}
	for name, command := range map[string]sandbox.Command{
		"NUL":           {Path: "/bin/true", Args: []string{"a\x00b"}, Dir: dir},
		"too long":      {Path: "/bin/true", Args: []string{strings.Repeat("x", 5<<20)}, Dir: dir},
		"too many":      {Path: "/bin/true", Args: make([]string, 1<<18), Dir: dir},
		"no directory":  {Path: "/bin/true"},
		"a closed file": {Path: "/bin/true", Dir: dir, Stdin: closedFile(t)},
	} {
		if process, err := p.Start(command); err == nil {
			t.Errorf("%s: started", name)
			process.Wait()
		}
	}
	// Nobody was harmed, and no arguments are arguments too.
	process, err := p.Start(sandbox.Command{Path: "/bin/true", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Exited || end.Code != 0 {
		t.Errorf("%+v, %v", end, err)
	}
}

func closedFile(t *testing.T) *os.File {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	return file
}

func BenchmarkTrue(b *testing.B) {
	for name, config := range map[string]sandbox.Config{"sandbox": {}, "off": {Off: true}} {
		p := newPlace(b, config, nil)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.run(b, "true", sandbox.Limits{})
			}
		})
	}
	b.Run("osexec", func(b *testing.B) {
		for b.Loop() {
			exec.Command("/bin/bash", "-c", "true").CombinedOutput()
		}
	})
}
