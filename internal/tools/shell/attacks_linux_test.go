// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestUnprivileged runs what attacks, and what works, as a user who may do
// nothing.
func TestUnprivileged(t *testing.T) {
	sandboxtest.Unprivileged(t, "^(TestAttacks|TestPayloads|TestProtected.*|TestBackgroundWork|TestWork|TestTenants|TestSession.*|TestOwnProtected)$", "")
}

// TestAttacks runs commands for real that no policy has looked at: the sandbox is
// all that is between them and the machine.
func TestAttacks(t *testing.T) {
	t.Setenv("TOOLSERVER_CANARY", "CANARY-7f3a")
	out := t.TempDir()
	secret := filepath.Join(out, "secret")
	if err := os.WriteFile(secret, []byte("CANARY-7f3a"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := strconv.Itoa(os.Getpid())
	for _, a := range []struct {
		id, command string
		reason      tools.ExitReason // how it ends; 0: any way
		says        string           // part of the output
	}{
		// Resources.
		{"P-118", "yes", tools.OutputLimit, ""},
		{"P-119", "for i in $(seq 1 2000000); do echo $i >&2; done", 0, ""},
		{"P-121", "python3 -c 'import os;os.fork() and os._exit(0);os.setsid();os.fork() and os._exit(0);import time;time.sleep(1000)'", tools.Exited, ""},
		{"P-122", "(sleep 1000 <&- >&2 &) ; echo done", tools.Exited, "done"},
		{"P-123", "trap '' TERM INT HUP; while :; do sleep 0.1; done", tools.TimedOut, ""},
		{"P-124", "kill -STOP " + server, tools.Exited, "not permitted|No such process"},
		{"P-125", "python3 -c 'x=bytearray(1<<30); [x.__setitem__(i,1) for i in range(0,1<<30,4096)]'", tools.OutOfMemory, ""},
		{"P-126", "i=0; while :; do : > f$i; i=$((i+1)); done", tools.DiskLimit, ""},
		{"P-127", "python3 -c 'import socket,time;s=[socket.socketpair() for _ in range(100000)]'", tools.Exited, "Too many open files"},
		{"P-128", "cat", tools.Exited, ""},
		{"P-129", "stty -a < /dev/tty", tools.Exited, "/dev/tty"},
		{"P-130", "kill -9 $$", tools.Signaled, ""},
		{"P-131", `printf '\xff\xfe\x80ok'`, tools.Exited, "ok"},
		// The server and its secrets.
		{"P-188", "python3 -c 'import os; print(open(\"/proc/%d/environ\"%os.getppid()).read())'", tools.Exited, "denied"},
		{"P-189", "cat /proc/$PPID/environ /proc/1/environ /proc/" + server + "/environ", tools.Exited, "denied"},
		{"P-150", "for p in /proc/[0-9]*; do readlink $p/cwd; tr '\\0' ' ' <$p/cmdline; done; echo done", tools.Exited, "done"},
		{"P-190", "python3 -c 'import os\ndef is_open(fd):\n  try: return bool(os.fstat(fd))\n  except OSError: return False\nprint([fd for fd in range(4096) if is_open(fd)])'", tools.Exited, `\[0, 1, 2\]`},
		{"P-195", "echo AKIAIOSFODNN7EXAMPLE ghp_0123456789abcdefghijABCDEFGHIJ012345", tools.Exited, "masked"},
		{"own-1", "cat " + secret, tools.Exited, "denied|No such file"},
		{"own-2", "ln -s " + secret + " l; cat l; cat /proc/self/root" + secret, tools.Exited, "denied|No such file"},
		{"own-3", "chmod 000 " + secret + "; touch -d 2001-01-01 " + secret + " /usr/bin/env", tools.Exited, "not permitted|No such file"},
		{"own-4", "prlimit --pid " + server + " --nofile=3:3; renice 19 -p " + server + "; taskset -p 1 " + server, tools.Exited, "not permitted"},
		{"own-5", "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\",1))'", tools.Exited, "not permitted|refused"},
		{"own-6", "unshare -Ur true; mount -t tmpfs none .; nsenter -t 1 -m true", tools.Exited, "not permitted"},
		{"own-7", "exec -a sh -c", 0, ""},
		{"own-8", "mkfifo p; cat p & echo x >p; wait", tools.Exited, "x"},
	} {
		t.Run(a.id, func(t *testing.T) {
			env := toolstest.Env(t, nil)
			tool := shell.Bash(running(t, func(c *command.Config) {
				c.Limits = command.Limits{Memory: 256 << 20, Processes: 64, OpenFiles: 256, FileSize: 64 << 20}
				c.Limits.Output = 8 << 20
				c.Limits.SessionFiles = 1000
			}))
			result := attempt(t, tool, env, a.command)
			text := toolstest.Text(result)
			if result.Exit == nil || a.reason != 0 && result.Exit.Reason != a.reason || !regexp.MustCompile(a.says).MatchString(text) {
				t.Errorf("%+v\n%.2000s", result.Exit, text)
			}
			if strings.Contains(text, "CANARY") || a.id == "P-150" && strings.Contains(text, "views") || strings.Contains(text, "AKIAIOSFODNN7EXAMPLE") {
				t.Errorf("it reads what it must not: %.2000s", text)
			}
			noneLeft(t, env)
		})
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o644 || info.ModTime().Year() == 2001 {
		t.Errorf("%v %v", info, err)
	}
}

// attempt runs a command for three seconds at most.
func attempt(t *testing.T, tool tools.Tool, env tools.Env, text string) tools.Result {
	t.Helper()
	input, err := json.Marshal(m{"command": text})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.Decode(&env, input)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	result, _ := c.Run(ctx, toolstest.RightsOf(c), new(toolstest.Recorder))
	return result
}

// noneLeft looks for processes that work in a workspace: there are none once a
// call has ended.
func noneLeft(t *testing.T, env tools.Env) {
	t.Helper()
	for dir, line := range working(t, env) {
		// A shell that is made ready is the helper until it is a shell.
		if !isReady(line) && !bytes.HasPrefix(line, []byte("toolserver-exec")) {
			t.Errorf("%s is left: %q", dir, line)
		}
	}
}

// working returns the command lines of the processes that work in a workspace,
// by their directories in /proc.
func working(t *testing.T, env tools.Env) map[string][]byte {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string][]byte)
	home := []byte("HOME=" + env.Session.Home() + "\x00") // where they work is a path of their view
	for _, link := range links {
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "environ"))
		dir, err := os.Readlink(link)
		if err == nil && (strings.HasPrefix(dir, env.Workspace.Dir()) || bytes.Contains(environ, home)) {
			lines[filepath.Dir(link)], _ = os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		}
	}
	return lines
}

// isReady tells the shell that waits for the next script of a session.
func isReady(line []byte) bool { return bytes.Contains(line, []byte("read -rd")) }

// TestForkBomb is P-120, a command that does nothing but start processes: it ends, and
// another session does not mind. All commands share a small number of processes
// here, or a mistake would take the machine.
func TestForkBomb(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil || os.Geteuid() != 0 {
		t.Skip("the number of processes cannot be bounded here")
	}
	bounded, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper(), MaxProcesses: 400})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bounded.Close() })
	tool := shell.Bash(running(t, func(c *command.Config) {
		c.Sandbox = bounded
		c.Limits = command.Limits{Processes: 100}
	}))
	// First a storm that ends by itself, to see that the number holds.
	free := shell.Bash(running(t, func(c *command.Config) { c.Sandbox = bounded }))
	storm := attempt(t, free, toolstest.Env(t, nil), "exec sh -c 'i=0; while [ $i -lt 450 ]; do sleep 100 & i=$((i+1)); done'")
	if !strings.Contains(toolstest.Text(storm), "Cannot fork") {
		t.Skip("the number of processes cannot be bounded here")
	}
	env, other := toolstest.Env(t, nil), toolstest.Env(t, nil)
	ended := make(chan tools.Result, 1)
	go func() { ended <- attempt(t, tool, env, "bomb() { bomb | bomb & }; bomb; sleep 100") }()
	if text, code, _ := call(t, shell.Bash(running(t)), other, m{"command": "echo ok"}); text != "ok\n" || code != "" {
		t.Errorf("beside a bomb: %q %s", text, code)
	}
	result := <-ended
	if exit := result.Exit; exit == nil || exit.Reason != tools.ProcessLimit && exit.Reason != tools.TimedOut {
		t.Errorf("%+v", exit)
	}
	noneLeft(t, env)
}

// TestTenants has two sessions of one user that must not see each other.
func TestTenants(t *testing.T) {
	runners := runners(t)
	a, b := toolstest.Env(t, nil), toolstest.Env(t, map[string]string{"f": "CANARY of b"})
	tool := shell.Bash(runners, companion.New(runners, companion.Config{}))
	if _, code, _ := call(t, tool, b, m{"command": "echo CANARY >$HOME/h; echo CANARY >$TMPDIR/t"}); code != "" {
		t.Fatal(code)
	}
	private, err := b.Session.Private()
	if err != nil {
		t.Fatal(err)
	}
	ws := b.Workspace.Dir()
	// P-148: what listens, outside of every sandbox, is no easier to reach than what
	// another session could start.
	tcp, abstract := answering(t, "tcp", "127.0.0.1:0"), answering(t, "unix", "@toolserver-"+filepath.Base(ws))
	file := answering(t, "unix", filepath.Join(t.TempDir(), "socket"))
	connect := func(address string) string {
		return "python3 -c 'import socket; s = socket.socket(socket." + address + "); print(s.recv(99))'"
	}
	for _, attack := range []string{
		connect("AF_INET); s.connect((\"127.0.0.1\", " + tcp[strings.LastIndex(tcp, ":")+1:] + ")"),
		connect("AF_UNIX); s.connect(\"\\0" + abstract[1:] + "\""),
		connect("AF_UNIX); s.connect(\"" + file + "\""),
		// P-149 is the third of these.
		"cat " + ws + "/f", "ls " + ws, "chmod 000 " + ws, "echo x >" + ws + "/g", "ln " + ws + "/f here",
		"cat " + private + "/home/h", "cat " + private + "/tmp/t", "ls " + private,
	} {
		text, code, _ := call(t, tool, a, m{"command": attack})
		if code != "exit_status" || strings.Contains(text, "CANARY") {
			t.Errorf("%s: %q %s", attack, text, code)
		}
	}
	if text, code, _ := call(t, tool, b, m{"command": "cat f $HOME/h $TMPDIR/t"}); text != "CANARY of bCANARY\nCANARY\n" || code != "" {
		t.Errorf("%q %s", text, code)
	}
}

// answering listens at an address, which it returns, and tells everybody who
// connects a secret.
func answering(t *testing.T, network, address string) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("CANARY"))
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// TestWork does what developers do, inside the sandbox.
func TestWork(t *testing.T) {
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	where := strings.TrimSpace(string(goRoot))
	runners := runners(t, func(c *command.Config) {
		c.View.Read = append(slices.Clone(c.View.Read), where)
		c.Path = append([]string{where + "/bin"}, command.DefaultPath...)
		c.Env = []string{"GOFLAGS=-mod=mod", "GOTOOLCHAIN=local"}
	})
	goTest := "" // which compiles half of Go
	if soaktest.Long() {
		goTest = " && go test ./..."
	}
	for name, work := range map[string]struct{ needs, command string }{
		"git clone": {"git", `git init -q one && cd one && echo a >a && git add . && git commit -qm a && cd .. && git clone -q one two && cat two/a`},
		"go":        {"go", `mkdir m && cd m && go mod init x/y && printf 'package y\nfunc F() int { return 1 }\n' >y.go && printf 'package y\nimport "testing"\nfunc TestF(t *testing.T) { if F() != 1 { t.Fatal() } }\n' >y_test.go && go build ./...` + goTest},
		"npm":       {"npm", `npm init -y && node -e 'console.log(require("./package.json").version)'`},
		"python":    {"python3", `python3 -m venv --without-pip v && v/bin/python -c 'import subprocess; print(subprocess.check_output(["echo","hi"]))'`},
		"gcc":       {"gcc", `printf 'int main(){return 0;}' >a.c && printf 'a: a.c\n\tgcc -o a a.c\n' >Makefile && make && ./a`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, found := runners.Find(work.needs); !found {
				t.Skipf("there is no %s", work.needs)
			}
			env := toolstest.Env(t, nil)
			if text, code, exit := call(t, shell.Bash(runners, companion.New(runners, companion.Config{})), env, m{"command": work.command}); code != "" {
				t.Errorf("%s %+v\n%s", code, exit, text)
			}
		})
	}
}
