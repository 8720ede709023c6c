// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// neverUploaded is why an entry is left out of every upload.
type neverUploaded string

func (a neverUploaded) Error() string { return string(a) }

// config makes the configuration of a repository that has none, with the keys of
// the one that arrived that have git run nothing.
func (a *arrival) config(at string, size int64, content io.Reader, old workspace.Info) error {
	switch {
	case old.Exists():
		return neverUploaded("the repository has a configuration already, which stays: change it with git config")
	case size > integrity.MaxConfig:
		return neverUploaded(fmt.Sprintf("it has more than %d bytes: the repository has no configuration", integrity.MaxConfig))
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	config, dropped := integrity.SafeConfig(data)
	if len(config) == 0 {
		return neverUploaded("git would not read it, or it has no key that is taken: the repository has no configuration")
	}
	a.MakesConfig = true
	err = a.May(tools.WritesPath, at)
	a.MakesConfig = false
	if err != nil {
		return err
	}
	if err := a.tree.Write(at, strings.NewReader(string(config)), 0o644, old); err != nil {
		return err
	}
	a.summary.Files++
	a.summary.FileBytes += uint64(len(config))
	if a.configs == nil {
		a.configs = make(map[string][]byte)
	}
	if len(a.configs) < maxConfigs {
		a.configs[at] = config
	}
	if len(dropped) == 0 {
		return nil
	}
	const shown = 8
	names := strings.Join(dropped[:min(len(dropped), shown)], ", ")
	if more := len(dropped) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return neverUploaded("it was taken without " + names + ": only keys that git needs to read the repository or to name who commits, and that run nothing, come along")
}

// maxConfigs is how many configurations of an archive are remembered, for the indexes
// that come after them.
const maxConfigs = 100

// index takes the index of a repository whose configuration is there, so that it is known
// how git will read it, if nothing in it leads elsewhere. Without it git takes all files
// for removed.
func (a *arrival) index(at string, size int64, content io.Reader, old workspace.Info) error {
	if size > integrity.MaxIndex {
		return badIndex(fmt.Sprintf("it has more than %d bytes", integrity.MaxIndex))
	}
	if old.Exists() && !old.Mode.IsRegular() {
		return badIndex("there is no file in its place")
	}
	beside := path.Join(path.Dir(at), "config")
	config, known := a.configs[beside]
	if !known {
		there, err := a.Session.Workspace.ReadFile(beside, integrity.MaxConfig)
		if err != nil {
			return badIndex("no configuration of its repository came before it")
		}
		config = there.Data
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if bad := integrity.JudgeIndex(data, config); bad != "" {
		return badIndex(bad)
	}
	a.JudgedIndex = true
	err = a.May(tools.WritesPath, at)
	a.JudgedIndex = false
	if err != nil {
		return err
	}
	if err := a.tree.Write(at, bytes.NewReader(data), 0o644, old); err != nil {
		return err
	}
	a.summary.Files++
	a.summary.FileBytes += uint64(len(data))
	return nil
}

func badIndex(why string) error { return neverUploaded(why + `: "git reset" makes it again`) }

// neverTaken says why a protected entry is left out, and what to do instead.
func neverTaken(at string, why error) error {
	if _, final := errors.AsType[neverUploaded](why); final {
		return why
	}
	if path.Base(at) == ".git" {
		return neverUploaded(`it leads to a repository elsewhere, as in a submodule or a worktree: send a clone instead, or "git submodule update --init" makes it again`)
	}
	_, inside, found := strings.Cut("/"+at, "/.git/")
	if !found {
		if strings.Contains("/"+at, "/node_modules/") {
			return neverUploaded(`programs there are run later: "npm ci" installs them`)
		}
		return neverUploaded("it is protected: other programs run what is there")
	}
	if policy.IsRepositoryConfig(at) || policy.IsRepositoryIndex(at) {
		return why
	}
	switch top, _, _ := strings.Cut(inside, "/"); {
	case top == "hooks":
		return neverUploaded("git would run it")
	case top == "index":
		return neverUploaded(`git writes files at whatever paths it has: "git reset" makes it again`)
	case top == "modules":
		return neverUploaded(`it is of the repository of a submodule: "git submodule update --init" makes it again`)
	case top == "worktrees":
		return neverUploaded("it is of another worktree")
	case top == "reftable":
		return neverUploaded(`references are taken as files alone: "git refs migrate --ref-format=files" makes them before`)
	case strings.HasPrefix(inside, "objects/info/alternates"):
		return neverUploaded(`it leads to the objects of another repository: "git repack -a -d" brings them into this one before`)
	}
	return neverUploaded("git makes it by itself, or reads it to run something: only HEAD, refs, objects and logs are taken")
}
