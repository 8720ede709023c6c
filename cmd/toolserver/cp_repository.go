// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/policy"
)

// runByGit is why an entry of a repository is not fetched.
type runByGit string

func (r runByGit) Error() string { return string(r) }

// repository deals with an entry that git would run, or be led elsewhere by. It is
// left out, but for a configuration where there is none, which is made of the keys
// that run nothing.
func (x *extraction) repository(header *tar.Header, name string, content io.Reader) (handled bool, err error) {
	if x.all {
		return false, nil
	}
	at := path.Join(x.from, name)
	here := filepath.Join(x.leadsTo(path.Dir(name)), path.Base(name))
	if policy.RunByGit(filepath.ToSlash(x.real)) {
		here = filepath.Join(x.real, here)
	}
	here = filepath.ToSlash(here)
	link := header.Typeflag == tar.TypeSymlink && strings.Contains("/"+at+"/"+here+"/", "/.git/")
	if !link && !policy.RunByGit(at) && !policy.RunByGit(here) {
		return false, nil
	}
	switch {
	case header.Typeflag == tar.TypeDir:
		return true, nil // it is made for what comes of it
	case header.Typeflag != tar.TypeReg:
		return true, runByGit("it is a link, or nothing that belongs there")
	case policy.IsRepositoryConfig(at) || policy.IsRepositoryConfig(here):
		return true, x.config(name, header.Size, content)
	}
	return true, runByGit("git may run it, or be led elsewhere by it: --all fetches it")
}

// config makes the configuration of a repository that has none.
func (x *extraction) config(name string, size int64, content io.Reader) error {
	in, err := x.enter(path.Dir(name))
	if err != nil {
		return err
	}
	if _, err := in.Lstat(path.Base(name)); !os.IsNotExist(err) {
		return runByGit("there is one already, which stays")
	}
	if size > integrity.MaxConfig {
		return runByGit(fmt.Sprintf("it has more than %d bytes: --all fetches it", integrity.MaxConfig))
	}
	data, err := io.ReadAll(archived{content})
	if err != nil {
		return err
	}
	config, dropped := integrity.SafeConfig(data)
	if len(config) == 0 {
		return runByGit("it has no key that runs nothing: --all fetches it")
	}
	if err := putFile(in, path.Base(name), 0o644, int64(len(config)), bytes.NewReader(config)); err != nil {
		return err
	}
	if len(dropped) > 0 {
		return runByGit("it was fetched without " + strings.Join(dropped[:min(len(dropped), 8)], ", ") + ": --all fetches all of it")
	}
	return nil
}

// leadsTo returns where a directory below the local one leads, as far as it is there,
// relative to that.
func (x *extraction) leadsTo(dir string) string {
	if x.parent == dir {
		return x.leads
	}
	rest := ""
	for at := dir; at != "."; at = path.Dir(at) {
		if real, err := filepath.EvalSymlinks(filepath.Join(x.real, at)); err == nil {
			if inside, err := filepath.Rel(x.real, real); err == nil {
				x.parent, x.leads = dir, filepath.Join(inside, rest)
				return x.leads
			}
		}
		rest = filepath.Join(path.Base(at), rest)
	}
	x.parent, x.leads = dir, rest
	return rest
}

// spared is what is left out of every copy, in groups.
type spared struct {
	groups []string
	files  map[string]int
	index  bool
	more   uint64 // that the server did not name
}

// spare notes a file that is always left out. What makes a repository useless where it
// arrives is told at once.
func (c *copier) spare(at, why string) {
	s := &c.spared
	group, inside := groupOf(filepath.ToSlash(at))
	if s.files == nil {
		s.files = make(map[string]int)
	}
	if s.files[group] == 0 {
		s.groups = append(s.groups, group)
	}
	s.files[group]++
	s.index = s.index || inside == "index"
	if c.verbose || inside == "" && path.Base(group) == ".git" || inside == "objects/info/alternates" || inside == "reftable/tables.list" {
		c.progress.clear()
		fmt.Fprintf(c.stderr, "toolserver: left out %s: %s\n", visible(at), visible(why))
	}
}

// groupOf returns what a file that is left out is told with, and its path inside the
// repository it is in.
func groupOf(at string) (group, inside string) {
	names := strings.Split(at, "/")
	for i, name := range names {
		switch name {
		case ".git":
			return strings.Join(names[:min(i+2, len(names))], "/"), strings.Join(names[i+1:], "/")
		case "node_modules", ".husky":
			return strings.Join(names[:i+1], "/"), at
		}
	}
	return at, at
}

// tellSpared tells in one line what was left out, as always.
func (c *copier) tellSpared() {
	const most = 8
	s := &c.spared
	if len(s.groups) == 0 || c.verbose {
		return
	}
	var list []string
	for _, group := range s.groups[:min(most, len(s.groups))] {
		text := visible(group)
		if n := s.files[group]; n > 1 {
			text += fmt.Sprintf(" (%d files)", n)
		}
		list = append(list, text)
	}
	line := strings.Join(list, ", ")
	more := s.more
	for _, group := range s.groups[len(list):] {
		more += uint64(s.files[group])
	}
	if more > 0 {
		line += fmt.Sprintf(" and %s", counted(more, "more file", "more files"))
	}
	reset := ""
	if s.index {
		reset = `; "git reset" makes the index`
	}
	fmt.Fprintf(c.stderr, "toolserver: left out, as always, what git or others would run or make themselves: %s%s (-v names each, with the reason)\n", line, reset)
}

// counted returns a number with the word for one or for several.
func counted[N int | uint64](n N, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
