// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// root returns the directory of the module.
func root(t testing.TB) string {
	t.Helper()
	directory, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(directory, "go.mod")); missing == nil {
			return directory
		}
		if directory == filepath.Dir(directory) {
			break
		}
		directory = filepath.Dir(directory)
	}
	t.Fatal("the test is not in the module: ", err)
	return ""
}

// Python makes the package in sdk/python, with the code that is generated for it, as
// its README tells. It returns a Python that has gRPC, and where the package is. The test
// fails where Python has no gRPC.
func Python(t testing.TB) (python, path string) {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // Debian's packages are for the second
		if exec.Command(name, "-c", "import grpc, google.protobuf").Run() == nil {
			python = name
		}
	}
	plugin, err := exec.LookPath("grpc_python_plugin")
	if python == "" || err != nil {
		t.Fatal("Python has no gRPC here: make python installs it")
	}
	top, path := root(t), t.TempDir()
	copyTree(t, filepath.Join(top, "sdk/python/toolserver"), filepath.Join(path, "toolserver"), "v1")
	files, err := filepath.Glob(filepath.Join(top, "proto/toolserver/v1/*.proto"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, top, "protoc", append([]string{
		"-I", filepath.Join(top, "proto"), "--python_out", path, "--pyi_out", path, "--grpc_out", path, "--plugin=protoc-gen-grpc=" + plugin,
	}, files...)...)
	return python, path
}

// TypeScript makes the package in sdk/typescript, with the code that is generated for
// it, as its README tells, and checks its types. It returns where the package is. The
// test fails where the packages that it needs are not installed.
func TypeScript(t testing.TB) string {
	t.Helper()
	top := root(t)
	packages := filepath.Join(top, ".bin/typescript/node_modules")
	if _, err := os.Stat(filepath.Join(packages, ".bin/tsc")); err != nil {
		t.Fatal("packages for TypeScript are missing: make typescript installs them, with npm")
	}
	directory := t.TempDir()
	copyTree(t, filepath.Join(top, "sdk/typescript"), directory, "node_modules", "dist", "gen")
	if err := os.Symlink(packages, filepath.Join(directory, "node_modules")); err != nil {
		t.Fatal(err)
	}
	run(t, directory, filepath.Join(top, ".bin/buf"), "generate", "--template", "buf.gen.yaml", filepath.Join(top, "proto"))
	run(t, directory, "node_modules/.bin/tsc")
	return directory
}

func run(t testing.TB, directory, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = directory
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// copyTree copies the files of a directory, but nothing that has one of the names.
func copyTree(t testing.TB, from, to string, without ...string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		switch {
		case slices.Contains(without, entry.Name()):
		case entry.IsDir():
			copyTree(t, source, target, without...)
		default:
			text, err := os.ReadFile(source)
			if err == nil {
				err = os.WriteFile(target, text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
