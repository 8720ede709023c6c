// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/programtest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// withServers serves a whole server that finds gopls, pyright and typescript-language-server.
func withServers(t *testing.T) *wholeServer {
	t.Helper()
	bin, err := filepath.EvalSymlinks("../../.bin")
	if err == nil {
		bin, err = filepath.Abs(bin)
	}
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(bin, "lsp", "node_modules", ".bin")
	needs(t, filepath.Join(bin, "gopls"))
	needs(t, filepath.Join(node, "pyright-langserver"))
	needs(t, filepath.Join(node, "typescript-language-server"))
	program, err := programtest.BuildSyntax(programDir(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return serveWhole(t, dir, inDir(dir, ", path: ["+node+", "+bin+"]", "", ", allowed_workspaces: ["+dir+"/ws], mode: allow", "syntax: {program: "+program+"}\n"), zap.NewNop())
}

// asked runs a call of code, again while its language server is busy, and returns its text.
func (s *wholeServer) asked(session, tool, input string) string {
	s.t.Helper()
	for {
		end := s.in(session, tool, input, nil)
		if text := contentText(end); !strings.Contains(text, "still busy with") && !strings.Contains(text, "did not tell of everything in time") {
			return text + end.GetFailure().GetMessage()
		}
	}
}

func (s *wholeServer) wants(got string, parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			s.t.Errorf("%q is missing in:\n%s", part, got)
		}
	}
}

// TestLanguageServers has a whole server ask gopls: what a name means, who uses it, what a
// change would break that is not written, and a rename that is shown, done and undone.
func TestLanguageServers(t *testing.T) {
	t.Parallel()
	s := withServers(t)
	files := map[string]string{
		"go.mod":   "module example.com/m\n\ngo 1.21\n",
		"greet.go": "package m\n\n// Greet greets.\nfunc Greet(name string) string { return name }\n",
		"use.go":   "package m\n\nvar Both = Greet(\"a\") + Greet(\"b\")\n",
	}
	for name, text := range files {
		s.file(name, text)
	}
	s.wants(s.asked("", "code", `{"operation":"goto_definition","file_path":"use.go","row":3,"symbol_name":"Greet"}`), "greet.go:4:6: func Greet(name string)", "(answered by gopls)")
	s.wants(s.asked("", "LspDefinition", `{"path":"use.go","line":2,"character":12}`), "greet.go:4:6: func Greet(name string)")
	s.wants(s.asked("", "code", `{"operation":"find_references","symbol_name":"Greet"}`), "greet.go:4:6:", "use.go:3:12:", "use.go:3:25:")
	s.wants(s.asked("", "code", `{"operation":"get_diagnostics","file_path":"greet.go","text":"package m\n"}`), "new: use.go:3:12: error: undefined: Greet", "(nothing was written)")
	s.wants(s.asked("", "code", `{"operation":"get_diagnostics","file_path":"use.go"}`), "(nothing is wrong with it)")

	// What docs/code.md shows works, and changes nothing.
	page, err := os.ReadFile("../../docs/code.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`toolserver call code '(.*)'`).FindAllStringSubmatch(string(page), -1)
	for _, example := range examples {
		end := s.in("", "code", example[1], nil)
		if text := contentText(end); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(text, "Greet") {
			t.Errorf("%s: %v", example[1], end)
		}
	}
	if len(examples) < 8 {
		t.Errorf("docs/code.md has %d examples", len(examples))
	}

	const rename = `{"operation":"rename_symbol","symbol_name":"Greet","new_name":"Hello","dry_run":`
	s.wants(s.asked("", "code", rename+`true}`), "Would change 2 files. Nothing was written", `+var Both = Hello("a") + Hello("b")`)
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "asking", Mode: pb.Mode_MODE_ASK, Workspace: s.workspace}); err != nil {
		t.Fatal(err)
	}
	shown := ""
	end := s.in("asking", "code", rename+`false}`, func(a *pb.Approval) pb.AnswerKind {
		shown = a.GetPreview().GetText()
		return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
	})
	s.wants(shown, "+++ b/greet.go", "+++ b/use.go", `+var Both = Hello("a") + Hello("b")`)
	s.wants(contentText(end), "Changed 2 files.")
	s.wants(s.read("use.go"), `Hello("a") + Hello("b")`)
	s.in("asking", "undo", `{}`, func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE })
	for name, want := range files {
		if got := s.read(name); got != want {
			t.Errorf("undo left %s: %q", name, got)
		}
	}
}

// TestRenameOfUnopenedFiles: a rename in TypeScript, without a project file and as the first call
// of a session, changes all files that use the name, and tells which have it beside. A name
// that is none is refused, and so is a rewrite that does not say with what.
func TestRenameOfUnopenedFiles(t *testing.T) {
	t.Parallel()
	s := withServers(t)
	s.file("cart.ts", "export class Cart {\n  total(): number {\n    return 1;\n  }\n}\n")
	s.file("use.ts", "import { Cart } from \"./cart\";\n\nexport const sold: number = new Cart().total();\n")
	s.file("notes.ts", "export const note = \"the total of it\";\n")
	const left = "the word total is in 1 more file that typescript-language-server does not change: notes.ts"
	const rename = `{"operation":"rename_symbol","symbol_name":"Cart.total","new_name":"sum","dry_run":`
	s.wants(s.asked("", "code", rename+`true}`), "Would change 2 files", left, "+export const sold: number = new Cart().sum();", "(answered by typescript-language-server)")
	s.wants(s.asked("", "code", `{"operation":"rename_symbol","symbol_name":"Cart.total","new_name":"1x","dry_run":false}`), "is no name of JavaScript and TypeScript")
	s.wants(s.asked("", "code", `{"operation":"get_diagnostics","file_path":"cart.ts","text":"export class Cart {}\n"}`), "new: use.ts:3:40: error: ")
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "asking", Mode: pb.Mode_MODE_ASK, Workspace: s.workspace}); err != nil {
		t.Fatal(err)
	}
	s.wants(s.asked("asking", "code", rename+`true}`), "Would change 2 files") // its server is there now
	shown := ""
	end := s.in("asking", "code", rename+`false}`, func(a *pb.Approval) pb.AnswerKind {
		shown = a.GetPreview().GetText()
		return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
	})
	s.wants(shown, left, "+++ b/cart.ts", "+++ b/use.ts")
	s.wants(contentText(end), "Changed 2 files.", left)
	s.wants(s.read("use.ts"), "new Cart().sum()")
	s.wants(s.asked("", "code", `{"operation":"pattern_rewrite","pattern":"new Cart()","language":"typescript","dry_run":false}`), "replacement")
	s.wants(s.asked("", "code", `{"operation":"get_document_symbols","file_path":"use.ts"}`), "(answered by syntax)")
}

// TestErrorsBesideEdits: in a session that wants it, each tool that changes text tells which
// errors its files have since, and none that were there before.
func TestErrorsBesideEdits(t *testing.T) {
	t.Parallel()
	s := withServers(t)
	s.file("go.mod", "module example.com/m\n\ngo 1.21\n")
	s.file("a.go", "package m\n\nvar Old int = \"old\"\n\nvar A = 1\n")
	s.file("b.py", "old: int = \"old\"\n\na = 1\n")
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "told", Workspace: s.workspace, EditErrors: durationpb.New(30 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	// The servers are there, and know the workspace.
	s.wants(s.asked("told", "code", `{"operation":"get_diagnostics","file_path":"a.go"}`), "a.go:3:15: error")
	s.wants(s.asked("told", "code", `{"operation":"get_diagnostics","file_path":"b.py"}`), "b.py:1:12: error")

	for _, test := range []struct{ tool, input, wants string }{
		{"edit_file", `{"path":"a.go","old_string":"A = 1","new_string":"A = missing"}`, "new a.go:5:9: error: undefined: missing"},
		{"write_file", `{"path":"c.go","content":"package m\n\nvar C string = 1\n"}`, "new c.go:3:16: error: cannot use 1"},
		{"multi_edit", `{"path":"b.py","edits":[{"old_string":"a = 1","new_string":"a: str = 1"},{"old_string":"a: str","new_string":"b: str"}]}`, "new b.py:3:10: error: "},
		{"apply_patch", `{"patch":"--- a/b.py\n+++ b/b.py\n@@ -3 +3,2 @@\n b: str = 1\n+c = nobody\n"}`, "new b.py:4:5: error: "},
	} {
		got := s.asked("told", test.tool, test.input)
		s.wants(got, test.wants)
		if strings.Contains(got, "old") && strings.Count(got, "new a.go")+strings.Count(got, "new b.py")+strings.Count(got, "new c.go") != 1 {
			t.Errorf("%s tells of what was there before:\n%s", test.tool, got)
		}
	}
	// A file that is moved has what was wrong with it before, and what is wrong since.
	s.file("d.py", "old: int = \"older\"\n\nd = 1\n")
	got := s.asked("told", "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: d.py\n*** Move to: moved/e.py\n@@\n-d = 1\n+d = nowhere\n*** End Patch\n"}`)
	s.wants(got, "Moved d.py to moved/e.py", "new moved/e.py:3:5: error: ")
	if strings.Count(got, "new moved/e.py") != 1 {
		t.Errorf("a move tells of what was there before:\n%s", got)
	}
	s.file("f.go", "package m\n\nvar F int = \"older\"\n\nvar G = 1\n")
	got = s.asked("told", "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: f.go\n*** Move to: g.go\n@@\n-var G = 1\n+var G = nowhere\n*** End Patch\n"}`)
	s.wants(got, "Moved f.go to g.go", "new g.go:5:9: error: undefined: nowhere")
	if strings.Count(got, "new g.go") != 1 {
		t.Errorf("a move tells of what was there before:\n%s", got)
	}
	if got := contentText(s.in("told", "edit_file", `{"path":"a.go","old_string":"A = missing","new_string":"A = 2"}`, nil)); strings.Contains(got, "new ") {
		t.Errorf("an edit without new errors tells of some:\n%s", got)
	}
	if got := contentText(s.run("edit_file", `{"path":"a.go","old_string":"A = 2","new_string":"A = missing"}`)); strings.Contains(got, "new ") {
		t.Errorf("a session that does not want it:\n%s", got)
	}
	s.wants(contentText(s.run("config", `{"setting":"edit_errors","value":"1ns"}`)), "edit_errors")
	s.wants(contentText(s.run("write_file", `{"path":"d.go","content":"package m\n"}`)), "Created d.go", "(gopls is still at work: whether there are new errors is not known yet)")
}
