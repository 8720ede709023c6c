// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forgery is an index that is written by hand.
type forgery struct {
	version    uint32
	hash       int
	names      []string
	blob       []byte // the hash of what each of them has
	flags      uint16 // of each, beside the length
	length     int    // that each says it has; 0: as it is
	extensions []byte
	restart    map[int]bool // entries that strip less than the whole name before, in version 4
}

// bytes returns the index, and where its entries begin and end.
func (f forgery) bytes() (data []byte, at []int) {
	data = append(data, "DIRC"...)
	data = binary.BigEndian.AppendUint32(data, f.version)
	data = binary.BigEndian.AppendUint32(data, uint32(len(f.names)))
	previous := ""
	for i, name := range f.names {
		at = append(at, len(data))
		fixed := make([]byte, statData+f.hash)
		binary.BigEndian.PutUint32(fixed[24:], 0o100755)
		copy(fixed[statData:], f.blob)
		data = append(data, fixed...)
		length := min(len(name), lengthMask)
		if f.length != 0 {
			length = f.length
		}
		data = binary.BigEndian.AppendUint16(data, f.flags|uint16(length))
		if f.flags&extended != 0 {
			data = append(data, 0x20, 0)
		}
		if f.version == 4 {
			keep := 0
			if f.restart[i] {
				for keep < len(name) && keep < len(previous) && name[keep] == previous[keep] {
					keep++
				}
			}
			strip := len(previous) - keep
			if strip > 127 {
				panic("a name that is too long")
			}
			data = append(append(append(data, byte(strip)), name[keep:]...), 0)
			previous = name
			continue
		}
		data = append(data, name...)
		size := len(data) - at[i]
		data = append(data, make([]byte, (size+8)&^7-size)...)
	}
	at = append(at, len(data))
	data = append(data, f.extensions...)
	return append(data, make([]byte, f.hash)...), at
}

func readBytes(t testing.TB, data []byte, hash int64, seen func([]byte)) indexFacts {
	t.Helper()
	x := indexReader{file: bytes.NewReader(data), size: int64(len(data)), hash: hash, seen: seen}
	facts, err := x.read()
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// gitRepository is a repository of git's own.
type gitRepository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T, options ...string) *gitRepository {
	t.Helper()
	g := &gitRepository{t, t.TempDir()}
	g.git("", append([]string{"init", "-q"}, options...)...)
	return g
}

func (g *gitRepository) try(stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = g.dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (g *gitRepository) git(stdin string, args ...string) string {
	g.t.Helper()
	out, err := g.try(stdin, args...)
	if err != nil {
		g.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return out
}

func (g *gitRepository) index() []byte {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, ".git/index"))
	if err != nil {
		g.t.Fatal(err)
	}
	return data
}

// names returns what is read of an index that git wrote, and of the one it shares.
func (g *gitRepository) names(hash int64) (names []string) {
	g.t.Helper()
	seen := func(name []byte) { names = append(names, string(name)) }
	facts := readBytes(g.t, g.index(), hash, seen)
	if facts.shared != "" {
		shared, err := os.ReadFile(filepath.Join(g.dir, ".git", sharedIndex+facts.shared))
		if err != nil {
			g.t.Fatal(err)
		}
		if more := readBytes(g.t, shared, hash, seen); more.bad != "" {
			g.t.Errorf("the shared index: %s", more.bad)
		}
	}
	if facts.bad != "" {
		g.t.Errorf("of git's own index: %s", facts.bad)
	}
	return names
}

func (g *gitRepository) listed() []string {
	return strings.Split(strings.TrimSuffix(g.git("", "ls-files", "-z"), "\x00"), "\x00")
}

// TestIndexAsGit reads indexes that git has written, and finds in them the names
// that git finds.
func TestIndexAsGit(t *testing.T) {
	for name, test := range map[string]struct {
		init   []string
		hash   int64
		config string
		do     func(g *gitRepository)
		has    string // what the index must have, for the test to be one
		split  bool
	}{
		"2":            {hash: 20, config: "index.version=2", has: "DIRC\x00\x00\x00\x02"},
		"3":            {hash: 20, do: func(g *gitRepository) { g.git("", "update-index", "--skip-worktree", "d/f1") }, has: "DIRC\x00\x00\x00\x03"},
		"4":            {hash: 20, config: "index.version=4", has: "DIRC\x00\x00\x00\x04"},
		"4, extended":  {hash: 20, config: "index.version=4", do: func(g *gitRepository) { g.git("", "update-index", "--skip-worktree", "d/f1", "d/f30") }, has: "DIRC\x00\x00\x00\x04"},
		"threads":      {hash: 20, config: "index.threads=4", has: "IEOT"},
		"threads, 4":   {hash: 20, config: "index.threads=4 index.version=4", has: "IEOT"},
		"split":        {hash: 20, do: func(g *gitRepository) { g.git("", "update-index", "--split-index") }, has: "link", split: true},
		"split, 4":     {hash: 20, config: "index.version=4", do: func(g *gitRepository) { g.git("", "update-index", "--split-index") }, has: "link", split: true},
		"sha256":       {init: []string{"--object-format=sha256"}, hash: 32},
		"sha256, 4":    {init: []string{"--object-format=sha256"}, hash: 32, config: "index.version=4 index.threads=3", has: "EOIE"},
		"sha256 split": {init: []string{"--object-format=sha256"}, hash: 32, do: func(g *gitRepository) { g.git("", "update-index", "--split-index") }, has: "link", split: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRepository(t, test.init...)
			for _, pair := range strings.Fields(test.config) {
				key, value, _ := strings.Cut(pair, "=")
				g.git("", "config", key, value)
			}
			blob := strings.TrimSpace(g.git("x", "hash-object", "-w", "--stdin"))
			var list strings.Builder
			for i := range 300 {
				fmt.Fprintf(&list, "100644 %s\td/f%d\n", blob, i)
			}
			for _, length := range []int{254, 4094, 4095, 4096, 5000} {
				fmt.Fprintf(&list, "100644 %s\tlong/%s\n", blob, strings.Repeat("x", length-5))
			}
			for _, odd := range []string{".gitignore", ".github/x", "a/.gitattributes", "x.git/y", "git~2/z", "..a/b", ".git_/c", "é/ü", "z…/.…git"} {
				fmt.Fprintf(&list, "100644 %s\t%s\n", blob, odd)
			}
			for stage := range 3 {
				fmt.Fprintf(&list, "100644 %s %d\tconflict/x\n", blob, stage+1)
			}
			g.git(list.String(), "update-index", "--index-info")
			if test.do != nil {
				test.do(g)
				g.git("100755 "+blob+"\tnew/one\n100755 "+blob+"\td/f7\n", "update-index", "--index-info")
			}
			if !bytes.Contains(g.index(), []byte(test.has)) {
				t.Fatalf("the index has no %q", test.has)
			}
			want, got := g.listed(), g.names(test.hash)
			if test.split {
				for _, name := range want {
					if !slices.Contains(got, name) {
						t.Errorf("%s is not found", name)
					}
				}
				return
			}
			if !slices.Equal(got, want) {
				t.Errorf("read %d names, git %d", len(got), len(want))
			}
		})
	}
}

// TestManyEntries reads an index that git reads by threads.
func TestManyEntries(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		g := newRepository(t)
		g.git("", "config", "index.threads", "3")
		g.git("", "config", "index.version", version)
		blob := strings.TrimSpace(g.git("x", "hash-object", "-w", "--stdin"))
		var list strings.Builder
		for i := range 25_000 {
			fmt.Fprintf(&list, "100644 %s\tdir%d/file%d\n", blob, i/100, i)
		}
		g.git(list.String(), "update-index", "--index-info")
		if want, got := g.listed(), g.names(20); !slices.Equal(got, want) {
			t.Errorf("version %s: read %d names, git %d", version, len(got), len(want))
		}
	}
}

// threads returns the extensions by which threads read.
func threads(end int, blocks ...int) []byte {
	var ieot []byte
	ieot = binary.BigEndian.AppendUint32(ieot, 1)
	for _, n := range blocks {
		ieot = binary.BigEndian.AppendUint32(ieot, uint32(n))
	}
	data := append([]byte("IEOT"), binary.BigEndian.AppendUint32(nil, uint32(len(ieot)))...)
	data = append(data, ieot...)
	data = append(data, "EOIE\x00\x00\x00\x18"...)
	data = binary.BigEndian.AppendUint32(data, uint32(end))
	return append(data, make([]byte, 20)...)
}

const hook = ".git/hooks/pre-commit"

// TestForgedIndexes are indexes that no git has written.
func TestForgedIndexes(t *testing.T) {
	entry := "its entry " + hook
	clean := []string{"a", "b/c", "d"}
	_, at := forgery{version: 2, hash: 20, names: clean}.bytes()
	_, at4 := forgery{version: 4, hash: 20, names: []string{"a/b", "a/bc"}, restart: map[int]bool{1: true}}.bytes()
	end := at[len(at)-1]
	for name, test := range map[string]struct {
		f    forgery
		hash int64
		cut  int // bytes that are missing at the end
		bad  string
	}{
		"clean":           {f: forgery{version: 2, hash: 20, names: clean}},
		"hook":            {f: forgery{version: 2, hash: 20, names: []string{hook}}, bad: entry},
		"hook, 3":         {f: forgery{version: 3, hash: 20, names: []string{hook}, flags: extended}, bad: entry},
		"hook, 4":         {f: forgery{version: 4, hash: 20, names: []string{"a", hook}}, bad: entry},
		"hook by prefix":  {f: forgery{version: 4, hash: 20, names: []string{"x/a", "x/.git/config"}, restart: map[int]bool{1: true}}, bad: "its entry x/.git/config"},
		"extended, 4":     {f: forgery{version: 4, hash: 20, names: []string{"a", hook}, flags: extended}, bad: entry},
		"sha256":          {f: forgery{version: 2, hash: 32, names: []string{hook}}, hash: 32, bad: entry},
		"length by NUL":   {f: forgery{version: 2, hash: 20, names: []string{hook}, length: lengthMask}, bad: entry},
		"case":            {f: forgery{version: 2, hash: 20, names: []string{"sub/.GiT/x"}}, bad: "its entry sub/.GiT/x"},
		"short name":      {f: forgery{version: 2, hash: 20, names: []string{"GIT~1/x"}}, bad: "its entry GIT~1/x"},
		"dots and spaces": {f: forgery{version: 2, hash: 20, names: []string{".git . ./x"}}, bad: "its entry .git . ./x"},
		"stream":          {f: forgery{version: 2, hash: 20, names: []string{".git::$INDEX_ALLOCATION/x"}}, bad: "its entry .git::$INDEX_ALLOCATION/x"},
		"not seen by HFS": {f: forgery{version: 2, hash: 20, names: []string{".g\u200cit/x"}}, bad: "its entry .g\u200cit/x"},
		"above":           {f: forgery{version: 2, hash: 20, names: []string{"a/../../x"}}, bad: "its entry a/../../x"},
		"absolute":        {f: forgery{version: 2, hash: 20, names: []string{"/etc/x"}}, bad: "its entry /etc/x"},
		"NUL in a name":   {f: forgery{version: 2, hash: 20, names: []string{"a\x00b"}}, bad: forged},
		"longer":          {f: forgery{version: 2, hash: 20, names: []string{hook}, length: 2}, bad: forged},
		"too many":        {f: forgery{version: 2, hash: 20, names: clean}, cut: 24},
		"over the end":    {f: forgery{version: 2, hash: 20, names: []string{"a", hook}}, cut: 20, bad: entry},
		"cut":             {f: forgery{version: 2, hash: 20, names: []string{"a", hook + "xx"}}, cut: 20 + 5, bad: entry},
		"cut, by NUL":     {f: forgery{version: 2, hash: 20, names: []string{"a", hook + "xx"}, length: lengthMask}, cut: 20 + 5, bad: entry},
		"cut, 4":          {f: forgery{version: 4, hash: 20, names: []string{"a", hook + "x"}}, cut: 20 + 2, bad: entry},
		"other magic":     {f: forgery{version: 5, hash: 20, names: []string{hook}}},
		"short":           {f: forgery{version: 2, hash: 20}, cut: 1},
		"threads":         {f: forgery{version: 2, hash: 20, names: clean, extensions: threads(end, at[0], 2, at[2], 1)}},
		"inside an entry": {f: forgery{version: 2, hash: 20, names: clean, extensions: threads(end, at[0], 2, at[2]-8, 1)}, bad: forged},
		"in another file": {f: forgery{version: 2, hash: 20, names: clean, extensions: threads(end, at[0], 2, end+8, 1)}, bad: forged},
		"fewer":           {f: forgery{version: 2, hash: 20, names: clean, extensions: threads(end, at[0], 2)}, bad: forged},
		"more":            {f: forgery{version: 2, hash: 20, names: clean, extensions: threads(end, at[0], 2, at[2], 2)}, bad: forged},
		"end elsewhere":   {f: forgery{version: 2, hash: 20, names: clean, extensions: threads(end-8, at[0], 2, at[2], 1)}, bad: forged},
		"two names":       {f: forgery{version: 4, hash: 20, names: []string{"a/b", "a/bc"}, restart: map[int]bool{1: true}, extensions: threads(at4[2], at4[0], 1, at4[1], 1)}, bad: forged},
		"extension":       {f: forgery{version: 2, hash: 20, names: clean, extensions: []byte("link\x00\x00\xff\xff")}, bad: forged},
	} {
		t.Run(name, func(t *testing.T) {
			data, _ := test.f.bytes()
			hash := test.hash
			if hash == 0 {
				hash = 20
			}
			if facts := readBytes(t, data[:len(data)-test.cut], hash, nil); facts.bad != test.bad {
				t.Errorf("wrong is %q, not %q", facts.bad, test.bad)
			}
		})
	}
}

// TestForgedIndexIsTakenBack has commands forge an index with which git would write
// a hook: without the look it does.
func TestForgedIndexIsTakenBack(t *testing.T) {
	for name, test := range map[string]struct {
		init    []string
		hash    int
		version uint32
		shared  bool   // it is the shared index that is forged
		at      string // where it is, if not in .git
		link    bool
	}{
		"2":        {hash: 20, version: 2},
		"4":        {hash: 20, version: 4},
		"sha256":   {init: []string{"--object-format=sha256"}, hash: 32, version: 2},
		"shared":   {hash: 20, version: 2, shared: true},
		"link":     {hash: 20, version: 2, link: true},
		"new":      {hash: 20, version: 2, at: "sub/new"},
		"new, 256": {init: []string{"--object-format=sha256"}, hash: 32, version: 2, at: "sub/new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRepository(t)
			keeper, err := new(Keepers).Join(g.dir, Member{})
			if err != nil {
				t.Fatal(err)
			}
			defer keeper.Leave()
			keeper.Begin(Writer{}).End()
			for _, checked := range []bool{false, true} {
				if test.at == "" && len(test.init) > 0 {
					g.git("", "config", "core.repositoryFormatVersion", "1")
					g.git("", "config", "extensions.objectFormat", "sha256")
				}
				mark := keeper.Begin(Writer{})
				dir := filepath.Join(g.dir, test.at)
				if test.at != "" {
					g.git("", append([]string{"init", "-q", test.at}, test.init...)...)
				}
				r := &gitRepository{t, dir}
				blob, _ := hex.DecodeString(strings.TrimSpace(r.git("#!/bin/sh\necho evil\n", "hash-object", "-w", "--stdin")))
				r.forge(forgery{version: test.version, hash: test.hash, names: []string{hook}, blob: blob}, test.shared, test.link)
				found := ""
				if checked {
					found = strings.Join(mark.End(), "; ")
				}
				r.try("", "restore", ".")
				_, err := os.Stat(filepath.Join(dir, hook))
				switch {
				case !checked && err != nil:
					t.Fatal("git writes no hook by itself: this is no attack")
				case checked && err == nil:
					t.Errorf("git has written the hook; found %q", found)
				case checked && (!strings.Contains(found, "git reset makes it anew") || !test.link && !strings.Contains(found, hook)):
					t.Errorf("found %q", found)
				}
				os.Remove(filepath.Join(dir, hook))
				if !checked {
					os.Remove(filepath.Join(dir, ".git/index"))
					if test.at != "" {
						os.RemoveAll(filepath.Join(g.dir, "sub"))
					}
					mark.Drop()
				}
			}
		})
	}
}

// forge writes an index.
func (g *gitRepository) forge(f forgery, shared, link bool) {
	g.t.Helper()
	name := "index"
	data, _ := f.bytes()
	if shared {
		copy(data[len(data)-f.hash:], bytes.Repeat([]byte{0xab}, f.hash))
		name = sharedIndex + strings.Repeat("ab", f.hash)
	}
	if link {
		name = "other"
		os.Remove(filepath.Join(g.dir, ".git/index"))
		if err := os.Symlink("other", filepath.Join(g.dir, ".git/index")); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(g.dir, ".git", name), data, 0o600); err != nil {
		g.t.Fatal(err)
	}
	if shared {
		content := append(bytes.Repeat([]byte{0xab}, f.hash), make([]byte, 2*(4+4+4))...)
		f.names, f.extensions = nil, append(append([]byte("link"), binary.BigEndian.AppendUint32(nil, uint32(len(content)))...), content...)
		g.forge(f, false, false)
	}
}

// TestIndexIsReadOnce has an index that does not change not read again, and one of a
// person stay as it is.
func TestIndexIsReadOnce(t *testing.T) {
	g := newRepository(t)
	g.forge(forgery{version: 2, hash: 20, names: []string{hook}}, false, false)
	k, err := new(Keepers).Join(g.dir, Member{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Leave()
	read := func() item {
		if found := k.Begin(Writer{}).End(); len(found) > 0 {
			t.Fatalf("found %q", found)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.seen[ref{k.tree, ".git/index"}]
	}
	before := read()
	for before.young {
		before = read()
	}
	if now := read(); &now.Data[0] != &before.Data[0] {
		t.Error("an index that has not changed was read again")
	}
	if err := os.Chmod(filepath.Join(g.dir, ".git/index"), 0o644); err != nil {
		t.Fatal(err)
	}
	if now := read(); &now.Data[0] == &before.Data[0] {
		t.Error("an index that has changed was not read")
	}
}

func FuzzIndex(f *testing.F) {
	for _, version := range []uint32{2, 3, 4} {
		data, at := forgery{version: version, hash: 20, names: []string{"a", "b/c", hook}}.bytes()
		f.Add(data)
		data, _ = forgery{version: version, hash: 20, names: []string{"a", "b/c"}, extensions: threads(at[2], at[0], 1, at[1], 1)}.bytes()
		f.Add(data)
		data, _ = forgery{version: version, hash: 32, names: []string{"a"}, extensions: append([]byte("link\x00\x00\x00\x20"), make([]byte, 32)...)}.bytes()
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, hash := range []int64{20, 32} {
			var away bool
			facts := readBytes(t, data, hash, func(name []byte) { away = away || leadsAway(name, 0) })
			if away && facts.bad == "" {
				t.Errorf("an entry leads away, and nothing is wrong")
			}
		}
	})
}
