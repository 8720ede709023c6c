// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// FuzzUploadTree has archives of any bytes taken apart: nothing is written outside
// of the workspace, nothing is left half-written, and no answer is an internal error.
func FuzzUploadTree(f *testing.F) {
	whole := archive(file("a", "a"), dir("d"), symlink("d/l", "../a"), file("d/l", "b"), file(strings.Repeat("n", 200), "n"))
	f.Add(whole)
	f.Add(whole[:700])
	f.Add(archive(file("../x", "x"), file("/x", "x"), symlink("up", ".."), file("up/x", "x")))
	f.Add([]byte("not an archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := serveFiles(t)
		top := filepath.Join(c.server.workspace, "top")
		os.Mkdir(top, 0o700)
		_, err := c.untar(&pb.UploadTreeHeader{Path: "top"}, data)
		if code := status.Code(err); code == codes.Internal || code == codes.Unknown {
			t.Errorf("%v", err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(c.server.workspace)); len(entries) > 3 { // of t.TempDir
			t.Errorf("outside of the workspace: %v", entries)
		}
		filepath.WalkDir(c.server.workspace, func(path string, e os.DirEntry, _ error) error {
			if strings.Contains(path, ".toolserver-tmp-") {
				t.Errorf("%q is left", path)
			}
			if e != nil && e.Type()&os.ModeSymlink != 0 {
				if to, err := filepath.EvalSymlinks(path); err == nil && !strings.HasPrefix(to, c.server.workspace) {
					t.Errorf("%q leads to %q", path, to)
				}
			}
			return nil
		})
	})
}
