// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestPutFile: a file has the mode it had in the workspace, whatever way it takes.
func TestPutFile(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, test := range []struct {
		what, name string
		mode       fs.FileMode
		size       int
	}{
		{"new", "small", 0o400, 10},
		{"replaces another", "small", 0o500, 20},
		{"large", "large", 0o400, smallFile + 1},
		{"large, replaces another", "large", 0o600, smallFile + 2},
	} {
		content := bytes.Repeat([]byte("x"), test.size)
		if err := putFile(root, test.name, test.mode, int64(test.size), bytes.NewReader(content)); err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		info, err := os.Stat(filepath.Join(dir, test.name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != test.mode || info.Size() != int64(test.size) {
			t.Errorf("%s: %s, %d bytes; want %s, %d", test.what, info.Mode(), info.Size(), test.mode, test.size)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".toolserver*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// full is a file on a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFill: the archive is to blame where it cannot be read, and only there.
func TestFill(t *testing.T) {
	_, err := io.Copy(full{}, archived{strings.NewReader("x")})
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, errContent) {
		t.Errorf("a full disk: %v", err)
	}
	_, err = io.Copy(io.Discard, archived{iotest.ErrReader(io.ErrUnexpectedEOF)})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, errContent) {
		t.Errorf("an archive that is cut: %v", err)
	}
}

// TestCopyExits: what can be tried again in a while is told from what is too large.
func TestCopyExits(t *testing.T) {
	later, err := status.New(codes.ResourceExhausted, "too many").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		err  error
		code int
	}{
		{later.Err(), exitRateLimited},
		{status.Error(codes.ResourceExhausted, "no space left on device"), ExitRefused},
		{status.Error(codes.PermissionDenied, "no"), ExitDenied},
		{status.Error(codes.InvalidArgument, "no"), exitInvalidInput},
		{io.ErrUnexpectedEOF, ExitFailed},
		{nil, exitSucceeded},
	} {
		if got := ExitCodeOf(new(copier).explain(t.Context(), test.err)); got != test.code {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.code)
		}
	}
}
