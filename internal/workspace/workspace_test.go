// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/workspace"
)

// canary is the text of a file that no workspace may show.
const canary = "the canary sings"

// fixture is a workspace and, beside it, a directory that is not part of it.
type fixture struct {
	*workspace.Workspace
	t       *testing.T
	outside string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	top := t.TempDir()
	f := &fixture{t: t, outside: filepath.Join(top, "ws-outside")}
	for _, dir := range []string{filepath.Join(top, "ws"), f.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.outside, "f"), []byte(canary), 0o644); err != nil {
		t.Fatal(err)
	}
	f.Workspace = open(t, filepath.Join(top, "ws"))
	return f
}

func open(t *testing.T, dir string) *workspace.Workspace {
	t.Helper()
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return ws
}

// write makes a file of the workspace whose text is its name.
func (f *fixture) write(name string) {
	f.t.Helper()
	path := filepath.Join(f.Dir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) link(target, name string) {
	f.t.Helper()
	if err := os.Symlink(target, filepath.Join(f.Dir(), name)); err != nil {
		f.t.Fatal(err)
	}
}

// read returns the text of a file.
func read(ws *workspace.Workspace, name string) (string, error) {
	file, err := ws.OpenFile(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	return string(text), err
}

func TestRel(t *testing.T) {
	f := newFixture(t)
	dir := f.Dir()
	for _, test := range []struct{ name, want string }{
		{"a", "a"},
		{"a/b.txt", "a/b.txt"},
		{"./a", "a"},
		{"a/", "a"},
		{"a//b", "a/b"},
		{"a/./b/../c", "a/c"},
		{"", "."},
		{".", "."},
		{"a/..", "."},
		{"...", "..."},
		{"..a", "..a"},
		{"a..", "a.."},
		{"~/a", "~/a"},
		{`a\..\..\b`, `a\..\..\b`},
		{"line\nbreak", "line\nbreak"},
		{"\n", "\n"},
		{" ", " "},
		{"C:/x", "C:/x"},
		{dir, "."},
		{dir + "/", "."},
		{dir + "/a/b", "a/b"},
		{dir + "/../ws/a", "a"},
		{"/../" + dir + "/a", "a"},

		{"..", ""},
		{"../", ""},
		{"../ws/a", ""},
		{"a/../..", ""},
		{"a/../../ws-outside/f", ""},
		{"../../../../../../../../etc/passwd", ""},
		{"../\n", ""},
		{"/", ""},
		{"//", ""},
		{"/etc/passwd", ""},
		{dir + "-outside/f", ""},
		{dir + "/..", ""},
		{dir + "/../ws-outside/f", ""},
		{filepath.Dir(dir), ""},
		{"/proc/self/root" + dir + "/a", ""},
	} {
		got, err := f.Rel(test.name)
		if test.want == "" {
			if !errors.Is(err, workspace.ErrOutside) || !strings.Contains(err.Error(), test.name) {
				t.Errorf("Rel(%q) = %q, %v, want ErrOutside", test.name, got, err)
			}
		} else if got != test.want || err != nil {
			t.Errorf("Rel(%q) = %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

func FuzzRel(f *testing.F) {
	ws, err := workspace.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { ws.Close() })
	for _, name := range []string{"a", "..", "../..", "/", "/etc", "", ".", "a/../..", "\x00", "\xff/..", ws.Dir(), ws.Dir() + "/../x", ws.Dir() + "x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		rel, err := ws.Rel(name)
		if err != nil {
			if !errors.Is(err, workspace.ErrOutside) || rel != "" {
				t.Errorf("Rel(%q) = %q, %v", name, rel, err)
			}
			return
		}
		full := filepath.Join(ws.Dir(), rel)
		if !filepath.IsLocal(rel) || rel != filepath.Clean(rel) || full != ws.Dir() && !strings.HasPrefix(full, ws.Dir()+"/") {
			t.Errorf("Rel(%q) = %q, which leaves the workspace", name, rel)
		}
		for _, same := range []string{rel, full} {
			if again, err := ws.Rel(same); again != rel || err != nil {
				t.Errorf("Rel(%q) = %q, but Rel(%q) = %q, %v", name, rel, same, again, err)
			}
		}
		if file, err := ws.OpenFile(name); err == nil {
			t.Errorf("there is a file in an empty workspace: %s", file.Name())
		}
	})
}

func TestOpenFile(t *testing.T) {
	f := newFixture(t)
	f.write("a")
	f.write("dir/b")
	f.write("line\nbreak")
	f.link("a", "to-a")
	f.link("to-a", "to-to-a")
	f.link("dir", "to-dir")
	f.link("../a", "dir/up")
	f.link("to-dir/up", "through")
	f.link(".", "self")
	f.link("loop-2", "loop-1")
	f.link("loop-1", "loop-2")
	f.link("endless/x", "endless")
	f.link("gone", "to-gone")
	f.link(filepath.Join(f.outside, "f"), "out")
	f.link("out", "to-out")
	f.link("../ws-outside/f", "out-by-dots")
	f.link("dir/../../ws-outside", "out-by-more-dots")
	f.link(f.outside, "out-dir")
	f.link(filepath.Join(f.Dir(), "a"), "absolute")
	f.link("/", "top")
	f.link("..", "up")
	f.link("/proc/self/root", "process-root")
	f.link("/proc/self/cwd", "process-dir")
	f.link("/proc/self/fd/0", "stdin")
	f.link("/dev/null", "null")
	f.link("/dev/zero", "zero")
	for _, test := range []struct {
		name string
		want string // the text, where it can be read
		err  error
	}{
		{"a", "a", nil},
		{"dir/b", "dir/b", nil},
		{"dir/../a", "a", nil},
		{"line\nbreak", "line\nbreak", nil},
		{f.Dir() + "/a", "a", nil},
		{"to-a", "a", nil},
		{"to-to-a", "a", nil},
		{"to-dir/b", "dir/b", nil},
		{"dir/up", "a", nil},
		{"through", "a", nil},
		{"self/self/self/a", "a", nil},

		{"gone", "", fs.ErrNotExist},
		{"gone/a", "", fs.ErrNotExist},
		{"to-gone", "", fs.ErrNotExist},
		{"a/b", "", syscall.ENOTDIR},
		{"a\x00b", "", syscall.EINVAL},
		{strings.Repeat("x", 300), "", syscall.ENAMETOOLONG},
		{"loop-1", "", syscall.ELOOP},
		{"loop-1/a", "", syscall.ELOOP},
		{"endless", "", syscall.ELOOP},

		{"", "", workspace.ErrNotRegular},
		{".", "", workspace.ErrNotRegular},
		{"dir", "", workspace.ErrNotRegular},
		{"dir/", "", workspace.ErrNotRegular},
		{"to-dir", "", workspace.ErrNotRegular},
		{f.Dir(), "", workspace.ErrNotRegular},

		{"..", "", workspace.ErrOutside},
		{"../ws-outside/f", "", workspace.ErrOutside},
		{filepath.Join(f.outside, "f"), "", workspace.ErrOutside},
		{"out", "", workspace.ErrOutside},
		{"to-out", "", workspace.ErrOutside},
		{"out-by-dots", "", workspace.ErrOutside},
		{"out-by-more-dots/f", "", workspace.ErrOutside},
		{"out-dir", "", workspace.ErrOutside},
		{"out-dir/f", "", workspace.ErrOutside},
		{"out-dir/gone", "", workspace.ErrOutside},
		{"absolute", "", workspace.ErrOutside}, // absolute links are not followed, wherever they lead
		{"top/etc/passwd", "", workspace.ErrOutside},
		{"up/ws-outside/f", "", workspace.ErrOutside},
		{"process-root/etc/passwd", "", workspace.ErrOutside},
		{"process-dir/workspace.go", "", workspace.ErrOutside},
		{"stdin", "", workspace.ErrOutside},
		{"null", "", workspace.ErrOutside},
		{"zero", "", workspace.ErrOutside},
	} {
		t.Run(fmt.Sprintf("%.40q", test.name), func(t *testing.T) {
			got, err := read(f.Workspace, test.name)
			if got != test.want || !errors.Is(err, test.err) {
				t.Fatalf("%q, %v, want %q, %v", got, err, test.want, test.err)
			}
			if test.err == nil {
				return
			}
			if !strings.HasPrefix(err.Error(), test.name+": ") {
				t.Errorf("%q does not name the file as the caller did", err)
			}
			for _, other := range []error{workspace.ErrOutside, workspace.ErrNotRegular, fs.ErrNotExist} {
				if errors.Is(err, other) && !errors.Is(test.err, other) {
					t.Errorf("%v is %v too", err, other)
				}
			}
		})
	}
}

// TestOpenFileRefusesWhatIsNoFile would hang where opening waits for somebody
// at the other end.
func TestOpenFileRefusesWhatIsNoFile(t *testing.T) {
	f := newFixture(t)
	for kind, make := range map[string]func(path string) error{
		"named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"socket": func(path string) error {
			listener, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { listener.Close() })
			}
			return err
		},
		"device": func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|3) }, // null
	} {
		t.Run(kind, func(t *testing.T) {
			name := kind[:4]
			if err := make(filepath.Join(f.Dir(), name)); errors.Is(err, fs.ErrPermission) {
				t.Skipf("%v: it takes root to make one", err)
			} else if err != nil {
				t.Fatal(err)
			}
			f.link(name, "to-"+name)
			for _, name := range []string{name, "to-" + name} {
				_, err := f.OpenFile(name)
				if !errors.Is(err, workspace.ErrNotRegular) || !strings.Contains(err.Error(), kind) {
					t.Errorf("%s: %v, want that it is a %s", name, err, kind)
				}
			}
		})
	}
}

// TestOpenFileWhileLinksChange swaps what a name leads to, as a tool in the
// workspace could, while it is opened over and over.
func TestOpenFileWhileLinksChange(t *testing.T) {
	f := newFixture(t)
	f.write("inside/f")
	f.link("inside", "link")
	f.write("dir/f")
	f.link(f.outside, "trap")

	const rounds = 1500
	var swaps, opens sync.WaitGroup
	done := make(chan struct{})
	swap := func(from, to string) {
		// Failures are the other goroutine's doing.
		_ = os.Rename(filepath.Join(f.Dir(), from), filepath.Join(f.Dir(), to))
	}
	swaps.Go(func() { // a link, now to the inside, now to the outside
		for i := range rounds {
			target := "inside"
			if i%2 == 0 {
				target = f.outside
			}
			if err := os.Symlink(target, filepath.Join(f.Dir(), "new")); err != nil {
				t.Error(err)
				return
			}
			swap("new", "link")
		}
	})
	swaps.Go(func() { // a directory that becomes a link and a directory again
		for range rounds {
			swap("dir", "dir-away")
			swap("trap", "dir")
			swap("dir", "trap")
			swap("dir-away", "dir")
		}
	})
	var good int
	opens.Go(func() {
		for {
			for _, name := range []string{"link/f", "dir/f", "link/../dir/f"} {
				text, err := read(f.Workspace, name)
				if strings.Contains(text, canary) {
					t.Errorf("%s showed the outside", name)
				}
				if err == nil {
					good++
				} else if !errors.Is(err, workspace.ErrOutside) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
					t.Errorf("%s: %v", name, err)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	swaps.Wait()
	close(done)
	opens.Wait()
	if good == 0 {
		t.Error("nothing was ever read: the test proves nothing")
	}
}

// TestProcess opens a workspace whose links are no links but doors.
func TestProcess(t *testing.T) {
	ws, err := workspace.Open("/proc/self")
	if err != nil {
		t.Skip(err)
	}
	defer ws.Close()
	for _, name := range []string{"root/etc/passwd", "cwd/workspace.go", "exe", "fd/0", "fd/1", "task/../root/etc/passwd"} {
		if text, err := read(ws, name); err == nil {
			t.Errorf("%s can be read: %.20q", name, text)
		}
	}
}

func TestOpen(t *testing.T) {
	f := newFixture(t)
	f.write("a")
	link := filepath.Join(filepath.Dir(f.Dir()), "link")
	if err := os.Symlink("ws", link); err != nil {
		t.Fatal(err)
	}
	if ws := open(t, link); ws.Dir() != f.Dir() {
		t.Errorf("%s was opened as %s, want %s", link, ws.Dir(), f.Dir())
	}
	t.Chdir(f.Dir())
	if ws := open(t, "."); ws.Dir() != f.Dir() {
		t.Errorf(". was opened as %s", ws.Dir())
	}
	for _, dir := range []string{filepath.Join(f.Dir(), "a"), filepath.Join(f.Dir(), "gone"), "/dev/null", "a\x00b"} {
		if ws, err := workspace.Open(dir); err == nil {
			t.Errorf("%q was opened as %s", dir, ws.Dir())
		}
	}
}

func TestClose(t *testing.T) {
	f := newFixture(t)
	f.write("a")
	file, err := f.OpenFile("a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(file); string(text) != "a" || err != nil {
		t.Errorf("a file opened before: %q, %v", text, err)
	}
	if _, err := f.OpenFile("a"); !errors.Is(err, os.ErrClosed) || errors.Is(err, workspace.ErrOutside) {
		t.Errorf("after it was closed: %v", err)
	}
	if _, err := f.OpenFile("../a"); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("outside, after it was closed: %v", err)
	}
}

// TestDirMoved keeps to the directory that was opened, whatever takes its name.
func TestDirMoved(t *testing.T) {
	f := newFixture(t)
	f.write("f")
	if err := os.Rename(f.Dir(), f.Dir()+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(f.outside, f.Dir()); err != nil {
		t.Fatal(err)
	}
	if text, err := read(f.Workspace, "f"); text != "f" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := read(f.Workspace, f.Dir()+"/f"); text != "f" || err != nil {
		t.Errorf("by absolute path: %q, %v", text, err)
	}
}
