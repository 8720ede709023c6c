// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// maxFileChunk is how many bytes of a file one message has.
const maxFileChunk = 64 << 10

var fileChunks = sync.Pool{New: func() any { return new([maxFileChunk]byte) }}

func (s *workspaceService) ReadFile(request *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.ReadFileResponse]) (err error) {
	t := rpcOf(stream.Context()).takeTransfer()
	defer t.end(&err)
	file, err := t.Session.Workspace.OpenFile(t.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info := t.fileInfo(workspace.Entry{Path: t.Path, Info: file.Info()})
	if want := request.GetVersion(); want != "" && want != info.Version {
		return status.Errorf(codes.Aborted, "%s has another version by now, %s: begin again", output.VisibleText(t.Path), info.Version)
	}
	at, end := request.GetOffset(), info.Size
	if at > end {
		return status.Errorf(codes.OutOfRange, "offset %d is beyond the end of %s, which has %d bytes", at, output.VisibleText(t.Path), end)
	}
	if limit := request.GetLimit(); limit > 0 && limit < end-at {
		end = at + limit
	}
	var sum hash.Hash
	if request.GetDigest() {
		sum = sha256.New()
	}
	buffer := fileChunks.Get().(*[maxFileChunk]byte)
	defer func() {
		if err == nil { // otherwise it may still be on its way
			fileChunks.Put(buffer)
		}
	}()
	out := sending(stream, t.service.limits.Idle, t.Session.Closed())
	defer out.stop()
	response := &pb.ReadFileResponse{File: info}
	for {
		data := buffer[:min(end-at, maxFileChunk)]
		if err := t.chunk(file, data, at, sum); err != nil {
			return err
		}
		response.Offset, response.Data = at, data
		at += uint64(len(data))
		if at == end {
			break
		}
		if err := out.send(response); err != nil {
			return err
		}
		response = new(pb.ReadFileResponse)
	}
	// The last bytes are not sent before it is known that all were of one version.
	if same, err := file.Unchanged(); err != nil || !same {
		return errors.Join(err, writtenMeanwhile(t.Path))
	}
	if sum != nil {
		digest := workspace.Hash(sum.Sum(nil))
		response.Sha256, t.record.Digest = digest.String(), [32]byte(digest)
	}
	t.record.Count = 1
	return out.send(response)
}

// chunk reads bytes of a file at an offset.
func (t *transfer) chunk(file *workspace.Opened, data []byte, at uint64, sum hash.Hash) error {
	n, err := file.ReadAt(data, int64(at))
	if errors.Is(err, io.EOF) && n < len(data) {
		return writtenMeanwhile(t.Path)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	if sum != nil {
		sum.Write(data)
	}
	t.record.Bytes += uint64(n)
	return nil
}
