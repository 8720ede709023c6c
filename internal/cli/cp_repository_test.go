// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostileServer: whatever a server sends, in whatever order, nothing comes of it
// that git or husky would run.
func TestHostileServer(t *testing.T) {
	const run = "evil"
	for _, test := range []struct {
		what    string
		entries []string // NAME, NAME/ or NAME -> TARGET
		local   []string // that are there before
		want    string   // what is left of run, by its path
	}{
		{what: "a link that leads nowhere yet", entries: []string{"a -> .git/hooks", "a/pre-commit", "b"}, want: "b"},
		{what: "a link to a link", entries: []string{"b -> a", "a -> .git", "b/hooks/pre-commit", "b/config.worktree"}},
		{what: "a link from below", entries: []string{"d/", "d/e -> ../.git/hooks", "d/e/pre-commit"}},
		{what: "a link to husky", entries: []string{"a -> .husky", "a/pre-commit", "a/_/pre-commit"}},
		{what: "a link that is there", local: []string{"a -> .git/hooks"}, entries: []string{"a/pre-commit", "a/"}},
		{what: "husky by other names", entries: []string{".Husky/pre-commit", "x/.husky/_/h"}},
		{what: "a bare repository", entries: []string{"b/HEAD", "b/config", "b/hooks/x", "b/objects/", "b/refs/"}, want: "b/HEAD b/config b/hooks/x"},
		{what: "the other way around", entries: []string{"b/refs/x", "b/objects/x", "b/hooks/x", "b/config", "b/HEAD"}, want: "b/config b/hooks/x b/objects/x b/refs/x"},
		{what: "at the top", entries: []string{"refs/x", "config", "HEAD", "objects/x"}, want: "HEAD config refs/x"},
		{what: "by links", entries: []string{"b/HEAD", "b/config", "o/x", "b/objects -> ../o", "b/refs -> ../o"}, want: "b/HEAD b/config o/x"},
		{what: "by a link to it", entries: []string{"b/", "l -> b", "l/HEAD", "l/config", "b/objects/", "l/refs/x"}, want: "b/HEAD b/config"},
		{what: "with another's data", entries: []string{"b/config", "b/commondir", "b/HEAD"}, want: "b/commondir b/config"},
		{what: "a part is there", local: []string{"b/HEAD", "b/refs/"}, entries: []string{"b/config", "b/objects/x"}, want: "b/config"},
		{what: "one that is there", local: []string{"b/HEAD", "b/refs/", "b/objects/", "b/config"}, entries: []string{"b/config", "b/hooks/x", "b/info/x", "b/refs/x"}, want: "b/refs/x"},
	} {
		t.Run(test.what, func(t *testing.T) {
			local := t.TempDir()
			for _, entry := range test.local {
				name, target, link := strings.Cut(entry, " -> ")
				at := filepath.Join(local, name)
				dir, err := filepath.Dir(at), error(nil)
				if strings.HasSuffix(name, "/") {
					dir = at
				}
				err = os.MkdirAll(dir, 0o700)
				switch {
				case err != nil || dir == at:
				case link:
					err = os.Symlink(target, at)
				default:
					err = os.WriteFile(at, nil, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var archive bytes.Buffer
			out := tar.NewWriter(&archive)
			for _, entry := range test.entries {
				name, target, link := strings.Cut(entry, " -> ")
				header := &tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(run))}
				switch {
				case link:
					header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, target, 0
				case strings.HasSuffix(name, "/"):
					header.Typeflag, header.Size = tar.TypeDir, 0
				}
				if err := out.WriteHeader(header); err != nil {
					t.Fatal(err)
				}
				if header.Size > 0 {
					out.Write([]byte(run))
				}
			}
			out.Close()
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			c := &copier{stderr: NewStream(null)}
			if err := c.extract(&archive, "from", local); err != nil {
				t.Fatal(err)
			}
			var got []string
			filepath.WalkDir(local, func(at string, d fs.DirEntry, err error) error {
				if data, _ := os.ReadFile(at); err == nil && d.Type().IsRegular() && string(data) == run {
					name, _ := filepath.Rel(local, at)
					got = append(got, filepath.ToSlash(name))
				}
				if err == nil && isGitDirectory(at, "") && len(test.local) < 4 {
					t.Errorf("%s is a repository", at)
				}
				return err
			})
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("there are %q, want %q", got, test.want)
			}
			if len(c.spared.groups) == 0 {
				t.Error("nothing was told")
			}
		})
	}
}
