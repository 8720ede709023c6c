// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestUploadsAreGivenUp(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.UploadTTL = time.Millisecond })
	f.half(&pb.WriteFileHeader{Path: "a", UploadId: "a", Size: proto.Uint64(9)}, "a")()
	for {
		if _, err := f.GetUpload(timeout(t), &pb.GetUploadRequest{UploadId: "a"}); status.Code(err) == codes.NotFound {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.write(&pb.WriteFileHeader{Path: "a", UploadId: "a", Offset: 1, Size: proto.Uint64(9)}, "bcdefghi")
	wantCode(t, err, codes.NotFound, "given up")
	f.untouched()
}

func TestStreamsThatBringNothingEnd(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.Idle = time.Millisecond })
	file, err := f.WriteFile(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, file.RecvMsg(new(pb.WriteFileResponse)), codes.DeadlineExceeded, "nothing has arrived")
	tree, err := f.UploadTree(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, tree.RecvMsg(new(pb.UploadTreeResponse)), codes.DeadlineExceeded, "nothing has arrived")
	f.untouched()
}

func TestFilesUnrecorded(t *testing.T) {
	log, err := audit.Open(audit.Options{Config: audit.Config{File: filepath.Join(t.TempDir(), "audit.log"), Required: true}})
	if err != nil {
		t.Fatal(err)
	}
	f := serveFiles(t, func(c *service.Config) { c.Audit = log })
	if _, err := f.write(&pb.WriteFileHeader{Path: "x"}, "x"); err != nil {
		t.Fatal(err)
	}
	log.Close()
	_, err = f.write(&pb.WriteFileHeader{Path: "y"}, "y")
	wantCode(t, err, codes.Unavailable, "must record")
	_, _, _, err = f.read(&pb.ReadFileRequest{Path: "x"})
	wantCode(t, err, codes.Unavailable, "must record")
	_, err = f.tree("", file("z", "z"))
	wantCode(t, err, codes.Unavailable, "must record")
	f.untouched("x")
}

// TestFilesAtOnce has many write one file and a tree with it while others read
// it: every reader sees what one of them wrote.
func TestFilesAtOnce(t *testing.T) {
	f := serveFiles(t)
	content := func(i int) string { return strings.Repeat(fmt.Sprint(i), 100_000) }
	if _, err := f.write(&pb.WriteFileHeader{Path: "shared"}, content(0)); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for i := range 4 {
		done.Go(func() {
			for range 5 {
				if _, err := f.write(&pb.WriteFileHeader{Path: "shared"}, content(i)); err != nil {
					t.Error(err)
				}
				got, err := f.tree("", file(fmt.Sprint("own", i), "x"), file("shared", content(i)))
				if err != nil || got.GetSummary().GetFiles() == 0 { // another may have been faster for the shared one
					t.Error(got, err)
				}
			}
		})
		done.Go(func() {
			for range 10 {
				got, _, sum, err := f.read(&pb.ReadFileRequest{Path: "shared", Digest: true})
				if err != nil || len(got) != 100_000 || strings.Trim(got, got[:1]) != "" || sum != sha(got) {
					t.Errorf("read %d bytes, %v", len(got), err)
				}
			}
		})
	}
	done.Wait()
	f.untouched("own0", "own1", "own2", "own3", "shared")
}

// TestFileLimitsAreTold: a client learns what it may bring, by default and as configured.
func TestFileLimitsAreTold(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) { c.Files.MaxFileBytes, c.Files.UploadTTL = 20_000, time.Minute })
	info, err := f.GetServerInfo(timeout(t), &pb.GetServerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := info.GetFiles()
	if got.GetMaxFileBytes() != 20_000 || got.GetUploadTtl().AsDuration() != time.Minute ||
		got.GetMaxTreeBytes() != 4<<30 || got.GetMaxTreeEntries() != 200_000 || got.GetMaxUploads() != 16 ||
		got.GetMaxUploadBytes() != 2<<30 || got.GetStreamIdle().AsDuration() != 2*time.Minute {
		t.Errorf("%v", got)
	}
}
