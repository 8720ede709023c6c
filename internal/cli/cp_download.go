// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/wholefile"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// download copies a file or directory of a session to this machine.
func (c *copier) download(ctx context.Context, from place, local string) error {
	c.progress.what = from.path
	there, err := c.client.StatFile(ctx, &pb.StatFileRequest{SessionId: from.session, Path: from.path})
	if err != nil {
		return err
	}
	isDir := there.GetFile().GetType() == pb.FileType_FILE_TYPE_DIRECTORY || strings.HasSuffix(from.path, "/")
	switch {
	case c.tar && local != "-":
		return errors.New("--tar is for an archive on standard output: write - for the destination")
	case c.tar:
		return c.fetchTree(ctx, from, func(r io.Reader) error {
			_, err := io.Copy(os.Stdout, r)
			return err
		})
	case isDir && local == "-":
		return fmt.Errorf("%s is a directory: with --tar it is written as an archive", Visible(from.path))
	case local == "-":
		return c.fetch(ctx, from, os.Stdout, nil)
	}
	info, err := os.Stat(local)
	into := err == nil && info.IsDir() || strings.HasSuffix(local, "/")
	if isDir {
		if into {
			local = filepath.Join(local, ownName(from.path))
		}
		return c.fetchTree(ctx, from, func(r io.Reader) error { return c.extract(r, from.path, local) })
	}
	if into {
		local = filepath.Join(local, path.Base(from.path))
	}
	// The file takes its place when it is complete.
	temp, err := os.CreateTemp(filepath.Dir(local), ".toolserver-cp-")
	if err != nil {
		return fmt.Errorf("%s: %w", Visible(local), wholefile.Cause(err)) // without the name of the temporary file
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	var file pb.FileInfo
	err = c.fetch(ctx, from, temp, &file)
	if err == nil {
		err = temp.Chmod(fs.FileMode(file.GetMode()).Perm())
	}
	if err == nil {
		err = temp.Close()
	}
	if err == nil {
		err = os.Rename(temp.Name(), local)
	}
	if _, ours := status.FromError(err); err != nil && !ours {
		err = fmt.Errorf("%s: %w", Visible(local), wholefile.Cause(err)) // without the name of the temporary file
	}
	return err
}

// fetch reads a file, and goes on where the connection is lost: with the same
// version, or not at all.
func (c *copier) fetch(ctx context.Context, from place, to io.Writer, info *pb.FileInfo) error {
	request := &pb.ReadFileRequest{SessionId: from.session, Path: from.path, Digest: true}
	for attempt := 0; ; attempt++ {
		err := c.fetchPart(ctx, request, to, info)
		if !lost(ctx, err, attempt) {
			return err
		}
	}
}

// fetchPart reads a file on from where the request is, and moves that.
func (c *copier) fetchPart(ctx context.Context, request *pb.ReadFileRequest, to io.Writer, info *pb.FileInfo) error {
	stream, err := c.client.ReadFile(ctx, request)
	if err != nil {
		return err
	}
	sum, digest := sha256.New(), ""
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if f := m.GetFile(); f != nil {
			request.Version, c.progress.total = f.GetVersion(), int64(f.GetSize())
			if info != nil {
				info.Mode = f.GetMode()
			}
		}
		if _, err := to.Write(m.GetData()); err != nil {
			return err
		}
		sum.Write(m.GetData())
		request.Offset += uint64(len(m.GetData()))
		digest = m.GetSha256()
		c.progress.add(c, len(m.GetData()))
	}
	if digest != hex.EncodeToString(sum.Sum(nil)) {
		return status.Error(codes.DataLoss, "what arrived is not what was sent: its SHA-256 is another")
	}
	return nil
}

// fetchTree reads a directory as an archive.
func (c *copier) fetchTree(ctx context.Context, from place, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.DownloadTree(ctx, &pb.DownloadTreeRequest{SessionId: from.session, Path: from.path, Exclude: c.exclude})
	if err != nil {
		return err
	}
	in := &treeReader{stream: stream, copier: c}
	err = read(in)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // the summary comes last
	}
	switch {
	case in.failed != nil:
		return in.failed
	case err != nil:
		return err
	case in.summary == nil:
		return status.Error(codes.DataLoss, "the directory is not complete")
	}
	c.summarize(in.summary)
	return nil
}

// treeReader reads an archive from a stream.
type treeReader struct {
	stream interface {
		Recv() (*pb.DownloadTreeResponse, error)
	}
	copier  *copier
	data    []byte
	summary *pb.TreeSummary
	failed  error
}

func (r *treeReader) Read(p []byte) (int, error) {
	for len(r.data) == 0 {
		m, err := r.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.failed = err
			}
			return 0, err
		}
		r.data = m.GetData()
		r.copier.progress.add(r.copier, len(r.data))
		if m.GetSummary() != nil {
			r.summary = m.GetSummary()
		}
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// extract takes an archive apart in a local directory, which nothing in it leaves:
// who fills the workspace need not be trusted.
func (c *copier) extract(r io.Reader, from, local string) error {
	if err := os.MkdirAll(local, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return err
	}
	defer root.Close()
	x := &extraction{root: root, all: c.all, from: from, local: local}
	if x.real, err = filepath.EvalSymlinks(local); err == nil {
		x.real, err = filepath.Abs(x.real)
	}
	if err != nil {
		return err
	}
	defer x.leave()
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := x.put(header, in); err != nil {
			if errors.Is(err, errContent) {
				return err
			}
			at := filepath.Join(local, header.Name)
			if run, ok := errors.AsType[runByGit](err); ok {
				c.spare(at, run.group, run.why)
				continue
			}
			c.tell(at, wholefile.Cause(err).Error())
		}
	}
}

// errContent is wrapped by errors that end the whole copy.
var errContent = errors.New("the archive cannot be read")

// An extraction is an archive that is taken apart below root.
type extraction struct {
	root *os.Root
	dir  string   // the directory of the last file
	in   *os.Root // that, open; nil where there is none

	all         bool   // also what git runs
	from, local string // what is copied, and where to
	real        string // that, without links
	parent      string // the last directory that was looked at
	leads       string // where that leads, from real on
	bare        string // the directory of git that it lies in, by another name than .git; "" where in none
}

// leave closes the directory of the last file.
func (x *extraction) leave() {
	if x.in != nil {
		x.in.Close()
		x.in = nil
	}
}

// enter opens the directory that a file goes to, and makes it where it is missing.
func (x *extraction) enter(dir string) (*os.Root, error) {
	if x.in != nil && x.dir == dir {
		return x.in, nil
	}
	x.leave()
	if err := x.root.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	in, err := x.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	x.dir, x.in = dir, in
	return in, nil
}

// put writes one entry.
func (x *extraction) put(header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if !filepath.IsLocal(name) {
		return errors.New("its name leads out of the directory")
	}
	mode := fs.FileMode(header.Mode).Perm()
	if header.Typeflag != tar.TypeReg {
		x.leave() // what it is may become something else
		x.parent = ""
	}
	if handled, err := x.repository(header, name, content); handled || err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := x.root.MkdirAll(name, 0o777); err != nil {
			return err
		}
		return x.root.Chmod(name, mode|0o700)
	case tar.TypeSymlink:
		if !leadsInside(name, header.Linkname) {
			return fmt.Errorf("it is a link to %q, which leads out of the directory", header.Linkname)
		}
		x.root.Remove(name) // a directory that has something in it stays, and is in the way
		return x.root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		in, err := x.enter(path.Dir(name))
		if err != nil {
			return err
		}
		return putFile(in, path.Base(name), mode, header.Size, content)
	}
	return errors.New("it is neither a file, a directory nor a link")
}

// leadsInside reports whether a link stays in the directory whatever else is there. A
// ".." after a name may not: the name may be that of a link.
func leadsInside(name, target string) bool {
	named := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if named {
				return false
			}
		default:
			named = true
		}
	}
	return !filepath.IsAbs(target) && filepath.IsLocal(path.Join(path.Dir(name), target))
}

// smallFile is up to which size a file is in memory before it is written.
const smallFile = 1 << 20

// putFile writes a file. One that is large, or replaces another, is written beside
// its place and put there when it is complete.
func putFile(dir *os.Root, name string, mode fs.FileMode, size int64, content io.Reader) error {
	if size <= smallFile {
		data := make([]byte, size)
		if _, err := io.ReadFull(content, data); err != nil {
			return fmt.Errorf("%w: %w", errContent, err)
		}
		file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil {
			_, err = file.Write(data)
			if err = errors.Join(err, file.Close()); err != nil {
				dir.Remove(name)
			}
			return err
		}
		content = bytes.NewReader(data)
	}
	temp := ".toolserver-cp-" + fmt.Sprint(os.Getpid())
	dir.Remove(temp) // of a run that was killed; it may be read-only
	file, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, archived{content})
	if err = errors.Join(err, file.Close()); err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		dir.Remove(temp)
	}
	return err
}

// archived reads the content of a file in an archive. Its errors wrap errContent, those of
// the disk that it is copied to do not.
type archived struct{ content io.Reader }

func (a archived) Read(p []byte) (int, error) {
	n, err := a.content.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errContent, err)
	}
	return n, err
}
