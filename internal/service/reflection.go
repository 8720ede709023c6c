// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	_ "embed"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// schema is the contract with its comments, which generated code does not carry:
// a FileDescriptorSet without imports. "make generate" makes it.
//
//go:embed schema.binpb
var schema []byte

// registerReflection adds the reflection service under both its names.
func registerReflection(server *grpc.Server) {
	options := reflection.ServerOptions{
		Services: server, DescriptorResolver: describedFiles{sync.OnceValues(readSchema)},
	}
	reflectionpb.RegisterServerReflectionServer(server, reflection.NewServerV1(options))
	reflectionalphapb.RegisterServerReflectionServer(server, reflection.NewServer(options))
}

// describedFiles finds files of the contract with their comments, and all others
// as generated code has them. The schema is read when the first client asks:
// most servers are never asked.
type describedFiles struct {
	contract func() (*protoregistry.Files, error)
}

func (f describedFiles) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	contract, err := f.contract()
	if err != nil {
		return nil, err
	}
	if file, err := contract.FindFileByPath(path); err == nil {
		return file, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (f describedFiles) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	contract, err := f.contract()
	if err != nil {
		return nil, err
	}
	if descriptor, err := contract.FindDescriptorByName(name); err == nil {
		return descriptor, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// readSchema reads the files of the contract. In the schema, each comes after
// those it imports.
func readSchema() (*protoregistry.Files, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(schema, &set); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	files := new(protoregistry.Files)
	known := describedFiles{func() (*protoregistry.Files, error) { return files, nil }}
	for _, file := range set.GetFile() {
		descriptor, err := protodesc.NewFile(file, known)
		if err == nil {
			err = files.RegisterFile(descriptor)
		}
		if err != nil {
			return nil, fmt.Errorf("the schema of %s cannot be read: %w", file.GetName(), err)
		}
	}
	return files, nil
}
