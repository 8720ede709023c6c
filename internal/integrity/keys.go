// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An executing key is one whose value makes git run a program, or read more keys
// from somewhere else. The lists are from git-config(1) of git 2.39, from what
// later versions document, and from git-lfs. Names that mean a program wherever
// they stand are listed without their section, so that a section that is not
// known yet is not a way around.
var (
	// execute are the last parts of such keys, in any section.
	execute = set(`recentobjectshook alternaterefscommand askpass browser cccmd cmd command defaultkeycommand difffilter driver editor gitproxy
		headercmd helper hookspath httpd insteadof packobjectshook pager program pushinsteadof receivepack sendmailcmd
		sshcommand templatedir textconv tocmd tunnel uploadpack vcs`)

	// executeIn are such keys by their section.
	executeIn = map[string]map[string]bool{
		"browser": set("path"), "difftool": set("path"), "mergetool": set("path"), "man": set("path"),
		"include": set("path"), "includeif": set("path"),
		"filter": set("clean smudge process"), "lfs": set("path clean smudge standalonetransferagent"),
		"diff": set("external"), "instaweb": set("modulepath"), "core": set("fsmonitor"),
	}

	// paths are keys that name files: no value of them is a boolean.
	paths = set("hookspath templatedir path insteadof pushinsteadof")

	// plain are commands that an alias may stand for.
	plain = set(`add blame branch checkout cherry-pick clean commit describe diff log ls-files merge mv reflog remote reset
		restore rev-parse rm shortlog show stash status switch tag`)

	// transports are those that git speaks itself.
	transports = set("file ftp ftps git http https ssh")
)

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for _, word := range strings.Fields(words) {
		m[word] = true
	}
	return m
}

var booleans = set("true false yes no on off 0 1")

// remoteHelper matches an address that has git run a program for it.
var remoteHelper = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.-]*::`) })

// address matches what a rewritten address may begin with.
var address = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((file|ftps?|git|https?|ssh)://|[\w.-]+@[\w.-]+:|/|\.)`)
})

// executes reports whether an entry makes git run something. inside reports
// whether a path, relative to where the entry stands, lies in the workspace.
func (e entry) executes(inside func(path string) bool) bool {
	section, subsection, name := e.split()
	value := e.Value
	if remoteHelper().MatchString(value) {
		return true // an address may stand in remote.*.url, branch.*.remote, and others
	}
	switch section {
	case "color":
		return false
	case "alias":
		return !plainAlias(value)
	case "protocol":
		return name == "allow" && value != "never" && !transports[subsection]
	case "pager":
		return !booleans[strings.ToLower(value)] && value != ""
	case "url":
		return execute[name] && (!address().MatchString(subsection) || remoteHelper().MatchString(subsection))
	case "submodule":
		return name == "update" && strings.HasPrefix(value, "!")
	case "rebase":
		// A line feed in it begins another instruction.
		return name == "instructionformat" && (strings.Contains(value, "%n") || strings.Contains(value, "%x"))
	case "sendemail":
		return (name == "smtpserver" && strings.Contains(value, "/")) || strings.HasSuffix(name, "cmd")
	case "diff", "merge":
		// The name of a tool is a part of the path of a script.
		if (name == "tool" || name == "guitool") && strings.Contains(value, "/") {
			return true
		}
	case "core":
		switch {
		case name == "worktree":
			return !inside(value)
		case name == "hookspath" && value == "/dev/null":
			return false
		}
	}
	if !execute[name] && !executeIn[section][name] || value == "" {
		return false
	}
	return paths[name] || !booleans[strings.ToLower(value)]
}

// plainAlias reports whether an alias only adds words to a command of git that
// runs nothing.
func plainAlias(value string) bool {
	words := strings.Fields(value)
	if len(words) == 0 || !plain[words[0]] {
		return false
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "--output") || strings.HasPrefix(word, "--exec") || strings.HasPrefix(word, "--template")
	})
}

// strategies are those of merging that git has itself. Of another, git runs a program
// by its name.
var strategies = set("octopus ort ours recursive resolve subtree")

// todoKeys returns what has git run something, of a file of what it is at.
func todoKeys(name string, data []byte) (keys []entry) {
	switch name {
	case "strategy":
		if value := strings.TrimSpace(string(data)); value != "" && !strategies[value] {
			keys = append(keys, entry{Key: "strategy", Value: value, name: "strategy", end: len(data)})
		}
	case "opts":
		entries, _ := parseConfig(data)
		for _, e := range entries {
			if e.Key == "options.strategy" && !strategies[e.Value] {
				keys = append(keys, e)
			}
		}
	default:
		keys = execLines(data)
	}
	return keys
}

// execLines returns the lines of a rebase's list that run a command.
func execLines(todo []byte) (lines []entry) {
	at := 0
	for line := range strings.Lines(string(todo)) {
		words := strings.Fields(line)
		if len(words) > 0 && (words[0] == "exec" || words[0] == "x") {
			lines = append(lines, entry{Key: "exec", Value: strings.Join(words[1:], " "), name: "exec", start: at, end: at + len(line)})
		}
		at += len(line)
	}
	return lines
}

// hookNames are the hooks that git runs.
var hookNames = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg
	commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive
	post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman
	p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change`)
