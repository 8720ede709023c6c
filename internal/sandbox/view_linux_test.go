// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// viewer is a space with namespaces, and a directory for its commands.
type viewer struct {
	*sandbox.Space
	t   *testing.T
	dir string
}

func newViewer(t *testing.T) *viewer {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: helperPath})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if !s.Namespaces() {
		t.Skip("no namespaces can be had here")
	}
	space := s.Space(sandbox.SpaceConfig{})
	t.Cleanup(space.Close)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &viewer{space, t, dir}
}

// write writes a file below the directory and returns its path.
func (v *viewer) write(name, text string) string {
	v.t.Helper()
	path := filepath.Join(v.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		v.t.Fatal(err)
	}
	return path
}

// jail returns a jail in which the paths can be written, but for what change changes.
// Commands begin in the first of them.
func (v *viewer) jail(change func(*sandbox.Profile), paths ...string) (*place, error) {
	v.t.Helper()
	profile := sandbox.Profile{View: sandbox.View{Read: sandbox.SystemPaths(), Write: paths}, Write: paths}
	change(&profile)
	jail, err := v.Jail(profile)
	if err != nil {
		return nil, err
	}
	v.t.Cleanup(func() { jail.Close() })
	return &place{Jail: jail, dir: paths[0]}, nil
}

// TestNestedBecomesALink has a workspace be replaced by a link, as a session could
// whose workspace it lies in: no command runs where it leads, neither to write nor
// to read.
func TestNestedBecomesALink(t *testing.T) {
	v := newViewer(t)
	outside := filepath.Dir(v.write("outside/secret", "CANARY"))
	home := filepath.Dir(v.write("home/x", ""))
	nested := filepath.Join(filepath.Dir(v.write("ws/x", "")), "nested")
	if err := os.Symlink(outside, nested); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(outside, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Dir(filepath.Dir(v.write("ws/plain/deep/x", "")))
	for _, below := range []string{"", "deep"} {
		path := filepath.Join(nested, below)
		for name, change := range map[string]func(*sandbox.Profile){
			"written": func(*sandbox.Profile) {},
			"read":    func(p *sandbox.Profile) { p.Write = []string{home} },
		} {
			t.Run(filepath.Base(path)+" "+name, func(t *testing.T) {
				if _, err := v.jail(change, home, filepath.Join(plain, below)); err != nil {
					t.Fatalf("where there is no link: %v", err)
				}
				jail, err := v.jail(change, home, path)
				if err != nil {
					if !strings.Contains(err.Error(), syscall.ELOOP.Error()) {
						t.Errorf("it is refused for something else: %v", err)
					}
					return // nothing runs there
				}
				out, _ := jail.run(t, "cd "+path+" && touch planted; cat "+nested+"/secret "+outside+"/secret; ls "+outside+" "+nested, sandbox.Limits{})
				t.Errorf("it runs, in what is not its own: %s", out)
			})
		}
	}
}

// TestUsedViewsStay makes many views while a command runs in the first: what is
// hidden from it stays hidden.
func TestUsedViewsStay(t *testing.T) {
	v := newViewer(t)
	secret := v.write("ws/secret", "CANARY")
	ws := filepath.Dir(secret)
	cover := func(p *sandbox.Profile) { p.View.Cover = []string{secret} }
	jail, err := v.jail(cover, ws)
	if err != nil {
		t.Fatal(err)
	}
	// Of builtins alone: programs are in the view, and would go with it.
	process, out := jail.start(t, "mkfifo never; exec 3<>never; echo begun; until [ -e go ]; do read -t 0.01 <&3; done; read line <secret; echo $line; echo end", sandbox.Limits{})
	defer out.Close()
	begun := make([]byte, len("begun\n"))
	if _, err := out.Read(begun); err != nil {
		t.Fatal(err)
	}
	for i := range 12 { // more than are kept
		v.AgeViews()
		other, err := v.jail(func(p *sandbox.Profile) { cover(p); p.View.Version = strconv.Itoa(i) }, ws)
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := other.run(t, "cat secret; echo end", sandbox.Limits{}); strings.Contains(out, "CANARY") || !strings.HasSuffix(out, "end\n") {
			t.Fatalf("another view: %s", out)
		}
	}
	if n := v.Views(); n > 9 {
		t.Errorf("%d views are kept: none was removed", n)
	}
	v.write("ws/go", "")
	text, _ := io.ReadAll(out)
	process.Wait()
	if strings.Contains(string(text), "CANARY") || !strings.HasSuffix(string(text), "end\n") {
		t.Errorf("it sees what was hidden from it: %s", text)
	}
}

// TestHeld has a command rename directories above what is hidden from it.
func TestHeld(t *testing.T) {
	for name, held := range map[string][]string{"held": {"a/b", "a", "a/c", "gone", "a"}, "not": nil} {
		v := newViewer(t) // in one, what a view holds all others do
		secret := v.write("ws/a/b/secret", "CANARY")
		own := filepath.Dir(v.write("ws/a/c/own/x", "CANARY"))
		ws := filepath.Join(v.dir, "ws")
		jail, err := v.jail(func(p *sandbox.Profile) {
			p.View.Cover, p.View.Empty = []string{secret}, []string{own}
			for _, dir := range held {
				p.View.Held = append(p.View.Held, filepath.Join(ws, dir))
			}
		}, ws)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := jail.run(t, `for d in a/b a/c a/c/own a; do mv -T $d m 2>/dev/null && echo moved $d && mv -T m $d; rmdir $d 2>/dev/null && echo removed $d; done
			cat a/b/secret a/c/own/x 2>/dev/null; echo new >a/b/new && mv a/b/new a/b/n2 && mkdir a/d && mv a/d a/e && rmdir a/e && cat a/b/n2 && rm a/b/n2; echo end`, sandbox.Limits{})
		want := "new\nend\n"
		if held == nil {
			want = "moved a/b\nmoved a/c\nmoved a\n" + want
		}
		if out != want {
			t.Errorf("%s: %q", name, out)
		}
	}
}
