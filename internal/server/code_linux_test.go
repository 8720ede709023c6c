// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/programtest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestCode has a whole server know source code: what is asked after an edit is true to
// it, a rewrite is asked about with its diff, and undo takes it back.
func TestCode(t *testing.T) {
	t.Parallel()
	program, err := programtest.BuildSyntax(programDir(t))
	if err != nil {
		t.Fatal(err)
	}
	s := serveAllowing(t, "syntax: {program: "+program+"}\n")
	s.file("a.go", "package a\n\nfunc Old() { call(1) }\n")
	s.run("make_dir", `{"path":"dir"}`)
	s.file("dir/b.go", "package b\n\nfunc Other() { call(2) }\n")
	there := func(id string, level pb.Level) string {
		if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: id, Mode: pb.Mode_MODE_ASK, Level: level, Workspace: s.workspace}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	lookup := func(name string) string {
		return contentText(s.run("code", `{"operation":"lookup_symbols","symbols":["`+name+`"]}`))
	}
	if got := lookup("Old"); !strings.Contains(got, "a.go:3  function Old") {
		t.Error(got)
	}
	s.run("edit_file", `{"path":"a.go","old_string":"Old","new_string":"New"}`)
	if got := lookup("New"); !strings.Contains(got, "a.go:3  function New") {
		t.Error(got)
	}
	if got := lookup("Old"); !strings.Contains(got, "no symbol is called Old") {
		t.Error(got)
	}
	s.run("bash", `{"command":"mv a.go dir/c.go"}`)
	if got := lookup("New"); !strings.Contains(got, "dir/c.go:3  function New") {
		t.Error(got)
	}
	session := there("asking", pb.Level_LEVEL_WORKSPACE_WRITE)
	const rewrite = `{"operation":"pattern_rewrite","pattern":"call($A)","replacement":"invoke($A, 0)","language":"go","dry_run":false}`
	shown := ""
	end := s.in(session, "code", rewrite, func(a *pb.Approval) pb.AnswerKind {
		shown = a.GetPreview().GetText()
		return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
	})
	if text := contentText(end); !strings.HasPrefix(text, "Changed 2 places in 2 files.") {
		t.Errorf("%v", end)
	}
	if !strings.Contains(shown, "+func Other() { invoke(2, 0) }") {
		t.Errorf("who was asked was shown %q", shown)
	}
	if got := s.read("dir/b.go"); got != "package b\n\nfunc Other() { invoke(2, 0) }\n" {
		t.Error(got)
	}
	if end := s.in(session, "undo", `{}`, func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE }); end.GetFailure() != nil {
		t.Error(end)
	}
	if got := s.read("dir/b.go"); got != "package b\n\nfunc Other() { call(2) }\n" {
		t.Error(got)
	}
	reader := there("reader", pb.Level_LEVEL_READ_ONLY)
	if got := contentText(s.in(reader, "code", `{"operation":"get_document_symbols","file_path":"dir/b.go"}`, nil)); !strings.Contains(got, "func Other()") {
		t.Error(got)
	}
	if end := s.in(reader, "code", rewrite, nil); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Errorf("a session that may only read: %v", end)
	}
	if got := s.read("dir/b.go"); strings.Contains(got, "invoke") {
		t.Error(got)
	}
}
