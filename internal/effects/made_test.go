// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestResolveMade has commands that copy and move what the same call makes or brings, told as
// lines: a program, then what it reads (<) and writes, / at the end for trees.
func TestResolveMade(t *testing.T) {
	env := toolstest.Env(t, map[string]string{
		"ci/x": "", "disk/run/f": "", "disk/f": "", "plain/f": "", "cfgs/cfg": "", "into/f": "", "file": "", "run/f": "", "kept/f": "",
	})
	linked(t, env, map[string]string{"into/cfg": "../.git/config", "into/own": "../ci"})
	env.Restrictions = toolstest.Restrictions{
		Protects: func(path string) bool { return strings.HasPrefix(path, ".git/") || path == "kept/run" },
		CaresFor: func(kind tools.EffectKind, path string) bool {
			return kind == tools.WritesPath && strings.HasPrefix(path+"/", "ci/run/")
		},
	}
	command := func(line string) []tools.Effect {
		words := strings.Fields(line)
		list := []tools.Effect{{Kind: tools.RunsProgram, Program: words[0]}}
		for _, word := range words[1:] {
			e := tools.Effect{Kind: tools.WritesPath}
			if strings.HasPrefix(word, "<") {
				e.Kind, word = tools.ReadsPath, word[1:]
			}
			e.Path, e.Tree = strings.CutSuffix(word, "/")
			e.Glob = strings.Contains(word, "*")
			list = append(list, e)
		}
		return list
	}
	for _, test := range []struct {
		name, give, want string // what the last one that reads a tree writes, and what is told beside
	}{
		{"what is made in a tree", "mkdir g/run; touch g/run/f; mv <g/ g/ ci/", "writes ci/**!, writes ci/run, writes ci/run/f"},
		{"what is made in a tree, put into one", "mkdir g/run; cp <g/ ci/**", "writes ci/**!, writes ci/run"},
		{"what is made and of no matter", "mkdir g/sub; touch g/sub/f; mv <g/ g/ ci/", "writes ci/**!"},
		{"what is made in a tree that is there", "touch plain/run; cp <plain/ ci/", "writes ci/**!, writes ci/run"},
		{"what is made later, as in a loop", "mv <g/ g/ ci/; touch g/run", "writes ci/**!, writes ci/run"},
		{"a redirection behind rm", "rm plain/ g/run/f; mv <g/ g/ ci/", "writes ci/**!, writes ci/run/f"},
		{"what becomes protected", "mkdir g/run; mv <g/ g/ kept/", "writes kept/**!, writes kept/run"},
		{"through a link", "touch g/cfg; cp <g/ into/**", "writes .git/config, writes into/**!"},
		{"through a link to a directory", "touch g/own/run; cp <g/ into/**", "writes ci/run, writes into/**!"},

		{"what is moved twice", "mv <disk/ disk/ g/; mv <g/ g/ ci/", "writes ci/**~"},
		{"a part of what is copied", "cp <disk/ g/; mv <g/run/ g/run/ ci/run2/", "writes ci/run2/**~"},
		{"what is copied into it", "cp <run/ g/run/; mv <g/ g/ ci/", "writes ci/**~"},
		{"there and back", "mv <plain/ plain/ b/ b/plain/; mv <b/ b/ plain/ plain/b/", "writes plain/b/**~"},
		{"what is copied to what is cared about", "cp <plain/ g/; cp <g/ ci/run/**", "writes ci/run/**"},
		{"what is unpacked in it", "tar g/**; mv <g/ g/ ci/", "writes ci/**~"},
		{"what is unpacked elsewhere", "tar other/**; mv <g/ g/ ci/", "writes ci/**!"},
		{"what a pattern makes", "gzip g*; mv <g/ g/ ci/", "writes ci/**~"},
		{"what another pattern makes", "gzip f*; mv <g/ g/ ci/", "writes ci/**!"},
		{"what a pattern removes", "rm g/*; mv <g/ g/ ci/", "writes ci/**!"},
		{"what is there no more", "rm disk/run/; rm g/; mv <g/ g/ ci/", "writes ci/**!"},
		{"what a tool writes", "gen g/; mv <g/ g/ ci/", "writes ci/**~"},
		{"a link in its place", "ln /usr g; cp <g/ ci/**", "writes ci/**"},
		{"through a link, brought twice", "cp <cfgs/ g/; cp <g/ into/**", "writes into/**?"},

		{"in place of a file", "rm file; mv <disk/ disk/ file/", "writes file, writes file/**!"},
		{"in place of a file, made", "rm file; touch g/f; mv <g/ g/ file/", "writes file, writes file/**!"},
		{"a file in place of a file", "mv <run/f/ run/f/ file/", "writes file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var give []tools.Effect
			given, last := make(map[string]bool), ""
			for line := range strings.SplitSeq(test.give, "; ") {
				effects := command(line)
				give = append(give, effects...)
				for _, e := range effects {
					given[e.Path] = true
				}
				if strings.Contains(line, "<") {
					last = effects[len(effects)-1].Path
				}
			}
			told := slices.DeleteFunc(effects.Resolve(env, give), func(e tools.Effect) bool {
				return e.Kind != tools.WritesPath || e.Path != last && given[e.Path]
			})
			if got := strings.ReplaceAll(summary(told), "/**/**", "/**"); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}
