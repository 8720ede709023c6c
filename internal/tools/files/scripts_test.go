// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolserver/toolserver/internal/pdf/pdftest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { pdftest.Main(m) }

// tool returns a tool of the family.
func tool(t *testing.T, name string) tools.Tool {
	t.Helper()
	found := byName(name)
	if found == nil {
		t.Fatalf("no tool %s", name)
	}
	return found
}

func byName(name string) tools.Tool {
	for _, tool := range files.Tools(pdftest.Documents{}, nil) {
		if tool.Spec().Name == name {
			return tool
		}
	}
	return nil
}

// answer returns what a call answers: its text or, where it failed, its code
// and its message.
func answer(t *testing.T, env tools.Env, name, input string) string {
	t.Helper()
	result, _, err := toolstest.Run(t, tool(t, name), env, input)
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return "! " + failure.Code + "\n" + failure.Message + "\n"
	}
	if err != nil {
		return "! error\n" + err.Error() + "\n"
	}
	return toolstest.Text(result)
}

// content returns the files of a workspace; directories that are empty and
// modes that are not the usual are told by entries of their own.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			if inside, err := os.ReadDir(path); err != nil || len(inside) == 0 {
				all[name+"/"] = ""
			}
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[name] = string(text)
			if info.Mode() != 0o644 {
				all[name+" mode"] = info.Mode().String() + "\n"
			}
		default:
			target, _ := os.Readlink(path)
			all[name+" link"] = target + "\n"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ages and times differ from run to run.
var volatile = regexp.MustCompile(`\b\d+s ago|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestScripts runs testdata/script/*.txtar. What is below in/ makes a workspace,
// and what is below beside/ a directory elsewhere, $BESIDE, of which commands may
// read tree and file; a name that ends with " link" is a link;
// calls has a call in each line, the tool and its input; want has what they
// answer, and below out/ is the workspace afterwards. With UPDATE_GOLDEN=1 the
// last two are written.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) { runScript(t, script) })
	}
}

func runScript(t *testing.T, script string) {
	archive, err := txtar.ParseFile(script)
	if err != nil {
		t.Fatal(err)
	}
	in, beside, out := make(map[string]string), make(map[string]string), make(map[string]string)
	var calls, want string
	var given []txtar.File
	for _, file := range archive.Files {
		name, text := unquoted(t, file)
		if path, ok := strings.CutPrefix(name, "in/"); ok {
			in[path] = text
			given = append(given, file)
		} else if path, ok := strings.CutPrefix(name, "beside/"); ok {
			beside[path] = text
			given = append(given, file)
		} else if path, ok := strings.CutPrefix(name, "out/"); ok {
			out[path] = text
		} else if name == "calls" {
			calls = text
			given = append(given, file)
		} else if name == "want" {
			want = text
		}
	}
	env := toolstest.Env(t, in)
	var elsewhere string
	if len(beside) > 0 {
		elsewhere = makeBeside(t, beside)
		env.Readable = []string{elsewhere + "/tree", elsewhere + "/file", elsewhere + "/alias"}
	}
	var got strings.Builder
	n := 0
	for line := range strings.Lines(calls) {
		name, input, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		n++
		env.CallID = "call-" + strconv.Itoa(n)
		fmt.Fprintf(&got, "> %s\n%s", name, answer(t, env, name, strings.ReplaceAll(input, "$BESIDE", elsewhere)))
	}
	if elsewhere != "" {
		shown := strings.ReplaceAll(got.String(), elsewhere, "$BESIDE")
		got.Reset()
		got.WriteString(shown)
	}
	answers := volatile.ReplaceAllString(got.String(), "TIME")
	after := content(t, env.Workspace.Dir())
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		archive.Files = append(given, entry("want", answers))
		for _, name := range slices.Sorted(maps.Keys(after)) {
			archive.Files = append(archive.Files, entry("out/"+name, after[name]))
		}
		if err := os.WriteFile(script, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if answers != want {
		t.Errorf("got\n%s\nwant\n%s", answers, want)
	}
	if !maps.Equal(after, out) {
		t.Errorf("the workspace is\n%q\nwant\n%q", after, out)
	}
}

// makeBeside makes the directory beside a workspace.
func makeBeside(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		name, link := strings.CutSuffix(name, " link")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if link {
			err = errors.Join(err, os.Symlink(strings.ReplaceAll(strings.TrimSpace(text), "$BESIDE", dir), path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// entry returns a file of an archive, quoted where it must be.
func entry(name, text string) txtar.File {
	plain := utf8.ValidString(text) && !strings.ContainsAny(text, "\r\x00\uFEFF") && !strings.Contains(text, "\n-- ") &&
		!strings.HasPrefix(text, "-- ") && (text == "" || strings.HasSuffix(text, "\n"))
	if plain {
		return txtar.File{Name: name, Data: []byte(text)}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strconv.Quote(line) + "\n")
	}
	return txtar.File{Name: name + ".quoted", Data: []byte(b.String())}
}
