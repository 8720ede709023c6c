// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func (s *workspaceService) DownloadTree(request *pb.DownloadTreeRequest, stream grpc.ServerStreamingServer[pb.DownloadTreeResponse]) (err error) {
	t := rpcOf(stream.Context()).takeTransfer()
	defer t.end(&err)
	exclude, err := glob.CompileList(request.GetExclude())
	if err != nil {
		return invalid("exclude: %v", err)
	}
	d := &download{transfer: t, exclude: exclude, withheld: t.withheld(), summary: new(pb.TreeSummary)}
	out := sending(stream, s.limits.Idle, t.Session.Closed())
	defer out.stop()
	d.out = &chunkWriter{send: func(data []byte) error { return out.send(&pb.DownloadTreeResponse{Data: data}) }, sum: sha256.New()}
	d.tar = tar.NewWriter(d.out)
	all, err := t.Session.Workspace.Walk(stream.Context(), t.Path, maxEntries, d.visit)
	if err == nil && !all {
		err = fmt.Errorf("%s: a directory has more than %d entries: %w", t.Path, maxEntries, errTooMany)
	}
	if err == nil {
		err = d.tar.Close()
	}
	if err == nil {
		err = d.out.flush()
	}
	d.summary.ArchiveBytes = d.out.written
	t.noted(d.summary, d.out.sum.Sum(nil))
	if err != nil {
		return err
	}
	return out.send(&pb.DownloadTreeResponse{Summary: d.summary})
}

// A download is a tree on its way to a client.
type download struct {
	*transfer
	exclude  glob.List
	withheld func(path string) bool // nil where nothing is
	summary  *pb.TreeSummary
	out      *chunkWriter
	tar      *tar.Writer
	header   tar.Header
	buffer   []byte
}

// visit writes one entry to the archive.
func (d *download) visit(e workspace.Entry) error {
	name, err := filepath.Rel(d.Path, e.Path)
	if err != nil {
		return err
	}
	if d.Changed() { // a client that reads slowly gets nothing that is denied by then
		d.withheld = d.transfer.withheld()
	}
	switch {
	case workspace.IsTemporary(e.Path):
		return nil
	case d.exclude.Match(name):
		return skip(e)
	case d.withheld != nil && d.withheld(e.Path):
		why := d.May(tools.ReadsPath, e.Path)
		if why == nil {
			why = reason("a rule of the policy keeps it from being read")
		}
		leaveOut(d.summary, e.Path, why)
		return skip(e)
	}
	d.header = tar.Header{Name: name, Mode: int64(e.Mode.Perm()), ModTime: e.ModTime.Truncate(time.Second)}
	switch {
	case e.Mode.IsDir():
		d.header.Typeflag, d.header.Name = tar.TypeDir, name+"/"
		d.summary.Directories++
		return d.tar.WriteHeader(&d.header)
	case e.Mode&fs.ModeSymlink != 0:
		target, err := d.Session.Workspace.Readlink(e.Path)
		if err != nil {
			leaveOut(d.summary, e.Path, err)
			return nil
		}
		d.header.Typeflag, d.header.Linkname = tar.TypeSymlink, target
		d.summary.Links++
		return d.tar.WriteHeader(&d.header)
	case !e.Mode.IsRegular():
		leaveOut(d.summary, e.Path, reason("it is a pipe, a socket or a device"))
		return nil
	}
	return d.file(e.Path)
}

// file writes a regular file to the archive.
func (d *download) file(path string) error {
	d.header.Typeflag = tar.TypeReg
	if d.buffer == nil {
		d.buffer = make([]byte, 4*maxFileChunk)
	}
	for try := 0; ; try++ {
		file, err := d.Session.Workspace.OpenFile(path)
		if err != nil {
			leaveOut(d.summary, path, err) // it is gone, something else, or nobody may read it
			return nil
		}
		err = d.content(file)
		file.Close()
		if errors.Is(err, workspace.ErrChanged) && file.Info().Size <= int64(len(d.buffer)) { // nothing of it is sent
			if try < 3 {
				continue
			}
			leaveOut(d.summary, path, err)
			return nil
		}
		return err
	}
}

// content writes a file that is open. One that fits into the buffer is read before
// anything of it is written, so that it can be read again where it has changed.
func (d *download) content(file *workspace.Opened) error {
	size := file.Info().Size
	d.header.Size = size
	small := size <= int64(len(d.buffer))
	if !small {
		if err := d.tar.WriteHeader(&d.header); err != nil {
			return err
		}
	}
	for at := int64(0); at < size || small; {
		data := d.buffer[:min(size-at, int64(len(d.buffer)))]
		if n, err := file.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		} else if n < len(data) {
			return writtenMeanwhile(file.Path())
		}
		at += int64(len(data))
		if at == size {
			if same, err := file.Unchanged(); err != nil || !same {
				return errors.Join(err, writtenMeanwhile(file.Path()))
			}
		}
		if small {
			if err := d.tar.WriteHeader(&d.header); err != nil {
				return err
			}
		}
		if _, err := d.tar.Write(data); err != nil {
			return err
		}
		if small {
			break
		}
	}
	d.summary.Files++
	d.summary.FileBytes += uint64(size)
	return nil
}

// chunkWriter sends what is written to it in chunks.
type chunkWriter struct {
	send    func(data []byte) error
	sum     hash.Hash
	buffer  [maxFileChunk]byte
	n       int
	written uint64
}

func (w *chunkWriter) Write(data []byte) (n int, err error) {
	for len(data) > 0 {
		m := copy(w.buffer[w.n:], data)
		w.n += m
		n += m
		data = data[m:]
		if w.n == len(w.buffer) {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (w *chunkWriter) flush() error {
	if w.n == 0 {
		return nil
	}
	data := w.buffer[:w.n]
	w.n = 0
	w.sum.Write(data)
	w.written += uint64(len(data))
	return w.send(data)
}
