// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/service"
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

func paths(list *pb.ListFilesResponse) string {
	var names []string
	for _, file := range list.GetFiles() {
		names = append(names, file.GetPath())
	}
	return strings.Join(names, " ")
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
