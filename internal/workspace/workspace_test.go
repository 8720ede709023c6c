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
	"slices"
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
	path, _ := ws.Resolve(name)
	file, err := ws.OpenFile(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	return string(text), err
}

func TestResolve(t *testing.T) {
	f := newFixture(t)
	dir, top := f.Dir(), filepath.Dir(f.Dir())
	f.write("dir/b")
	f.link("dir", "to-dir")
	f.link("to-dir/b", "to-b")
	f.link("../new/file", "dir/unborn")
	f.link("loop", "loop")
	f.link(dir+"/dir", "absolute")
	f.link("..", "up")
	f.link("/etc", "etc")
	f.link(f.outside+"/back", "far")
	if err := os.Symlink(dir+"/dir", f.outside+"/back"); err != nil {
		t.Fatal(err)
	}
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
		{"../ws/a", "a"},

		{"to-dir", "dir"},
		{"to-dir/b", "dir/b"},
		{"to-dir/new/file", "dir/new/file"},
		{"to-dir/../a", "a"},
		{"to-b", "dir/b"},
		{"dir/unborn", "new/file"},
		{"absolute/b", "dir/b"},
		{"up/ws/to-dir", "dir"},
		{"loop", "loop"},
		{"loop/x", "loop/x"},
		{"dir/b/c", "dir/b/c"},

		{"..", top},
		{"../", top},
		{"a/../..", top},
		{"a/../../ws-outside/f", f.outside + "/f"},
		{"../../../../../../../../../../etc/passwd", "/etc/passwd"},
		{"../\n", top + "/\n"},
		{"/", "/"},
		{"//", "/"},
		{"/etc/passwd", "/etc/passwd"},
		{"etc/passwd", "/etc/passwd"},
		{dir + "-outside/f", f.outside + "/f"},
		{dir + "/..", top},
		{"up", top},
		{"far", f.outside + "/back"}, // what is outside is not looked at
		{"/proc/self/root" + dir + "/a", "/proc/self/root" + dir + "/a"},
	} {
		got, inside := f.Resolve(test.name)
		if got != test.want || inside == filepath.IsAbs(test.want) {
			t.Errorf("Resolve(%q) = %q, %t, want %q", test.name, got, inside, test.want)
		}
	}
	for _, test := range []struct{ name, want string }{
		{"far", "dir"},
		{f.outside + "/back/b", "dir/b"},
		{f.outside + "/f", f.outside + "/f"},
		{"/proc/self/root" + dir + "/a", "a"},
	} {
		if got, known := f.ResolveAnywhere(test.name); got != test.want || !known {
			t.Errorf("ResolveAnywhere(%q) = %q, %t, want %q", test.name, got, known, test.want)
		}
	}
}

// TestResolveLong has names that are too long to follow, and long ones that are
// not: the first part that is missing ends the search.
func TestResolveLong(t *testing.T) {
	f := newFixture(t)
	f.write("dir/b")
	f.link("dir", "link")
	deep := strings.Repeat("d/", 400)
	f.write(deep + "b")
	gone := strings.Repeat("a/", 1900)
	for _, test := range []struct {
		name, want string
		known      bool
	}{
		{gone + "b", gone + "b", true},
		{"link/" + gone + "b", "dir/" + gone + "b", true},
		{gone + strings.Repeat("../", 1900) + "link", gone + strings.Repeat("../", 1900) + "link", false},
		{gone[:1000] + strings.Repeat("../", 500) + "link/b", "dir/b", true},
		{"dir/b/" + gone[:1000] + strings.Repeat("../", 501) + "../link/b", "dir/b", true},
		{strings.Repeat("a/", 15_000) + "b", strings.Repeat("a/", 15_000) + "b", false},
		{"link/" + strings.Repeat("a/", 15_000) + "b", "link/" + strings.Repeat("a/", 15_000) + "b", false},
		{deep + "b", deep + "b", true},              // the kernel finds no link on the way
		{"dir/../" + deep + "b", deep + "b", false}, // every step would be taken from the top
	} {
		got, known := f.ResolveAnywhere(test.name)
		if got != filepath.Clean(test.want) || known != test.known {
			t.Errorf("ResolveAnywhere(%.20q…) of %d bytes = %.20q…, %t, want %t", test.name, len(test.name), got, known, test.known)
		}
		if got, inside := f.Resolve(test.name); got != filepath.Clean(test.want) || !inside {
			t.Errorf("Resolve(%.20q…) of %d bytes = %.20q…, %t", test.name, len(test.name), got, inside)
		}
	}
}

// FuzzResolve holds what Resolve says against what the kernel opens.
func FuzzResolve(f *testing.F) {
	dir := f.TempDir()
	for _, name := range []string{"a/b/c", "d/e"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	for name, target := range map[string]string{"l": "a/b", "a/m": "../d", "d/n": "../l/../m/e", "up": "..", "loop": "loop", "abs": dir + "/d"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			f.Fatal(err)
		}
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { ws.Close() })
	for _, name := range []string{"a", "l/..", "d/n", "l/c/../../m/e", "up", "..", "abs/n", "loop/x", "/", "", ".", "a/../..", "\x00", "\xff/..", dir, dir + "/../x", dir + "x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		path, inside := ws.Resolve(name)
		if inside != filepath.IsLocal(path) || path != filepath.Clean(path) {
			t.Fatalf("Resolve(%q) = %q, %t", name, path, inside)
		}
		if again, _ := ws.Resolve(path); inside && again != path {
			t.Errorf("Resolve(%q) = %q, but Resolve(%q) = %q", name, path, path, again)
		}
		full := name
		if !filepath.IsAbs(full) {
			full = dir + "/" + name
		}
		real, err := filepath.EvalSymlinks(full)
		if err == nil && name != "" && inside && filepath.Join(dir, path) != real {
			t.Errorf("Resolve(%q) = %q, but it leads to %q", name, path, real)
		}
		if err == nil && !inside && (real == dir || strings.HasPrefix(real, dir+"/")) && !strings.HasPrefix(full, "/proc") {
			t.Errorf("Resolve(%q) = %q, but it leads to %q, which is inside", name, path, real)
		}
		if file, err := ws.OpenFile(path); err == nil {
			t.Errorf("there is a file in a workspace of directories: %s", file.Path())
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
		{"absolute", "a", nil},

		{"gone", "", fs.ErrNotExist},
		{"gone/a", "", fs.ErrNotExist},
		{"to-gone", "", fs.ErrNotExist},
		{"a/b", "", syscall.ENOTDIR},
		{"a\x00b", "", syscall.EINVAL},
		{strings.Repeat("x", 300), "", syscall.ENAMETOOLONG},
		{"loop-1", "", syscall.ELOOP},
		{"loop-1/a", "", syscall.ENOTDIR},
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
			if path, _ := f.Resolve(test.name); !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("%q does not name the file", err)
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
				_, err := read(f.Workspace, name)
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
	expected := []error{workspace.ErrOutside, workspace.ErrMoved, fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP}
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
				} else if !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
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

// TestMoved opens what was judged, or nothing.
func TestMoved(t *testing.T) {
	f := newFixture(t)
	f.write("dir/f")
	f.write("other/f")
	path, _ := f.Resolve("dir/f")
	if err := os.RemoveAll(filepath.Join(f.Dir(), "dir")); err != nil {
		t.Fatal(err)
	}
	f.link("other", "dir")
	if _, err := f.OpenFile(path); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("a directory became a link: %v", err)
	}
	path, _ = f.Resolve("other/f")
	if err := os.Rename(filepath.Join(f.Dir(), "other/f"), filepath.Join(f.Dir(), "g")); err != nil {
		t.Fatal(err)
	}
	f.link("../g", "other/f")
	if _, err := f.OpenFile(path); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("a file became a link: %v", err)
	}
}
