// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func (s *workspaceService) UploadTree(stream grpc.ClientStreamingServer[pb.UploadTreeRequest, pb.UploadTreeResponse]) (err error) {
	in := receive(stream, s.limits.Idle)
	defer in.stop()
	first, err := in.next()
	if err != nil {
		return noHeader(err)
	}
	header := first.GetHeader()
	if header == nil {
		return noHeader(io.EOF)
	}
	t := rpcOf(stream.Context()).takeTransfer()
	defer t.end(&err)
	digest, err := digestFrom(header.GetSha256())
	if err != nil {
		return err
	}
	in.closed = t.Session.Closed()
	a := &arrival{transfer: t, in: &archive{in: in, limit: int64(s.limits.MaxTreeBytes), sum: sha256.New()}, summary: new(pb.TreeSummary)}
	record, err := a.unpack(stream.Context())
	a.summary.ArchiveBytes, a.summary.Directories = uint64(a.in.n), uint64(a.tree.Made())
	sum := a.in.sum.Sum(nil)
	t.noted(a.summary, sum)
	if err != nil {
		return err
	}
	if digest != nil && *digest != workspace.Hash(sum) {
		return status.Errorf(codes.DataLoss, "the archive that arrived has the SHA-256 %s, not %s: what it has was written. Send it again.", a.summary.Sha256, digest)
	}
	return stream.SendAndClose(&pb.UploadTreeResponse{Summary: a.summary, ChangeId: changeID(record)})
}

// An arrival is an archive that is taken apart.
type arrival struct {
	*transfer
	in      *archive
	tree    *history.Tree
	summary *pb.TreeSummary
	entries int
	unseen  int64             // bytes since the last look at what is left
	dirs    map[string]string // where the directories of the archive lead
	configs map[string][]byte // of repositories, that were made
}

// unpack takes the archive apart. What was written before an error stays.
func (a *arrival) unpack(ctx context.Context) (*history.Record, error) {
	a.tree = history.BeginTree(a.Session.Workspace, a.Session.Changes, "", a.Spec.Name, func(path string, size int64, err error) {
		a.summary.Files--
		a.summary.FileBytes -= uint64(size)
		leaveOut(a.summary, path, err)
	})
	a.dirs = make(map[string]string)
	err := a.each(ctx)
	record, failed := a.tree.Commit()
	if err == nil {
		err = failed
	}
	return record, err
}

func (a *arrival) each(ctx context.Context) error {
	if a.Path != "." {
		if err := a.tree.Mkdir(a.Path, 0o777); err != nil {
			return err
		}
	}
	for r := tar.NewReader(a.in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a.in.end()
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return a.in.explain(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.entries++; a.entries > a.service.limits.MaxTreeEntries {
			return fmt.Errorf("the archive has more than %d entries: %w", a.service.limits.MaxTreeEntries, errTooMany)
		}
		if err := a.entry(header, r); err != nil {
			return err
		}
	}
}

// entry takes one entry. An error ends the upload; an entry that may not be
// written is left out.
func (a *arrival) entry(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, why := entryName(header.Name)
	if why != nil {
		leaveOut(a.summary, header.Name, why)
		return nil
	}
	if name == "." {
		return nil
	}
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // a few bytes of an archive, and gigabytes on the disk
			leaveOut(a.summary, header.Name, reason("it is a sparse file: send all of it"))
			return nil
		}
	}
	if header.Typeflag == tar.TypeReg {
		limits := &a.service.limits
		if header.Size > int64(limits.MaxFileBytes) {
			return fmt.Errorf("%s has %d bytes, a file may have %d: %w", header.Name, header.Size, limits.MaxFileBytes, errTooMany)
		}
		if int64(a.summary.FileBytes)+header.Size > int64(limits.MaxTreeBytes) {
			return fmt.Errorf("the files of the archive have more than %d bytes together: %w", limits.MaxTreeBytes, errTooMany)
		}
		if a.unseen += header.Size + fitsEntry; a.unseen >= fitsStep || a.entries == 1 {
			a.unseen = 0
			if err := a.fits(uint64(header.Size)); err != nil {
				return err
			}
		}
	}
	dir, inside := a.resolve(path.Dir(name))
	if !inside {
		leaveOut(a.summary, filepath.Join(a.Path, name), reason("it lies behind a link that leads out of the workspace"))
		return nil
	}
	why = a.make(header, content, dir, name)
	if why == nil {
		return nil
	}
	if a.in.failed != nil || fatal(why) {
		return a.in.explain(why)
	}
	at := filepath.Join(dir, path.Base(name))
	if policy.NeverUploaded(at) {
		why = neverTaken(at, why)
	}
	leaveOut(a.summary, at, why)
	return nil
}

// entryName returns the name of an entry as a clean path below the directory
// that the archive is for, or why it cannot be one.
func entryName(name string) (string, error) {
	switch {
	case name == "":
		return "", reason("it has no name")
	case len(name) > maxPath:
		return "", reason(fmt.Sprintf("its name has %d bytes: at most %d", len(name), maxPath))
	case strings.HasPrefix(name, "/"):
		return "", reason("its name is absolute: names are relative to the directory")
	case strings.Contains(name, "\x00"):
		return "", reason("its name has a NUL character")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", reason(`its name has "..", which may lead elsewhere`)
		}
		if workspace.IsTemporary(part) {
			return "", reason("the server keeps names like this for files that are being written")
		}
	}
	return path.Clean(name), nil
}

// resolve returns where a directory of the archive leads.
func (a *arrival) resolve(dir string) (resolved string, inside bool) {
	if resolved, known := a.dirs[dir]; known {
		return resolved, true
	}
	resolved, inside = a.Session.Workspace.Resolve(filepath.Join(a.Path, dir))
	if inside {
		if len(a.dirs) == 10_000 {
			clear(a.dirs)
		}
		a.dirs[dir] = resolved
	}
	return resolved, inside
}

// make writes one entry, by its name in the archive and the directory it is in.
func (a *arrival) make(header *tar.Header, content io.Reader, dir, name string) error {
	at := filepath.Join(dir, path.Base(name))
	switch header.Typeflag {
	case tar.TypeReg:
		return a.file(header, content, dir, path.Base(name))
	case tar.TypeDir:
		if path.Base(name) == ".git" {
			return nil // it is made for what comes of it
		}
		dir, inside := a.resolve(name)
		if !inside {
			return reason("there is a link in its place that leads out of the workspace")
		}
		if policy.NeverUploaded(dir) {
			return nil // what comes of it is told
		}
		if err := a.May(tools.WritesPath, dir); err != nil {
			return err
		}
		return a.tree.Mkdir(dir, header.FileInfo().Mode().Perm()|0o700)
	case tar.TypeSymlink:
		if strings.Contains("/"+at, "/.git/") {
			return reason("it is a link inside a repository")
		}
		if err := a.leadsOut(dir, header.Linkname); err != nil {
			return err
		}
		if err := a.May(tools.WritesPath, at); err != nil {
			return err
		}
		if err := a.tree.Symlink(header.Linkname, at); err != nil {
			return err
		}
		clear(a.dirs) // what they lead to may be elsewhere now
		a.summary.Links++
		return nil
	case tar.TypeLink:
		return reason("it is a hard link: send the file itself instead")
	}
	return reason(fmt.Sprintf("it is neither a file, a directory nor a symbolic link (type %q)", header.Typeflag))
}

// leadsOut returns why a link may not be made.
func (a *arrival) leadsOut(dir, target string) error {
	lexical := filepath.Join(dir, target)
	if target == "" || filepath.IsAbs(target) || !filepath.IsLocal(lexical) && lexical != "." || len(target) > maxPath {
		return reason(fmt.Sprintf("it is a link to %.200q, which leads out of the workspace", target))
	}
	if _, inside := a.Session.Workspace.Resolve(dir + "/" + target); !inside {
		return reason(fmt.Sprintf("it is a link to %.200q, which leads out of the workspace", target))
	}
	return nil
}

// file writes one regular file. A link in its place is followed, as far as it
// stays in the workspace.
func (a *arrival) file(header *tar.Header, content io.Reader, dir, name string) error {
	at := filepath.Join(dir, name)
	old, err := a.tree.Stat(dir, name)
	if err != nil {
		return err
	}
	if policy.IsRepositoryConfig(at) {
		return a.config(at, header.Size, content, old)
	}
	if policy.IsRepositoryIndex(at) {
		return a.index(at, header.Size, content, old)
	}
	if old.Mode&fs.ModeSymlink != 0 {
		var inside bool
		if at, inside = a.Session.Workspace.Resolve(at); !inside {
			return reason("there is a link in its place that leads out of the workspace")
		}
		if old, err = a.tree.Stat(filepath.Dir(at), filepath.Base(at)); err != nil {
			return err
		}
	}
	if err := a.May(tools.WritesPath, at); err != nil {
		return err
	}
	if err := a.tree.Write(at, content, header.FileInfo().Mode().Perm(), old); err != nil {
		return err
	}
	a.summary.Files++
	a.summary.FileBytes += uint64(header.Size)
	return nil
}

// fatal reports whether an error is about more than one entry.
func fatal(err error) bool {
	if _, ok := errors.AsType[reason](err); ok {
		return false
	}
	if _, ok := errors.AsType[neverUploaded](err); ok || errors.Is(err, admission.ErrDenied) {
		return false
	}
	code := status.Code(fileStatus(err))
	return code == codes.ResourceExhausted || code == codes.Unknown
}
