// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/integrity"
)

// TestGitlinks has commands plant in repositories that no walk finds at once, or at all,
// and an index lead git into them.
func TestGitlinks(t *testing.T) {
	deep := strings.Repeat("d/", 230)
	far := strings.Repeat("d/", 100)
	const link = `link() { git -C "$1" update-index --add --cacheinfo "160000,$(git rev-parse HEAD),$2"; }; `
	plant := func(at string) string {
		return link + `git init -q "` + at + `" && echo evil >"` + at + `/.git/hooks/pre-push" && git -C "` + at + `" config core.fsmonitor evil; `
	}
	gone := func(at string) string {
		return `test -d "` + at + `/.git" && ! grep -rqs evil "` + at + `/.git/config" "` + at + `/.git/hooks"`
	}
	const like = `mkdir -p x/objects/aa x/refs; cp .git/HEAD x; `
	for name, test := range map[string]struct {
		begin   string
		command string
		at      string
		late    bool // a sweep finds it
	}{
		"deep":           {command: plant(deep) + `link . ` + deep[:len(deep)-1], at: deep},
		"in another":     {command: like + plant("x/objects/aa/r") + `link . x/objects/aa/r`, at: "x/objects/aa/r"},
		"of a submodule": {command: plant(deep) + `git init -q sub/m && link . sub/m; mkdir -p ` + far + ` && mv d sub/m/; link sub/m ` + deep[:len(deep)-1], at: "sub/m/" + deep},
		"of a work tree": {begin: `git config core.worktree ../sub`, command: plant("sub/"+deep) + `link .git ` + deep[:len(deep)-1], at: "sub/" + deep},
		"shared":         {command: plant(deep) + `link . ` + deep[:len(deep)-1] + `; git update-index --split-index`, at: deep},
		"shared, a file": { // the shared index has the name, and the other what it is
			begin:   `git update-index --add --cacheinfo "100644,$(git rev-parse HEAD:f),` + deep[:len(deep)-1] + `"; git update-index --split-index; git config splitIndex.maxPercentChange 100`,
			command: plant(deep) + `link . ` + deep[:len(deep)-1] + ` && git ls-files -s d | grep -q 160000 && ! grep -q d/d/d .git/index`, at: deep,
		},
		"known before": {begin: link + `link . ` + deep[:len(deep)-1], command: plant(deep), at: deep},
		"no link":      {begin: like, command: plant("x/objects/aa/r"), at: "x/objects/aa/r", late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, repository)
			if test.begin != "" {
				k.must(test.begin)
			}
			k.run("touch t", integrity.Writer{})
			got := k.run(test.command, integrity.Writer{})
			if test.late {
				k.keeper.Sweep(context.Background())
				got += k.run("touch t", integrity.Writer{})
			}
			if !strings.Contains(got, "core.fsmonitor = evil would run") || !strings.Contains(got, " was made, and removed") {
				t.Errorf("found %q", got)
			}
			if err := k.bash(gone(test.at)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGitlinksOfPersons proves that what a person has in a repository that only an index
// leads to is theirs.
func TestGitlinksOfPersons(t *testing.T) {
	deep := strings.Repeat("d/", 230) + "r"
	mine := `git init -q ` + deep + ` && git -C ` + deep + ` config core.pager less && echo mine >` + deep + `/.git/hooks/pre-push &&
		git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),` + deep + `"`
	for name, later := range map[string]bool{"at first": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, repository)
			if !later {
				k.must(mine)
			}
			k.run("touch t", integrity.Writer{})
			if later {
				time.Sleep(100 * time.Millisecond) // the clock of the file system must move on
				k.must(mine)
				time.Sleep(100 * time.Millisecond)
			}
			for range 2 {
				if got := k.run("touch t "+deep+"/t", integrity.Writer{}); strings.Contains(got, " was ") {
					t.Error(got)
				}
				k.must(`test $(cat ` + deep + `/.git/hooks/pre-push) = mine -a $(git -C ` + deep + ` config core.pager) = less`)
			}
			if got := k.run("echo evil >"+deep+"/.git/hooks/pre-push", integrity.Writer{}); !strings.Contains(got, " was changed, and put back") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestUnseen proves that it is told, once, where nobody has looked.
func TestUnseen(t *testing.T) {
	const reported = "Not searched for repositories: d/d/"
	deep := strings.Repeat("d/", 230)
	t.Run("at first", func(t *testing.T) {
		t.Parallel()
		k := newKit(t, "mkdir -p "+deep)
		if got := k.run("touch t", integrity.Writer{}); !strings.Contains(got, reported) {
			t.Errorf("%q", got)
		}
		k.keeper.Sweep(context.Background())
		if got := k.run("touch t", integrity.Writer{}); got != "" {
			t.Errorf("again: %q", got)
		}
	})
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		k := newKit(t, repository)
		k.run("touch t", integrity.Writer{})
		for range 2 { // when it was seen to be gone, it is told again
			got := k.run("mkdir -p "+deep, integrity.Writer{})
			k.keeper.Sweep(context.Background())
			got += k.run("touch t", integrity.Writer{})
			if strings.Count(got, reported) != 1 || strings.Contains(got, "earlier call") {
				t.Errorf("%q", got)
			}
			if text := integrity.Text([]string{got}); strings.Contains(text, "Taken back") {
				t.Errorf("%q", text)
			}
			k.run("rm -r d", integrity.Writer{})
			k.keeper.Sweep(context.Background())
		}
	})
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		k := newKit(t, repository)
		k.run("touch t", integrity.Writer{})
		name := strings.Repeat("d/", 2047) + "d"
		for _, want := range []int{1, 0} {
			got := k.run(`git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),`+name+`"; touch t`, integrity.Writer{})
			if strings.Count(got, "its path is too long") != want {
				t.Errorf("%q", got)
			}
		}
	})
}
