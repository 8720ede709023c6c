// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
)

// A markBox is a directory in which bash finds one program, called mark, which
// leaves a file behind where it runs.
type markBox struct{ bash, root, bin, ran string }

func newMarkBox(tb testing.TB) *markBox {
	bash, err := exec.LookPath("bash")
	if err != nil {
		tb.Skip("there is no bash")
	}
	root := tb.TempDir()
	b := &markBox{bash: bash, root: root, bin: filepath.Join(root, "bin"), ran: filepath.Join(root, "ran")}
	if err := os.Mkdir(b.bin, 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.bin, "mark"), []byte("#!/bin/sh\n: > '"+b.ran+"'\n"), 0o755); err != nil {
		tb.Fatal(err)
	}
	return b
}

// runs reports whether bash, given a text, runs mark, and which files it makes.
func (b *markBox) runs(tb testing.TB, text string) (ran bool, made []string) {
	ws := filepath.Join(b.root, "ws")
	os.RemoveAll(ws)
	os.Remove(b.ran)
	if err := os.Mkdir(ws, 0o755); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bash, "--norc", "--noprofile", "-c", text)
	cmd.Dir, cmd.Env = ws, []string{"PATH=" + b.bin, "HOME=" + ws, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	// All processes it starts have the pipe open: when it ends, they did.
	alive, ended, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	defer alive.Close()
	cmd.ExtraFiles = []*os.File{ended}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended.Close()
	cmd.Wait() // it may fail as it likes
	alive.SetReadDeadline(time.Now().Add(time.Second))
	io.ReadAll(alive)
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_, err = os.Stat(b.ran)
	entries, _ := os.ReadDir(ws)
	for _, entry := range entries {
		made = append(made, entry.Name())
	}
	return err == nil, made
}

// differs returns what bash does with a text that its effects do not tell, or "".
// A text that is told to be unclear, or to run mark, is not run.
func (b *markBox) differs(tb testing.TB, text string) (what string, clear bool) {
	effects := shell.Analyse(text, shell.Place{Workspace: filepath.Join(b.root, "ws")})
	if slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Unclear != "" || filepath.Base(e.Program) == "mark" }) {
		return "", false
	}
	ran, made := b.runs(tb, text)
	if ran {
		return "bash ran mark", true
	}
	for _, name := range made {
		if !written(effects, name) {
			return "bash wrote " + name, true
		}
	}
	return "", true
}

// blindSpots are texts that bash and the parser read in two ways: bash runs mark.
var blindSpots = []string{
	"echo hi > ok.txt #\\\nmark",
	"echo hi # x\\\nmark",
	"a=(x)# ; mark",
	"coproc mark <<< x; wait",
	"echo ${x:-<(mark)}",
	"echo ${x:+a}${x->(mark)}",
	"cat <<E\n\\\nE\nmark\nE",
	"read <<E\n\\\nE\nmark\nE",
	"echo \"$\\\n(mark)\"",
	"echo \"${x:-'$(mark)'}\"",
	"read <<E\n${x:-'$(mark)'}\nE",
	"[[ a =~ *(<(mark)) ]]",
	"echo <(: <<\"E\"\n\\\nE\nmark\nE\n)",
	"echo `: <<'E'\n`a`\nmark\nE\n`",
	"echo >&'$(mark)'",
	"x='$(mark)'; echo >&\"$x\"",
	"echo $(: << -E\n\tE\nmark\n-E\n)",
	"read <<'E'\na\\\nE\nmark\nE",
	"x=(@(\nmark\n))",
}

// TestBlindSpots holds that what is read in two ways is told to be unclear.
func TestBlindSpots(t *testing.T) {
	b := newMarkBox(t)
	for _, text := range blindSpots {
		effects := shell.Effects(text, place)
		if ran, _ := b.runs(t, text); !ran {
			t.Errorf("bash does not run mark: %q", text)
		}
		if !slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Program == tools.UnknownWord && e.Unclear != "" }) {
			t.Errorf("it is clear: %q: %v", text, effects)
		}
	}
}

// TestDiffers looks for texts that bash reads in another way than the effects
// tell.
func TestDiffers(t *testing.T) {
	b := newMarkBox(t)
	budget, from, most := 2*time.Second, uint64(0), uint64(20000)
	if soaktest.Long() {
		budget, from, most = 10*time.Minute, rand.Uint64N(1<<40), 1<<40
	}
	clear := 0
	deadline, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	for seed := from; seed < from+most && deadline.Err() == nil; seed++ {
		text := newReadings(seed).script()
		what, isClear := b.differs(t, text)
		if isClear {
			clear++
		}
		if what != "" {
			t.Errorf("seed %d: %s: %q", seed, what, text)
		}
	}
	t.Logf("%d texts were clear", clear)
}

// FuzzDiffers is TestDiffers without an end.
func FuzzDiffers(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	b := newMarkBox(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		text := newReadings(seed).script()
		if what, _ := b.differs(t, text); what != "" {
			t.Errorf("%s: %q", what, text)
		}
	})
}
