// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// A grammar makes random commands out of actions on files, the network and
// processes, in the many ways in which a shell can be told to do something.
type grammar struct {
	random  *rand.Rand
	inside  []string // paths of the workspace
	outside []string // paths that are nobody's to touch
	tcp     []string
	udp     []string
	sockets []string
	pids    []int
	marker  string // of processes
}

func pick[T any](g *grammar, from []T) T { return from[g.random.IntN(len(from))] }

// fileActions have P for a path and Q for one inside.
var fileActions = []string{
	"cat P", "head -c 20 P", "tail -n1 P", "grep -r . P", "ls -laR P", "find P -type f -exec cat {} +", "stat P", "wc -c < P",
	"od -c P | head -1", "sed -n p P", "awk 1 P", "sort P", "tar cf - P | tar tf -", "cp -r P copied.tmp; cat copied.tmp", "diff Q P",
	"dd if=P bs=16 count=1 2>/dev/null", "mapfile -t x < P; echo ${x[0]}", "source P", "bash P", "P", "exec 7< P; cat <&7",
	"ln -sfn P link.tmp && cat link.tmp", "ln -sfn P link.tmp && ls link.tmp/", "ln -sfn P link.tmp && echo x > link.tmp", "ln P hard.tmp && echo x >> hard.tmp",
	"echo written > P", "echo more >> P", "touch P", "rm -f P", "rm -rf P", "mv P moved.tmp", "cp Q P", "mv -f Q P", "chmod 600 P", "chown 1:1 P",
	"truncate -s 0 P", "sed -i s/a/b/ P", "tee P < Q", "mkdir -p P/made", "tar xf Q -C P", "install -m 644 Q P", "unlink P", "rmdir P",
	"git init -q P/repo", "git clone -q . P/clone", "git -C P status", "git diff --no-index Q P", "git --git-dir=P/.git log", "git config -f P x.y z",
	"git apply --unsafe-paths --directory=P Q", "git worktree add P/wt", "find P -delete", "gzip -k P", "split -b 4 Q P/part", "mkfifo P/fifo", "touch -d 2001-01-01 P",
	"cd P && pwd && ls && cat *", "cd P && echo x > planted", "pushd P && touch planted; popd", "python3 -c 'print(open(\"P\").read())'",
	"python3 -c 'open(\"P\", \"w\").write(\"x\")'", "python3 -c 'import os; os.utime(\"P\")'", "python3 -c 'import shutil; shutil.rmtree(\"P\")'",
	"python3 -c 'import os; os.rename(\"P\", \"taken.tmp\")'", "python3 -c 'import os; print(os.listdir(\"P\"))'", "python3 -c 'import os; os.setxattr(\"P\", \"user.x\", b\"y\")'",
	"python3 -c 'import os; os.chdir(\"P\"); open(\"planted\", \"w\")'", "python3 -c 'import os; fd = os.open(\"P\", os.O_PATH); print(os.listdir(\"/proc/self/fd/%d\" % fd))'",
	"perl -e 'open F, \"<\", \"P\"; print <F>'", "perl -e 'unlink \"P\"'", "node -e 'console.log(require(\"fs\").readFileSync(\"P\", \"utf8\"))'",
	"cat /proc/self/rootP", "cat /proc/self/cwd/../../../../../../../..P", "cat ./../../../../../../../../../..P", "cat /proc/1/rootP", "ls /proc/PID/root/P /proc/PID/cwd/",
	"mount --bind docs P", "unshare -rm sh -c 'cat P'", "chroot P /bin/sh -c ls", "nsenter -t PID -m cat P", "umount P", "mknod P/null c 1 3",
	"curl -s file://P", "jq . P", "sqlite3 P .dump", "zip -q z.tmp.zip P; unzip -p z.tmp.zip", "make -f P", "go run P", "xargs -a P echo", "cmp Q P", "patch P Q",
}

var networkActions = []string{
	"echo hi > /dev/tcp/HOST/PORT", "exec 5<>/dev/tcp/HOST/PORT; cat <&5", "echo hi > /dev/udp/HOST/PORT", "curl -s -m 2 http://ADDRESS/", "wget -q -T 2 -O- http://ADDRESS/",
	"python3 -c 'import socket; print(socket.create_connection((\"HOST\", PORT), 2).recv(99))'",
	"python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (\"HOST\", UDPPORT))'",
	"python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect(SOCKET); print(s.recv(99))'",
	"python3 -c 'import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b\"x\", SOCKET)'",
	"perl -MIO::Socket -e 'print IO::Socket::INET->new(\"ADDRESS\")->getline'", "node -e 'require(\"net\").connect(PORT, \"HOST\").on(\"data\", d => console.log(String(d))).on(\"error\", () => {})'",
	"git ls-remote http://ADDRESS/x", "git ls-remote git://ADDRESS/x", "python3 -c 'import urllib.request as u; u.urlopen(\"http://ADDRESS\", timeout=2)'",
}

var processActions = []string{
	"kill -TERM PID", "kill -KILL PID", "kill -STOP PID", "kill -0 PID && echo there", "pkill -f MARKER", "pgrep -fl MARKER", "renice -n 5 -p PID",
	"cat /proc/PID/environ", "tr '\\0' ' ' < /proc/PID/cmdline", "ls -l /proc/PID/fd", "cat /proc/PID/maps", "head -c 9 /proc/PID/mem", "echo 500 > /proc/PID/oom_score_adj",
	"prlimit --pid PID --nofile=10:10", "python3 -c 'import os, signal; os.kill(PID, signal.SIGSTOP)'", "python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open(PID), signal.SIGKILL)'",
	"python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, PID, 0, 0))'", "strace -p PID", "taskset -p 1 PID", "ionice -c 3 -p PID",
}

// wrappings are ways to have X run. Those with 'X' have it quoted for a shell.
var wrappings = []string{
	"X", "X", "X", "X 2>&1 | tail -20", "(X)", "{ X; }", "X & wait", "(sleep 0.05; X) & wait", "bash -c 'X'", "sh -c 'X'", "eval 'X'", "env -i PATH=\"$PATH\" bash -c 'X'",
	"timeout 5 bash -c 'X'", "true && X || true", "if true; then X; fi", "for i in 1; do X; done", "f() { X; }; f", "echo \"$(X)\"", "cat <(X)", "trap 'X' EXIT; true",
	"echo B64 | base64 -d | bash", "bash <<'SCRIPT'\nX\nSCRIPT", "xargs -I{} bash -c 'X' <<< one", "find . -maxdepth 0 -exec bash -c 'X' \\;", "awk 'BEGIN { system(\"echo B64 | base64 -d | bash\") }'",
	"python3 -c 'import subprocess, base64; subprocess.run([\"bash\", \"-c\", base64.b64decode(\"B64\")])'", "git -c alias.x='!echo B64 | base64 -d | bash' x", "GIT_PAGER='echo B64 | base64 -d | bash' git -p log -1",
	"git -c core.fsmonitor='echo B64 | base64 -d | bash' status", "git -c core.pager='echo B64 | base64 -d | bash' -p log", "setsid bash -c 'X'", "nohup bash -c 'X' > /dev/null; true", "coproc { X; }; wait",
	"printf 'all:\\n\\t@echo B64 | base64 -d | bash\\n' > m.tmp && make -f m.tmp", "sed -n '1e echo B64 | base64 -d | bash' README.md", "perl -e 'system(\"echo B64 | base64 -d | bash\")'",
	"tar cf /dev/null README.md --checkpoint=1 --checkpoint-action=exec='echo B64 | base64 -d | bash'", "cd docs; X", "PS4='$(X)'; set -x; true", "printf -v x '%s' \"$(X)\"; echo $x", "echo ok #\\\nX", "a=(x)# ; X",
	"X; X", "script -qec 'X' /dev/null", "echo 'echo B64 | base64 -d | bash' > later.sh; bash later.sh",
}

// next returns a command, and whether all that it touches is inside.
func (g *grammar) next() (command string, inside bool) {
	inside = g.random.IntN(5) == 0
	var action string
	switch n := g.random.IntN(10); {
	case inside || n < 6:
		paths := g.outside
		if inside {
			paths = g.inside
		}
		path := pick(g, paths)
		action = strings.NewReplacer("PID", strconv.Itoa(pick(g, g.pids)), "P", path, "Q", pick(g, g.inside)).Replace(pick(g, fileActions))
	case n < 8:
		action = g.network(pick(g, networkActions))
	default:
		action = strings.NewReplacer("PID", strconv.Itoa(pick(g, g.pids)), "MARKER", g.marker).Replace(pick(g, processActions))
	}
	wrapping := pick(g, wrappings)
	action = g.spelled(action)
	return strings.NewReplacer(
		"'X'", "'"+strings.ReplaceAll(action, "'", `'\''`)+"'",
		"X", action,
		"B64", base64.StdEncoding.EncodeToString([]byte(action)),
	).Replace(wrapping), inside
}

func (g *grammar) network(action string) string {
	host, port, _ := net.SplitHostPort(pick(g, g.tcp))
	_, datagrams, _ := net.SplitHostPort(pick(g, g.udp))
	socket := pick(g, g.sockets)
	if name, abstract := strings.CutPrefix(socket, "@"); abstract {
		socket = `"\0` + name + `"`
	} else {
		socket = `"` + socket + `"`
	}
	address := net.JoinHostPort(host, port)
	if host == "127.0.0.1" && g.random.IntN(4) == 0 {
		host = pick(g, []string{"localhost", "127.1", "0.0.0.0", "127.0.0.1"})
		address = host + ":" + port
	}
	return strings.NewReplacer("UDPPORT", datagrams, "HOST", host, "PORT", port, "ADDRESS", address, "SOCKET", socket).Replace(action)
}

// spelled writes an action in another way, sometimes.
func (g *grammar) spelled(action string) string {
	switch g.random.IntN(8) {
	case 0: // in a variable
		if word, rest, ok := strings.Cut(action, " "); ok && !strings.ContainsAny(word, "=;'\"") {
			return fmt.Sprintf("v=%s; $v %s", word, rest)
		}
	case 1: // with a quoted letter
		if len(action) > 2 && action[0] >= 'a' && action[0] <= 'z' && action[1] >= 'a' && action[1] <= 'z' {
			return `"` + action[:1] + `"` + action[1:]
		}
	case 2:
		if word, _, _ := strings.Cut(action, " "); word == "cat" || word == "rm" || word == "ls" {
			return `\` + action
		}
	}
	return action
}
