// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bufio"
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
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/glob"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const copyChunk = 64 << 10

// upload copies a local file or directory to a session.
func (c *copier) upload(ctx context.Context, local string, to place) error {
	c.progress.what = local
	switch {
	case c.tar && local != "-":
		return errors.New("--tar is for an archive on standard input: write - for the source")
	case c.tar && len(c.exclude) > 0:
		return errors.New("--exclude is for directories: leave out of the archive what is not wanted")
	case c.tar:
		return c.uploadTree(ctx, to, func(w io.Writer) error {
			_, err := io.Copy(w, os.Stdin)
			return err
		})
	case local == "-":
		name, err := c.remoteFile(ctx, local, to)
		if err != nil {
			return err
		}
		return c.send(ctx, &pb.WriteFileHeader{SessionId: to.session, Path: name}, os.Stdin)
	}
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	excluded, err := glob.CompileList(c.exclude)
	if err != nil {
		return fmt.Errorf("--exclude: %s", Visible(err.Error()))
	}
	c.excluded = excluded.Match
	if info.IsDir() {
		into, err := c.remoteDirectory(ctx, to)
		if err != nil {
			return err
		}
		if into {
			to.path = path.Join(to.path, ownName(filepath.ToSlash(local)))
		}
		return c.uploadTree(ctx, to, func(w io.Writer) error { return c.archive(ctx, w, local) })
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", Visible(local))
	}
	return c.uploadFile(ctx, local, to)
}

// uploadFile copies a file, and goes on where the connection is lost. What an
// earlier run has sent of the same content is not sent again.
func (c *copier) uploadFile(ctx context.Context, local string, to place) error {
	name, err := c.remoteFile(ctx, local, to)
	if err != nil {
		return err
	}
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	id := sha256.Sum256([]byte(name + "\x00" + digest))
	header := &pb.WriteFileHeader{
		SessionId: to.session, Path: name, Mode: proto.Uint32(uint32(info.Mode().Perm())),
		Size: proto.Uint64(uint64(size)), Sha256: digest, UploadId: hex.EncodeToString(id[:16]),
	}
	c.progress.total = size
	for attempt := 0; ; attempt++ {
		before, err := c.client.GetUpload(ctx, &pb.GetUploadRequest{SessionId: to.session, UploadId: header.UploadId})
		switch {
		case err == nil:
			header.Offset = before.GetUpload().GetReceivedBytes()
		case status.Code(err) == codes.NotFound:
			header.Offset, err = 0, nil
		}
		if err == nil {
			c.progress.done = int64(header.Offset)
			err = c.send(ctx, header, io.NewSectionReader(file, int64(header.Offset), size-int64(header.Offset)))
		}
		if status.Code(err) == codes.DataLoss && header.Offset > 0 {
			continue // what an earlier run has sent was damaged, and is gone by now
		}
		busy := status.Code(err) == codes.Aborted && before.GetUpload().GetActive() && attempt < attempts // by what was lost just now
		if busy {
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
			continue
		}
		if !lost(ctx, err, attempt) {
			return err
		}
	}
}

// send writes one file.
func (c *copier) send(ctx context.Context, header *pb.WriteFileHeader, content io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an upload that could not be read to its end has none
	stream, err := c.client.WriteFile(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: header}})
	buffer := make([]byte, copyChunk)
	for err == nil {
		n, failed := io.ReadFull(content, buffer)
		if n > 0 {
			err = stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: buffer[:n]}})
			c.progress.add(c, n)
		}
		if failed == io.EOF || failed == io.ErrUnexpectedEOF {
			break
		}
		if failed != nil {
			return failed
		}
	}
	_, err = stream.CloseAndRecv() // which tells why it could not be sent
	return err
}

// uploadTree sends an archive.
func (c *copier) uploadTree(ctx context.Context, to place, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.UploadTree(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Header{Header: &pb.UploadTreeHeader{SessionId: to.session, Path: to.path}}})
	out := bufio.NewWriterSize(writerFunc(func(data []byte) (int, error) {
		if err := stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Data{Data: data}}); err != nil {
			return 0, errSending
		}
		c.progress.add(c, len(data))
		return len(data), nil
	}), copyChunk)
	if err == nil {
		err = write(out)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil && !errors.Is(err, errSending) && !errors.Is(err, io.EOF) {
		return err
	}
	response, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	c.summarize(response.GetSummary())
	return nil
}

// errSending says that the server takes no more; the stream tells why.
var errSending = errors.New("the server takes no more")

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

// archive writes a local directory as an archive.
func (c *copier) archive(ctx context.Context, w io.Writer, top string) error {
	root, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer root.Close()
	out := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			c.tell(filepath.Join(top, name), err.Error())
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case name == ".":
			return nil
		case c.excluded(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return c.add(out, root, top, name, d)
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// add writes one entry of a directory to an archive.
func (c *copier) add(out *tar.Writer, root *os.Root, top, name string, d fs.DirEntry) error {
	header := &tar.Header{Name: name, Mode: 0o777}
	switch {
	case d.IsDir():
		info, err := d.Info()
		if err != nil {
			c.tell(filepath.Join(top, name), err.Error())
			return nil
		}
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, name+"/", int64(info.Mode().Perm())
		return out.WriteHeader(header)
	case d.Type()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			c.tell(filepath.Join(top, name), err.Error())
			return nil
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
		return out.WriteHeader(header)
	case !d.Type().IsRegular():
		c.tell(filepath.Join(top, name), "it is a pipe, a socket or a device")
		return nil
	}
	file, err := root.Open(name)
	if err != nil {
		c.tell(filepath.Join(top, name), err.Error())
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size, header.Mode = tar.TypeReg, info.Size(), int64(info.Mode().Perm())
	header.ModTime = info.ModTime().Truncate(time.Second)
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(file, header.Size))
	if err == nil && n < header.Size {
		err = fmt.Errorf("%s: somebody writes it while it is read", Visible(filepath.Join(top, name)))
	}
	return err
}
