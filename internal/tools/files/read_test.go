// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestReadScripts runs testdata/read/*.txtar: files of a workspace, a call, and
// the text wanted, which for a failure is its code, or "error" where it has
// none, and in the next line its message. $WORK stands for the workspace. Files whose names end with .quoted
// hold what plain text cannot: one Go string in each line, to be repeated where
// a number follows, as in "ab"*3.
func TestReadScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/read/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(script)
			if err != nil {
				t.Fatal(err)
			}
			tree := make(map[string]string)
			for _, file := range archive.Files {
				name, text := unquoted(t, file)
				tree[name] = text
			}
			call, want := tree["call.json"], tree["want.txt"]
			if call == "" || want == "" {
				t.Fatal("no call.json or no want.txt")
			}
			delete(tree, "call.json")
			delete(tree, "want.txt")
			env := toolstest.Env(t, tree)
			work := strings.NewReplacer("$WORK", env.Workspace.Dir())
			if got := read(t, env, work.Replace(call)); got != work.Replace(want) {
				t.Errorf("got\n%s\nwant\n%s", got, work.Replace(want))
			}
		})
	}
}

// unquoted returns the name and the text that a file of a script stands for.
func unquoted(t *testing.T, file txtar.File) (name, text string) {
	t.Helper()
	name, ok := strings.CutSuffix(file.Name, ".quoted")
	if !ok {
		return file.Name, string(file.Data)
	}
	var b strings.Builder
	for line := range strings.Lines(string(file.Data)) {
		line = strings.TrimSuffix(line, "\n")
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatalf("%s: %q: %v", file.Name, line, err)
		}
		part, _ := strconv.Unquote(quoted)
		times := 1
		if factor, ok := strings.CutPrefix(line[len(quoted):], "*"); ok {
			if times, err = strconv.Atoi(factor); err != nil {
				t.Fatalf("%s: %q: %v", file.Name, line, err)
			}
		}
		b.WriteString(strings.Repeat(part, times))
	}
	return name, b.String()
}

// read returns what a call of read_file answers, in the form of a script.
func read(t *testing.T, env tools.Env, input string) string {
	t.Helper()
	result, _, err := toolstest.Run(t, files.Read(nil, nil), env, input)
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure.Code + "\n" + failure.Message + "\n"
	}
	if err != nil {
		return "error\n" + err.Error() + "\n"
	}
	return toolstest.Text(result)
}

// readFile reads the file that text makes, from an offset.
func readFile(t *testing.T, text string, offset int) string {
	t.Helper()
	env := toolstest.Env(t, map[string]string{"f": text})
	return read(t, env, fmt.Sprintf(`{"path":"f","offset":%d}`, offset))
}

func TestReadEncodings(t *testing.T) {
	const le, be = "\xFF\xFE", "\xFE\xFF"
	const noteLE, noteBE = "(the file is UTF-16 little-endian, shown as UTF-8)\n", "(the file is UTF-16 big-endian, shown as UTF-8)\n"
	const crlf = "(line endings: CRLF)\n"
	chinese := strings.Repeat("漢", 1365) // 4095 bytes of UTF-8
	tests := []struct {
		name, text string
		offset     int
		want       string
	}{
		{"invalid bytes", "ok\nb\xffd\xfe\xfd\n\xc3\n", 1,
			"1\tok\n2\tb\uFFFDd\uFFFD\n3\t\uFFFD\n(2 lines are not valid UTF-8, the first is line 2: the bytes in question are shown as \uFFFD)\n"},
		{"invalid bytes on another page", "b\xffd\nok\n", 2, "2\tok\n"},
		{"a surrogate half in UTF-8", "\xed\xa0\x80\n", 1,
			"1\t\uFFFD\n(1 lines are not valid UTF-8, the first is line 1: the bytes in question are shown as \uFFFD)\n"},
		{"a replacement character", "\uFFFD\n", 1, "1\t\uFFFD\n"},
		{"NUL", "text\x00text\n", 1, "binary_file\nf is a binary file: it has NUL bytes. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"NUL from the end", "text\x00text\n", -1, "binary_file\nf is a binary file: it has NUL bytes. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"one NUL", "\x00", 1, "binary_file\nf is a binary file: it has NUL bytes. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"UTF-32 LE", "\xff\xfe\x00\x00h\x00\x00\x00", 1, "binary_file\nf is a binary file: text in UTF-32. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"UTF-32 BE", "\x00\x00\xfe\xff\x00\x00\x00h", 1, "binary_file\nf is a binary file: text in UTF-32. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"UTF-16 without its mark", wide("one\ntwo\n", false), 1, "binary_file\nf is a binary file: it looks like UTF-16, but has no byte order mark. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"ELF", "\x7fELF\x02\x01\x01\x00", 1, "binary_file\nf is a binary file: an ELF program or library. Only text can be read: a command such as file or xxd tells more of the others.\n"},
		{"UTF-16 LE", le + wide("one\ntwö 😀\n", false), 1, "1\tone\n2\ttwö 😀\n" + noteLE},
		{"UTF-16 BE", be + wide("one\ntwö 😀\n", true), 1, "1\tone\n2\ttwö 😀\n" + noteBE},
		{"UTF-16 with CRLF", le + wide("one\r\ntwo\r\n", false), 1, "1\tone\n2\ttwo\n" + noteLE + crlf},
		{"UTF-16 without a last ending", be + wide("one\ntwo", true), 1, "1\tone\n2\ttwo\n" + noteBE},
		{"nothing but UTF-16's mark", le, 1, "(the file is empty)\n" + noteLE},
		{"UTF-16 LE, last line", le + wide("one\ntwo\nthree\n", false), -1, "3\tthree\n" + noteLE},
		{"UTF-16 BE, last line", be + wide("one\ntwo\nthree\n", true), -1, "3\tthree\n" + noteBE},
		{"UTF-16 without a last ending, last line", le + wide("one\ntwo", false), -1, "2\ttwo\n" + noteLE},
		{"units of UTF-16 with a byte like \\n", le + wide("\u0a05\u010a\ntwo\n", false), -1, "2\ttwo\n" + noteLE},
		{"all lines of UTF-16 and more", le + wide("one\ntwo\n", false), -100, "1\tone\n2\ttwo\n" + noteLE},
		{"odd number of bytes", le + wide("one", false) + "x", 1, "1\tone\uFFFD\n" + noteLE},
		{"one odd byte", be + "x", 1, "1\t\uFFFD\n" + noteBE},
		{"first half at the end", le + "\x3d\xd8", 1, "1\t\uFFFD\n" + noteLE},
		{"first half and an odd byte", le + "\x3d\xd8\x00", 1, "1\t\uFFFD\uFFFD\n" + noteLE},
		{"a mark in the text", le + wide("one\uFEFFtwo", false), 1, "1\tone\uFEFFtwo\n" + noteLE},
		{"first half before a letter", le + "\x3d\xd8A\x00", 1, "1\t\uFFFDA\n" + noteLE},
		{"first half before an ending", le + "\x3d\xd8\n\x00B\x00", 1, "1\t\uFFFD\n2\tB\n" + noteLE},
		{"two first halves, then a second", be + "\xd8\x3d\xd8\x3d\xde\x00", 1, "1\t\uFFFD😀\n" + noteBE},
		{"second half alone", le + "\x00\xdeA\x00", 1, "1\t\uFFFDA\n" + noteLE},
		{"second half first", le + "\x00\xde\x3d\xd8", 1, "1\t\uFFFD\uFFFD\n" + noteLE},
		{"CR at the end of a buffer", le + wide(chinese+"\r\n", false), 1, "1\t" + chinese + "\n" + noteLE + crlf},
		{"CR at the end of a large buffer", strings.Repeat("x", 64<<10-1) + "\r\n" + "end\r\n", 1,
			"1\t" + strings.Repeat("x", 2000) + lineGoesOn(1) + "2\tend\n" + crlf},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := readFile(t, test.text, test.offset); got != test.want {
				t.Errorf("got  %.300q\nwant %.300q", got, test.want)
			}
		})
	}
}

// wide returns text as UTF-16.
func wide(text string, big bool) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		high, low := byte(unit>>8), byte(unit)
		if big {
			low, high = high, low
		}
		b.WriteByte(low)
		b.WriteByte(high)
	}
	return b.String()
}

func TestReadLinks(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"real.txt": "inside\n", "dir/deep.txt": "deep\n"})
	outside := filepath.Join(t.TempDir(), "canary.txt")
	if err := os.WriteFile(outside, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, target, path, want string }{
		{"file", "real.txt", "", "1\tinside\n"},
		{"folder", "dir", "/deep.txt", "1\tdeep\n"},
		{"up and in again", "dir/../real.txt", "", "1\tinside\n"},
		{"outside", outside, "", "outside_workspace"},
		{"outside folder", filepath.Dir(outside), "/canary.txt", "outside_workspace"},
		{"outside by dots", "../" + filepath.Base(filepath.Dir(outside)), "/canary.txt", "outside_workspace"},
		{"the machine's root", "/", "/etc/passwd", "outside_workspace"},
		{"a process's root", "/proc/self/root", "/etc/passwd", "outside_workspace"},
		{"nowhere", "gone.txt", "", "file_not_found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			link := strings.ReplaceAll(test.name, " ", "-")
			if err := os.Symlink(test.target, filepath.Join(env.Workspace.Dir(), link)); err != nil {
				t.Fatal(err)
			}
			got := read(t, env, `{"path":"`+link+test.path+`"}`)
			if strings.Contains(got, "canary\n") || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestReadDoesNotWaitForAPipe would hang where opening a pipe waits for a
// writer.
func TestReadDoesNotWaitForAPipe(t *testing.T) {
	env := toolstest.Env(t, nil)
	if err := syscall.Mkfifo(filepath.Join(env.Workspace.Dir(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "not_a_file\npipe: not a regular file but a named pipe. Name a file instead.\n"
	if got := read(t, env, `{"path":"pipe"}`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadForbidden(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is forbidden to root")
	}
	env := toolstest.Env(t, map[string]string{"secret": "x"})
	if err := os.Chmod(filepath.Join(env.Workspace.Dir(), "secret"), 0); err != nil {
		t.Fatal(err)
	}
	if got := read(t, env, `{"path":"secret"}`); !strings.HasPrefix(got, "permission_denied\nsecret: ") {
		t.Errorf("got %q", got)
	}
}

// lineGoesOn is what is said of a line of f that is too long.
func lineGoesOn(line int) string {
	return fmt.Sprintf(" … (the line goes on: read_file {\"path\":\"f\",\"offset\":%d,\"column\":2001,\"limit\":1})\n", line)
}

func TestReadOneHugeLine(t *testing.T) {
	want := "1\t" + strings.Repeat("x", 2000) + lineGoesOn(1) + "2\tend\n"
	if got := readFile(t, strings.Repeat("x", 5<<20)+"\nend", 1); got != want {
		t.Errorf("got %d bytes: %.50q...", len(got), got)
	}
	if got := readFile(t, strings.Repeat("x", 5<<20)+"\nend", -1); got != "2\tend\n" {
		t.Errorf("the last line: %.50q", got)
	}
	four := strings.Repeat("😀", 2000)
	if got := readFile(t, four+"\r\n"+four+"x\r\n", 1); got != "1\t"+four+"\n2\t"+four+lineGoesOn(2)+"(line endings: CRLF)\n" {
		t.Errorf("characters of four bytes: %d bytes", len(got))
	}
}

func TestReadPages(t *testing.T) {
	const lines = 100_000
	var text strings.Builder
	for n := range lines {
		fmt.Fprintf(&text, "line %d\n", n+1)
	}
	env := toolstest.Env(t, map[string]string{"f": text.String()})

	got := read(t, env, `{"path":"f"}`)
	if !strings.HasPrefix(got, "1\tline 1\n") || !strings.HasSuffix(got, "2000\tline 2000\n(there is more: go on with read_file {\"path\":\"f\",\"offset\":2001})\n") {
		t.Errorf("first page: %.20q ... %q", got, got[len(got)-60:])
	}
	if want := "99999\tline 99999\n100000\tline 100000\n"; read(t, env, `{"path":"f","offset":-2}`) != want {
		t.Error("the last two lines are wrong")
	}
	if got := read(t, env, `{"path":"f","offset":99999,"limit":1}`); got != "99999\tline 99999\n(there is more: go on with read_file {\"path\":\"f\",\"offset\":100000,\"limit\":1})\n" {
		t.Errorf("one line: %q", got)
	}

	// Following the notes shows every line once, in pages of a bounded size.
	next, pages := 1, 0
	for more := true; more; pages++ {
		result, _, err := toolstest.Run(t, files.Read(nil, nil), env, fmt.Sprintf(`{"path":"f","offset":%d,"limit":100000}`, next))
		if err != nil {
			t.Fatal(err)
		}
		var details struct {
			FirstLine int  `json:"first_line"`
			LastLine  int  `json:"last_line"`
			More      bool `json:"more"`
		}
		if err := json.Unmarshal(result.Details, &details); err != nil {
			t.Fatal(err)
		}
		page := toolstest.Text(result)
		if len(page) > 300_000 || !strings.HasPrefix(page, fmt.Sprintf("%d\tline %d\n", next, next)) || details.FirstLine != next {
			t.Fatalf("page of %d bytes from line %d: %.30q, details %s", len(page), next, page, result.Details)
		}
		next, more = details.LastLine+1, details.More
	}
	if next != lines+1 || pages < 2 {
		t.Errorf("%d pages to line %d", pages, next-1)
	}
}

func TestReadDetails(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"dir/f": "\xEF\xBB\xBFa\r\nb\xff\nc\n"})
	result, reports, err := toolstest.Run(t, files.Read(nil, nil), env, `{"path":"./dir//f","offset":1,"limit":2}`)
	if err != nil || len(reports) != 0 {
		t.Fatal(err, reports)
	}
	want := `{"path":"./dir//f","first_line":1,"last_line":2,"more":true,"encoding":"UTF-8","line_endings":"mixed","lines_with_invalid_bytes":1,"hash":"` + workspace.HashOf([]byte("\xEF\xBB\xBFa\r\nb\xff\nc\n")).Short() + `"}`
	if got := string(result.Details); got != want {
		t.Errorf("details %s\nwant    %s", got, want)
	}
}

func TestReadEffects(t *testing.T) {
	env := toolstest.Env(t, nil)
	for _, test := range []struct{ path, want string }{
		{"a.txt", "a.txt"},
		{"./b/../a.txt", "a.txt"},
		{env.Workspace.Dir() + "/a.txt", "a.txt"},
		{"../a.txt", filepath.Dir(env.Workspace.Dir()) + "/a.txt"},
		{"/etc/passwd", "/etc/passwd"},
	} {
		call, err := files.Read(nil, nil).Decode(&env, json.RawMessage(`{"path":"`+test.path+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		effects := call.Effects()
		if len(effects) != 1 || effects[0].Kind != tools.ReadsPath || effects[0].Path != test.want {
			t.Errorf("%s: effects %+v, want reading %s", test.path, effects, test.want)
		}
	}
}

// TestReadStops reads a file without lines that no disk could hold: it has no
// end in reach, so that only the context can end the call.
func TestReadStops(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"endless": strings.Repeat("x", 16<<10)})
	if err := os.Truncate(filepath.Join(env.Workspace.Dir(), "endless"), 1<<42); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	for _, input := range []string{`{"path":"endless"}`, `{"path":"endless","offset":-1}`, `{"path":"endless","offset":2}`} {
		toolstest.StopsSoon(t, files.Read(nil, nil), input, env)
	}
}

func TestReadStopsHalfWay(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": strings.Repeat("line\n", 500_000)})
	for _, input := range []string{`{"path":"f","offset":400000}`, `{"path":"f","offset":-5}`} {
		// The call looks at its context now and then: let it live for a few looks.
		ctx := &fewChecks{Context: t.Context(), left: 3}
		call, err := files.Read(nil, nil).Decode(&env, json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call.Run(ctx, tools.Rights{}, new(toolstest.Recorder)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that it was cancelled", input, err)
		}
	}
}

// fewLooks is a context that is done after a number of looks at it.
type fewChecks struct {
	context.Context
	left int
}

func (c *fewChecks) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestReadTextIsValid holds for what the wire cannot carry otherwise.
func TestReadTextIsValid(t *testing.T) {
	for _, text := range []string{"\xff\xfe\x00\xd8", "\x80\n\x80", strings.Repeat("\xf0\x9f\x98", 5000), "é" + strings.Repeat("\xe2\x82", 9000)} {
		if got := readFile(t, text, 1); !utf8.ValidString(got) {
			t.Errorf("%.20q is shown as %.40q", text, got)
		}
	}
}
