// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

// reflectionService tells clients the schema of the services: the bytes that
// the generated code carries. It takes the place of grpc/reflection, which makes
// them anew from a tree of messages: decision 27.
type reflectionService struct {
	reflectionpb.UnimplementedServerReflectionServer
	services func() map[string]grpc.ServiceInfo
}

// registerReflection adds the service under both its names. The older differs
// in nothing else.
func registerReflection(server *grpc.Server) {
	s := &reflectionService{services: server.GetServiceInfo}
	reflectionpb.RegisterServerReflectionServer(server, s)
	alpha := reflectionalphapb.ServerReflection_ServiceDesc
	alpha.HandlerType = reflectionpb.ServerReflection_ServiceDesc.HandlerType
	alpha.Streams = reflectionpb.ServerReflection_ServiceDesc.Streams
	server.RegisterService(&alpha, s)
}

func (s *reflectionService) ServerReflectionInfo(stream grpc.BidiStreamingServer[reflectionpb.ServerReflectionRequest, reflectionpb.ServerReflectionResponse]) error {
	sent := make(map[string]bool)
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		response := &reflectionpb.ServerReflectionResponse{ValidHost: request.GetHost(), OriginalRequest: request}
		if err := s.answer(response, sent); err != nil {
			response.MessageResponse = &reflectionpb.ServerReflectionResponse_ErrorResponse{
				ErrorResponse: &reflectionpb.ErrorResponse{ErrorCode: int32(codes.NotFound), ErrorMessage: err.Error()},
			}
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// answer fills in the response to a request. sent are the files that this client
// has.
func (s *reflectionService) answer(response *reflectionpb.ServerReflectionResponse, sent map[string]bool) error {
	switch asked := response.OriginalRequest.GetMessageRequest().(type) {
	case *reflectionpb.ServerReflectionRequest_ListServices:
		list := new(reflectionpb.ListServiceResponse)
		for _, name := range slices.Sorted(maps.Keys(s.services())) {
			list.Service = append(list.Service, &reflectionpb.ServiceResponse{Name: name})
		}
		response.MessageResponse = &reflectionpb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}
		return nil

	case *reflectionpb.ServerReflectionRequest_FileByFilename:
		file, err := protoregistry.GlobalFiles.FindFileByPath(asked.FileByFilename)
		if err != nil {
			return err
		}
		return answerFile(response, file, sent)

	case *reflectionpb.ServerReflectionRequest_FileContainingSymbol:
		symbol, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(asked.FileContainingSymbol))
		if err != nil {
			return err
		}
		return answerFile(response, symbol.ParentFile(), sent)

	case *reflectionpb.ServerReflectionRequest_AllExtensionNumbersOfType:
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(asked.AllExtensionNumbersOfType)); err != nil {
			return err
		}
		response.MessageResponse = &reflectionpb.ServerReflectionResponse_AllExtensionNumbersResponse{
			AllExtensionNumbersResponse: &reflectionpb.ExtensionNumberResponse{BaseTypeName: asked.AllExtensionNumbersOfType},
		}
		return nil

	default:
		return errors.New("no message of these services has extensions")
	}
}

// answerFile answers with a file and those it imports, but for imports that the
// client has.
func answerFile(response *reflectionpb.ServerReflectionResponse, file protoreflect.FileDescriptor, sent map[string]bool) error {
	delete(sent, file.Path())
	files := new(reflectionpb.FileDescriptorResponse)
	if err := addFiles(files, file, sent); err != nil {
		return err
	}
	response.MessageResponse = &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: files}
	return nil
}

func addFiles(files *reflectionpb.FileDescriptorResponse, file protoreflect.FileDescriptor, sent map[string]bool) error {
	if sent[file.Path()] {
		return nil
	}
	sent[file.Path()] = true
	schema, err := schemaOf(file)
	if err != nil {
		return err
	}
	files.FileDescriptorProto = append(files.FileDescriptorProto, schema)
	imports := file.Imports()
	for i := range imports.Len() {
		if err := addFiles(files, imports.Get(i), sent); err != nil {
			return err
		}
	}
	return nil
}

// schemaOf returns the FileDescriptorProto of a file. The way to it is by any of
// its messages: each has it, compressed.
func schemaOf(file protoreflect.FileDescriptor) ([]byte, error) {
	if file.Messages().Len() == 0 {
		return nil, fmt.Errorf("%s has no messages", file.Path())
	}
	message, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(0).FullName())
	if err != nil {
		return nil, err
	}
	generated, ok := message.Zero().Interface().(interface{ Descriptor() ([]byte, []int) })
	if !ok {
		return nil, fmt.Errorf("%s has no schema", file.Path())
	}
	compressed, _ := generated.Descriptor()
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
