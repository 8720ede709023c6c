// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// summary is what effects say, sorted: ** for a tree, ! for what was examined, ~ for
// names alone that were, ? for what is unclear.
func summary(effects []tools.Effect) string {
	var list []string
	for _, e := range effects {
		if e.Kind == tools.RunsProgram {
			continue
		}
		text := fmt.Sprint(e.Kind, " ", e.Path)
		if e.Tree {
			text += "/**"
		}
		if e.Examined {
			text += "!"
		}
		if e.NamesExamined {
			text += "~"
		}
		if e.Unclear != "" {
			text += "?"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func linked(t *testing.T, env tools.Env, links map[string]string) {
	t.Helper()
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(env.Workspace.Dir(), name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestResolve(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"dir/f": "", "deep/er/.git/config": "", "plain/g": ""})
	dir := env.Workspace.Dir()
	if err := os.Symlink("dir", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("deep/er", filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	env.Restrictions = toolstest.Restrictions{Protects: func(path string) bool { return filepath.Base(path) == ".git" }}
	tree := func(path string) tools.Effect { return tools.Effect{Kind: tools.WritesPath, Path: path, Tree: true} }
	for _, test := range []struct {
		name string
		give tools.Effect
		want []tools.Effect
	}{
		{"a link", toolstest.Reads("link/f")[0], []tools.Effect{{Kind: tools.ReadsPath, Path: "dir/f", Named: "link/f"}}},
		{"up from a link", tools.Effect{Kind: tools.ReadsPath, Path: "f", Named: "away/../f"},
			[]tools.Effect{{Kind: tools.ReadsPath, Path: "deep/f", Named: "away/../f"}}},
		{"what is there", toolstest.Reads("dir/f")[0], toolstest.Reads("dir/f")},
		{"outside", toolstest.Writes("/etc/x")[0], toolstest.Writes("/etc/x")},
		{"a pattern", tools.Effect{Kind: tools.ReadsPath, Path: "link/*", Glob: true},
			[]tools.Effect{{Kind: tools.ReadsPath, Path: "link/*", Glob: true, Examined: true}, {Kind: tools.ReadsPath, Path: "dir/f", Named: "link/f"}}},
		{"a program", tools.Effect{Kind: tools.RunsProgram, Program: "link/f"}, []tools.Effect{{Kind: tools.RunsProgram, Program: "link/f"}}},
		{"a tree", tree("plain"), []tools.Effect{tree("plain")}},
		{"a tree that is not there", tree("gone"), []tools.Effect{tree("gone")}},
		{"a tree with something protected", tree("deep"),
			[]tools.Effect{{Kind: tools.WritesPath, Path: "deep", Tree: true, Unclear: "it may change deep/er/.git, which is protected"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := effects.Resolve(env, []tools.Effect{test.give}); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v\nwant %+v", got, test.want)
			}
		})
	}
}

// TestResolvePatterns has patterns that a shell would expand, and what of that is
// told by itself: what leads elsewhere, what is protected, what somebody cares
// about.
func TestResolvePatterns(t *testing.T) {
	env := toolstest.Env(t, map[string]string{
		".git/config": "", "sub/a.txt": "", "sub/.hidden": "", "sub/deep/er/x.ts": "", "sub/deep/k.pem": "",
		"repo/in/.git/config": "", "[x]": "", "tpl/a": "", "tpl/cfg": "", "mod/.vscode/x": "", "mod/f": "", "plain/f": "", "kept/own/f": "",
	})
	linked(t, env, map[string]string{
		"sub/cfg": "../.git/config", "link": "/etc/passwd", "away": "sub/deep", "sub/deep/er/up": "../../..", "gitdir": ".git", ".dot": "/etc/passwd",
	})
	env.Restrictions = toolstest.Restrictions{
		Protects: func(path string) bool {
			return slices.Contains(strings.Split(path, "/"), ".git") || strings.HasPrefix(path, "kept/own")
		},
		Own: "kept/own",
		CaresFor: func(kind tools.EffectKind, path string) bool {
			return kind == tools.ReadsPath && strings.HasSuffix(path, ".pem") ||
				kind == tools.WritesPath && slices.Contains(strings.Split(path, "/"), ".vscode")
		},
	}
	glob := func(kind tools.EffectKind, path string) tools.Effect {
		return tools.Effect{Kind: kind, Path: path, Glob: true}
	}
	reads := func(path string) []tools.Effect { return []tools.Effect{glob(tools.ReadsPath, path)} }
	writes := func(path string) []tools.Effect { return []tools.Effect{glob(tools.WritesPath, path)} }
	tree := func(program string, effects ...tools.Effect) []tools.Effect {
		list := []tools.Effect{{Kind: tools.RunsProgram, Program: program}}
		for _, e := range effects {
			e.Tree = true
			list = append(list, e)
		}
		return list
	}
	read := func(path string) tools.Effect { return toolstest.Reads(path)[0] }
	write := func(path string) tools.Effect { return toolstest.Writes(path)[0] }
	for _, test := range []struct {
		name string
		give []tools.Effect
		want string
	}{
		{"a link into something protected", writes("sub/c?g"), "writes .git/config, writes sub/c?g"},
		{"a link outside", reads("lin?"), "reads /etc/passwd, reads lin?!"},
		{"by a set", reads("l[a-j]n[!a]"), "reads /etc/passwd, reads l[a-j]n[!a]!"},
		{"by a class", reads("l[[:alpha:]]nk"), "reads /etc/passwd, reads l[[:alpha:]]nk!"},
		{"in any case, as some languages say", reads("[K-M]ink"), "reads /etc/passwd, reads [K-M]ink!"},
		{"not by a set", reads("l[!i]nk"), "reads l[!i]nk!"},
		{"quoted", reads(`lin\?`), `reads lin\?!`},
		{"a bracket that is not closed", reads("lin[?"), "reads lin[?!"},
		{"a bracket that is a name", reads(`\[?\]`), `reads \[?\]!`},
		{"a wildcard is no dot", reads("*dot"), "reads *dot!"},
		{"a dot is one", reads(".do*"), "reads .do*!, reads /etc/passwd"},
		{"no link", reads("sub/*.txt"), "reads sub/*.txt!"},
		{"nothing", reads("none*"), "reads none*!"},
		{"a directory that is a link", reads("a*/*.pem"), "reads a*/*.pem!, reads sub/deep/k.pem"},
		{"cared about", reads("sub/*/*"), "reads sub/*/*!, reads sub/deep/k.pem"},
		{"any directory", reads("sub/**/x.ts"), "reads sub/**/x.ts!"},
		{"any directory, with a link", reads("sub/**/up"), "reads sub/**/up!"},
		{"one directory, where ** is no more", reads("**/cfg"), "reads **/cfg!"},
		{"any directory, outside", reads("**/lin?"), "reads **/lin??"},
		{"any directory, cared about", reads("sub/**"), "reads sub/**"},
		{"any directory, written", writes("sub/**"), "writes sub/**?"},
		{"any directory, nothing protected", writes("plain/**"), "writes plain/**"},
		{"up from what matched", []tools.Effect{{Kind: tools.ReadsPath, Path: "x", Named: "*/../x", Glob: true}}, "reads x?"},
		{"up from a link", []tools.Effect{{Kind: tools.ReadsPath, Path: "cf?", Named: "away/../cf?", Glob: true}}, "reads .git/config, reads cf?!"},
		{"what some shells take for the directory above", reads(".*/x"), "reads .*/x?"},
		{"protected", writes(".gi?/config"), "writes .gi?/config, writes .git/config"},
		{"what would be made behind a link", writes("gitdir/n?w"), "writes .git/n?w, writes gitdir/n?w"},
		{"outside", reads("/etc/pass?d"), "reads /etc/pass?d!"},
		{"unclear already", []tools.Effect{{Kind: tools.ReadsPath, Path: "lin?", Glob: true, Unclear: "x"}}, "reads lin??"},

		{"rm of what matches", tree("rm", glob(tools.WritesPath, "rep*")), "writes rep*/**!"},
		{"rm of something protected", tree("rm", write("repo")), "writes repo/**!"},
		{"chmod of something protected", tree("chmod", write("repo")), "writes repo/**?"},
		{"mv of something protected", tree("mv", read("repo"), write("repo"), write("new")), "reads repo/**, writes new/**?, writes repo/**?"},
		{"rm of what the operator protects", tree("rm", write("kept")), "writes kept/**, writes kept/own"},

		{"rm of nothing to care about", tree("rm", glob(tools.WritesPath, "pla*")), "writes pla*/**!"},
		{"rm", tree("rm", write("plain")), "writes plain/**!"},
		{"rm of a file", tree("rm", write("sub/a.txt")), "writes sub/a.txt"},
		{"rm of something cared about", tree("rm", write("mod")), "writes mod/**!, writes mod/.vscode/**"},
		{"rm of several", tree("rm", write("mod"), write("plain")), "writes mod/**!, writes mod/.vscode/**, writes plain/**!"},
		{"who knows what", tree("make", write("plain")), "writes plain/**"},
		{"rm of the workspace", tree("./rm", write("plain")), "writes plain/**"},
		{"mv", tree("mv", read("plain"), write("plain"), write("new")), "reads plain/**, writes new/**!, writes plain/**!"},
		{"mv of a file", tree("mv", read("sub/a.txt"), write("sub/a.txt"), write("new")), "reads sub/a.txt/**, writes new/**!, writes sub/a.txt"},
		{"cp", tree("cp", read("plain"), write("new")), "reads plain/**, writes new/**!"},
		{"cp of something cared about", tree("cp", read("mod"), write("new")), "reads mod/**, writes new/**"},
		{"cp of something protected", tree("cp", read("repo"), write("new")), "reads repo/**, writes new/**?"},
		{"cp from outside", tree("cp", read("/etc"), write("new")), "reads /etc/**, writes new/**"},
		{"cp of what matches", tree("cp", glob(tools.ReadsPath, "pla*"), write("new")), "reads pla*/**!, writes new/**"},
		{"cp through a link", tree("cp", read("tpl"), write("sub")), "reads tpl/**, writes .git/config, writes sub/**!"},
		{"cp past a link", tree("cp", read("plain"), write("sub")), "reads plain/**, writes sub/**!"},
		{"cp of what is in a directory", append(tree("cp", read("plain")), glob(tools.WritesPath, "tpl/**")), "reads plain/**, writes tpl/**!"},
		{"cp of what is in a directory, cared about", append(tree("cp", read("mod")), glob(tools.WritesPath, "tpl/**")), "reads mod/**, writes tpl/**"},
		{"cp of what is in a directory, to a link", append(tree("cp", read("plain")), glob(tools.WritesPath, "away/**")), "reads plain/**, writes away/**!, writes sub/deep/**!"},
		{"cp of what is in a directory, to a link to something protected", append(tree("cp", read("plain")), glob(tools.WritesPath, "gitdir/**")), "reads plain/**, writes .git/**?, writes gitdir/**!"},
		{"an archive to a link", append(tree("tar"), glob(tools.WritesPath, "away/**")), "writes away/**, writes sub/deep/**"},
		{"an archive", append(tree("tar", read("plain")), glob(tools.WritesPath, "tpl/**")), "reads plain/**, writes tpl/**"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := summary(effects.Resolve(env, test.give)); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// TestResolveWithinBounds has commands with more to examine than is examined:
// all effects of one call share one budget, and what is beyond it is unclear.
func TestResolveWithinBounds(t *testing.T) {
	files := make(map[string]string)
	for i := range 1_500 {
		files[fmt.Sprintf("many/%d/f", i)] = ""
	}
	files["few/f"] = ""
	env := toolstest.Env(t, files)
	calls := 0
	env.Restrictions = toolstest.Restrictions{CaresFor: func(tools.EffectKind, string) bool { calls++; return false }}
	unclear := func(effects []tools.Effect) (n int) {
		for _, e := range effects {
			if e.Unclear != "" {
				n++
			}
		}
		return n
	}
	repeat := func(n int, e tools.Effect) []tools.Effect { return slices.Repeat([]tools.Effect{e}, n) }
	tree := func(path string) tools.Effect { return tools.Effect{Kind: tools.WritesPath, Path: path, Tree: true} }
	glob := func(path string) tools.Effect { return tools.Effect{Kind: tools.ReadsPath, Path: path, Glob: true} }
	for _, test := range []struct {
		name    string
		give    []tools.Effect
		unclear int
	}{
		{"the same tree", repeat(2_933, tree("many")), 0},
		{"the same pattern", repeat(30, glob("many/*/f")), 30},
		{"too many matches", []tools.Effect{glob("many/*")}, 1},
		{"few matches", []tools.Effect{glob("few/*")}, 0},
		{"patterns within patterns", []tools.Effect{glob("many/**/**/**/**/f")}, 1},
		{"a long pattern", []tools.Effect{glob("few/*/" + strings.Repeat("a/", 3_000))}, 1},
	} {
		calls = 0
		if got := unclear(effects.Resolve(env, test.give)); got != test.unclear || calls > 45_000 {
			t.Errorf("%s: %d of %d are unclear, want %d; asked %d times", test.name, got, len(test.give), test.unclear, calls)
		}
	}
	var many []tools.Effect
	for i := range 1_500 {
		many = append(many, tree("many"), tree(fmt.Sprintf("many/%d", i)), tree(fmt.Sprintf("many/%d/f", i)))
	}
	if unclear(effects.Resolve(env, many)) > 0 {
		t.Error("it is unclear what can be examined")
	}
	for i := range 15_000 {
		many = append(many, tree(fmt.Sprintf("many/none%d", i)))
	}
	calls = 0
	if unclear(effects.Resolve(env, many)) == 0 || calls > 25_000 {
		t.Errorf("nothing is unclear; asked %d times", calls)
	}
}

func BenchmarkResolve(b *testing.B) {
	dir := b.TempDir()
	for _, name := range []string{"b.go", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ws.Close()
	env := tools.Env{Workspace: ws}
	env.Restrictions = toolstest.Restrictions{}
	run := tools.Effect{Kind: tools.RunsProgram, Program: "grep", ReadOnly: true}
	pipe := []tools.Effect{run, toolstest.Reads("b.go")[0], run, toolstest.Reads("c.txt")[0], run}
	pattern := []tools.Effect{run, {Kind: tools.ReadsPath, Path: "*.go", Glob: true}}
	for name, list := range map[string][]tools.Effect{"pipe": pipe, "pattern": pattern} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				effects.Resolve(env, list)
			}
		})
	}
}
