// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	maxUploadID = 128

	// fitsStep is how much of a file arrives between two looks at what is left.
	// fitsEntry is what an entry of a tree takes beside its content, at most about.
	fitsStep, fitsEntry = 8 << 20, 16 << 10
)

func (s *workspaceService) WriteFile(stream grpc.ClientStreamingServer[pb.WriteFileRequest, pb.WriteFileResponse]) (err error) {
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
	digest, err := s.checkHeader(header)
	if err != nil {
		return err
	}
	if t.Path == "." {
		return fmt.Errorf("%s: %w but the directory of the workspace", header.GetPath(), workspace.ErrNotRegular)
	}
	if err := t.fits(header.GetSize() - min(header.GetSize(), header.GetOffset())); err != nil {
		return err
	}
	in.closed = t.Session.Closed()
	up, err := s.uploads.begin(t.Session, header.GetUploadId(), t.Path, header.GetOffset())
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if keep {
			s.uploads.keep(up)
		} else {
			s.uploads.discard(up)
		}
	}()
	if keep, err = t.arrive(in, up, header); err != nil {
		return err
	}
	sum := workspace.Hash(up.sum.Sum(nil))
	t.record.Bytes, t.record.Digest = uint64(up.received), [32]byte(sum)
	if digest != nil && *digest != sum {
		return status.Errorf(codes.DataLoss, "what arrived for %s has the SHA-256 %s, not %s: nothing was written. Send it again from the beginning.", output.VisibleText(up.path), sum, digest)
	}
	response, err := t.install(stream.Context(), up, header)
	if err != nil {
		return err
	}
	response.File.Sha256 = sum.String()
	return stream.SendAndClose(response)
}

// noHeader tells of a stream that ended before it said what it brings.
func noHeader(err error) error {
	if errors.Is(err, io.EOF) {
		return invalid("the stream has no header: the first message tells what is uploaded, and where")
	}
	return err
}

func (s *workspaceService) checkHeader(header *pb.WriteFileHeader) (*workspace.Hash, error) {
	switch {
	case header.GetMode() > 0o777:
		return nil, invalid("mode 0%o: want permissions from 0 to 0777", header.GetMode())
	case len(header.GetUploadId()) > maxUploadID:
		return nil, invalid("upload_id has %d bytes: at most %d", len(header.GetUploadId()), maxUploadID)
	case header.GetUploadId() != "" && header.Size == nil:
		return nil, invalid("upload_id needs size: the end of a connection could not be told from the end of the file")
	case header.GetSize() > uint64(s.limits.MaxFileBytes):
		return nil, status.Errorf(codes.ResourceExhausted, "size is %d: a file may have %d bytes", header.GetSize(), s.limits.MaxFileBytes)
	}
	return digestFrom(header.GetSha256())
}

// arrive takes the bytes of an upload to their end. Where it fails, it reports
// whether what has arrived can be continued.
func (t *transfer) arrive(in *incoming[pb.WriteFileRequest], up *upload, header *pb.WriteFileHeader) (keep bool, err error) {
	resumable := up.id != ""
	checked := up.received
	for {
		message, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return resumable, err
		}
		data, ok := message.GetPart().(*pb.WriteFileRequest_Data)
		if !ok {
			return false, invalid("the stream has a second header, or a message without data: after the header comes data alone")
		}
		if header.Size != nil && uint64(up.received)+uint64(len(data.Data)) > header.GetSize() {
			return false, invalid("more than the %d bytes arrived that the header tells: nothing was written", header.GetSize())
		}
		if err := t.service.uploads.write(up, data.Data); err != nil {
			return false, err
		}
		if up.received-checked >= fitsStep {
			checked = up.received
			if err := t.fits(0); err != nil {
				return resumable, err
			}
		}
	}
	if header.Size != nil && uint64(up.received) != header.GetSize() {
		return resumable, status.Errorf(codes.FailedPrecondition, "the stream ended after %d of %d bytes: nothing was written", up.received, header.GetSize())
	}
	return false, nil
}

// install gives the file its content, once the policy has said so again: it may
// have been replaced while the content arrived.
func (t *transfer) install(ctx context.Context, up *upload, header *pb.WriteFileHeader) (*pb.WriteFileResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := t.again(); err != nil {
		return nil, err
	}
	if err := t.fits(uint64(up.received)); err != nil {
		return nil, err
	}
	ws := t.Session.Workspace
	defer ws.Lock(t.Path)()
	old, err := ws.Stat(t.Path)
	if err != nil {
		return nil, err
	}
	if header.Replaces != nil && header.GetReplaces() != old.Version.String() {
		if !old.Exists() {
			return nil, status.Errorf(codes.Aborted, "%s is not there any more: nothing was written", output.VisibleText(t.Path))
		}
		return nil, status.Errorf(codes.Aborted, "%s has another version by now, %s: nothing was written", output.VisibleText(t.Path), old.Version)
	}
	mode := workspace.KeepMode
	if header.Mode != nil {
		mode = fs.FileMode(header.GetMode())
	}
	batch := history.Begin(ws, t.Session.Changes, "", t.Spec.Name)
	_, now, err := batch.WriteFrom(t.Path, io.NewSectionReader(up.file, 0, up.received), mode, old)
	if err != nil {
		return nil, errors.Join(err, batch.Rollback())
	}
	t.record.Count = 1
	return &pb.WriteFileResponse{
		File: t.fileInfo(workspace.Entry{Path: t.Path, Info: now}), Created: !old.Exists(), ChangeId: changeID(batch.Commit()),
	}, nil
}

func (s *workspaceService) GetUpload(ctx context.Context, request *pb.GetUploadRequest) (*pb.GetUploadResponse, error) {
	session, err := s.admission.Sessions.Get(principalOf(ctx).Owner(), request.GetSessionId())
	if err != nil {
		return nil, err
	}
	up, err := s.uploads.find(session, request.GetUploadId())
	if err != nil {
		return nil, err
	}
	return &pb.GetUploadResponse{Upload: up}, nil
}
