// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

// reflector asks a server for its schema.
type reflector struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[reflectionpb.ServerReflectionRequest, reflectionpb.ServerReflectionResponse]
}

func (r reflector) ask(request *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
	r.t.Helper()
	if err := r.stream.Send(request); err != nil {
		r.t.Fatal(err)
	}
	response, err := r.stream.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	if !proto.Equal(response.GetOriginalRequest(), request) {
		r.t.Errorf("the answer to %v says it is one to %v", request, response.GetOriginalRequest())
	}
	return response
}

// files returns the files that come with a symbol.
func (r reflector) files(symbol string) []*descriptorpb.FileDescriptorProto {
	r.t.Helper()
	response := r.ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}})
	var files []*descriptorpb.FileDescriptorProto
	for _, wire := range response.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(wire, file); err != nil {
			r.t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		r.t.Errorf("%s: %v, want files", symbol, response)
	}
	return files
}

// TestReflection proves that clients learn the whole schema of every service,
// by the new name of the reflection service and by the old.
func TestReflection(t *testing.T) {
	s := serve(t)
	conn := s.dial("").conn
	for _, method := range []string{
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
		reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName,
	} {
		t.Run(method, func(t *testing.T) {
			stream, err := conn.NewStream(timeout(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			r := reflector{t, &grpc.GenericClientStream[reflectionpb.ServerReflectionRequest, reflectionpb.ServerReflectionResponse]{ClientStream: stream}}

			list := r.ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
			services := list.GetListServicesResponse().GetService()
			if len(services) != 13 { // 9 of our own, health, channelz, and reflection by two names
				t.Errorf("services %v", services)
			}
			var all descriptorpb.FileDescriptorSet
			known := make(map[string]bool)
			for _, service := range services {
				for _, file := range r.files(service.GetName()) {
					if !known[file.GetName()] {
						known[file.GetName()] = true
						all.File = append(all.File, file)
					}
				}
			}
			files, err := protodesc.NewFiles(&all)
			if err != nil {
				t.Fatalf("the files do not make a whole: %v", err)
			}
			for _, file := range all.File {
				comments := file.GetSourceCodeInfo()
				file.SourceCodeInfo = nil
				if ours := strings.HasPrefix(file.GetPackage(), "toolserver."); ours != (comments != nil) {
					t.Errorf("%s comes with comments: %t, want %t", file.GetName(), comments != nil, ours)
				}
				linked, err := protoregistry.GlobalFiles.FindFileByPath(file.GetName())
				if err != nil || !proto.Equal(file, protodesc.ToFileDescriptorProto(linked)) {
					t.Errorf("%s is not what the server is made of: %v", file.GetName(), err)
				}
			}
			for _, service := range services {
				if _, err := files.FindDescriptorByName(protoreflect.FullName(service.GetName())); err != nil {
					t.Error(err)
				}
			}
			if again := r.files("toolserver.v1.ToolService"); len(again) != 1 {
				t.Errorf("asked again, %d files come, want the one without its imports", len(again))
			}
		})
	}
}

func TestReflectionOfWhatIsNotThere(t *testing.T) {
	s := serve(t)
	stream, err := reflectionpb.NewServerReflectionClient(s.dial("").conn).ServerReflectionInfo(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	r := reflector{t, stream}
	for _, request := range []*reflectionpb.ServerReflectionRequest{
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "toolserver.v1.Nothing"}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: "/etc/passwd"}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "toolserver.v1.Nothing"}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingExtension{
			FileContainingExtension: &reflectionpb.ExtensionRequest{ContainingType: "toolserver.v1.Tool", ExtensionNumber: 100}}},
	} {
		if wrong := r.ask(request).GetErrorResponse(); codes.Code(wrong.GetErrorCode()) != codes.NotFound || wrong.GetErrorMessage() == "" {
			t.Errorf("%v: %v, want that it is not found", request, wrong)
		}
	}
	none := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "toolserver.v1.Tool"}}
	if numbers := r.ask(none).GetAllExtensionNumbersResponse(); numbers.GetBaseTypeName() != "toolserver.v1.Tool" || len(numbers.GetExtensionNumber()) != 0 {
		t.Errorf("extensions of a message without any: %v", numbers)
	}
	if files := r.ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: "toolserver/v1/tool.proto"}}).
		GetFileDescriptorResponse().GetFileDescriptorProto(); len(files) == 0 {
		t.Error("a file that is there does not come by its name")
	}
}

// TestReflectionWithComments proves that clients read the comments of the
// contract.
func TestReflectionWithComments(t *testing.T) {
	s := serve(t)
	stream, err := reflectionpb.NewServerReflectionClient(s.dial("").conn).ServerReflectionInfo(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: reflector{t, stream}.files("toolserver.v1.ToolService")}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	commentOf := func(name protoreflect.FullName) string {
		d, err := files.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		return d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	}
	for name, want := range map[protoreflect.FullName]string{
		"toolserver.v1.ToolService":             "What the caller did wrong is a gRPC",
		"toolserver.v1.ToolService.ExecuteTool": "With a call id it is idempotent",
		"toolserver.v1.ExecuteToolRequest.tool": "The name of the tool or one of its aliases.",
		"toolserver.v1.OUTCOME_CANCELLED":       "Somebody cancelled the call",
	} {
		if comment := commentOf(name); !strings.Contains(comment, want) {
			t.Errorf("the comment on %s is %q, want %q", name, comment, want)
		}
	}
}
