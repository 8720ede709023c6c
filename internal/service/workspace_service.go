// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// workspaceService answers WorkspaceService. Every call of it begins with a
// transfer, which was judged and counted, and ends with its record.
type workspaceService struct {
	pb.UnimplementedWorkspaceServiceServer
	admission *admission.Admission
	auditor   *auditor
	limits    FileLimits
	uploads   *uploads
	receiving func(env tools.Env) (done func()) // nil where nobody wants to know
	space     func(s *session.Session, env tools.Env, more uint64) error
	underWay  atomic.Int64 // transfers
}

// drain waits for transfers that are under way, until ctx ends. New ones are refused
// while the executor drains.
func (s *workspaceService) drain(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.underWay.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *workspaceService) StatFile(ctx context.Context, request *pb.StatFileRequest) (_ *pb.StatFileResponse, err error) {
	t := rpcOf(ctx).takeTransfer()
	defer t.end(&err)
	info, err := t.present()
	if err != nil {
		return nil, err
	}
	file := t.fileInfo(workspace.Entry{Path: t.Path, Info: info})
	if request.GetDigest() && info.Mode.IsRegular() {
		var sum workspace.Hash
		if sum, info, err = t.digest(ctx); err != nil {
			return nil, err
		}
		file = t.fileInfo(workspace.Entry{Path: t.Path, Info: info})
		file.Sha256 = sum.String()
		t.record.Digest = [32]byte(sum)
	}
	t.record.Count = 1
	return &pb.StatFileResponse{File: file}, nil
}

// present tells of the entry that the transfer is about, which must be there.
func (t *transfer) present() (workspace.Info, error) {
	info, err := t.Session.Workspace.Stat(t.Path)
	if err == nil && !info.Exists() {
		err = fmt.Errorf("%s: %w", t.Path, fs.ErrNotExist)
	}
	return info, err
}

// digest reads the file that the transfer is about.
func (t *transfer) digest(ctx context.Context) (workspace.Hash, workspace.Info, error) {
	file, err := t.Session.Workspace.OpenFile(t.Path)
	if err != nil {
		return workspace.Hash{}, workspace.Info{}, err
	}
	defer file.Close()
	sum, buffer := sha256.New(), make([]byte, maxFileChunk)
	for {
		n, err := file.Read(buffer)
		sum.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return workspace.Hash{}, workspace.Info{}, err
		}
	}
	if same, err := file.Unchanged(); err != nil || !same {
		return workspace.Hash{}, workspace.Info{}, errors.Join(err, writtenMeanwhile(t.Path))
	}
	return workspace.Hash(sum.Sum(nil)), file.Info(), nil
}

// writtenMeanwhile is an error about a file that was written in place while it was read.
func writtenMeanwhile(path string) error {
	return fmt.Errorf("%s: %w: somebody writes it while it is read: try again", path, workspace.ErrChanged)
}

// maxEntries is how many entries one directory may have to be listed.
const maxEntries = 1 << 20

// errEnough ends a walk.
var errEnough = errors.New("enough")

func (s *workspaceService) ListFiles(ctx context.Context, request *pb.ListFilesRequest) (_ *pb.ListFilesResponse, err error) {
	t := rpcOf(ctx).takeTransfer()
	defer t.end(&err)
	size, err := pageSize(request.GetPageSize())
	if err != nil {
		return nil, err
	}
	token, err := base64.RawURLEncoding.DecodeString(request.GetPageToken())
	if err != nil || len(token) > maxPath {
		return nil, invalid("page_token is not one that this server gave: begin again without one")
	}
	withheld := t.withheld()
	after := walkKey(string(token))
	response := new(pb.ListFilesResponse)
	last := ""
	all, err := t.Session.Workspace.Walk(ctx, t.Path, maxEntries, func(e workspace.Entry) error {
		key := walkKey(e.Path)
		if workspace.IsTemporary(e.Path) {
			return nil
		}
		into := request.GetRecursive() && e.Mode.IsDir() && (withheld == nil || !withheld(e.Path))
		if len(token) > 0 && key <= after {
			if into && (key == after || strings.HasPrefix(after, key+"\x00")) {
				return nil
			}
			return skip(e)
		}
		if len(response.Files) == size {
			response.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			return errEnough
		}
		last = e.Path
		response.Files = append(response.Files, t.fileInfo(e))
		if into {
			return nil
		}
		return skip(e)
	})
	if err == nil && !all {
		err = fmt.Errorf("%s: a directory has more than %d entries: %w", t.Path, maxEntries, errTooMany)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	t.record.Count = uint64(len(response.Files))
	return response, nil
}

// topOf returns the name of a directory, which may be left out.
func topOf(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// skip leaves out what is below an entry.
func skip(e workspace.Entry) error {
	if e.Mode.IsDir() {
		return workspace.SkipDir
	}
	return nil
}

// walkKey orders paths as a walk does.
func walkKey(path string) string { return strings.ReplaceAll(path, "/", "\x00") }

func (s *workspaceService) RemoveFile(ctx context.Context, request *pb.RemoveFileRequest) (_ *pb.RemoveFileResponse, err error) {
	t := rpcOf(ctx).takeTransfer()
	defer t.end(&err)
	ws := t.Session.Workspace
	if t.Path == "." {
		return nil, invalid("path %q is the workspace itself, which cannot be removed: name what is in it", request.GetPath())
	}
	if request.GetRecursive() {
		defer ws.LockAll()()
	} else {
		defer ws.Lock(t.Path)()
	}
	info, err := t.present()
	if err != nil {
		return nil, err
	}
	removed := uint64(1)
	if info.Mode.IsDir() {
		n, err := t.removable(ctx, request.GetRecursive())
		if err != nil {
			return nil, err
		}
		removed += n
	}
	batch := history.Begin(ws, t.Session.Changes, "", t.Spec.Name)
	if err := batch.RemoveAll(ctx, t.Path); err != nil {
		return nil, errors.Join(err, batch.Rollback())
	}
	t.record.Count = removed
	return &pb.RemoveFileResponse{Removed: removed, ChangeId: changeID(batch.Commit())}, nil
}

// removable counts what is in a directory that is to be removed. What is
// protected, and has appeared since the call was judged, is an error.
func (t *transfer) removable(ctx context.Context, recursive bool) (n uint64, err error) {
	if !recursive {
		entries, _, err := t.Session.Workspace.ReadDir(t.Path, 1)
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("%s: %w: set recursive to remove it with everything in it", t.Path, syscall.ENOTEMPTY)
		}
		return 0, err
	}
	_, err = t.Session.Workspace.Walk(ctx, t.Path, 1<<30, func(e workspace.Entry) error {
		if t.Env.Protected(e.Path) {
			return denied("%s is protected. Nothing was removed.", output.VisibleText(e.Path))
		}
		n++
		return nil
	})
	return n, err
}

// changeID returns what undo calls a change; empty where it cannot be undone.
func changeID(record *history.Record) string {
	if record.Lost != "" || len(record.Changes) == 0 {
		return ""
	}
	return record.ID
}

// fileInfo tells of an entry.
func (t *transfer) fileInfo(e workspace.Entry) *pb.FileInfo {
	m := &pb.FileInfo{
		Path: output.ValidText(e.Path), Mode: uint32(e.Mode.Perm()), ModifyTime: timestamppb.New(e.ModTime), Version: e.Version.String(),
	}
	switch {
	case e.Mode.IsRegular():
		m.Type, m.Size = pb.FileType_FILE_TYPE_REGULAR, uint64(e.Size)
	case e.Mode.IsDir():
		m.Type = pb.FileType_FILE_TYPE_DIRECTORY
	case e.Mode&fs.ModeSymlink != 0:
		m.Type = pb.FileType_FILE_TYPE_SYMLINK
		if target, err := t.Session.Workspace.Readlink(e.Path); err == nil {
			m.LinkTarget = output.ValidText(target)
		}
	default:
		m.Type = pb.FileType_FILE_TYPE_OTHER
	}
	return m
}

// digestFrom reads a digest that a caller gave.
func digestFrom(text string) (digest *workspace.Hash, err error) {
	if text == "" {
		return nil, nil
	}
	digest = new(workspace.Hash)
	n, err := hex.Decode(digest[:], []byte(text[:min(len(text), 2*len(digest))]))
	if err != nil || n != len(digest) || len(text) != 2*len(digest) {
		return nil, invalid("sha256 %.80q is no digest: want 64 hexadecimal digits, as sha256sum prints them", text)
	}
	return digest, nil
}

// checkPath returns why a path of a request cannot be one of a workspace.
func checkPath(path string) error {
	switch {
	case path == "":
		return invalid("path is empty: name a path relative to the workspace")
	case len(path) > maxPath:
		return invalid("path has %d bytes: at most %d", len(path), maxPath)
	case strings.Contains(path, "\x00"):
		return invalid("path has a NUL character, which no name of a file has")
	case workspace.IsTemporary(filepath.Clean(path)):
		return invalid("path %q has a name that the server keeps for files that are being written: choose another", path)
	}
	return nil
}

const maxPath = 4096
