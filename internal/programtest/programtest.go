// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package programtest builds the programs that tests start.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Directory names a variable: of a directory with programs that are built already.
// build/test sets it, or a dozen packages would each link the same programs.
const Directory = "PROGRAMTEST_DIRECTORY"

// Build returns the path of the program of a package, which is named as in
// cmd/toolserver. Unless it is built already, it is built into a directory, without
// the race detector and without cgo, as the one that people run.
func Build(directory, name string) (program string, err error) {
	if built := os.Getenv(Directory); built != "" {
		program = filepath.Join(built, path.Base(name))
		if _, err := os.Stat(program); err == nil {
			return program, nil
		}
	}
	program = filepath.Join(directory, path.Base(name))
	cmd := exec.Command("go", "build", "-o", program, "github.com/toolserver/toolserver/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return program, nil
}

// BuildSyntax is Build of cmd/toolserver-syntax, which is a module of its own and
// needs a C compiler.
func BuildSyntax(directory string) (program string, err error) {
	const name = "toolserver-syntax"
	if built := os.Getenv(Directory); built != "" {
		program = filepath.Join(built, name)
		if _, err := os.Stat(program); err == nil {
			return program, nil
		}
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/toolserver/toolserver").Output()
	if err != nil {
		return "", err
	}
	program = filepath.Join(directory, name)
	var out []byte
	for _, flags := range []string{`-s -w -extldflags "-static"`, "-s -w"} { // as make builds it: with its libraries, where they are to be had
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", flags, "-o", program, ".")
		cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "cmd", name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err = cmd.CombinedOutput(); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("building %s, which needs a C compiler: %w\n%s", name, err, out)
}
