// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// newTemplate makes the workspace that every script begins with: a repository
// with one commit of the files of testdata/workspace.txtar.
func newTemplate(t *testing.T) string {
	t.Helper()
	text, err := testdata.ReadFile("testdata/workspace.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range txtar.Parse(text).Files {
		path := filepath.Join(dir, file.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(path, file.Data, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", "-e", "-c", `
		git init -q -b main --template= .
		git config user.name Dev
		git config user.email dev@example.com
		git add -A
		git commit -q -m 'first: the project as it came'`)
	cmd.Dir, cmd.Env = dir, setupEnviron()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// setupEnviron is the environment of those who set up workspaces.
func setupEnviron() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	}
}

// A tree is what is below a directory: what each path is, and what it holds.
type tree map[string]string

// A snapshooter reads trees again and again. It knows what is in files that did
// not change.
type snapshooter map[fileState]string

type fileState struct {
	inode, size, changed int64
}

// sum returns what stands for the content of a file.
func (s snapshooter) sum(path string, info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	state := fileState{int64(st.Ino), st.Size, st.Ctim.Nano()}
	if sum, ok := s[state]; ok {
		return sum
	}
	data, err := os.ReadFile(path)
	sum := fmt.Sprintf("%x %v", sha256.Sum256(data), err)
	if time.Now().UnixNano()-state.changed > int64(time.Second) { // else another change may have the same time
		s[state] = sum
	}
	return sum
}

// tree reads a directory.
func (s snapshooter) tree(t *testing.T, root string) tree {
	t.Helper()
	all := make(tree)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if os.IsNotExist(err) || name == "." {
			return nil // gone meanwhile: a process of a case still works
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			what += " " + target
		case info.Mode().IsRegular():
			what += " " + s.sum(path, info)
		}
		all[name] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// diff names what differs, or some of it; "" if nothing does.
func (a tree) diff(b tree) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[name]; !ok {
			names = append(names, name+" (gone)")
		} else if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			names = append(names, name+" (new)")
		}
	}
	if len(names) > 6 {
		names = append(names[:6], fmt.Sprintf("and %d more", len(names)-6))
	}
	return strings.Join(names, ", ")
}

// freePorts returns ports of loopback that nobody uses now.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports
}
