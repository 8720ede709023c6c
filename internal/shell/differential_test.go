// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
)

// wrapped are programs that run for real, once they are written down: all they do
// is to start stubs.
var wrapped = []string{"env", "nice", "timeout", "xargs", "find", "bash", "sh"}

// A bashBox is a directory in which bash finds nothing but stubs.
type bashBox struct {
	bash, root, bin, log string
}

func newBashBox(tb testing.TB) *bashBox {
	bash, err := exec.LookPath("bash")
	if err != nil {
		tb.Skip("there is no bash")
	}
	root := tb.TempDir()
	b := &bashBox{bash: bash, root: root, bin: filepath.Join(root, "bin"), log: filepath.Join(root, "log")}
	if err := os.Mkdir(b.bin, 0o755); err != nil {
		tb.Fatal(err)
	}
	// One write of one record: the number of words, the name, the words.
	record := "#!/bin/sh\nprintf '%s\\0' \"$#\" \"${0##*/}\" \"$@\" >> \"$LOG\"\n"
	for _, name := range stubs {
		end := "echo out '1 2'\n"
		if name == "ko" {
			end = "exit 1\n"
		}
		b.stub(tb, name, record+end)
	}
	for _, name := range wrapped {
		real, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		b.stub(tb, name, record+"exec "+real+" \"$@\"\n")
	}
	return b
}

func (b *bashBox) stub(tb testing.TB, name, text string) {
	if err := os.WriteFile(filepath.Join(b.bin, name), []byte(text), 0o755); err != nil {
		tb.Fatal(err)
	}
}

// run runs a command and returns what it started, word by word, and which files
// it made.
func (b *bashBox) run(tb testing.TB, command string) (started [][]string, made []string) {
	ws, home := filepath.Join(b.root, "ws"), filepath.Join(b.root, "home")
	os.RemoveAll(ws)
	os.RemoveAll(home)
	os.Remove(b.log)
	for _, dir := range []string{filepath.Join(ws, "d"), home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	before := map[string]bool{}
	for _, name := range []string{"a.txt", "b.txt"} {
		os.WriteFile(filepath.Join(ws, name), nil, 0o644)
		before[name] = true
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bash, "--norc", "--noprofile", "-c", command)
	cmd.Dir = ws
	cmd.Env = []string{"PATH=" + b.bin, "HOME=" + home, "LOG=" + b.log, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	// All processes it starts have the pipe open: when it ends, they did.
	alive, ended, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{ended}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended.Close()
	cmd.Wait() // it may fail as it likes
	alive.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(alive); err != nil || ctx.Err() != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		tb.Logf("stopped after its time: %q", command)
	}
	alive.Close()
	data, _ := os.ReadFile(b.log)
	filepath.WalkDir(b.root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(name, b.bin) || name == b.log {
			return err
		}
		if rest, ok := strings.CutPrefix(name, ws+"/"); ok {
			name = rest
		}
		if !before[name] {
			made = append(made, name)
		}
		return nil
	})
	return records(tb, data), made
}

// records reads what the stubs wrote.
func records(tb testing.TB, data []byte) [][]string {
	var out [][]string
	fields := bytes.Split(data, []byte{0})
	for i := 0; i+1 < len(fields); {
		n, err := strconv.Atoi(string(fields[i]))
		if err != nil || i+2+n > len(fields) {
			tb.Logf("a record was torn: %q", fields[i:])
			return out
		}
		var words []string
		for _, field := range fields[i+1 : i+2+n] {
			words = append(words, string(field))
		}
		out = append(out, words)
		i += 2 + n
	}
	return out
}

// covered reports whether what was started is named by an effect.
func covered(effects []tools.Effect, words []string) bool {
	return slices.ContainsFunc(effects, func(e tools.Effect) bool {
		return e.Kind == tools.RunsProgram && len(e.Argv) > 0 && path.Base(e.Argv[0]) == words[0] && matches(e.Argv[1:], words[1:])
	})
}

// matches reports whether words are what argv says, of which an unknown one is
// any number of words.
func matches(argv, words []string) bool {
	for i, want := range argv {
		if want == tools.UnknownWord {
			for n := i; n <= len(words); n++ {
				if matches(argv[i+1:], words[n:]) {
					return true
				}
			}
			return false
		}
		if i >= len(words) || words[i] != want {
			return false
		}
	}
	return len(argv) == len(words)
}

// written reports whether an effect names a file as written.
func written(effects []tools.Effect, file string) bool {
	return slices.ContainsFunc(effects, func(e tools.Effect) bool {
		return e.Kind == tools.WritesPath && (e.Path == file || e.Unclear != "" || e.Glob || e.Tree && strings.HasPrefix(file, e.Path+"/"))
	})
}

// isUnclear reports whether something nobody can tell is run.
func isUnclear(effects []tools.Effect) bool {
	return slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Kind == tools.RunsProgram && e.Unclear != "" })
}

// tally counts what a run of many commands showed.
type tally struct{ commands, unclear, started, named, made int }

// check runs one generated command and holds what it did against its effects.
func (b *bashBox) check(tb testing.TB, seed uint64, count *tally) {
	g := newGrammar(seed)
	command := g.script(1 + g.IntN(2))
	in := shell.Place{Workspace: filepath.Join(b.root, "ws"), Home: filepath.Join(b.root, "home")}
	effects := shell.Analyse(command, in)
	started, made := b.run(tb, command)
	count.commands++
	count.started += len(started)
	count.made += len(made)
	unclear := isUnclear(effects)
	if unclear {
		count.unclear++
	}
	fail := func(what string) {
		var list []string
		for _, e := range effects {
			list = append(list, notation(e))
		}
		tb.Errorf("seed %d: %s\n$ %s\n%s", seed, what, command, strings.Join(list, "\n"))
	}
	for _, words := range started {
		if covered(effects, words) {
			count.named++
		} else if !unclear {
			fail("bash ran " + strings.Join(words, " ‖ "))
			return
		}
	}
	for _, file := range made {
		if !written(effects, file) && !unclear {
			fail("bash wrote " + file)
			return
		}
	}
}

// TestDifferential holds that whatever a real bash runs and writes is named by an
// effect, for random commands. An unclear effect stands for anything, so the test
// also holds that there are few.
func TestDifferential(t *testing.T) {
	b := newBashBox(t)
	n := uint64(soaktest.Times(300, 20_000))
	var count tally
	for seed := range n {
		b.check(t, seed, &count)
		if t.Failed() && !soaktest.Long() {
			return
		}
	}
	t.Logf("%d commands, %d unclear; %d programs run, %d of them named; %d files written", count.commands, count.unclear, count.started, count.named, count.made)
	if count.unclear*100 > count.commands*45 {
		t.Errorf("%d of %d commands are unclear: too many to prove anything", count.unclear, count.commands)
	}
	if count.named*100 < count.started*90 || count.started < int(n) {
		t.Errorf("%d of %d programs are named: too few to prove anything", count.named, count.started)
	}
}

// FuzzDifferential looks for random commands of which bash runs more than the
// effects tell.
func FuzzDifferential(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	b := newBashBox(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		var count tally
		b.check(t, seed, &count)
	})
}

// FuzzEffects looks for texts that are too much for the analyser: that make it
// panic, hang, or answer in two ways.
func FuzzEffects(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				f.Add(strings.TrimSpace(command))
			}
		}
	}
	for seed := range uint64(50) {
		g := newGrammar(seed)
		f.Add(g.script(3))
	}
	f.Fuzz(func(t *testing.T, command string) {
		first := shell.Analyse(command, place)
		second := shell.Analyse(command, place)
		equal := slices.EqualFunc(first, second, func(a, b tools.Effect) bool { return notation(a) == notation(b) })
		if !equal {
			t.Errorf("two answers: %v and %v", first, second)
		}
		for _, e := range first {
			if (e.ReadOnly || e.Complete) && e.Unclear != "" || e.ReadOnly && !e.Complete {
				t.Errorf("read-only, told and unclear do not go together: %v", e)
			}
			if e.Kind == tools.RunsProgram && (len(e.Argv) == 0 || e.Program == "" && e.Unclear == "") {
				t.Errorf("it runs nothing: %v", e)
			}
		}
	})
}
