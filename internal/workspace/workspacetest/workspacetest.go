// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspacetest helps to test what becomes of files.
package workspacetest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Tree returns everything in a directory: what it is, its mode, and its
// content.
func Tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Same reports how two trees differ.
func Same(got, want map[string]string) error {
	var differences []string
	for path, text := range want {
		if got[path] != text {
			differences = append(differences, fmt.Sprintf("%s is %.60q, want %.60q", path, got[path], text))
		}
	}
	for path, text := range got {
		if _, ok := want[path]; !ok {
			differences = append(differences, fmt.Sprintf("%s is %.60q, want nothing", path, text))
		}
	}
	if len(differences) > 0 {
		return errors.New(strings.Join(differences, "\n"))
	}
	return nil
}

// Killings is how often a process is killed to see what it leaves.
func Killings() int { return soaktest.Times(2, 50) }

// KillAmid runs a test in a process of its own, which is killed when it has
// written so many lines.
func KillAmid(t *testing.T, test string, lines int, env ...string) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run", test)
	command.Env = append(os.Environ(), env...)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	written := bufio.NewScanner(out)
	for ; lines > 0 && written.Scan(); lines-- {
	}
	if lines > 0 {
		t.Errorf("it ended %d lines before it was to be killed: %s", lines, written.Text())
	}
	if err := command.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = command.Wait()
}

// Temporaries returns how many files of a tree are being written.
func Temporaries(tree map[string]string) (n int) {
	for path := range tree {
		if workspace.IsTemporary(path) {
			n++
		}
	}
	return n
}
