// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// helperPath is the helper, built for these tests.
var helperPath string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		panic(err)
	}
	helperPath = filepath.Join(dir, "toolserver-exec")
	build := exec.Command("go", "build", "-o", helperPath, "github.com/toolserver/toolserver/cmd/toolserver-exec")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// place is a jail with a workspace.
type place struct {
	*sandbox.Jail
	dir string
}

func newPlace(t testing.TB, config sandbox.Config, change func(*sandbox.Profile)) *place {
	t.Helper()
	config.Helper = helperPath
	s, err := sandbox.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	dir := t.TempDir()
	profile := sandbox.Profile{Write: []string{dir}, Read: sandbox.SystemPaths()}
	if change != nil {
		change(&profile)
	}
	jail, err := s.Jail(profile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jail.Close() })
	return &place{jail, dir}
}

// start starts a bash command; its output comes from the reader.
func (p *place) start(t testing.TB, command string, limits sandbox.Limits) (*sandbox.Process, *os.File) {
	t.Helper()
	dir, err := os.Open(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	process, err := p.Start(sandbox.Command{
		Path: "/bin/bash", Args: []string{"bash", "-c", command}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.dir, "TMPDIR=" + p.dir},
		Dir: dir, Stdout: w, Stderr: w, Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	return process, r
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

func TestRun(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	out, end := p.run(t, "echo hello; pwd; exit 3", sandbox.Limits{})
	if want := "hello\n" + p.dir + "\n"; out != want || end.Reason != sandbox.Exited || end.Code != 3 {
		t.Errorf("got %q %+v, want %q and 3", out, end, want)
	}
}

// TestWalls tries what a command must not be able to do.
func TestWalls(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"cat " + secret,
		"echo x >>" + secret,
		"ln " + secret + " here",
		"kill -0 $PPID",
		"kill -0 " + strconv.Itoa(os.Getpid()),
		"cat /proc/" + strconv.Itoa(os.Getpid()) + "/environ",
		"unshare -U true",
		"exec 5<>/dev/tcp/127.0.0.1/1",
		"prlimit --pid " + strconv.Itoa(os.Getpid()) + " --nofile=3",
	} {
		out, end := p.run(t, command, sandbox.Limits{})
		if end.Reason != sandbox.Exited || end.Code == 0 || out == "" {
			t.Errorf("%s: %q %+v", command, out, end)
		}
	}
}

// TestNothingIsLeft leaves children behind that hold the output open.
func TestNothingIsLeft(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	out, _ := p.run(t, `sleep 300 & setsid sleep 300 & (setsid bash -c 'trap "" TERM HUP; sleep 300; sleep 300' &) & echo $!`, sandbox.Limits{})
	if out == "" {
		t.Error("no output")
	}
}

func BenchmarkTrue(b *testing.B) {
	p := newPlace(b, sandbox.Config{}, nil)
	b.Run("sandbox", func(b *testing.B) {
		for b.Loop() {
			p.run(b, "true", sandbox.Limits{})
		}
	})
	q := newPlace(b, sandbox.Config{Off: true}, nil)
	b.Run("off", func(b *testing.B) {
		for b.Loop() {
			q.run(b, "true", sandbox.Limits{})
		}
	})
	b.Run("osexec", func(b *testing.B) {
		for b.Loop() {
			exec.Command("/bin/bash", "-c", "true").CombinedOutput()
		}
	})
}
