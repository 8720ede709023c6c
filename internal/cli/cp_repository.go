// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

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
type runByGit struct {
	why   string
	group string // what it is told with; "" where its path says so
}

func (r runByGit) Error() string { return r.why }

func notFetched(why string) error { return runByGit{why: why} }

// repository deals with an entry that git would run, or be led elsewhere by. It is
// left out, but for a configuration where there is none, which is made of the keys
// that run nothing.
func (x *extraction) repository(header *tar.Header, name string, content io.Reader) (handled bool, err error) {
	if x.all {
		return false, nil
	}
	at := path.Join(x.from, name)
	x.locate(path.Dir(name))
	lies := path.Join(x.leads, path.Base(name))
	if header.Typeflag == tar.TypeDir {
		lies = x.leadsTo(name) // a link in its place is followed
	}
	here := lies
	if policy.RunByGit(filepath.ToSlash(x.real)) {
		here = path.Join(filepath.ToSlash(x.real), lies)
	}
	known := strings.Contains("/"+at+"/"+here+"/", "/.git/")
	config := policy.IsRepositoryConfig(at) || policy.IsRepositoryConfig(here)
	runs := policy.RunByGit(at) || policy.RunByGit(here)
	if x.bare != "" && !runs {
		inside, err := filepath.Rel(x.bare, filepath.Join(x.real, lies))
		if err != nil {
			return true, err
		}
		inside = filepath.ToSlash(inside)
		known, config, runs = true, inside == "config", policy.RunByGit(path.Join(".git", inside))
	}
	switch {
	case !known && !runs:
		return x.completes(header, lies)
	case !runs && header.Typeflag != tar.TypeSymlink:
		return false, nil
	case header.Typeflag == tar.TypeDir:
		return true, nil // it is made for what comes of it
	case header.Typeflag != tar.TypeReg:
		return true, notFetched("it is a link, or nothing that belongs there")
	case config:
		return true, x.config(name, header.Size, content)
	}
	return true, notFetched("git may run it, or be led elsewhere by it: --all fetches it")
}

// completes leaves an entry out that would make a repository of a directory with another
// name than .git, of which git would run what the configuration says.
func (x *extraction) completes(header *tar.Header, here string) (bool, error) {
	for at := here; at != "." && at != "/"; at = path.Dir(at) {
		switch strings.ToLower(path.Base(at)) {
		case "head", "objects", "refs", "commondir":
		default:
			continue
		}
		dir := filepath.Join(x.real, path.Dir(at))
		if isGitDirectory(dir, "") || !isGitDirectory(dir, path.Base(at)) {
			continue
		}
		if header.Typeflag == tar.TypeDir && at != here {
			return true, nil // what it is in is told
		}
		return true, runByGit{"with it git would take the directory for a repository, and run what its configuration says: --all fetches it",
			filepath.Join(x.local, at)}
	}
	return false, nil
}

// isGitDirectory reports whether git takes a directory for that of a repository, by
// its names and one more.
func isGitDirectory(dir, more string) bool {
	has := func(name string) bool {
		if strings.EqualFold(name, more) {
			return true
		}
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

// config makes the configuration of a repository that has none.
func (x *extraction) config(name string, size int64, content io.Reader) error {
	in, err := x.enter(path.Dir(name))
	if err != nil {
		return err
	}
	if _, err := in.Lstat(path.Base(name)); !os.IsNotExist(err) {
		return notFetched("there is one already, which stays")
	}
	if size > integrity.MaxConfig {
		return notFetched(fmt.Sprintf("it has more than %d bytes: --all fetches it", integrity.MaxConfig))
	}
	data, err := io.ReadAll(archived{content})
	if err != nil {
		return err
	}
	config, dropped := integrity.SafeConfig(data)
	if len(config) == 0 {
		return notFetched("it has no key that runs nothing: --all fetches it")
	}
	if err := putFile(in, path.Base(name), 0o644, int64(len(config)), bytes.NewReader(config)); err != nil {
		return err
	}
	if len(dropped) > 0 {
		return notFetched("it was fetched without " + strings.Join(dropped[:min(len(dropped), 8)], ", ") + ": --all fetches all of it")
	}
	return nil
}

// locate finds where a directory below the local one leads, and whether it lies in that of
// a repository with another name than .git.
func (x *extraction) locate(dir string) {
	if x.parent == dir {
		return
	}
	x.parent, x.leads, x.bare = dir, x.leadsTo(dir), ""
	for at := filepath.Join(x.real, x.leads); ; at = filepath.Dir(at) {
		if isGitDirectory(at, "") {
			x.bare = at
			return
		}
		if at == filepath.Dir(at) {
			return
		}
	}
}

// maxLinks is how many links are followed: more than the system does.
const maxLinks = 255

// leadsTo returns where a path below the local directory leads, relative to that, also
// as far as nothing is there yet: a link that leads nowhere is made to lead somewhere by
// what is put behind it.
func (x *extraction) leadsTo(name string) string {
	at, links := ".", 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		next := path.Join(at, rest[0]) // from ".", ".." is ".." and leads out: nothing is put there
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(x.real, next))
		if err != nil || filepath.IsAbs(target) || links == maxLinks {
			at = next
			continue
		}
		links++
		rest = append(strings.Split(filepath.ToSlash(target), "/"), rest...)
	}
	return at
}

// spared is what is left out of every copy, in groups.
type spared struct {
	groups []string
	files  map[string]int
	index  bool
	more   uint64 // that the server did not name
}

// spare notes a file that is always left out, with a group or with that which its path
// says. What makes a repository useless where it
// arrives is told at once.
func (c *copier) spare(at, group, why string) {
	s := &c.spared
	named, inside := groupOf(filepath.ToSlash(at))
	if group == "" {
		group = named
	}
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
		fmt.Fprintf(c.stderr, "toolserver: left out %s: %s\n", Visible(at), Visible(why))
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
		text := Visible(group)
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
