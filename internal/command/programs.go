// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// DefaultPath are the directories of a system's programs.
var DefaultPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Programs are where commands find programs, and what these need.
type Programs struct {
	// Path are the directories of PATH, in order.
	Path []string

	// Trees are what commands have to read for them, beside [ProgramsConfig.Covered].
	Trees []string

	// Env is what has programs find their own files although the home directory
	// is another.
	Env []string

	// Refused are the directories that were inherited and not taken.
	Refused []RefusedDir
}

// A RefusedDir is a directory that is not searched for programs, and why.
type RefusedDir struct{ Dir, Why string }

// ProgramsConfig says where programs may be.
type ProgramsConfig struct {
	// Operator are directories that an operator has chosen. They come first, and
	// nobody doubts them.
	Operator []string

	// Inherited is the PATH of the server, and Home the home directory of its
	// user, RustupHome its RUSTUP_HOME.
	Inherited, Home, RustupHome string

	// Covered are trees that commands read anyway.
	Covered []string

	// Apart are directories of the server and of sessions: no tree of programs
	// lies in one of them or has one below.
	Apart []string
}

// FindPrograms returns where commands find programs: in the operator's
// directories, then in those that the server has inherited and that nobody but
// root and its own user can write, in their order, then in those of the system.
func FindPrograms(c ProgramsConfig) Programs {
	var p Programs
	trees := &trees{home: resolved(c.Home), covered: resolvedAll(c.Covered), apart: resolvedAll(c.Apart)}
	seen := make(map[string]bool)
	take := func(name, real string) {
		if seen[real] {
			return
		}
		seen[real] = true
		p.Path = append(p.Path, name)
		trees.addPath(real)
		if env := trees.addRustup(real, c.RustupHome); env != "" && !slices.Contains(p.Env, env) {
			p.Env = append(p.Env, env)
		}
	}
	for _, dir := range c.Operator {
		take(dir, resolved(dir))
	}
	for _, dir := range filepath.SplitList(c.Inherited) {
		if seen[resolved(dir)] {
			continue
		}
		real, err := nobodyElses(dir)
		if err == nil && slices.ContainsFunc(trees.apart, func(top string) bool { return isBelow(real, top) }) {
			err = errors.New("commands of sessions can write there")
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			if r := (RefusedDir{dir, err.Error()}); !slices.Contains(p.Refused, r) {
				p.Refused = append(p.Refused, r)
			}
		default:
			take(real, real)
		}
	}
	for _, dir := range DefaultPath {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			take(dir, real)
		}
	}
	trees.addSettings()
	p.Trees = trees.list
	return p
}

// nobodyElses returns a directory with links resolved, if root and the user of
// this process are the only ones who can change what is found in it: each
// directory on the way belongs to one of them, and others can write to it only
// where the sticky bit keeps them from replacing what is not theirs.
func nobodyElses(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", errors.New("it is no absolute path, so it depends on where a command runs")
	}
	at, todo := "/", filepath.Clean(name)
	for links := 0; ; {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			return "", fmt.Errorf("%s belongs to another user", at)
		}
		switch mode := info.Mode(); {
		case mode&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if links++; err != nil || links > 40 {
				return "", errors.Join(err, fmt.Errorf("%s has too many links", name))
			}
			if todo = filepath.Join(target, todo); !filepath.IsAbs(target) {
				todo = filepath.Join(filepath.Dir(at), todo)
			}
			at = "/"
		case !mode.IsDir():
			return "", fmt.Errorf("%s is no directory", at)
		case mode.Perm()&0o022 != 0 && !(mode&fs.ModeSticky != 0 && owner.Uid == 0):
			return "", fmt.Errorf("others can write to %s", at)
		}
		var part string
		part, todo, _ = strings.Cut(strings.TrimPrefix(todo, "/"), "/")
		if part == "" {
			return at, nil
		}
		at = filepath.Join(at, part)
	}
}

// trees collects what has to be read for programs to work.
type trees struct {
	home           string
	covered, apart []string
	list           []string
}

// programDirs are the names of directories that programs are put into.
var programDirs = []string{"bin", "sbin", "shims"}

// addPath adds what the programs of a directory need: the directory, the
// installation it is part of, and where links in it lead.
func (t *trees) addPath(dir string) {
	if t.has(dir) {
		return
	}
	t.add(dir)
	t.addInstallation(dir)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if target, err := filepath.EvalSymlinks(filepath.Join(dir, entry.Name())); err == nil && !t.has(target) {
			t.addTarget(target)
		}
	}
}

// addTarget adds a program that a link leads to: as part of its installation
// where it lies in one, with the packages around it where it is a script of one,
// and otherwise alone, for what else is beside it nobody knows.
func (t *trees) addTarget(file string) {
	const packages = "/node_modules/"
	dir := filepath.Dir(file)
	if i := strings.Index(file, packages); i >= 0 {
		t.add(file[:i+len(packages)-1])
	} else if slices.Contains(programDirs, filepath.Base(dir)) {
		t.add(dir)
		t.addInstallation(dir)
	}
	t.add(file)
}

// installed are names that show that a directory is what programs were
// installed into, rather than one in which a person keeps this and that.
var installed = []string{"lib", "lib64", "libexec", "versions", "pyvenv.cfg"}

// personal are names of directories, and places below a home, in which programs
// lie beside credentials or work.
var personal = []string{".local", ".cargo", "go", ".docker", ".config", ".kube", ".ssh", ".aws", ".gnupg", ".claude"}

// secrets are names that a directory of credentials has in it.
var secrets = []string{
	".ssh", ".aws", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".env",
	"credentials", "credentials.toml", "credentials.json", "auth.json", "id_rsa", "id_ed25519",
}

// addInstallation adds the parent of a directory that is named as those of
// programs are, if it is an installation: a program in bin looks for its
// libraries in ../lib, one in shims for its versions in ../versions.
func (t *trees) addInstallation(dir string) {
	if !slices.Contains(programDirs, filepath.Base(dir)) {
		return
	}
	parent := filepath.Dir(dir)
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(parent, name))
		return err == nil
	}
	if filepath.Dir(parent) == t.home && slices.Contains(personal, filepath.Base(parent)) ||
		!slices.ContainsFunc(installed, has) || slices.ContainsFunc(secrets, has) {
		return
	}
	t.add(parent)
}

// settings are what programs of a system read of /etc as a part of themselves.
var settings = []string{"/etc/maven", "/etc/java-*-openjdk", "/etc/python3*"}

// addSettings adds those that every user of the machine may read.
func (t *trees) addSettings() {
	for _, pattern := range settings {
		found, _ := filepath.Glob(pattern)
		for _, dir := range found {
			open := true
			filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
				if err == nil && entry.Type()&fs.ModeSymlink == 0 {
					info, err := entry.Info()
					open = open && err == nil && info.Mode().Perm()&0o004 != 0
				}
				return nil
			})
			if open {
				t.add(dir)
			}
		}
	}
}

// addRustup adds the toolchains that the programs of rustup choose from, with
// what it keeps of them, and returns the variable by which they are found: it
// makes update-hashes before it starts anything, unless it sees that it is there.
// Of what cargo keeps in the home directory nothing is added: there are the
// tokens of its registries.
func (t *trees) addRustup(dir, rustup string) string {
	if _, err := os.Stat(filepath.Join(dir, "rustup")); err != nil {
		return ""
	}
	if rustup == "" {
		rustup = filepath.Join(t.home, ".rustup")
	}
	toolchains, err := filepath.EvalSymlinks(filepath.Join(rustup, "toolchains"))
	if err != nil {
		return ""
	}
	t.add(toolchains)
	for _, name := range []string{"settings.toml", "update-hashes"} {
		t.add(filepath.Join(resolved(rustup), name))
	}
	return "RUSTUP_HOME=" + rustup
}

// has reports whether a path is read anyway.
func (t *trees) has(path string) bool {
	return slices.ContainsFunc(slices.Concat(t.covered, t.list), func(top string) bool { return isBelow(path, top) })
}

// add adds a tree, unless it is one that no command may read: it holds homes,
// what is the server's or a session's, or it lies in such a place.
func (t *trees) add(tree string) {
	switch {
	case t.has(tree), tree == "/", filepath.Dir(tree) == "/home", tree == "/home", t.home != "" && isBelow(t.home, tree):
		return
	case slices.ContainsFunc(t.apart, func(dir string) bool { return isBelow(dir, tree) || isBelow(tree, dir) }):
		return
	}
	t.list = slices.DeleteFunc(t.list, func(old string) bool { return isBelow(old, tree) })
	t.list = append(t.list, tree)
}

// isBelow reports whether a path is top or lies below it; both are clean and
// absolute.
func isBelow(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, "/")+"/")
}

// resolved returns a path as an absolute one with links resolved, as far as it can.
func resolved(path string) string {
	if path == "" {
		return ""
	}
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func resolvedAll(paths []string) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = resolved(path)
	}
	return all
}
