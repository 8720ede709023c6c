// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/workspace"
)

// hands are another process, which does something to a workspace step by step.
type hands struct {
	root, outside string
	file          *os.File
	mapped        []byte
}

func (h *hands) at(name string) string  { return filepath.Join(h.root, name) }
func (h *hands) out(name string) string { return filepath.Join(h.outside, name) }

func (h *hands) open(path string, flags int) (err error) {
	h.file, err = os.OpenFile(path, flags, 0o644)
	return err
}

// mapFile maps a file for writing, and closes it.
func (h *hands) mapFile(path string) error {
	if err := h.open(path, os.O_RDWR); err != nil {
		return err
	}
	return h.mapOpen()
}

func (h *hands) mapOpen() (err error) {
	h.mapped, err = unix.Mmap(int(h.file.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return errors.Join(err, h.file.Close())
}

// poke writes through the mapping.
func (h *hands) poke(text string) func() error {
	return func() error {
		copy(h.mapped, text)
		return nil
	}
}

func (h *hands) unmap() error { return unix.Munmap(h.mapped) }

// put writes to the open file.
func (h *hands) put(text string) func() error {
	return func() error {
		_, err := h.file.WriteAt([]byte(text), 0)
		return err
	}
}

// reopen is a path that leads to the open file, whatever its name.
func (h *hands) reopen() string { return fmt.Sprintf("/proc/self/fd/%d", h.file.Fd()) }

func (h *hands) close() error { return h.file.Close() }

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }

// rename2 is a rename with flags.
func rename2(from, to string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
}

// openMany opens two files in turn, more often than the kernel keeps events.
func openMany(a, b string) error {
	for range 20_000 { // twice as many: in between somebody may listen
		for _, name := range []string{a, b} {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			f.Close()
		}
	}
	return nil
}

// A deed is done in steps. In between the workspace is searched from memory.
type deed struct {
	name  string
	early func() error // done before the workspace is read into memory
	steps []func() error
}

// deeds are the ways to change what a search of a workspace finds, which has
// dir/f and dir/g with the text "needle0\n", rules that ignore "nothing", and a
// file g of the same text in the directory outside.
func (h *hands) deeds() []deed {
	f, g, out := h.at("dir/f"), h.at("dir/g"), h.out("g")
	do := func(steps ...func() error) []func() error { return steps }
	together := func(steps ...func() error) func() error {
		return func() error {
			for _, s := range steps {
				if err := s(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	write := func(path, text string) func() error { return func() error { return writeFile(path, text) } }
	link := func(from, to string) func() error { return func() error { return os.Link(from, to) } }
	rename := func(from, to string) func() error { return func() error { return os.Rename(from, to) } }
	remove := func(path string) func() error { return func() error { return os.Remove(path) } }
	mapFile := func(path string) func() error { return func() error { return h.mapFile(path) } }
	open := func(path string, flags int) func() error { return func() error { return h.open(path, flags) } }
	many := func() error { return openMany(g, h.at(".gitignore")) } // what else happens to f is not told
	return []deed{
		{"a write", nil, do(write(f, "needle1\n"), write(f, "needle2\n"))},
		{"writes to an open file", nil, do(open(f, os.O_RDWR), h.put("needle1"), h.put("needle2"), h.close)},
		{"writes to a file that was open before", open(f, os.O_RDWR), do(h.put("needle1"), h.put("needle2"), h.close)},
		{"cut", nil, do(func() error { return os.Truncate(f, 3) }, func() error { return os.Truncate(f, 0) })},
		{"mode", nil, do(func() error { return os.Chmod(f, 0) }, func() error { return os.Chmod(f, 0o644) })},

		{"a link outside", nil, do(link(f, h.out("l")), write(h.out("l"), "needle1\n"), write(h.out("l"), "needle2\n"), remove(h.out("l")), write(f, "needle3\n"))},
		{"a link outside, at once", nil, do(together(link(f, h.out("l")), write(h.out("l"), "needle1\n")), write(h.out("l"), "needle2\n"))},
		{"a link outside that is gone", nil, do(together(link(f, h.out("l")), write(h.out("l"), "needle1\n"), remove(h.out("l"))))},
		{"a link outside that is gone, still open", nil, do(
			together(link(f, h.out("l")), open(h.out("l"), os.O_RDWR), remove(h.out("l"))), h.put("needle1"), h.put("needle2"), h.close)},
		{"a link outside, cut", nil, do(link(f, h.out("l")), func() error { return os.Truncate(h.out("l"), 3) })},
		{"a link inside", nil, do(link(f, h.at("l")), write(h.at("l"), "needle1\n"), remove(h.at("l")), write(f, "needle2\n"))},
		{"a link in a directory that is ignored", nil, do(link(f, h.at("nothing/l")), write(h.at("nothing/l"), "needle1\n"))},
		{"a link that came and went", nil, do(together(link(f, h.at("l")), write(h.at("l"), "needle1\n"), rename(h.at("l"), h.out("l"))), write(h.out("l"), "needle2\n"))},
		{"a link outside, with its times", nil, do(link(f, h.out("l")), func() error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, h.out("l"), []unix.Timespec{{Sec: 1e9}, {Sec: 1e9}}, 0)
		})},

		{"a mapping", nil, do(mapFile(f), h.poke("needle1"), h.poke("needle2"), h.poke("needle3"), h.unmap)},
		{"a mapping, at once", nil, do(together(mapFile(f), h.poke("needle1")), h.poke("needle2"), together(h.poke("needle3"), h.unmap))},
		{"a mapping that was there before", mapFile(f), do(h.poke("needle1"), h.poke("needle2"), h.unmap)},
		{"a mapping that came and went", nil, do(together(mapFile(f), h.poke("needle1"), h.unmap))},
		{"a mapping by a link that is gone", nil, do(together(link(f, h.out("l")), mapFile(h.out("l")), remove(h.out("l"))), h.poke("needle1"), h.poke("needle2"), h.unmap)},
		{"a mapping of what takes its place", mapFile(out), do(h.poke("needle1"), rename(out, f), h.poke("needle2"), h.poke("needle3"), h.unmap)},
		{"a mapping after it was replaced", nil, do(rename(out, f), mapFile(f), h.poke("needle2"), h.poke("needle3"), h.unmap)},
		{"a mapping after it was renamed", nil, do(rename(f, h.at("dir/h")), mapFile(h.at("dir/h")), h.poke("needle2"), h.poke("needle3"), h.unmap)},
		{"a mapping in a directory that comes", together(func() error { return os.Mkdir(h.out("d"), 0o755) }, write(h.out("d/f"), "needle0\n"), mapFile(h.out("d/f"))),
			do(rename(h.out("d"), h.at("d")), h.poke("needle1"), h.poke("needle2"), h.unmap, mapFile(h.at("d/f")), h.poke("needle3"))},
		{"a mapping in a directory that goes and comes", nil, do(mapFile(f),
			together(rename(h.at("dir"), h.out("d")), h.poke("needle1"), rename(h.out("d"), h.at("dir"))), h.poke("needle2"), h.unmap)},
		{"a mapping of a new file", nil, do(together(write(h.at("dir/h"), "needle0\n"), mapFile(h.at("dir/h"))), h.poke("needle1"), h.poke("needle2"), h.unmap)},
		{"a mapping of a file without a name, which gets one", nil, do(func() error {
			if err := h.open(h.at("dir"), os.O_RDWR|unix.O_TMPFILE); err != nil {
				return err
			}
			if err := h.put("needle0\n")(); err != nil {
				return err
			}
			if err := unix.Linkat(unix.AT_FDCWD, h.reopen(), unix.AT_FDCWD, h.at("dir/h"), unix.AT_SYMLINK_FOLLOW); err != nil {
				return err
			}
			return h.mapOpen()
		}, h.poke("needle1"), h.poke("needle2"), h.unmap, mapFile(h.at("dir/h")), h.poke("needle3"))},
		{"a mapping while many are opened", nil, do(together(many, mapFile(f), many, h.poke("needle1")), h.poke("needle2"), h.poke("needle3"), together(many, h.poke("needle4"), h.unmap))},
		{"a link while many are opened", nil, do(together(many, link(f, h.out("l"))), write(h.out("l"), "needle1\n"),
			together(many, write(h.out("l"), "needle2\n"), remove(h.out("l"))), write(f, "needle3\n"))},
		{"a link that came and went while many were opened", nil, do(together(many, link(f, h.out("l")), write(h.out("l"), "needle1\n"), remove(h.out("l"))))},

		{"rules that are mapped", nil, do(mapFile(h.at(".gitignore")), h.poke("dir/f\n#"), h.poke("dir/g\n#"), h.unmap)},
		{"rules with a link outside", nil, do(link(h.at(".gitignore"), h.out("l")), write(h.out("l"), "dir/f\n"), write(h.out("l"), "dir/g\n"), remove(h.out("l")))},
		{"rules with a link outside that is gone", nil, do(together(link(h.at(".gitignore"), h.out("l")), write(h.out("l"), "dir/f\n"), remove(h.out("l"))))},
		{"rules that are mapped while many are opened", nil, do(together(func() error { return openMany(f, g) }, mapFile(h.at(".gitignore"))), h.poke("dir/f\n#"), h.poke("dir/g\n#"))},
		{"rules that are new, and mapped", nil, do(together(write(h.at("dir/.ignore"), "#nothing\n"), mapFile(h.at("dir/.ignore"))), h.poke("f\n#"), h.poke("g\n#"), h.unmap)},

		{"an open file whose name is gone", together(link(f, h.out("l")), open(h.out("l"), os.O_RDONLY), remove(h.out("l"))), do(
			func() error { return writeFile(h.reopen(), "needle1\n") }, func() error { return os.Truncate(h.reopen(), 3) },
			func() error { return h.mapFile(h.reopen()) }, h.poke("nee"), h.unmap, write(f, "needle2\n"))},
		{"an open file whose name is gone, mapped for a moment", together(link(f, h.out("l")), open(h.out("l"), os.O_RDONLY), remove(h.out("l"))), do(
			together(func() error { return h.mapFile(h.reopen()) }, h.poke("needle1"), h.unmap))},
		{"another way to the open file", nil, do(func() error {
			if err := h.open(f, os.O_RDONLY); err != nil {
				return err
			}
			return writeFile(h.reopen(), "needle1\n")
		})},
		{"copy_file_range", write(out, "needle1\n"), do(func() error {
			return h.transfer(out, f, func(from, to int) error {
				_, err := unix.CopyFileRange(from, nil, to, nil, 8, 0)
				return err
			})
		}, h.close)},
		{"sendfile", write(out, "needle1\n"), do(func() error {
			return h.transfer(out, f, func(from, to int) error {
				_, err := unix.Sendfile(to, from, nil, 8)
				return err
			})
		}, h.close)},
		{"a clone", write(out, "needle1\n"), do(func() error {
			return h.transfer(out, f, func(from, to int) error {
				if err := unix.IoctlFileClone(to, from); err != unix.EOPNOTSUPP {
					return err
				}
				return nil // not on this file system
			})
		}, h.close)},
		{"a hole", nil, do(open(f, os.O_RDWR), func() error {
			return unix.Fallocate(int(h.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4)
		}, h.put("needle2"), h.close)},
		{"an exchange", write(out, "needle1\n"), do(func() error { return rename2(out, f, unix.RENAME_EXCHANGE) }, write(out, "needle2\n"), write(f, "needle3\n"))},
		{"a link in its place", write(out, "needle1\n"), do(together(remove(f), func() error { return os.Symlink(out, f) }), together(remove(f), link(out, f)), write(out, "needle2\n"))},
	}
}

// transfer copies from one file into another, which stays open.
func (h *hands) transfer(from, to string, do func(from, to int) error) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := h.open(to, os.O_WRONLY); err != nil {
		return err
	}
	return do(int(source.Fd()), int(h.file.Fd()))
}

// prepare makes the workspace that the deeds are about.
func (h *hands) prepare() error {
	return errors.Join(os.Mkdir(h.at("dir"), 0o755), os.Mkdir(h.at("nothing"), 0o755), os.Mkdir(h.outside, 0o755), writeFile(h.at("dir/f"), "needle0\n"),
		writeFile(h.at("dir/g"), "needle0\n"), writeFile(h.at(".gitignore"), "nothing\n"), writeFile(h.out("g"), "needle0\n"))
}

// TestOthers changes a workspace from another process in every way there is,
// and searches it from memory directly after each step.
func TestOthers(t *testing.T) {
	const number, rootOf = "TOOLSERVER_TEST_DEED", "TOOLSERVER_TEST_ROOT"
	if name := os.Getenv(number); name != "" {
		root := os.Getenv(rootOf)
		h := &hands{root: root, outside: filepath.Join(filepath.Dir(root), "outside")}
		list := h.deeds()
		d := list[slices.IndexFunc(list, func(d deed) bool { return d.name == name })]
		if d.early == nil {
			d.early = func() error { return nil }
		}
		orders := bufio.NewReader(os.Stdin)
		for _, step := range append([]func() error{d.early}, d.steps...) {
			if _, err := orders.ReadString('\n'); err != nil {
				return
			}
			fmt.Printf("done: %v\n", step())
		}
		_, _ = orders.ReadString('\n') // mappings end with the process
		return
	}
	for _, d := range new(hands).deeds() {
		t.Run(d.name, func(t *testing.T) {
			// To read the files is to open them, of which is told: that is done in another
			// tree, so that nothing but the deed is told in this one.
			var want [][]string
			for _, config := range []*index.Config{nil, {}, {MaxText: 1}} { // no index; the text; the index alone
				x := newTree(t, 13)
				step := x.begin(number+"="+d.name, rootOf+"="+x.root)
				step()
				e := x.engine()
				if config != nil {
					e = x.warmEngine(*config)
				}
				for i := range len(d.steps) + 1 {
					if i > 0 {
						step()
					}
					got, warm := x.findAll(e)
					if config == nil {
						want = append(want, got)
						continue
					}
					for again := range 3 { // the first look must not be the last
						if again > 0 {
							got, warm = x.findAll(e)
						}
						if !warm {
							t.Errorf("step %d: the answer is not from memory", i)
						}
						if !slices.Equal(got, want[i]) {
							t.Errorf("step %d:\ngot  %s\nwant %s", i, strings.Join(got, "\n     "), strings.Join(want[i], "\n     "))
						}
					}
				}
			}
		})
	}
}

// begin makes the workspace of the deeds and starts the other process, and
// returns what has it take the next step.
func (x *tree) begin(env ...string) (step func()) {
	x.t.Helper()
	h := &hands{root: x.root, outside: filepath.Join(filepath.Dir(x.root), "outside")}
	other := exec.Command(os.Args[0], "-test.run=^TestOthers$")
	other.Env = append(append(os.Environ(), env...), "GORACE=atexit_sleep_ms=0") // which is a second otherwise
	orders, failed := other.StdinPipe()
	reports, err := other.StdoutPipe()
	if err := errors.Join(h.prepare(), failed, err, other.Start()); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		orders.Close()
		if err := other.Wait(); err != nil {
			x.t.Error(err)
		}
	})
	lines := bufio.NewReader(reports)
	return func() {
		x.t.Helper()
		if _, err := io.WriteString(orders, "go\n"); err != nil {
			x.t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != "done: <nil>\n" {
			x.t.Fatalf("%q, %v", line, err)
		}
	}
}

// findAll returns what is found in a tree, and whether that is from memory. It
// sees that times are those of the files.
func (x *tree) findAll(e *engine) (found []string, warm bool) {
	x.t.Helper()
	warm = true
	for _, text := range []string{"needle0", "needle1", "needle2", "needle3", "needle4", "nee", "[a-z]+[0-9]"} { // the last has no index
		sum, err := e.Grep(x.t.Context(), search.Pattern{Text: text}, search.Scope{}, search.Options{}, func(f search.File) bool {
			for _, l := range f.Lines {
				found = append(found, fmt.Sprintf("%s:%d: %q", f.Path, l.Number, l.Text))
			}
			return true
		})
		if err != nil {
			x.t.Fatal(err)
		}
		warm = warm && sum.Warm
	}
	files, sum, err := e.Glob(x.t.Context(), search.Scope{}, search.ByTime)
	if err != nil {
		x.t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
		if info, err := os.Lstat(filepath.Join(x.root, f.Path)); err != nil || info.ModTime().UnixNano() != f.MTime {
			x.t.Errorf("%s is said to be of %d: %v, %v", f.Path, f.MTime, info, err)
		}
	}
	slices.Sort(names) // their times differ from tree to tree
	return append(found, names...), warm && sum.Warm
}

// TestFollowed changes files through links and mappings where fewer can be
// followed than there are, and where two workspaces of a pool are one directory.
func TestFollowed(t *testing.T) {
	few := func(x *tree, config index.Config) []*engine {
		config.KernelShare = maxWatches(t) / 6 // a directory, and half of the files
		e := x.newEngine(config)
		t.Cleanup(e.Close)
		return []*engine{e}
	}
	two := func(x *tree, config index.Config) []*engine {
		indexes := index.NewPool(config)
		again, err := workspace.Open(x.root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { again.Close() })
		one, two := indexes.Index(x.ws), indexes.Index(again)
		return []*engine{{search.New(x.ws, one), one}, {search.New(again, two), two}}
	}
	for name, engines := range map[string]func(*tree) []*engine{
		"few": func(x *tree) []*engine { return few(x, index.Config{}) },
		"two": func(x *tree) []*engine { return two(x, index.Config{}) },

		"few, text not in memory": func(x *tree) []*engine { return few(x, index.Config{MaxText: 1}) },
		"two, text not in memory": func(x *tree) []*engine { return two(x, index.Config{MaxText: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			x := newTree(t, 14)
			for i := range 10 {
				x.write(fmt.Sprint("f", i), "needle 0\n")
			}
			list := engines(x)
			for _, e := range list {
				if err := e.Warm(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			check := func(text string, want int) {
				t.Helper()
				for range 2 {
					for _, e := range list {
						if got := answer(t, e, question{pattern: search.Pattern{Text: text}}); len(got) != want || !isWarm(t, e) {
							t.Errorf("%s: %q, want %d; from memory: %t", text, got, want, isWarm(t, e))
						}
					}
				}
			}
			check("needle 0", 10)
			for i := range 10 {
				at := filepath.Join(x.root, fmt.Sprint("f", i))
				if err := x.mapFile(at); err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 { // some are looked at before, some are not
					check("needle 0", 10-i)
				}
				x.maps[len(x.maps)-1][7] = '1'
				check("needle 0", 9-i)
				check("needle 1", i+1)
			}
			for i := range 10 {
				outside := filepath.Join(filepath.Dir(x.root), fmt.Sprint("l", i))
				if err := errors.Join(os.Link(filepath.Join(x.root, fmt.Sprint("f", i)), outside), writeFile(outside, "needle 2\n")); err != nil {
					t.Fatal(err)
				}
				check("needle 2", i+1)
			}
		})
	}
}

// maxWatches is how many inotify watches a user may have.
func maxWatches(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// opened returns the files of a tree that this process has open.
func (x *tree) opened() (names []string) {
	x.t.Helper()
	const table = "/proc/self/fd"
	entries, err := os.ReadDir(table)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, e := range entries {
		path, _ := os.Readlink(filepath.Join(table, e.Name())) // of the table itself there is none any more
		if name, ok := strings.CutPrefix(path, x.root+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// TestKeptOpen searches files whose text is not in memory: some of them stay
// open, but no longer than they have their names, and not for long.
func TestKeptOpen(t *testing.T) {
	const files, limit = 10, 5
	x := newTree(t, 15)
	x.write("large", strings.Repeat("some text\n", 64<<10))
	for i := range files {
		x.write(fmt.Sprint("f", i), "needle\n")
	}
	at := func(name string) string { return filepath.Join(x.root, name) }
	synctest.Test(t, func(t *testing.T) {
		var e *engine
		open := func(limit uint64) { // an eighth of what may be open
			t.Helper()
			var before unix.Rlimit
			if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &before), unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 8 * limit, Max: before.Max})); err != nil {
				t.Fatal(err)
			}
			e = x.newEngine(index.Config{MaxText: 1, IdleAfter: time.Hour})
			if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &before), e.Warm(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		open(limit)
		defer func() { e.Close() }()
		find := func(text string, want, wantOpen int) (open []string) {
			t.Helper()
			for range 3 {
				got := 0
				sum, err := e.Grep(t.Context(), search.Pattern{Text: text}, search.Scope{}, search.Options{}, func(f search.File) bool {
					got += f.Count
					return true
				})
				if err != nil || !sum.Warm || got != want {
					t.Fatalf("%d lines, want %d: %+v, %v", got, want, sum, err)
				}
			}
			if open = x.opened(); len(open) != wantOpen {
				t.Fatalf("open are %q, want %d", open, wantOpen)
			}
			return open
		}
		find("some text", 64<<10, 0) // it is too large
		one := find("needle", files, limit)[0]
		if err := os.Remove(at(one)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // nobody searches
		synctest.Wait()
		if open := x.opened(); len(open) != limit-1 || slices.ContainsFunc(open, func(name string) bool { return strings.HasPrefix(name, one) }) {
			t.Errorf("%s is gone, and open are %q", one, open)
		}
		find("needle", files-1, limit)
		time.Sleep(time.Minute)
		synctest.Wait()
		if open := x.opened(); len(open) > 0 {
			t.Errorf("after a minute are open %q", open)
		}
		if find("needle", files-1, limit); !isWarm(t, e) {
			t.Error("it is not warm")
		}

		e.Close()
		open(2 * files)
		one = find("needle", files-1, files-1)[0]
		if err := errors.Join(writeFile(at("new"), "needle\nneedle\n"), os.Rename(at("new"), at(one))); err != nil {
			t.Fatal(err)
		}
		find("needle", files, files-1)
		for _, lines := range []int{3, 16 << 10, 16, 64 << 10} { // one block, several, and more than is kept open
			if err := writeFile(at(one), strings.Repeat("needle\n", lines)+"thread\n"); err != nil {
				t.Fatal(err)
			}
			open := files - 1
			if lines == 64<<10 {
				open--
			}
			find("needle", files-2+lines, open)
			find("thread", 1, open)
		}
		e.Close()
		if open := x.opened(); len(open) > 0 {
			t.Errorf("after the end are open %q", open)
		}
	})
}
