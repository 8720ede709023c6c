// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/soaktest"
)

// warmEngine returns an engine that has the workspace in memory.
func (x *tree) warmEngine(config index.Config) *engine {
	x.t.Helper()
	e := x.newEngine(config)
	x.t.Cleanup(e.Close)
	if err := e.Warm(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	return e
}

// isWarm reports whether an engine answers from memory.
func isWarm(t testing.TB, e *engine) bool {
	t.Helper()
	_, sum, err := e.Glob(t.Context(), search.Scope{}, search.ByName)
	if err != nil {
		t.Fatal(err)
	}
	return sum.Warm
}

// edit changes something in a tree. It tells what.
func (x *tree) edit() string {
	paths, dirs := x.list()
	some := func(list []string) string {
		if len(list) == 0 {
			return "none"
		}
		return pick(x.r, list...)
	}
	file, dir := some(paths), some(dirs)
	at := func(name string) string { return filepath.Join(x.root, name) }
	other := filepath.Join(dir, x.name())
	var err error
	what := ""
	switch x.r.IntN(21) {
	case 0, 1, 2:
		what = "write " + file
		err = os.WriteFile(at(file), []byte(x.text()), 0o644)
	case 3: // as long as it was
		text, _ := os.ReadFile(at(file))
		what = "overwrite " + file
		for i := range text {
			if text[i] == 'o' {
				text[i] = 'a'
			}
		}
		err = os.WriteFile(at(file), text, 0o644)
	case 4:
		what = "append " + file
		var f *os.File
		if f, err = os.OpenFile(at(file), os.O_APPEND|os.O_WRONLY, 0); err == nil {
			_, err = f.WriteString("foo appended\n")
			f.Close()
		}
	case 5:
		what = "create " + other
		err = os.WriteFile(at(other), []byte(x.text()), 0o644)
	case 6:
		what = "remove " + file
		err = os.Remove(at(file))
	case 7:
		what = "rename " + file + " to " + other
		err = os.Rename(at(file), at(other))
	case 8:
		what = "replace " + file
		if err = os.WriteFile(at("tmp~"), []byte(x.text()), 0o644); err == nil {
			err = os.Rename(at("tmp~"), at(file))
		}
	case 9:
		to := filepath.Join(some(dirs), x.name())
		what = "move " + dir + " to " + to
		err = os.Rename(at(dir), at(to))
	case 10:
		what = "make " + other
		if err = os.MkdirAll(at(filepath.Join(other, "deep")), 0o755); err == nil {
			err = os.WriteFile(at(filepath.Join(other, "deep", "f.go")), []byte(x.text()), 0o644)
		}
	case 11:
		what = "remove all of " + dir
		if dir != "." {
			err = os.RemoveAll(at(dir))
		}
	case 12:
		name := filepath.Join(dir, pick(x.r, ".gitignore", ".ignore", ".rgignore"))
		what = "rules " + name
		err = os.WriteFile(at(name), []byte(x.rules()), 0o644)
	case 13:
		name := filepath.Join(dir, pick(x.r, ".gitignore", ".ignore", ".rgignore"))
		what = "no rules " + name
		err = os.Remove(at(name))
	case 14:
		if !x.repository() { // there a .git below means nothing to ripgrep
			return "nothing"
		}
		name := filepath.Join(dir, ".git/info/exclude")
		what = "exclude " + name
		if err = os.MkdirAll(filepath.Dir(at(name)), 0o755); err == nil {
			err = os.WriteFile(at(name), []byte(x.rules()), 0o644)
		}
	case 15:
		other = x.name() // in a directory that is watched
		what = "link " + file + " as " + other
		if err = os.Link(at(file), at(other)); err == nil {
			err = os.WriteFile(at(other), []byte(x.text()), 0o644)
		}
	case 16:
		what = "mode of " + dir
		if err = os.Chmod(at(dir), 0o700); err == nil {
			err = os.Chmod(at(dir), 0o755)
		}
	case 17:
		other = filepath.Join("..", fmt.Sprint("outside-", len(x.links)%3))
		what = "link " + file + " outside as " + other
		x.links = append(x.links, other)
		_ = os.Remove(at(other))
		err = os.Link(at(file), at(other))
	case 18:
		other = some(x.links)
		what = "write " + other
		err = os.WriteFile(at(other), []byte(x.text()), 0o644)
	case 19:
		what = "map " + file
		err = x.mapFile(at(file))
	case 20:
		what = "write to a mapping"
		if len(x.maps) > 0 {
			m := pick(x.r, x.maps...)
			err = poke(m, x.r.IntN(len(m)), pick(x.r, byte('o'), 'f', '\n', ' '))
		}
	}
	return fmt.Sprintf("%s (%v)", what, err)
}

// mapFile maps the beginning of a file for writing; the oldest mapping ends when
// there are some.
func (x *tree) mapFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	if x.maps = append(x.maps, m); len(x.maps) > 4 {
		err = syscall.Munmap(x.maps[0])
		x.maps = x.maps[1:]
	}
	return err
}

// poke writes to a mapping. It fails where the file has become shorter.
func poke(mapped []byte, at int, b byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	mapped[at] = b
	return nil
}

// list returns the files and directories there are.
func (x *tree) list() (files, dirs []string) {
	_ = filepath.WalkDir(x.root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(x.root, path)
		switch {
		case err != nil:
		case d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			dirs = append(dirs, rel)
		case d.Type().IsRegular():
			files = append(files, rel)
		}
		return nil
	})
	return files, dirs
}

// TestWarmAsCold compares what is answered from memory with what reading the
// files gives, directly after edits.
func TestWarmAsCold(t *testing.T) {
	x := newTree(t, 4)
	questions, warm := 0, 0
	for i := range soaktest.Times(25, 3000) {
		x.clear()
		x.grow(40)
		x.ignore(".gitignore", ".ignore")
		if i%2 == 0 {
			if err := os.Mkdir(filepath.Join(x.root, ".git"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		config := index.Config{}
		if i%3 == 0 {
			config.MaxText = size.Bytes(1 + i%2*2000) // nothing is kept, or little
		}
		e := x.warmEngine(config)
		var edits []string
		for range 8 {
			for range x.r.IntN(4) {
				edits = append(edits, x.edit())
			}
			q := x.ask()
			if x.r.IntN(2) == 0 {
				q.scope = search.Scope{}
			}
			if x.r.IntN(4) == 0 {
				q.scope.Exclude = func(path string) bool { return strings.Contains(path, "oo") }
			}
			questions++
			if isWarm(t, e) {
				warm++
			} else if err := e.Warm(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(x.root, q.scope.Path)); err != nil {
				q.scope.Path = ""
			}
			got, want := answer(t, e, q), answer(t, x.engine(), q)
			if !slices.Equal(got, want) {
				t.Fatalf("tree %d: %s\nedits\n%s\ngot  %q\nwant %q\n%s", i, q, strings.Join(edits, "\n"), got, want, x.describe())
			}
		}
		e.Close()
	}
	if warm < questions*9/10 {
		t.Errorf("of %d questions %d were answered from memory", questions, warm)
	}
	t.Logf("%d questions, %d answered from memory", questions, warm)
}

// TestSameTick changes a file to another text of the same length, over and over
// within one tick of any clock, and is never given the old one.
func TestSameTick(t *testing.T) {
	x := newTree(t, 5)
	x.write("f", "round 0000\n")
	e := x.warmEngine(index.Config{})
	for i := range 300 {
		text := fmt.Sprintf("round %04d", i)
		if err := os.WriteFile(filepath.Join(x.root, "f"), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		var got []string
		sum, err := e.Grep(t.Context(), search.Pattern{Text: "round"}, search.Scope{}, search.Options{}, func(f search.File) bool {
			got = append(got, string(f.Lines[0].Text))
			return true
		})
		if err != nil || !sum.Warm || len(got) != 1 || got[0] != text {
			t.Fatalf("round %d: %q, %+v, %v", i, got, sum, err)
		}
	}
}

// TestWarmOrder compares the order of what is found.
func TestWarmOrder(t *testing.T) {
	x := newTree(t, 6)
	x.grow(200)
	x.write(".hidden.go", "foo\n")
	e := x.warmEngine(index.Config{})
	for _, scope := range []search.Scope{{}, {Globs: []string{"*.go"}}, {Types: []string{"go"}}, {MaxDepth: 2}} {
		for _, pattern := range []string{"foo", "o", "[a-z]o+"} {
			for _, limit := range []int{0, 3, 50} {
				var lists [2][]string
				for i, e := range []*engine{e, x.engine()} {
					_, err := e.Grep(t.Context(), search.Pattern{Text: pattern}, scope, search.Options{Limit: limit}, func(f search.File) bool {
						lists[i] = append(lists[i], fmt.Sprint(f.Path, f.Count))
						return true
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(lists[0], lists[1]) || len(lists[0]) == 0 {
					t.Errorf("%+v, %s, limit %d:\n%q\n%q", scope, pattern, limit, lists[0], lists[1])
				}
			}
		}
	}
}

// TestUnsure changes files in ways of which the kernel tells nothing.
func TestUnsure(t *testing.T) {
	x := newTree(t, 10)
	x.write("a", "foo\n")
	x.write("b", "foo\n")
	outside := filepath.Join(filepath.Dir(x.root), "outside")
	if err := os.Link(filepath.Join(x.root, "a"), outside); err != nil {
		t.Skip(err)
	}
	e := x.warmEngine(index.Config{})
	// By a name that nobody watches.
	if err := os.WriteFile(outside, []byte("bar\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, e, question{pattern: search.Pattern{Text: "bar"}}); !slices.Equal(got, []string{"a\x001:bar"}) {
		t.Errorf("%q", got)
	}
	// By names that come and go, before anybody looks.
	at := func(name string) string { return filepath.Join(x.root, name) }
	x.write("c", "foo\n")
	if !isWarm(t, e) {
		t.Fatal("it is not warm")
	}
	for i, away := range []func() error{
		func() error { return os.Remove(at("other")) },
		func() error { return errors.Join(os.Rename(at("other"), at("another")), os.Remove(at("another"))) },
		func() error {
			return errors.Join(os.WriteFile(at("tmp"), nil, 0o644), os.Rename(at("tmp"), at("other")))
		},
		func() error { return os.Rename(at("other"), outside+"-2") },
	} {
		text := fmt.Sprintf("turn %d\n", i)
		if err := errors.Join(os.Link(at("c"), at("other")), os.WriteFile(at("other"), []byte(text), 0o644), away()); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, e, question{pattern: search.Pattern{Text: "turn"}}); !slices.Equal(got, []string{"c\x001:" + text[:len(text)-1]}) {
			t.Errorf("turn %d: %q", i, got)
		}
		if err := os.Remove(at("other")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		isWarm(t, e)
	}
	// While it is open for writing it is read every time.
	f, err := os.OpenFile(filepath.Join(x.root, "b"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 10 {
		text := fmt.Sprintf("bar%d\n", i)
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, e, question{pattern: search.Pattern{Text: "bar" + fmt.Sprint(i)}}); len(got) != 1 {
			t.Errorf("%q", got)
		}
	}
	if !isWarm(t, e) {
		t.Error("it is not warm")
	}
}

// TestWhileThingsChange searches with several goroutines, cold and from memory,
// while files, directories and links change places and everything is dropped now
// and then. What is outside is never shown.
func TestWhileThingsChange(t *testing.T) {
	const canary = "the canary sings"
	x := newTree(t, 12)
	x.grow(60)
	outside := filepath.Join(filepath.Dir(x.root), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte(canary+" foo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(x.root, name) }
	if err := errors.Join(os.Mkdir(at("swap"), 0o755), os.WriteFile(at("swap/f"), []byte("foo inside\n"), 0o644), os.Symlink(outside, at("trap")), os.Symlink(outside+"/f", at("trap-f"))); err != nil {
		t.Fatal(err)
	}
	warm, sparse := x.newEngine(index.Config{}), x.newEngine(index.Config{MaxText: 1})
	defer warm.Close()
	defer sparse.Close()
	var changes, searches sync.WaitGroup
	done := make(chan struct{})
	changes.Go(func() {
		for range soaktest.Times(150, 20_000) { // failures are somebody else's doing
			_ = os.Rename(at("swap"), at("away"))
			_ = os.Rename(at("trap"), at("swap"))
			_ = os.Rename(at("swap"), at("trap"))
			_ = os.Rename(at("away"), at("swap"))
			_ = os.Rename(at("swap/f"), at("swap/g"))
			_ = os.Rename(at("trap-f"), at("swap/f"))
			_ = os.Rename(at("swap/f"), at("trap-f"))
			_ = os.Rename(at("swap/g"), at("swap/f"))
			x.edit()
		}
	})
	found := new(atomic.Int64)
	for i, e := range []*engine{warm, warm, x.engine(), sparse, sparse} {
		searches.Go(func() {
			for n := 0; ; n++ {
				scope := search.Scope{Hidden: n%5 == 4, Follow: n%7 == 6}
				_, err := e.Grep(t.Context(), search.Pattern{Text: "foo"}, scope, search.Options{}, func(f search.File) bool {
					for _, l := range f.Lines {
						if strings.Contains(string(l.Text), canary) {
							t.Errorf("%s shows the outside", f.Path)
						}
						found.Add(1)
					}
					return true
				})
				if err != nil {
					t.Error(err)
				}
				if _, _, err := e.Glob(t.Context(), search.Scope{Match: "*.go"}, search.ByTime); err != nil {
					t.Error(err)
				}
				if i%3 == 0 && n%20 == 19 {
					e.Drop()
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	changes.Wait()
	close(done)
	searches.Wait()
	if found.Load() == 0 {
		t.Error("nothing was ever found: the test proves nothing")
	}
}
