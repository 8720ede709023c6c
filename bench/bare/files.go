// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// files reads files as anybody would.
type files struct {
	pb.UnimplementedWorkspaceServiceServer
}

// version is as long as those of toolserver.
var version = strings.Repeat("0", 32)

// ReadFile sends a range of a file in one message.
func (files) ReadFile(request *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.ReadFileResponse]) error {
	file, err := os.Open(request.GetPath())
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	data := make([]byte, request.GetLimit())
	if _, err := file.ReadAt(data, int64(request.GetOffset())); err != nil {
		return status.Error(codes.OutOfRange, err.Error())
	}
	return stream.Send(&pb.ReadFileResponse{Offset: request.GetOffset(), Data: data, File: &pb.FileInfo{
		Path: request.GetPath(), Type: pb.FileType_FILE_TYPE_REGULAR, Size: uint64(info.Size()), Mode: uint32(info.Mode().Perm()),
		ModifyTime: timestamppb.New(info.ModTime()), Version: version,
	}})
}
