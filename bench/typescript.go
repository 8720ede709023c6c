// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

// typescriptFiles is how many files the tree has at least.
const typescriptFiles = 5000

// typescriptTree returns a directory with the sources of published packages in TypeScript,
// of which nothing is changed; errMissing where they are not there.
func typescriptTree(ctx context.Context) (string, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(strings.TrimSpace(string(module)), ".bin/sources"))
	if err != nil {
		return "", fmt.Errorf("%w: make sources fetches them where there is npm: %w", errMissing, err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); ext == ".ts" || ext == ".tsx" {
			files++
		}
		return err
	})
	if err == nil && files < typescriptFiles {
		err = fmt.Errorf("%w: make sources: %s has %d files of TypeScript", errMissing, dir, files)
	}
	return dir, err
}
