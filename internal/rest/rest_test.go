// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/version"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestEveryRPC proves that each RPC of the contract is in the document, and so has a path,
// and that the document tells what is answered.
func TestEveryRPC(t *testing.T) {
	type operation struct {
		OperationID string
		Responses   map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
	var api struct {
		Info        struct{ Title, Version string }
		Paths       map[string]map[string]operation
		Definitions map[string]any
	}
	if err := json.Unmarshal(document(), &api); err != nil {
		t.Fatal(err)
	}
	if api.Info.Title != "toolserver" || api.Info.Version != version.Text() || api.Definitions["Error"] == nil {
		t.Errorf("the document is titled %+v, and tells of errors %v", api.Info, api.Definitions["Error"])
	}
	at, answers := make(map[string]string), make(map[string]string)
	for path, methods := range api.Paths {
		for method, operation := range methods {
			at[operation.OperationID] = strings.ToUpper(method) + " " + path
			answers[operation.OperationID] = operation.Responses["200"].Schema.Ref
			if failed := operation.Responses["default"].Schema.Ref; failed != "#/definitions/Error" {
				t.Errorf("%s fails with %q", operation.OperationID, failed)
			}
		}
	}
	all := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("toolserver.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				all++
				name := string(service.Name()) + "_" + string(service.Methods().Get(j).Name())
				if !strings.Contains(at[name], " "+Path) {
					t.Errorf("%s has no path: give it one in proto/rest.yaml", name)
				}
				if want := "#/definitions/v1" + string(service.Methods().Get(j).Output().Name()); answers[name] != want {
					t.Errorf("%s answers with %q, want %q", name, answers[name], want)
				}
				if streams := service.Methods().Get(j).IsStreamingClient(); streams != streamed[at[name]] {
					t.Errorf("%s: whether its body is a stream is %v", name, streams)
				}
			}
		}
		return true
	})
	if all < 40 {
		t.Errorf("only %d RPCs were looked at", all)
	}
}

// slow is a server whose call takes longer than a body may.
type slow struct {
	pb.UnimplementedToolServiceServer
	takes time.Duration
}

func (s slow) ExecuteTool(_ *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	return stream.Send(&pb.ExecuteToolResponse{Event: s.event(stream.Context())})
}

func (s slow) WatchExecution(_ *pb.WatchExecutionRequest, stream grpc.ServerStreamingServer[pb.WatchExecutionResponse]) error {
	if err := stream.Send(&pb.WatchExecutionResponse{Event: &pb.Event{Sequence: 6}}); err != nil {
		return err
	}
	return stream.Send(&pb.WatchExecutionResponse{Event: s.event(stream.Context())})
}

func (s slow) event(ctx context.Context) *pb.Event {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
	}
	return &pb.Event{Sequence: 7}
}

// TestAnswersTakeTheirTime: neither the time in which a body has to come ends a stream, nor
// that in which a client has to take what is sent: with a body and without, by HTTP/1.1 and
// by HTTP/2.
func TestAnswersTakeTheirTime(t *testing.T) {
	bodyTime, writeTime = 20*time.Millisecond, 20*time.Millisecond
	t.Cleanup(func() { bodyTime, writeTime = 30*time.Second, time.Minute })
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	pb.RegisterToolServiceServer(server, slow{takes: 10 * bodyTime})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	handler := New(Config{Forward: func(string, *tls.ConnectionState) interface {
		grpc.ClientConnInterface
		io.Closer
	} {
		conn, err := grpc.NewClient("passthrough:slow", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Error(err)
		}
		return conn
	}})
	for _, second := range []bool{false, true} {
		s := httptest.NewUnstartedServer(handler)
		s.EnableHTTP2 = second
		if second {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v1/executions", `{"tool":"sleep"}`},
			{"GET", "/v1/executions/x/events", ""},
		} {
			r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			response, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), `"sequence":"7"`) {
				t.Errorf("%s %s %s: %s: %v", response.Proto, c.method, response.Status, text, err)
			}
		}
	}
}

// TestOutputIsWrittenAlike: output has the text that every other event has.
func TestOutputIsWrittenAlike(t *testing.T) {
	for _, output := range []*pb.Output{
		{Data: []byte("x")},
		{Stream: pb.OutputStream_OUTPUT_STREAM_STDERR, Data: []byte("\x00\xff\"}")},
		{Stream: pb.OutputStream_OUTPUT_STREAM_STDOUT, Offset: 1 << 60, Data: []byte(strings.Repeat("abc", 11_000))},
		{Offset: 7},
	} {
		for _, event := range []*pb.Event{
			{Kind: &pb.Event_Output{Output: output}},
			{ExecutionId: "a", Sequence: 9, Time: timestamppb.New(time.Unix(1, 5)), Kind: &pb.Event_Output{Output: output}},
		} {
			text, err := lines{}.Marshal(map[string]any{"result": &pb.ExecuteToolResponse{Event: event}})
			if err != nil {
				t.Fatal(err)
			}
			want := new(pb.ExecuteToolResponse)
			if err := protojson.Unmarshal(text, want); err != nil || !proto.Equal(want.GetEvent(), event) {
				t.Errorf("%v is written as %.200s: %v", event, text, err)
			}
			plain, err := jsonOf.Marshal(&pb.ExecuteToolResponse{Event: event})
			if space := strings.NewReplacer(" ", ""); err != nil || space.Replace(string(plain)) != space.Replace(string(text)) {
				t.Errorf("%.200s, want %.200s", text, plain)
			}
		}
	}
}
