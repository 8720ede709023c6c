// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// denies is a [tools.Denial] by the end of names.
type denies string

func (d denies) Denies(path string) bool { return strings.HasSuffix(path, string(d)) }

// runWith runs a command with rights and returns what it wrote.
func (k kit) runWith(rights tools.Rights, text string) string {
	k.t.Helper()
	input, _ := json.Marshal(m{"command": text})
	c, err := k.tools["bash"].Decode(&k.env, input)
	if err != nil {
		k.t.Fatal(err)
	}
	c.Effects()
	result, _ := c.Run(k.t.Context(), rights, new(toolstest.Recorder))
	return toolstest.Text(result)
}

func (k kit) needsNamespaces() {
	k.t.Helper()
	if k.runWith(tools.Rights{Confinement: tools.SessionWide}, "echo $TMPDIR") != "/tmp\n" {
		k.t.Skip("no namespaces can be had here")
	}
}

// TestCovered keeps all that a rule denies from commands: several files, files that
// were replaced from outside, and files that a command has moved with their
// directory.
func TestCovered(t *testing.T) {
	k := newKit(t)
	k.needsNamespaces()
	dir := k.env.Workspace.Dir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.pem", "b/c.pem", "z/y/x.pem"} {
		write(name, "CANARY "+name)
	}
	rights := tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback, Deny: denies(".pem")}
	for name, before := range map[string]func(){
		"several":  func() {},
		"replaced": func() { write("a.pem", "CANARY two") },
		"new":      func() { write("new.pem", "CANARY three") },
	} {
		before()
		for _, rights := range []tools.Rights{rights, {Deny: rights.Deny}} {
			if text := k.runWith(rights, "cat $(find . -name '*.pem'); grep -r CANARY . ; echo end"); strings.Contains(text, "CANARY") || !strings.Contains(text, "end") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	k.runWith(rights, "mv z moved; mv moved/y/x.pem moved/y/x.txt; mv b other")
	if text := k.runWith(rights, "grep -r CANARY . ; cat moved/y/* other/*; echo end"); strings.Contains(text, "CANARY") {
		t.Errorf("moved: %s", text)
	}
}

// TestCommitted has git show what was committed of a file that a rule denies: no jail keeps
// that from it, so the effects of every command that does have to say so.
func TestCommitted(t *testing.T) {
	k := newKit(t)
	k.needsNamespaces()
	wide := tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
	if text := k.runWith(wide, "git init -q . && mkdir keys docs && echo z >docs/z && echo CANARY >keys/a.pem && echo x >main.go && git add . && git commit -qm one && "+
		"git grep -q CANARY HEAD && echo y >main.go && git commit -qam two && git rev-parse HEAD:keys/a.pem >id && echo end"); !strings.HasSuffix(text, "end\n") {
		t.Fatal(text)
	}
	id, err := os.ReadFile(filepath.Join(k.env.Workspace.Dir(), "id"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, command := range []string{
		"git show HEAD~1", "git log -p", "git log -p -- .", "git log -p -- keys", "git diff --cached 4b825dc642cb6eb9a060e54bf8d69288fbee4904", "git diff --cached HEAD:docs",
		"git cat-file -p ID", "git cat-file -p -- ID", "git show ID", "git show --stat ID", "git show ID -- main.go", "git show --stat HEAD:keys/a.pem",
		"echo HEAD:keys/a.pem | git cat-file --batch", "git grep -h '' HEAD", "git grep -- '' HEAD", "git grep --cached ''", "git grep '' HEAD -- keys",
		"git diff ID HEAD:main.go", "git diff ID -- main.go", "git blame HEAD -- keys/a.pem", "git blame keys/a.pem HEAD",
		"git log --oneline", "git log -p -- main.go", "git show HEAD:main.go", "git show --stat HEAD~1", "git show HEAD~1 -- main.go", "git grep -h ''", "git blame main.go",
	} {
		command = strings.ReplaceAll(command, "ID", strings.TrimSpace(string(id)))
		input, _ := json.Marshal(m{"command": command})
		c, err := k.tools["bash"].Decode(&k.env, input)
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(c.Effects(), func(e tools.Effect) bool {
			return e.Stored && (e.Path == "keys/a.pem" || e.Tree && (e.Path == "." || e.Path == "keys"))
		})
		text := k.runWith(tools.Rights{Deny: denies(".pem")}, command)
		if strings.Contains(text, "CANARY") {
			shown++
		}
		if strings.Contains(text, "CANARY") != told {
			t.Errorf("%s: %q, and its effects are %+v", command, text, c.Effects())
		}
	}
	if shown == 0 {
		t.Error("nothing was shown")
	}
}

// TestCallDirectory has a process look for the temporary directories of calls that
// only read, to put something else in their place.
func TestCallDirectory(t *testing.T) {
	k := newKit(t)
	wide := tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
	own := strings.TrimSpace(k.runWith(tools.Rights{}, "env | sed -n s/^TMPDI.=//p"))
	text := k.runWith(wide, "d="+filepath.Dir(own)+"; touch $d/x; mkdir $d/call-1; ln -s / $d/call-2; mv $d $d-; rmdir $d; ls $d; echo end")
	for _, name := range []string{"x", "call-1", "call-2"} {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(k.env.Session.Home()), "calls", name)); err == nil {
			t.Errorf("%s was made: %s", name, text)
		}
	}
	if text := k.runWith(tools.Rights{}, "touch x; touch ~/x; ls x ~/x; mktemp && echo end"); !strings.Contains(text, "end\n") || strings.Count(text, "No such file") < 2 {
		t.Error(text)
	}
}

// TestDeputyInView has commands ask the helper to change files that are not in their
// view.
func TestDeputyInView(t *testing.T) {
	k := newKit(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	was, _ := os.Stat(outside)
	text := k.runWith(tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}, `cat >x.py <<'END'
import os, sys
for path in ["/proc/self/root" + "/.." * 12 + sys.argv[1], "/proc/self/cwd" + "/.." * 12 + sys.argv[1], "/proc/thread-self/root" + sys.argv[1], sys.argv[1]]:
    for change in (lambda: os.chmod(path, 0o777), lambda: os.utime(path, (1, 1))):
        try:
            change(); print("changed", path)
        except OSError as e:
            print(e.errno)
os.symlink(sys.argv[1], "link")
try:
    os.chmod("link", 0o777); print("changed by a link")
except OSError as e:
    print(e.errno)
open("mine", "w").close(); os.chmod("mine", 0o640); os.utime("mine", (1, 1)); os.chmod(os.open("mine", os.O_RDONLY), 0o600)
open(os.environ["TMPDIR"] + "/mine", "w").close(); os.chmod(os.environ["TMPDIR"] + "/mine", 0o640)
print("end")
END
python3 x.py `+outside)
	if now, err := os.Stat(outside); err != nil || now.Mode() != was.Mode() || !now.ModTime().Equal(was.ModTime()) || strings.Contains(text, "changed") || !strings.HasSuffix(text, "end\n") {
		t.Errorf("%v %v: %s", now, err, text)
	}
}

// TestStateInWorkspace has a workspace above what the server keeps.
func TestStateInWorkspace(t *testing.T) {
	apart := make([]string, 1)
	k := newKit(t, func(c *command.Config) { c.Apart = apart })
	apart[0] = filepath.Join(k.env.Workspace.Dir(), "state") // looked at with the first command
	if err := os.MkdirAll(filepath.Join(apart[0], "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	k.needsNamespaces()
	text := k.runWith(tools.Rights{Confinement: tools.SessionWide}, "ls state; ls -d state; echo x >/proc/sys/kernel/core_pattern; echo end")
	if strings.Contains(text, "other") || !strings.Contains(text, "end") || !strings.Contains(text, "core_pattern:") {
		t.Error(text)
	}
}

// TestSocketInWorkspace has the server listen on a socket in a workspace: commands
// there reach their own sockets, and not the one that takes calls.
func TestSocketInWorkspace(t *testing.T) {
	needs(t, "python3")
	sockets := make([]string, 1)
	k := newKit(t, func(c *command.Config) { c.Sockets = sockets })
	sockets[0] = filepath.Join(k.env.Workspace.Dir(), "s") // looked at with the first command
	dir, err := os.Open(k.env.Workspace.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	server, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/s", dir.Fd())) // the path may be too long
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	reached := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			conn.Close()
			reached <- struct{}{}
		}
	}()
	k.needsNamespaces()
	text := k.runWith(tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}, `cat >x.py <<'END'
import os, socket
def connect(path):
    try:
        socket.socket(socket.AF_UNIX).connect(path); print("reached", path)
    except OSError as e:
        print(path, e.strerror)
connect("s"); connect("./x/../s")
for change in (lambda: os.rename("s", "moved"), lambda: os.link("s", "linked"), lambda: os.remove("s")):
    try:
        change(); print("changed")
    except OSError as e:
        print(e.strerror)
own = socket.socket(socket.AF_UNIX); own.bind("own"); own.listen(); connect("own")
END
mkdir x; python3 x.py; echo end`)
	if len(reached) > 0 || strings.Contains(text, "reached s") || strings.Contains(text, "changed") || !strings.Contains(text, "reached own") || !strings.HasSuffix(text, "end\n") {
		t.Errorf("the server was reached %d times: %s", len(reached), text)
	}
}

// TestCoveringEndsWithTheCall proves that a call that is over looks for nothing any
// more, and starts nothing.
func TestCoveringEndsWithTheCall(t *testing.T) {
	k := newKit(t)
	k.needsNamespaces()
	input, _ := json.Marshal(m{"command": "touch made"})
	c, err := k.tools["bash"].Decode(&k.env, input)
	if err != nil {
		t.Fatal(err)
	}
	c.Effects()
	var asked denials
	ctx, cancel := context.WithCancelCause(t.Context())
	asked.then = func() { cancel(errors.New("enough")) }
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(k.env.Workspace.Dir(), fmt.Sprint("file", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Run(ctx, tools.Rights{Confinement: tools.SessionWide, Deny: &asked}, new(toolstest.Recorder))
	if err == nil || asked.files != 1 {
		t.Errorf("%d files were looked at, want 1: %v", asked.files, err)
	}
	if _, err := os.Lstat(filepath.Join(k.env.Workspace.Dir(), "made")); err == nil {
		t.Error("the command was run")
	}
}

// denials counts the files it is asked about.
type denials struct {
	files int
	then  func() // what happens with each
}

func (d *denials) Denies(string) bool {
	d.files++
	d.then()
	return false
}
