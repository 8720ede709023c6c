// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestAttacksWithLinks(t *testing.T) {
	f := serveFiles(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": outside, "file": filepath.Join(outside, "secret"), "in": "real", "up": "..", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(f.server.workspace, link)); err != nil {
			t.Fatal(err)
		}
	}
	f.server.write("real", "r")
	for _, path := range []string{"out/secret", "file", "up/x"} {
		_, _, _, err := f.read(&pb.ReadFileRequest{Path: path})
		wantCode(t, err, codes.PermissionDenied, "outside")
		_, err = f.write(&pb.WriteFileHeader{Path: path}, "x")
		wantCode(t, err, codes.PermissionDenied, "outside")
	}
	_, err := f.StatFile(timeout(t), &pb.StatFileRequest{Path: "out/secret"})
	wantCode(t, err, codes.PermissionDenied, "outside")
	_, err = f.ListFiles(timeout(t), &pb.ListFilesRequest{Path: "out"})
	wantCode(t, err, codes.PermissionDenied, "outside")
	_, err = f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "out/secret"})
	wantCode(t, err, codes.PermissionDenied, "outside")
	if _, _, _, err := f.read(&pb.ReadFileRequest{Path: "loop"}); err == nil {
		t.Error("a loop was read")
	}
	link, err := f.StatFile(timeout(t), &pb.StatFileRequest{Path: "file"})
	if err != nil || link.GetFile().GetType() != pb.FileType_FILE_TYPE_SYMLINK || link.GetFile().GetLinkTarget() != filepath.Join(outside, "secret") {
		t.Errorf("link: %v, %v", link, err)
	}
	if _, err := f.write(&pb.WriteFileHeader{Path: "in"}, "w"); err != nil || f.onDisk("real") != "w" {
		t.Errorf("a link that stays inside: %v", err)
	}
	if _, err := f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "out", Recursive: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Error("removing the link removed what it leads to")
	}
}

// TestDirectoriesSwappedForLinks has a directory replaced by a link out of the
// workspace, over and over, while files are written below it and read.
func TestDirectoriesSwappedForLinks(t *testing.T) {
	f := serveFiles(t)
	outside := t.TempDir()
	dir := filepath.Join(f.server.workspace, "d")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				os.Mkdir(dir, 0o700)
				os.RemoveAll(dir)
				os.Symlink(outside, dir)
				os.Remove(dir)
			}
		}
	}()
	for range 100 {
		f.write(&pb.WriteFileHeader{Path: "d/x"}, "x") // it may fail
		f.tree("", file("d/y", "y"))
	}
	close(stop)
	<-stopped
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("files were written outside of the workspace: %v", entries)
	}
}

func TestFilesOfOthers(t *testing.T) {
	s := serve(t, withTokens)
	alice, bob := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob")
	if _, err := alice.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "hers"}); err != nil {
		t.Fatal(err)
	}
	_, err := pb.NewWorkspaceServiceClient(bob.conn).StatFile(timeout(t), &pb.StatFileRequest{SessionId: "hers", Path: "."})
	wantCode(t, err, codes.NotFound, "session")
	_, err = pb.NewWorkspaceServiceClient(s.dial("").conn).StatFile(timeout(t), &pb.StatFileRequest{Path: "."})
	wantCode(t, err, codes.Unauthenticated)
	if _, err := pb.NewWorkspaceServiceClient(alice.conn).StatFile(timeout(t), &pb.StatFileRequest{SessionId: "hers", Path: "."}); err != nil {
		t.Error(err)
	}
}

// rulesOf reads a policy.
func rulesOf(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFilesAndPolicy(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) {
		c.Policy = rulesOf(t, `
version: 1
rules:
  - name: secrets
    action: deny
    reads: ["**/*.key"]
    writes: ["**/*.key"]
    reason: Keys stay where they are.
  - name: drafts
    action: ask
    reads: ["drafts/**"]
    writes: ["drafts/**"]
limits:
  - name: removals
    tools: [workspace_remove]
    rate: 1/h
    burst: 1
`)
	})
	os.Mkdir(filepath.Join(f.server.workspace, "drafts"), 0o700)
	f.server.write("a.key", "k")
	f.server.write("a.txt", "t")
	f.server.write("drafts/d", "d")
	_, _, _, err := f.read(&pb.ReadFileRequest{Path: "a.key"})
	wantCode(t, err, codes.PermissionDenied, "Keys stay where they are.", "secrets")
	_, err = f.write(&pb.WriteFileHeader{Path: "b.key"}, "x")
	wantCode(t, err, codes.PermissionDenied, "Keys stay")
	_, err = f.write(&pb.WriteFileHeader{Path: ".git/hooks/pre-commit"}, "x")
	wantCode(t, err, codes.PermissionDenied)
	_, _, _, err = f.read(&pb.ReadFileRequest{Path: "drafts/d"})
	wantCode(t, err, codes.PermissionDenied, "drafts", "does not wait for a person", "workspace_read")

	list, err := f.ListFiles(timeout(t), &pb.ListFilesRequest{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(list); got != "a.key a.txt drafts" { // names are shown, not what is below
		t.Errorf("listed %s", got)
	}
	if _, err := f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "a.txt"}); err != nil {
		t.Fatal(err)
	}
	_, err = f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "a.txt"})
	wantCode(t, err, codes.ResourceExhausted, "removals")

	f.mode(pb.Mode_MODE_ASK)
	_, err = f.write(&pb.WriteFileHeader{Path: "x"}, "x")
	wantCode(t, err, codes.PermissionDenied, "mode ask", "accept_edits")
	f.mode(pb.Mode_MODE_PLAN)
	_, err = f.write(&pb.WriteFileHeader{Path: "x"}, "x")
	wantCode(t, err, codes.PermissionDenied, "mode plan")
	f.mode(pb.Mode_MODE_ACCEPT_EDITS)
	if _, err = f.write(&pb.WriteFileHeader{Path: "x"}, "x"); err != nil {
		t.Error(err)
	}
	f.update(&pb.Session{SessionId: "default", Level: pb.Level_LEVEL_READ_ONLY}, "level")
	_, err = f.write(&pb.WriteFileHeader{Path: "x"}, "x")
	wantCode(t, err, codes.PermissionDenied, "level")
	if _, _, _, err = f.read(&pb.ReadFileRequest{Path: "x"}); err != nil {
		t.Error(err)
	}

	for tool, want := range map[string]pb.Action{"workspace_read": pb.Action_ACTION_DENY, "workspace_write": pb.Action_ACTION_DENY} {
		checked, err := f.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: tool, InputJson: []byte(`{"path":"a.key"}`)})
		if err != nil || checked.GetVerdict().GetAction() != want {
			t.Errorf("%s: %v, %v", tool, checked, err)
		}
		if _, err = f.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: tool, InputJson: []byte(`{"path":"a","recursive":"true"}`)}); err != nil {
			t.Errorf("%s with a boolean as text: %v", tool, err)
		}
	}
}

func TestPolicyReplacedDuringAnUpload(t *testing.T) {
	f := serveFiles(t)
	header := &pb.WriteFileHeader{Path: "x", UploadId: "u", Size: proto.Uint64(4)}
	stream, err := f.WriteFile(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: header}})
	for {
		if _, err := f.GetUpload(timeout(t), &pb.GetUploadRequest{UploadId: "u"}); err == nil {
			break
		}
	}
	if err := f.server.ReplacePolicy(rulesOf(t, "version: 1\nrules:\n  - {name: frozen, action: deny, writes: ['**']}\n")); err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: []byte("late")}})
	_, err = stream.CloseAndRecv()
	wantCode(t, err, codes.PermissionDenied, "frozen")
	f.untouched()
}

// TestFilesAndSelection proves that a session which excludes transfers is without
// them, and that what it includes says nothing about them.
func TestFilesAndSelection(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) {
		c.Policy = rulesOf(t, "version: 1\nexplicit_only: [workspace_remove]\n")
	})
	f.server.write("a", "a")
	selects := func(include, exclude []string) {
		f.update(&pb.Session{SessionId: "default", Tools: &pb.ToolSelection{Include: include, Exclude: exclude}}, "tools")
	}
	read := func() error {
		_, _, _, err := f.read(&pb.ReadFileRequest{Path: "a"})
		return err
	}
	write := func() error {
		_, err := f.write(&pb.WriteFileHeader{Path: "a"}, "b")
		return err
	}
	remove := func() error {
		_, err := f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "a"})
		return err
	}
	for _, test := range []struct {
		include, exclude []string
		can, cannot      []func() error
	}{
		{can: []func() error{read, write}, cannot: []func() error{remove}},
		{include: []string{"echo"}, can: []func() error{read, write}},
		{exclude: []string{"write_file", "echo"}, can: []func() error{read, write}},
		{exclude: []string{"workspace_write"}, can: []func() error{read}, cannot: []func() error{write}},
		{include: []string{"workspace_write"}, exclude: []string{"workspace_*"}, cannot: []func() error{read, write, remove}},
		{exclude: []string{"*"}, cannot: []func() error{read, write, remove}},
		{include: []string{"workspace_remove"}, can: []func() error{read, write, remove}},
	} {
		selects(test.include, test.exclude)
		for _, do := range test.can {
			if err := do(); err != nil {
				t.Errorf("include %q, exclude %q: %v", test.include, test.exclude, err)
			}
		}
		for _, do := range test.cannot {
			wantCode(t, do(), codes.PermissionDenied, "There is no tool", "in this session", "selection of tools")
		}
	}
	selects(nil, []string{"workspace_write"})
	_, err := f.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: "workspace_write", InputJson: []byte(`{"path":"a"}`)})
	wantCode(t, err, codes.InvalidArgument, "There is no tool")
}
