// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// FuzzTenants sends requests of any bytes through the whole chain as callers of one
// tenant, with the ids of another put into some of their fields: no answer is an
// internal error, none tells anything of the other tenant, and that keeps what it has.
// Of the data, each request takes a byte for the method, two for the fields, one for the
// caller, and all up to the next 0xFF 0xFE for the message.
func FuzzTenants(f *testing.F) {
	for seed := range 8 {
		var data []byte
		for method := range 40 {
			data = append(data, byte(method), byte(seed*37), byte(seed), byte(seed))
			data = append(data, "\x0a\x03abc\x12\x02{}"...)
			data = append(data, end...)
		}
		f.Add(data)
	}
	f.Add([]byte{9, 0xff, 0xff, 1, 0x0a, 0x80})
	byName := requests(missing)
	for caller := range 4 { // what a caller would send, of every method
		var data []byte
		for i, method := range servicesOf(f) {
			for _, messages := range byName[string(method.Parent().Name())+"/"+string(method.Name())] {
				text, err := proto.Marshal(messages[0])
				if err != nil {
					f.Fatal(err)
				}
				data = append(data, byte(i), byte(caller*85), byte(caller), byte(caller))
				data = append(append(data, text...), end...)
			}
		}
		f.Add(data)
	}
	// What goroutines and timers cover differs from run to run. An input that seems new
	// would be made smaller for a minute, in vain, and that minute not be spent on others.
	if small := flag.Lookup("test.fuzzminimizetime"); small.Value.String() == small.DefValue {
		if err := small.Value.Set("10x"); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := serveTenants(t)
		acme := furnish(t, s)
		methods := servicesOf(t)
		callers := []*fileClient{s.as("beta-alice"), s.as("beta-root"), s.as("beta-acmealice"), s.as("default-alice")}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // what waits may have it all
		defer cancel()
		for i, part := range bytes.Split(data, end) {
			if len(part) < 4 || i >= 128 {
				continue
			}
			method := methods[int(part[0])%len(methods)]
			request := dynamicpb.NewMessage(method.Input())
			if proto.Unmarshal(part[4:], request) != nil {
				continue
			}
			fields := uint(part[1]) | uint(part[2])<<8
			acme.putInto(request, fields)
			sent := protojson.Format(request)
			one, done := context.WithTimeout(ctx, 250*time.Millisecond)
			got, code := answer(one, t, callers[int(part[3])%len(callers)].conn, method, []proto.Message{request})
			done()
			if code == codes.Internal || code == codes.Unknown || code == codes.Unimplemented {
				t.Errorf("%s %s: %s", method.FullName(), sent, got)
			}
			for _, theirs := range []string{acmeSecret, "carol", acme.session, acme.execution, acme.call, acme.approval, acme.grant, acme.artifact, acme.upload, acme.workspace} {
				if strings.Contains(got, theirs) && !strings.Contains(sent, theirs) {
					t.Errorf("%s %s tells of %s: %s", method.FullName(), sent, theirs, got)
				}
			}
		}
		s.intact(acme)
	})
}

var end = []byte{0xff, 0xfe}

// putInto puts ids into the fields of a message that are for such, as far as the bits
// say.
func (b belongings) putInto(m protoreflect.Message, bits uint) {
	values := []struct{ field, value string }{
		{"session_id", b.session}, {"execution_id", b.execution}, {"call_id", b.call}, {"approval_id", b.approval}, {"grant_id", b.grant},
		{"uri", b.artifact}, {"upload_id", b.upload}, {"workspace", b.workspace}, {"path", b.file}, {"principal", b.principal}, {"tenant", b.tenant},
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap() && m.Has(field) {
			b.putInto(m.Mutable(field).Message(), bits)
		}
		for j, v := range values {
			if string(field.Name()) == v.field && field.Kind() == protoreflect.StringKind && !field.IsList() && bits&(1<<j) != 0 {
				m.Set(field, protoreflect.ValueOfString(v.value))
			}
		}
	}
}

// intact fails unless a tenant has all that it had.
func (s *tenantServer) intact(b belongings) {
	t := s.t
	t.Helper()
	if data, err := os.ReadFile(b.file); err != nil || string(data) != acmeSecret {
		t.Errorf("its file: %q, %v", data, err)
	}
	alice := s.as("acme-alice")
	if got, err := alice.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: b.session}); err != nil || got.GetSession().GetLabels()["what"] != acmeSecret {
		t.Errorf("its session: %v, %v", got, err)
	}
	for _, id := range []string{b.execution, b.listener} {
		if got, err := alice.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: id}); err != nil || got.GetExecution().GetState() != pb.ExecutionState_EXECUTION_STATE_RUNNING {
			t.Errorf("its call: %v, %v", got, err)
		}
	}
	if list, err := alice.ListGrants(timeout(t), &pb.ListGrantsRequest{}); err != nil || len(list.GetGrants()) != 1 || list.GetGrants()[0].GetTenant() != "acme" {
		t.Errorf("its grant: %v, %v", list, err)
	}
	if list, err := alice.ListApprovals(timeout(t), &pb.ListApprovalsRequest{}); err != nil || len(list.GetApprovals()) != 1 {
		t.Errorf("its question: %v, %v", list, err)
	}
}
