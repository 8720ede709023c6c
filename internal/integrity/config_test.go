// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestParseConfig compares what is read with what git reads.
func TestParseConfig(t *testing.T) {
	for _, text := range []string{
		"", "\n", "[a]", "[a]\nb", "[a]\nb=", "[a]b=c", "[a] b = c # d\n", "[A.B]\nC = D\n", "[a \"B\\\"c\\\\d\"]\nE-1 = f\n",
		"[a]\nb = \"x # y\" ; z\n", "[a]\nb = x\\\ny\n c = d\n", "[a]\nb = \"x\\\ny\"\n", "[a] ; c\\\nb = 1\n", "[a]\n\tb = x   y\t z  \n",
		"\xef\xbb\xbf[a]\nb=1\n", "\xef\xbb[a]\nb=1\n", "[a]\r\nb = 1\r\n", "[a]\nb = 1\rc\n", "[a\n]\nb=1", "[a \"x\ny\"]\nb=1", "[a \"x\" ]\nb=1",
		"[a]\nb = \\t\\n\\b\\\\\\\"\n", "[a]\nb = \\x\n", "[a]\nb = \"x\n", "[a]\n1b = c\n", "[a]\nb c\n", "b = c\n", "[a]\nb\n\tc = 1\n", "[]\nb=1\n",
		"[a][b] c = 1\n[d]e = f\n", "[a]\nb = x;y\n", "[ a]\nb=1\n", "[a  \"x\"]\nb=1\n", "[a\t\"x\"]b\n", "[a]\nb = 1\\", "[a]\nb = ;\n", "[a]\\\nb = 1\n",
		"[a]\nb_c = 1\n", "[a.]\nb=1\n", "[a \"\"]\nb=1\n", "[a]\nb = \"\"\n", "[a \"x\\\n\"]b=1", "[a]\nb=\x00c\n", "# [a]\\\n[b]\nc=1",
	} {
		compareWithGit(t, []byte(text))
	}
}

// TestParseRandom does so with texts of pieces that mean something.
func TestParseRandom(t *testing.T) {
	pieces := []string{"[", "]", "a", "core", ".", "\"", "\\", "\n", "\n", " ", "\t", "=", "#", ";", "b", "\r", "\r\n", "[a]", "[a \"b\"]", "c = d\n", "\\\n", "\\\"", "-", "1", "\xef\xbb\xbf", "x = \""}
	r := rand.New(rand.NewPCG(1, 2))
	n := 400
	if testing.Short() {
		n = 50
	}
	for range n {
		text := "[a]\n"
		for range r.IntN(14) {
			text += pieces[r.IntN(len(pieces))]
		}
		compareWithGit(t, []byte(text))
	}
}

// compareWithGit fails where git reads a file in another way. An entry that git
// does not see is no harm; one that it sees and we do not is.
func compareWithGit(t *testing.T, data []byte) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "-l", "-z", "-f", file).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	entries, refused := parseConfig(data)
	var ours strings.Builder
	for _, e := range entries {
		ours.WriteString(e.Key + "\n" + e.Value + "\x00")
	}
	var theirs strings.Builder
	for one := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if one != "" && !strings.Contains(one, "\n") {
			one += "\ntrue"
		}
		if one != "" {
			theirs.WriteString(one + "\x00")
		}
	}
	if (err != nil) != (refused != nil) || err == nil && spaces(ours.String()) != spaces(theirs.String()) {
		t.Errorf("%q: git reads %q, %v; we read %q, %v", data, theirs.String(), err, ours.String(), refused)
	}
}

// spaces has all white space look alike: versions of git keep different ones.
func spaces(text string) string { return strings.NewReplacer("\t", " ", "\r", " ").Replace(text) }

// FuzzConfig proves that what is taken out of a file is gone, and that the rest
// is there.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("[core] pager = x # y\n\tpager = \"a\\\nb\"\n[user]\n\tname = me\n[alias \"x\"] y=!z\n"))
	f.Add([]byte("[core]pager=a"))
	f.Add([]byte("[core]pager=a\\\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseConfig(data)
		if err != nil {
			return
		}
		var keep, drop []entry
		for _, e := range entries {
			if e.executes(func(string) bool { return false }) {
				drop = append(drop, e)
			} else {
				keep = append(keep, e)
			}
		}
		left, err := parseConfig(without(data, drop, nil))
		if err != nil || len(surplus(left, keep)) > 0 || len(surplus(keep, left)) > 0 {
			t.Errorf("%q without %v: %v, %v", data, drop, left, err)
		}
		old := []entry{{Key: "core.pager", Value: "\\ \"old\"\n\t;#\b"}}
		changed := without(data, drop, old)
		if again, err := parseConfig(changed); err != nil {
			t.Errorf("%q: %v", changed, err)
		} else if len(surplus(again, append(keep, old...))) > 0 {
			t.Errorf("%q has %v", changed, again)
		}
		if len(drop) == 0 && !bytes.Equal(changed, data) {
			t.Errorf("%q became %q", data, changed)
		}
	})
}

// TestExecutes tells keys that make git run something from those that do not.
func TestExecutes(t *testing.T) {
	for key, runs := range map[string]bool{
		"core.hooksPath=x": true, "core.hooksPath=true": true, "core.hooksPath=/dev/null": false,
		"core.fsmonitor=x": true, "core.fsmonitor=true": false, "core.fsmonitor=false": false, "core.fsmonitor=x; echo false": true,
		"core.sshCommand=x": true, "core.pager=x": true, "core.editor=x": true, "core.askPass=x": true, "core.gitProxy=x": true,
		"core.alternateRefsCommand=x": true, "core.worktree=/": true, "core.worktree=../in": false, "core.autocrlf=input": false,
		"sequence.editor=x": true, "alias.a=!x": true, "alias.a=log --oneline": false, "alias.a=-c core.pager=x log": true, "alias.a=rebase --exec x": true,
		"alias.a=submodule foreach x": true, "alias.a=log --output=.git/hooks/pre-push": true,
		"filter.a.clean=x": true, "filter.a.smudge=x": true, "filter.a.process=x": true, "filter.a.required=true": false,
		"diff.external=x": true, "diff.a.command=x": true, "diff.a.textconv=x": true, "diff.a.binary=true": false, "diff.tool=meld": false, "diff.tool=../../x": true,
		"merge.a.driver=x": true, "merge.a.name=x": false, "merge.conflictStyle=diff3": false, "merge.tool=../x": true,
		"difftool.a.cmd=x": true, "mergetool.a.path=x": true, "mergetool.keepBackup=false": false,
		"gpg.program=x": true, "gpg.ssh.program=x": true, "gpg.ssh.defaultKeyCommand=x": true, "gpg.format=ssh": false,
		"credential.helper=x": true, "credential.helper=": false, "credential.https://x.y.helper=!x": true, "credential.username=x": false,
		"include.path=x": true, "includeif.gitdir:~/.path=x": true,
		"remote.o.url=https://x/y": false, "remote.o.url=git@x:y": false, "remote.o.url=/x": false, "remote.o.url=ext::x": true, "remote.o.pushurl=foo::x": true,
		"remote.o.uploadpack=x": true, "remote.o.receivepack=x": true, "remote.o.vcs=x": true, "remote.o.fetch=+refs/heads/*:refs/remotes/o/*": false,
		"branch.b.remote=ext::x": true, "branch.b.remote=o": false, "branch.b.merge=refs/heads/b": false, "remote.pushDefault=ext::x": true,
		"url.ext::x .insteadOf=y": true, "url.ex.insteadOf=y": true, "url.https://x/.insteadOf=gh:": false, "url.git@x:.pushInsteadOf=https://x/": false,
		"submodule.a.update=!x": true, "submodule.a.update=rebase": false, "submodule.a.url=ext::x": true, "submodule.a.active=true": false,
		"init.templateDir=x": true, "init.defaultBranch=main": false, "trailer.a.command=x": true, "trailer.a.cmd=x": true, "trailer.a.key=x": false,
		"pager.log=x": true, "pager.log=false": false, "color.pager=true": false, "man.a.cmd=x": true, "man.a.path=x": true, "browser.a.cmd=x": true, "web.browser=x": true,
		"instaweb.httpd=x": true, "instaweb.modulePath=x": true, "instaweb.port=1": false, "sendemail.toCmd=x": true, "sendemail.a.ccCmd=x": true, "sendemail.smtpServer=/x": true,
		"sendemail.smtpServer=mail.x": false, "sendemail.to=x": false, "interactive.diffFilter=x": true, "uploadpack.packObjectsHook=x": true, "imap.tunnel=x": true,
		"protocol.ext.allow=always": true, "protocol.file.allow=always": false, "protocol.allow=always": true, "protocol.allow=never": false,
		"guitool.a.cmd=x": true, "tar.a.command=x": true, "hook.a.command=x": true, "lfs.customtransfer.a.path=x": true, "rebase.instructionFormat=%s%nexec x": true,
		"rebase.instructionFormat=%s": false, "rebase.autoStash=true": false, "user.name=x": false, "column.clean=auto": false, "commit.template=x": false, "gc.auto=0": false,
	} {
		name, value, _ := strings.Cut(key, "=")
		section, rest, _ := strings.Cut(name, ".")
		header := fmt.Sprintf("[%s]\n", section)
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			header, rest = fmt.Sprintf("[%s %q]\n", section, rest[:dot]), rest[dot+1:]
		}
		entries, err := parseConfig([]byte(header + rest + " = " + quote(value) + "\n"))
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s: %v, %v", key, entries, err)
		}
		if got := entries[0].executes(func(at string) bool { return at == "../in" }); got != runs {
			t.Errorf("%s: %v", key, got)
		}
		if _, err := exec.LookPath("git"); err != nil {
			continue
		}
		// What is shown is what git would be told.
		if got := entries[0].shown(); got != strings.TrimSpace(name+" = "+value) && value != "" {
			t.Errorf("%s is shown as %q", key, got)
		}
	}
}
