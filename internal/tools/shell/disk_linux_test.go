// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// flood is a command that makes files in a directory until it is ended.
const flood = "i=0; while :; do : >$d/f$i; i=$((i+1)); done"

// TestSessionFiles has commands make more files than a session may, in each
// place where they can and however they hide them.
func TestSessionFiles(t *testing.T) {
	const limit = 500
	const why = "have made more than the 500 files and directories they may"
	for name, test := range map[string]struct{ flood, clean string }{
		"workspace":   {"mkdir d; d=d; " + flood, "rm -r d"},
		"home":        {"mkdir ~/d; d=~/d; " + flood, "rm -r ~/d"},
		"temporary":   {"d=$TMPDIR; " + flood, `find $TMPDIR -name 'f*' -delete`},
		"directories": {"mkdir -p d/{1..50}/{1..50}; sleep 300", "rm -r d"},
		"links":       {"mkdir d; ln -s /{1..2000} d; sleep 300", "rm -r d"},
		"unreadable":  {"mkdir d; for i in {1..9000}; do : >d/a-longer-name-$i; done; chmod 000 d; sleep 300", "rm -r d"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, func(c *command.Config) { c.Limits.SessionFiles = limit })
			for i := range 2 * limit { // which were there before
				if err := os.WriteFile(filepath.Join(k.env.Workspace.Dir(), fmt.Sprint("old", i)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			outgrow(t, filepath.Join(k.env.Workspace.Dir(), fmt.Sprint("old", 2*limit-1)))
			if got, code := k.call("bash", m{"command": "chmod 600 old*; mkdir n; touch n/{1..200}; cp -al old* n"}); code != "" {
				t.Fatalf("what is under the limit: %q %s", got, code)
			}
			k.start("echo begun; sleep 300", nil)
			k.call("process_output", m{"id": "p1", "until": "begun"})
			if got := k.failure("bash", m{"command": test.flood}); !strings.HasPrefix(got, "The command was ended: ") || !strings.Contains(got, why) {
				t.Errorf("%s", got)
			}
			if got, _ := k.call("process_output", m{"id": "p1", "until_end": true}); !strings.Contains(got, why) {
				t.Errorf("what runs beside it: %s", got)
			}
			for _, again := range []string{"true", "rm -r n; touch x", "rm -r n >x", "find n -delete -fprint x", "find n -delete -ex''ec touch x"} {
				if got := k.failure("bash", m{"command": again}); !strings.HasPrefix(got, "Nothing was started: ") || !strings.Contains(got, why) {
					t.Errorf("%s: %s", again, got)
				}
			}
			if got := k.failure("repl", m{"language": "bash", "code": "true"}); !strings.Contains(got, why) {
				t.Errorf("an interpreter: %s", got)
			}
			if name == "unreadable" {
				if err := os.Chmod(filepath.Join(k.env.Workspace.Dir(), "d"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if got, code := k.call("bash", m{"command": test.clean}); code != "" {
				t.Errorf("%s: %q %s", test.clean, got, code)
			}
			if got, code := k.call("bash", m{"command": "echo ok"}); got != "ok\n" || code != "" {
				t.Errorf("afterwards: %q %s", got, code)
			}
		})
	}
}

// outgrow waits until a file is so old that it is of no session that begins: the
// times of files may be behind the clock by a step of it.
func outgrow(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(info.ModTime().Add(40 * time.Millisecond)))
}

// TestSessionFilesDeleted proves that the tool that deletes is a way out, too.
func TestSessionFilesDeleted(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Limits.SessionFiles = 500 })
	k.failure("bash", m{"command": "mkdir d; d=d; " + flood})
	k.failure("bash", m{"command": "true"})
	if _, code, _ := call(t, files.Delete(), k.env, m{"path": "d", "recursive": true}); code != "" {
		t.Fatal(code)
	}
	if got, code := k.call("bash", m{"command": "echo ok"}); got != "ok\n" || code != "" {
		t.Errorf("%q %s", got, code)
	}
}

// TestSmallDisk has a session use up a real file system: it is stopped before
// nothing is left, and another session there goes on.
func TestSmallDisk(t *testing.T) {
	for _, test := range []struct {
		name, options string
		limits        command.Limits
		flood, why    string
		left          func(s syscall.Statfs_t) uint64
	}{
		{
			"files", "size=256m,nr_inodes=20000", command.Limits{ReservedFiles: 100_000},
			// Slow at the end: the last tenth must not be gone between two looks.
			"mkdir d; i=0; while :; do : >d/f$i; i=$((i+1)); [ $i -lt 16000 -o $((i % 20)) != 0 ] || sleep 0.02; done",
			"can hold only few more files, and this session has made the most",
			func(s syscall.Statfs_t) uint64 { return s.Ffree },
		},
		{
			"space", "size=64m", command.Limits{ReservedSpace: 1 << 30},
			"while :; do head -c 256k /dev/zero >>f; sleep 0.02; done", "is almost full, and this session has written the most",
			func(s syscall.Statfs_t) uint64 { return s.Bfree },
		},
		{
			"files that are not counted", "size=256m,nr_inodes=0", command.Limits{SessionFiles: 1000},
			"mkdir d; d=d; " + flood, "have made more than the 1000 files", func(syscall.Statfs_t) uint64 { return 1 },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, test.options); err != nil {
				t.Skipf("no file system can be mounted here: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
			k := newKit(t, func(c *command.Config) { c.Limits = test.limits })
			other := kit{t: t, env: toolstest.Env(t, nil), tools: k.tools}
			for i, env := range []*kit{&k, &other} {
				place := filepath.Join(dir, fmt.Sprint(i))
				if err := os.Mkdir(place, 0o755); err != nil {
					t.Fatal(err)
				}
				ws, err := workspace.Open(place)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { ws.Close() })
				env.env.Workspace = ws
			}
			other.start("echo x >x; echo begun; sleep 300", nil)
			other.call("process_output", m{"id": "p1", "until": "begun"})
			if got := k.failure("bash", m{"command": test.flood}); !strings.HasPrefix(got, "The command was ended: ") || !strings.Contains(got, test.why) {
				t.Errorf("%s", got)
			}
			var s syscall.Statfs_t
			if err := syscall.Statfs(dir, &s); err != nil || test.left(s) == 0 {
				t.Errorf("nothing is left: %+v %v", s, err)
			}
			if got := k.failure("bash", m{"command": "true"}); !strings.HasPrefix(got, "Nothing was started: ") || !strings.Contains(got, test.why) {
				t.Errorf("%s", got)
			}
			if got, code := other.call("bash", m{"command": "echo ok"}); got != "ok\n" || code != "" {
				t.Errorf("another session: %q %s", got, code)
			}
			if got, _ := other.call("process_list", m{"running_only": true}); !strings.HasPrefix(got, "p1 is running") {
				t.Errorf("what runs in another session: %s", got)
			}
			if got, code := k.call("bash", m{"command": "rm -rf d f"}); code != "" {
				t.Errorf("%q %s", got, code)
			}
			if got, code := k.call("bash", m{"command": "echo ok"}); got != "ok\n" || code != "" {
				t.Errorf("afterwards: %q %s", got, code)
			}
		})
	}
}
