// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// fileClient is a client of WorkspaceService in a session of mode allow.
type fileClient struct {
	pb.WorkspaceServiceClient
	*client
	server *testServer
}

func serveFiles(t *testing.T, options ...func(*service.Config)) *fileClient {
	t.Helper()
	s := serve(t, options...)
	c := s.dial("")
	f := &fileClient{pb.NewWorkspaceServiceClient(c.conn), c, s}
	f.mode(pb.Mode_MODE_ALLOW)
	return f
}

// mode changes the mode of the default session.
func (f *fileClient) mode(mode pb.Mode) {
	f.t.Helper()
	f.update(&pb.Session{SessionId: "default", Mode: mode}, "mode")
}

func (f *fileClient) update(s *pb.Session, field string) {
	f.t.Helper()
	if _, err := f.GetSession(timeout(f.t), &pb.GetSessionRequest{}); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.UpdateSession(timeout(f.t), &pb.UpdateSessionRequest{Session: s, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{field}}}); err != nil {
		f.t.Fatal(err)
	}
}

// write uploads a file in chunks of some bytes.
func (f *fileClient) write(header *pb.WriteFileHeader, content string) (*pb.WriteFileResponse, error) {
	stream, err := f.WriteFile(timeout(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	if header != nil {
		stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: header}})
	}
	for data := range slices.Chunk([]byte(content), 1000) {
		stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: data}})
	}
	return stream.CloseAndRecv()
}

// read downloads a file, and checks that the offsets of its messages follow each other.
func (f *fileClient) read(request *pb.ReadFileRequest) (content string, info *pb.FileInfo, sum string, err error) {
	stream, err := f.ReadFile(timeout(f.t), request)
	if err != nil {
		f.t.Fatal(err)
	}
	var all bytes.Buffer
	for first := true; ; first = false {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all.String(), info, sum, nil
		}
		if err != nil {
			return all.String(), info, sum, err
		}
		if first != (m.GetFile() != nil) {
			f.t.Errorf("a message with offset %d has the file %v", m.GetOffset(), m.GetFile())
		}
		if first {
			info = m.GetFile()
		}
		if want := request.GetOffset() + uint64(all.Len()); m.GetOffset() != want {
			f.t.Errorf("offset %d, want %d", m.GetOffset(), want)
		}
		sum = m.GetSha256()
		all.Write(m.GetData())
	}
}

// onDisk is what a file of the workspace has.
func (f *fileClient) onDisk(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.server.workspace, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

// untouched fails unless the workspace has just these entries.
func (f *fileClient) untouched(names ...string) {
	f.t.Helper()
	var there []string
	filepath.WalkDir(f.server.workspace, func(path string, _ os.DirEntry, _ error) error {
		if rel, _ := filepath.Rel(f.server.workspace, path); rel != "." {
			there = append(there, rel)
		}
		return nil
	})
	if !slices.Equal(there, names) {
		f.t.Errorf("the workspace has %q, want %q", there, names)
	}
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestFileThereAndBack(t *testing.T) {
	f := serveFiles(t)
	content := strings.Repeat("0123456789abcdef", 20_000) // 5 messages and a part
	written, err := f.write(&pb.WriteFileHeader{
		Path: "a/b/c.bin", Mode: proto.Uint32(0o750), Size: proto.Uint64(uint64(len(content))), Sha256: sha(content),
	}, content)
	if err != nil {
		t.Fatal(err)
	}
	if w := written.GetFile(); !written.GetCreated() || written.GetChangeId() == "" || w.GetSize() != 320_000 || w.GetSha256() != sha(content) || w.GetMode() != 0o750 {
		t.Errorf("written: %v", written)
	}
	stat, err := f.StatFile(timeout(t), &pb.StatFileRequest{Path: "a/b/c.bin", Digest: true})
	if err != nil || !proto.Equal(stat.GetFile(), written.GetFile()) {
		t.Errorf("stat: %v, %v, want %v", stat, err, written.GetFile())
	}
	back, info, sum, err := f.read(&pb.ReadFileRequest{Path: "a/b/c.bin", Digest: true})
	if err != nil || back != content || sum != sha(content) || info.GetVersion() != written.GetFile().GetVersion() {
		t.Errorf("read: %d bytes, %v, %s, %v", len(back), info, sum, err)
	}
	for _, r := range []struct{ offset, limit, from, to int }{
		{0, 4096, 0, 4096}, {65_530, 12, 65_530, 65_542}, {319_999, 5, 319_999, 320_000}, {320_000, 0, 320_000, 320_000}, {1, 0, 1, 320_000},
		{100, 1 << 62, 100, 320_000},
	} {
		part, _, sum, err := f.read(&pb.ReadFileRequest{Path: "a/b/c.bin", Offset: uint64(r.offset), Limit: uint64(r.limit), Digest: true})
		if err != nil || part != content[r.from:r.to] || sum != sha(part) {
			t.Errorf("read from %d, %d bytes: %d bytes, %v", r.offset, r.limit, len(part), err)
		}
	}
	_, _, _, err = f.read(&pb.ReadFileRequest{Path: "a/b/c.bin", Offset: 320_001})
	wantCode(t, err, codes.OutOfRange, "320000 bytes")

	// What replaces it keeps its mode, and undo brings it back.
	replaced, err := f.write(&pb.WriteFileHeader{Path: "a/b/c.bin", Replaces: &written.GetFile().Version}, "new")
	if err != nil || replaced.GetCreated() || replaced.GetFile().GetMode() != 0o750 {
		t.Fatalf("replaced: %v, %v", replaced, err)
	}
	_, err = f.write(&pb.WriteFileHeader{Path: "a/b/c.bin", Replaces: &written.GetFile().Version}, "newer")
	wantCode(t, err, codes.Aborted, "another version", replaced.GetFile().GetVersion())
	_, err = f.write(&pb.WriteFileHeader{Path: "a/b/c.bin", Replaces: proto.String("")}, "newer")
	wantCode(t, err, codes.Aborted, "another version")
	_, _, _, err = f.read(&pb.ReadFileRequest{Path: "a/b/c.bin", Version: written.GetFile().GetVersion()})
	wantCode(t, err, codes.Aborted, "another version")
	if done := f.run(asJSON("undo", `{"call":"`+replaced.GetChangeId()+`"}`)); done.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("undo: %v", done)
	}
	if f.onDisk("a/b/c.bin") != content {
		t.Error("undo did not bring the file back")
	}
}

func TestWrittenInPlaceWhileItIsRead(t *testing.T) {
	f := serveFiles(t)
	old := strings.Repeat("o", 8<<20)
	f.server.write("grows", old)
	stream, err := f.ReadFile(timeout(t), &pb.ReadFileRequest{Path: "grows"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil { // the rest waits, for it does not fit into what may be under way
		t.Fatal(err)
	}
	f.server.write("grows", strings.Repeat("n", 8<<20))
	for err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.Aborted, "grows")

	// One that is replaced is read as it was.
	f.server.write("grows", old)
	if stream, err = f.ReadFile(timeout(t), &pb.ReadFileRequest{Path: "grows"}); err != nil {
		t.Fatal(err)
	}
	if _, err = stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.write(&pb.WriteFileHeader{Path: "grows"}, "other"); err != nil {
		t.Fatal(err)
	}
	n := 65_536
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(string(m.GetData()), "o") != "" {
			t.Fatal("it has bytes of another version")
		}
		n += len(m.GetData())
	}
	if n != len(old) {
		t.Errorf("%d bytes, want %d", n, len(old))
	}
}

func TestBadUploadsLeaveNothing(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.MaxFileBytes = 5000 })
	for name, try := range map[string]struct {
		header  *pb.WriteFileHeader
		content string
		code    codes.Code
		words   string
	}{
		"no header":         {nil, "x", codes.InvalidArgument, "header"},
		"no path":           {&pb.WriteFileHeader{}, "x", codes.InvalidArgument, "path is empty"},
		"long path":         {&pb.WriteFileHeader{Path: strings.Repeat("x/", 3000)}, "x", codes.InvalidArgument, "6000 bytes"},
		"long name":         {&pb.WriteFileHeader{Path: strings.Repeat("x", 300)}, "x", codes.InvalidArgument, "too long"},
		"NUL":               {&pb.WriteFileHeader{Path: "a\x00b"}, "x", codes.InvalidArgument, "NUL"},
		"above":             {&pb.WriteFileHeader{Path: "../x"}, "x", codes.PermissionDenied, "outside"},
		"absolute":          {&pb.WriteFileHeader{Path: "/etc/passwd"}, "x", codes.PermissionDenied, "outside"},
		"the top":           {&pb.WriteFileHeader{Path: "."}, "x", codes.FailedPrecondition, "directory"},
		"ours":              {&pb.WriteFileHeader{Path: ".toolserver-tmp-x"}, "x", codes.InvalidArgument, "choose another"},
		"setuid":            {&pb.WriteFileHeader{Path: "a", Mode: proto.Uint32(0o4755)}, "x", codes.InvalidArgument, "0777"},
		"another digest":    {&pb.WriteFileHeader{Path: "a", Sha256: sha("y")}, "x", codes.DataLoss, sha("x")},
		"no digest":         {&pb.WriteFileHeader{Path: "a", Sha256: "abc"}, "x", codes.InvalidArgument, "64 hexadecimal"},
		"too short":         {&pb.WriteFileHeader{Path: "a", Size: proto.Uint64(2)}, "x", codes.FailedPrecondition, "1 of 2 bytes"},
		"too long":          {&pb.WriteFileHeader{Path: "a", Size: proto.Uint64(2)}, "xyz", codes.InvalidArgument, "more than the 2 bytes"},
		"too large":         {&pb.WriteFileHeader{Path: "a", Size: proto.Uint64(1 << 60)}, "x", codes.ResourceExhausted, "5000"},
		"grows too large":   {&pb.WriteFileHeader{Path: "a"}, strings.Repeat("x", 5001), codes.ResourceExhausted, "5000"},
		"id without a size": {&pb.WriteFileHeader{Path: "a", UploadId: "u"}, "x", codes.InvalidArgument, "size"},
		"offset without id": {&pb.WriteFileHeader{Path: "a", Offset: 3}, "x", codes.InvalidArgument, "id"},
		"unknown upload":    {&pb.WriteFileHeader{Path: "a", Offset: 3, UploadId: "u", Size: proto.Uint64(4)}, "x", codes.NotFound, "offset 0"},
		"long id":           {&pb.WriteFileHeader{Path: "a", UploadId: strings.Repeat("u", 129), Size: proto.Uint64(1)}, "x", codes.InvalidArgument, "128"},
		"unknown session":   {&pb.WriteFileHeader{Path: "a", SessionId: "s"}, "x", codes.NotFound, "session"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.write(try.header, try.content)
			wantCode(t, err, try.code, try.words)
		})
	}
	f.untouched()
}

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

func TestResume(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.MaxUploads = 2 })
	content := strings.Repeat("resume", 1000)
	header := &pb.WriteFileHeader{Path: "r", UploadId: "u", Size: proto.Uint64(uint64(len(content))), Sha256: sha(content)}
	stop := f.half(header, content[:2500])
	if _, err := f.write(header, content); err == nil {
		t.Error("two streams write one upload")
	} else {
		wantCode(t, err, codes.Aborted, "another stream")
	}
	stop()
	f.untouched()
	up := f.waiting("u")
	if up.GetReceivedBytes() != 2500 || up.GetPath() != "r" || !up.GetExpireTime().IsValid() {
		t.Errorf("upload: %v", up)
	}
	header.Offset = 2000
	_, err := f.write(header, content[2000:])
	wantCode(t, err, codes.OutOfRange, "2500")
	header.Offset, header.Path = 2500, "other"
	_, err = f.write(header, content[2500:])
	wantCode(t, err, codes.InvalidArgument, "is for r")
	header.Path = "r"
	if _, err := f.write(header, content[2500:]); err != nil {
		t.Fatal(err)
	}
	if f.onDisk("r") != content {
		t.Error("the file has another content")
	}
	_, err = f.GetUpload(timeout(t), &pb.GetUploadRequest{UploadId: "u"})
	wantCode(t, err, codes.NotFound)

	// A digest that is wrong ends the upload.
	header.Sha256, header.Offset = sha("x"), 0
	_, err = f.write(header, content)
	wantCode(t, err, codes.DataLoss)
	_, err = f.GetUpload(timeout(t), &pb.GetUploadRequest{UploadId: "u"})
	wantCode(t, err, codes.NotFound)

	// There are no more than may be; those that wait give way.
	a := f.half(&pb.WriteFileHeader{Path: "a", UploadId: "a", Size: proto.Uint64(9)}, "a")
	defer f.half(&pb.WriteFileHeader{Path: "b", UploadId: "b", Size: proto.Uint64(9)}, "b")()
	_, err = f.write(&pb.WriteFileHeader{Path: "c"}, "c")
	wantCode(t, err, codes.ResourceExhausted, "2 uploads")
	a()
	f.waiting("a")
	if _, err = f.write(&pb.WriteFileHeader{Path: "c"}, "c"); err != nil {
		t.Error(err)
	}
	_, err = f.GetUpload(timeout(t), &pb.GetUploadRequest{UploadId: "a"})
	wantCode(t, err, codes.NotFound)
}

// half sends a part of an upload, waits until it has arrived, and returns what
// ends the stream.
func (f *fileClient) half(header *pb.WriteFileHeader, part string) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(timeout(f.t))
	stream, err := f.WriteFile(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: header}})
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: []byte(part)}})
	for header.GetUploadId() != "" {
		up, err := f.GetUpload(timeout(f.t), &pb.GetUploadRequest{SessionId: header.GetSessionId(), UploadId: header.GetUploadId()})
		if err == nil && up.GetUpload().GetReceivedBytes() == header.GetOffset()+uint64(len(part)) {
			break
		}
	}
	return func() {
		cancel()
		stream.CloseAndRecv()
	}
}

// waiting returns an upload, once no stream writes it.
func (f *fileClient) waiting(id string) *pb.Upload {
	f.t.Helper()
	for {
		up, err := f.GetUpload(timeout(f.t), &pb.GetUploadRequest{UploadId: id})
		if err != nil {
			f.t.Fatal(err)
		}
		if !up.GetUpload().GetActive() {
			return up.GetUpload()
		}
	}
}

func TestCancelledUploadLeavesNothing(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.MaxUploads = 1 })
	f.half(&pb.WriteFileHeader{Path: "x"}, "half")()
	for { // its place is free again
		if _, err := f.write(&pb.WriteFileHeader{Path: "y"}, "y"); err == nil {
			break
		}
	}
	f.untouched("y")
}

func TestUploadsAreBounded(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.MaxUploadBytes = 3000 })
	stop := f.half(&pb.WriteFileHeader{Path: "a", UploadId: "a", Size: proto.Uint64(5000)}, strings.Repeat("a", 2500))
	_, err := f.write(&pb.WriteFileHeader{Path: "b"}, strings.Repeat("b", 600))
	wantCode(t, err, codes.ResourceExhausted, "3000")
	if _, err := f.write(&pb.WriteFileHeader{Path: "b"}, strings.Repeat("b", 500)); err != nil {
		t.Error(err)
	}
	stop()
	f.waiting("a")
	_, err = f.write(&pb.WriteFileHeader{Path: "a", UploadId: "a", Offset: 2500, Size: proto.Uint64(5000)}, strings.Repeat("a", 2500))
	wantCode(t, err, codes.ResourceExhausted, "3000")
	f.untouched("b")
}

func TestSessionClosedWhileFilesArrive(t *testing.T) {
	f := serveFiles(t)
	if _, err := f.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW}); err != nil {
		t.Fatal(err)
	}
	stream, err := f.WriteFile(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{SessionId: "s", Path: "x", UploadId: "u", Size: proto.Uint64(5)}}})
	for {
		if _, err := f.GetUpload(timeout(t), &pb.GetUploadRequest{SessionId: "s", UploadId: "u"}); err == nil {
			break
		}
	}
	if _, err := f.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "s"}); err != nil {
		t.Fatal(err)
	}
	err = stream.RecvMsg(new(pb.WriteFileResponse))
	wantCode(t, err, codes.Aborted, "session was closed")
	_, err = f.GetUpload(timeout(t), &pb.GetUploadRequest{SessionId: "s", UploadId: "u"})
	wantCode(t, err, codes.NotFound)
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

func paths(list *pb.ListFilesResponse) string {
	var names []string
	for _, file := range list.GetFiles() {
		names = append(names, file.GetPath())
	}
	return strings.Join(names, " ")
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

func TestListInPages(t *testing.T) {
	f := serveFiles(t)
	var want []string
	for _, dir := range []string{"a", "a-b", "a.b", "b"} {
		os.MkdirAll(filepath.Join(f.server.workspace, dir, "sub"), 0o700)
		for i := range 3 {
			f.server.write(fmt.Sprintf("%s/sub/f%d", dir, i), "x")
			f.server.write(fmt.Sprintf("%s/f%d", dir, i), "x")
		}
		want = append(want, dir, dir+"/f0", dir+"/f1", dir+"/f2", dir+"/sub", dir+"/sub/f0", dir+"/sub/f1", dir+"/sub/f2")
	}
	for _, size := range []int32{1, 2, 3, 5, 100} {
		var got []string
		for token := ""; ; {
			page, err := f.ListFiles(timeout(t), &pb.ListFilesRequest{Recursive: true, PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.Fields(paths(page))...)
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q, want %q", size, got, want)
		}
	}
	flat, err := f.ListFiles(timeout(t), &pb.ListFilesRequest{Path: "a"})
	if err != nil || paths(flat) != "a/f0 a/f1 a/f2 a/sub" {
		t.Errorf("flat: %s, %v", paths(flat), err)
	}
	_, err = f.ListFiles(timeout(t), &pb.ListFilesRequest{PageToken: "%"})
	wantCode(t, err, codes.InvalidArgument, "page_token")
	_, err = f.ListFiles(timeout(t), &pb.ListFilesRequest{PageSize: 1001})
	wantCode(t, err, codes.InvalidArgument, "page_size")
	_, err = f.ListFiles(timeout(t), &pb.ListFilesRequest{Path: "a/f0"})
	wantCode(t, err, codes.FailedPrecondition, "a/f0")
	_, err = f.ListFiles(timeout(t), &pb.ListFilesRequest{Path: "none"})
	wantCode(t, err, codes.NotFound, "none")
}

func TestRemove(t *testing.T) {
	f := serveFiles(t)
	os.MkdirAll(filepath.Join(f.server.workspace, "d/e"), 0o700)
	f.server.write("d/e/x", "x")
	_, err := f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "d"})
	wantCode(t, err, codes.FailedPrecondition, "recursive")
	_, err = f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "."})
	wantCode(t, err, codes.InvalidArgument, "workspace itself")
	_, err = f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "none"})
	wantCode(t, err, codes.NotFound)
	removed, err := f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "d", Recursive: true})
	if err != nil || removed.GetRemoved() != 3 {
		t.Fatalf("removed: %v, %v", removed, err)
	}
	f.untouched()
	f.run(asJSON("undo", `{"call":"`+removed.GetChangeId()+`"}`))
	f.untouched("d", "d/e", "d/e/x")
}

func TestNamesAndKinds(t *testing.T) {
	f := serveFiles(t)
	if err := syscall.Mkfifo(filepath.Join(f.server.workspace, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(f.server.workspace, "dir"), 0o700)
	for _, path := range []string{"pipe", "dir"} {
		_, _, _, err := f.read(&pb.ReadFileRequest{Path: path})
		wantCode(t, err, codes.FailedPrecondition, "not a regular file")
		_, err = f.write(&pb.WriteFileHeader{Path: path}, "x")
		wantCode(t, err, codes.FailedPrecondition, "not a regular file")
	}
	for _, name := range []string{"new\nline", "esc\x1b[2J", "\u202egpj.exe", "-rf", " ", "ü/日本"} {
		if _, err := f.write(&pb.WriteFileHeader{Path: name}, name); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got, _, _, err := f.read(&pb.ReadFileRequest{Path: name}); err != nil || got != name {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	f.server.write("bad\xff", "b")
	list, err := f.ListFiles(timeout(t), new(pb.ListFilesRequest))
	if err != nil || !strings.Contains(paths(list), "bad\uFFFD") {
		t.Errorf("%q, %v", paths(list), err)
	}
	_, _, _, err = f.read(&pb.ReadFileRequest{Path: "none\x1b[2J"})
	wantCode(t, err, codes.NotFound, "none^[[2J")
}

// TestFilesWhileShuttingDown: a file that is on its way when a shutdown begins arrives.
func TestFilesWhileShuttingDown(t *testing.T) {
	f := serveFiles(t)
	stream, err := f.WriteFile(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{Path: "late", UploadId: "u", Size: proto.Uint64(13)}}})
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: []byte("half")}})
	waitFor(t, func() bool { // the server has begun
		got, err := f.GetUpload(timeout(t), &pb.GetUploadRequest{UploadId: "u"})
		return err == nil && got.GetUpload().GetActive()
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.server.Shutdown(context.Background())
	}()
	waitFor(t, func() bool { // it refuses new ones
		_, err := f.StatFile(timeout(t), &pb.StatFileRequest{Path: "."})
		return status.Code(err) == codes.Unavailable
	})
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: []byte(" and half")}})
	if _, err := stream.CloseAndRecv(); err != nil || f.onDisk("late") != "half and half" {
		t.Errorf("%q, %v", f.onDisk("late"), err)
	}
	<-ended
}

// TestConditionsOfFiles: conditions see the path of a transfer as input, as CheckCall
// tells.
func TestConditionsOfFiles(t *testing.T) {
	f := serveFiles(t, withPolicy(t, `
rules:
  - name: private
    action: deny
    when: has(input.path) && input.path.startsWith("private/")
`))
	if err := os.Mkdir(filepath.Join(f.server.workspace, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.server.workspace, "private", "k"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	stream, err := f.ReadFile(timeout(t), &pb.ReadFileRequest{Path: "private/k"})
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.PermissionDenied, "private")
	if _, err := f.write(&pb.WriteFileHeader{Path: "private/new"}, "x"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("writing: %v", err)
	}
}

// waitFor looks until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for ctx := timeout(t); !so(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
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

// TestReservedSpace has uploads leave what is reserved of a file system.
func TestReservedSpace(t *testing.T) {
	left := new(atomic.Int64)
	left.Store(20 << 20)
	f := serveFiles(t, func(c *service.Config) {
		c.Space = func(env tools.Env, more uint64) error {
			if env.Workspace == nil || int64(more) > left.Load() {
				return fmt.Errorf("%d bytes are left", left.Load())
			}
			return nil
		}
	})
	if _, err := f.write(&pb.WriteFileHeader{Path: "a"}, "a"); err != nil {
		t.Error(err)
	}
	_, err := f.write(&pb.WriteFileHeader{Path: "b", Size: proto.Uint64(21 << 20)}, "b")
	wantCode(t, err, codes.ResourceExhausted, "bytes are left")
	large := strings.Repeat("x", 21<<20)
	_, err = f.write(&pb.WriteFileHeader{Path: "b"}, large)
	wantCode(t, err, codes.ResourceExhausted, "bytes are left")
	left.Store(-1)
	_, err = f.write(&pb.WriteFileHeader{Path: "b"}, "b")
	wantCode(t, err, codes.ResourceExhausted, "bytes are left")
	_, err = f.tree("", file("b", "b"))
	wantCode(t, err, codes.ResourceExhausted, "bytes are left")
	if _, err := f.RemoveFile(timeout(t), &pb.RemoveFileRequest{Path: "a"}); err != nil {
		t.Errorf("what makes room is refused: %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.server.workspace, "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("b is there: %v", err)
	}
}
