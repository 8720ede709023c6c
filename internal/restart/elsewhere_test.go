// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/state/statetest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

// asAgent sends the token of the agent with each request.
type asAgent struct{}

func (asAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer the-token-of-agent")
	return http.DefaultTransport.RoundTrip(r)
}

// mcpElsewhere works by MCP at one replica in a session that another has.
func mcpElsewhere(t *testing.T, f *fleet, session *pb.Session) {
	t.Helper()
	http := &http.Client{Transport: asAgent{}}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + f.faces[1] + "/mcp?session=" + session.GetSessionId(), HTTPClient: http,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ListTools(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "bash" }) {
		t.Errorf("tools by MCP: %v, %v", list, err)
	}
	result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo mcp >> effects; pwd"}})
	if err != nil || result.IsError || len(result.Content) == 0 || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, session.GetWorkspace()) {
		t.Errorf("a call by MCP: %+v, %v", result, err)
	}
	if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["mcp"] != 1 {
		t.Errorf("a call by MCP had its effect %d times", got["mcp"])
	}

	// A client of MCP that another replica is asked for is told to begin anew, as the protocol has it.
	request := f.mcpRequest(t, 2, client.ID(), `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`)
	response, err := http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 404 {
		t.Errorf("a client of another replica: %s, want that it is not found", response.Status)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if f.at(2, "agent").state(session.GetSessionId()).GetWorkspace() == "" {
		t.Error("the session ended with a client that only used it")
	}
}

func (f *fleet) mcpRequest(t *testing.T, i int, client, message string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.faces[i]+"/mcp", strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Session-Id", client)
	return request
}

// uploadElsewhere writes a file half through one replica and half through another, and reads it
// through both; a third has it.
func uploadElsewhere(t *testing.T, f *fleet, session *pb.Session) {
	t.Helper()
	there, third := f.at(1, "agent"), f.at(2, "agent")
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // a megabyte
	half := len(content) / 2
	header := &pb.WriteFileHeader{SessionId: session.GetSessionId(), Path: "large", UploadId: "u", Size: proto.Uint64(uint64(len(content)))}
	ctx, leave := context.WithCancel(there.ctx)
	stream, err := there.files.WriteFile(ctx)
	if err == nil {
		err = errors.Join(stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: header}}),
			stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: content[:half]}}))
	}
	if err != nil {
		t.Fatal(err)
	}
	until := func(so func(*pb.Upload) bool) {
		for ; ; time.Sleep(10 * time.Millisecond) {
			got, err := third.files.GetUpload(third.ctx, &pb.GetUploadRequest{SessionId: session.GetSessionId(), UploadId: "u"})
			if err != nil && status.Code(err) != codes.NotFound {
				t.Fatal(err)
			}
			if err == nil && so(got.GetUpload()) {
				return
			}
		}
	}
	until(func(u *pb.Upload) bool { return u.GetReceivedBytes() == uint64(half) })
	leave()
	until(func(u *pb.Upload) bool { return !u.GetActive() })
	header.Offset = uint64(half)
	if stream, err = third.files.WriteFile(third.ctx); err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: header}})
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: content[half:]}}) // what fails is told by the answer
	if _, err = stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		agent := f.at(i, "agent")
		reading, err := agent.files.ReadFile(agent.ctx, &pb.ReadFileRequest{SessionId: session.GetSessionId(), Path: "large"})
		var got []byte
		for err == nil {
			var part *pb.ReadFileResponse
			if part, err = reading.Recv(); err == nil {
				got = append(got, part.GetData()...)
			}
		}
		if !errors.Is(err, io.EOF) || !bytes.Equal(got, content) {
			t.Errorf("through replica %d the file has %d bytes, want %d: %v", i, len(got), len(content), err)
		}
	}
}

// batchElsewhere makes a batch through one replica, and watches it through another.
func batchElsewhere(t *testing.T, f *fleet, session *pb.Session) {
	t.Helper()
	there, third := f.at(1, "agent"), f.at(2, "agent")
	stream, err := there.tools.ExecuteBatch(there.ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := session.GetSessionId()
	sent := []*pb.ExecuteBatchRequest{{Kind: &pb.ExecuteBatchRequest_Start{Start: &pb.BatchStart{SessionId: id, BatchId: proto.String("b")}}}}
	for n := range 3 {
		call := &pb.ExecuteToolRequest{CallId: proto.String(fmt.Sprint("of batch ", n)), Tool: "bash", InputJson: fmt.Appendf(nil, `{"command": "echo batch%d >> effects"}`, n)}
		sent = append(sent, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: call}})
	}
	for _, request := range sent {
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	made := batchOf(t, func() (interface{ GetEvent() *pb.BatchEvent }, error) { return stream.Recv() })
	watching, err := third.tools.WatchBatch(third.ctx, &pb.WatchBatchRequest{SessionId: id, BatchId: "b"})
	if err != nil {
		t.Fatal(err)
	}
	watched := batchOf(t, func() (interface{ GetEvent() *pb.BatchEvent }, error) { return watching.Recv() })
	if !slices.EqualFunc(made, watched, func(a, b *pb.BatchEvent) bool { return proto.Equal(a, b) }) {
		t.Errorf("a batch is told as\n%v\nand as\n%v", made, watched)
	}
	if len(made) == 0 || made[len(made)-1].GetFinished() == nil {
		t.Errorf("the batch has no end: %v", made)
	}
	got := lines(t, filepath.Join(session.GetWorkspace(), "effects"))
	for n := range 3 {
		if got[fmt.Sprint("batch", n)] != 1 {
			t.Errorf("call %d of the batch had its effect %d times: %v", n, got[fmt.Sprint("batch", n)], made)
		}
	}
}

// batchOf returns the events of a batch, without those that only say that it lives.
func batchOf(t *testing.T, receive func() (interface{ GetEvent() *pb.BatchEvent }, error)) (events []*pb.BatchEvent) {
	t.Helper()
	for {
		response, err := receive()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		if event := response.GetEvent(); event.GetHeartbeat() == nil {
			events = append(events, event)
		}
	}
}

// TestWrongCluster: a server that cannot have its state says why, and ends.
func TestWrongCluster(t *testing.T) {
	t.Parallel()
	cluster := statetest.NewCluster(t, 1, func(o *server.Options) { o.Username, o.Password = "us", "the-secret" })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, test := range map[string]struct{ url, want string }{
		"a wrong password": {strings.Replace(cluster.Server(0), "nats://", "nats://us:the-secret-no@", 1), "refuses the credentials"},
		"no user":          {cluster.Server(0), "refuses the credentials"},
		"nobody":           {"nats://us:the-secret@127.0.0.1:1", "no NATS server answers at nats://us:xxxxx@127.0.0.1:1"},
		"silence":          {"nats://" + silent.Addr().String(), "state.url"},
		"another protocol": {"http://127.0.0.1:1", "write nats://host:4222"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // or it hangs
			defer cancel()
			cmd := exec.CommandContext(ctx, sdktest.Build(t), "serve", "--listen", "127.0.0.1:0", "--admin", "off")
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "TOOLSERVER_STATE_ENGINE=cluster", "TOOLSERVER_STATE_REPLICAS=1", "TOOLSERVER_STATE_URL="+test.url)
			out, err := cmd.CombinedOutput()
			if err == nil || ctx.Err() != nil || !strings.Contains(string(out), test.want) || strings.Contains(string(out), "the-secret") {
				t.Errorf("it ends with %v and says %s, want %q", err, out, test.want)
			}
		})
	}
}
