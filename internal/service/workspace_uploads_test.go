// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

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
		stream.RecvMsg(new(pb.WriteFileResponse)) // not CloseAndRecv, which may end it in order
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

// waitFor looks until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for ctx := timeout(t); !so(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
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
