// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package skill_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/skill"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestContract(t *testing.T) {
	for _, tool := range skill.New(nil).Tools() {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

// write makes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

var shelf = map[string]string{
	"pdf/SKILL.md":              "---\nname: pdf\ndescription: Fill in: forms of PDF\nlicense: none\nallowed-tools: Read, Bash(python3:*)\n---\n# Forms\n\nSee forms.md, and run $HOME/x with $ARGUMENTS.\n",
	"pdf/forms.md":              "how forms are filled in\n",
	"pdf/scripts/fill.py":       "print()\n",
	"pdf/.hidden/x.md":          "x",
	"pdf/picture.png":           "\x89PNG\x00",
	"issue/SKILL.md":            "---\ndescription: >\n  Fix an issue\n  of a kind\narguments: [issue, kind]\nallowed-tools:\n  - Grep\n---\nFix $issue of ${kind}, {{issue}}; $1/$2/$ARGUMENTS[1]; $issues stay.\n",
	"strict/SKILL.md":           "---\nname: strict\ndescription: x\narguments:\n  - {name: to, description: who gets it, required: true}\n  - {name: cc}\n---\nSend to $to, cc [$cc].\n",
	"plain/SKILL.md":            "---\nname: plain\n---\nJust do it.\n",
	"none/README.md":            "no skill",
	"broken/SKILL.md":           "no front matter\n",
	"twice/SKILL.md":            "---\nname: PDF\n---\nx\n",
	"bad name/SKILL.md":         "---\ndescription: x\n---\nx\n",
	"large/SKILL.md":            "---\nname: large\n---\n" + strings.Repeat("x", 300<<10),
	".hidden/SKILL.md":          "---\nname: hidden\n---\nx\n",
	"windows/SKILL.md":          "\ufeff---\r\nname: windows\r\ndescription: from elsewhere\r\n---\r\nHello\r\n",
	"deep/er/than/one/SKILL.md": "---\nname: deep\n---\nx\n",
}

// TestSkills lists and loads skills, with arguments and documents.
func TestSkills(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, shelf)
	outside := filepath.Join(t.TempDir(), "secret.md")
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600), os.Symlink(outside, filepath.Join(dir, "pdf", "out.md")),
		os.Symlink("forms.md", filepath.Join(dir, "pdf", "in.md")), os.Symlink("../plain/SKILL.md", filepath.Join(dir, "pdf", "other.md")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "away")), syscall.Mkfifo(filepath.Join(dir, "pdf", "pipe.md"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	set := skill.New([]string{dir, filepath.Join(dir, "deep/er/than/one"), filepath.Join(dir, "missing")})
	for _, test := range []struct {
		input string
		want  []string
	}{
		{`{}`, []string{"issue ([issue], [kind]): Fix an issue of a kind\n", "pdf: Fill in: forms of PDF\n", "plain: (no description)\n", "strict (to = who gets it, [cc]): x\n", "windows: from elsewhere\n", "deep: "}},
		{`{"name":"pdf","arguments":"a.pdf b.pdf"}`, []string{"# Skill pdf\n\n# Forms\n", "run $HOME/x with a.pdf b.pdf.", "(It was written for these tools: Read, Bash(python3:*).)",
			"(Documents of it: forms.md, in.md, picture.png, scripts/fill.py. See one with skill {\"name\":\"pdf\",\"file\":\"forms.md\"}.)"}},
		{`{"name":"/PDF"}`, []string{"with .\n"}},
		{`{"name":"issue","arguments":"12 small bug"}`, []string{"Fix 12 of small bug, 12; 12/small/small; $issues stay."}},
		{`{"name":"issue","arguments":{"kind":"$issue $1","issue":7}}`, []string{"Fix 7 of $issue $1, 7; //; $issues stay."}},
		{`{"name":"issue","arguments":["x y","z"]}`, []string{"Fix x y of z,"}},
		{`{"name":"issue"}`, []string{"Fix  of , ; //;"}},
		{`{"name":"issue","arguments":{"isue":"7"}}`, []string{`unknown_argument: The skill issue has no argument "isue"; did you mean issue?`}},
		{`{"name":"strict"}`, []string{"missing_arguments: The skill strict needs to. Its arguments: (to = who gets it, [cc])."}},
		{`{"name":"strict","arguments":{"to":"ann"}}`, []string{"Send to ann, cc []."}},
		{`{"name":"plain","arguments":"now"}`, []string{"Just do it.\n\nArguments: now\n"}},
		{`{"name":"windows"}`, []string{"# Skill windows\n\nHello\n"}},
		{`{"name":"plan"}`, []string{`no_such_skill: There is no skill "plan"; did you mean plain? skill {} lists them.`}},
		{`{"name":"hidden"}`, []string{"no_such_skill"}},
		{`{"name":"large"}`, []string{"no_such_skill"}},
		{`{"name":"pdf","file":"forms.md"}`, []string{"how forms are filled in\n"}},
		{`{"name":"pdf","file":"./in.md"}`, []string{"how forms are filled in\n"}},
		{`{"name":"pdf","file":"from.md"}`, []string{`no_such_document: The skill pdf has no document "from.md" to show: no such file or directory; did you mean forms.md?`}},
		{`{"name":"pdf","file":"out.md"}`, []string{"no_such_document", "path escapes from parent"}},
		{`{"name":"pdf","file":"other.md"}`, []string{"no_such_document", "path escapes from parent"}},
		{`{"name":"pdf","file":"pipe.md"}`, []string{"no_such_document", "it is no file"}},
		{`{"name":"pdf","file":"scripts"}`, []string{"no_such_document", "it is no file"}},
		{`{"name":"pdf","file":"picture.png"}`, []string{"no_such_document", "it is no text"}},
		{`{"name":"pdf","file":"../plain/SKILL.md"}`, []string{"/file: want a path below the folder"}},
		{`{"name":"pdf","file":"/etc/passwd"}`, []string{"/file: want a path below the folder"}},
		{`{"file":"forms.md"}`, []string{"/name: is required"}},
		{`{"name":"pdf","arguments":{"a":{}}}`, []string{`/arguments: "a": want a text`}},
		{`{"name":"pdf","arguments":7}`, []string{"/arguments: want a text"}},
	} {
		got := run(t, set, toolstest.Env(t, nil), test.input)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: there is no %q in\n%s", test.input, want, got)
			}
		}
		if strings.Contains(got, "secret") || strings.Contains(got, dir) {
			t.Errorf("%s tells what is elsewhere:\n%s", test.input, got)
		}
	}
	wrong := strings.Join(set.Wrong(), "\n")
	for _, want := range []string{
		"broken/SKILL.md: it does not begin with", "twice/SKILL.md: there is a skill pdf in", `bad name/SKILL.md: "bad name" is no name`, "large/SKILL.md: it has more than",
		"missing: no such file or directory",
	} {
		if !strings.Contains(wrong, want) {
			t.Errorf("there is no %q in\n%s", want, wrong)
		}
	}
}

// run returns what a call says.
func run(t *testing.T, set *skill.Set, env tools.Env, input string) string {
	t.Helper()
	call, err := set.Tools()[0].Decode(&env, []byte(input))
	if err != nil {
		return err.Error()
	}
	if effects := call.Effects(); len(effects) > 0 {
		t.Errorf("%s has effects: %v", input, effects)
	}
	result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure.Code + ": " + failure.Message
	}
	if err != nil {
		t.Errorf("%s: %v", input, err)
	}
	return toolstest.Text(result)
}

// TestReload proves that a change counts with the next call, and is a new revision.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/SKILL.md": "---\nname: a\n---\nfirst\n"})
	set := skill.New([]string{dir})
	names := func() string {
		all, _ := set.All()
		var list []string
		for _, s := range all {
			list = append(list, s.Name)
		}
		return strings.Join(list, " ")
	}
	_, before := set.All()
	if _, again := set.All(); again != before {
		t.Error("nothing changed, and the revision did")
	}
	write(t, dir, map[string]string{"a/SKILL.md": "---\nname: a\n---\nsecond one\n", "b/SKILL.md": "---\nname: b\n---\n"})
	if got := names(); got != "a b" {
		t.Errorf("there are %s", got)
	}
	if _, after := set.All(); after == before {
		t.Error("the revision stays")
	}
	if got := run(t, set, toolstest.Env(t, nil), `{"name":"a"}`); !strings.Contains(got, "second one") {
		t.Error(got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil || names() != "b" {
		t.Errorf("there are %s, %v", names(), err)
	}
}

// TestPlace proves that a model is told where the files are if commands may read them.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, shelf)
	env := toolstest.Env(t, nil)
	env.Readable = []string{"/usr", dir}
	if got := run(t, skill.New([]string{dir}), env, `{"name":"pdf"}`); !strings.Contains(got, "Commands find them in "+filepath.Join(dir, "pdf")+".") {
		t.Error(got)
	}
}

// TestMany proves that a folder costs no more than is bounded.
func TestMany(t *testing.T) {
	dir := t.TempDir()
	files := make(map[string]string)
	for i := range 120 {
		files["one/doc"+string(rune('a'+i/26))+string(rune('a'+i%26))+".md"] = "x"
	}
	files["one/SKILL.md"] = "---\nname: one\n---\nx\n"
	write(t, dir, files)
	got := run(t, skill.New([]string{dir}), toolstest.Env(t, nil), `{"name":"one"}`)
	if n := strings.Count(got, ".md"); n != 101 || !strings.Contains(got, " and more. See one") { // one is in the hint
		t.Errorf("%d documents in\n%s", n, got)
	}
}
