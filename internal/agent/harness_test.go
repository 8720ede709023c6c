// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	agenttools "github.com/toolserver/toolserver/internal/tools/agent"
	"github.com/toolserver/toolserver/internal/tools/catalog"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/turn"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a scripted model writes in one turn.
type answer struct {
	text   string
	calls  []toolcall.Call
	broken []toolcall.Broken
	stop   model.Stop
	usage  model.Usage
	err    error
	then   func(ctx context.Context) error // after all was written
}

// script is a model that writes what a function says, and keeps what it was asked.
type script struct {
	say func(turn int, r *model.Request) answer

	mu    sync.Mutex
	asked []*model.Request
}

func (s *script) Ask(ctx context.Context, r *model.Request, take func(toolcall.Piece)) (model.Answer, error) {
	turn := 1
	for _, m := range r.Messages {
		if m.FromModel {
			turn++
		}
	}
	kept := *r
	kept.Messages = slices.Clone(r.Messages)
	s.mu.Lock()
	s.asked = append(s.asked, &kept)
	s.mu.Unlock()
	a := s.say(turn, r)
	for piece := range strings.SplitSeq(a.text, "|") {
		take(toolcall.Text(piece))
	}
	for _, c := range a.calls {
		take(c)
	}
	for _, b := range a.broken {
		take(b)
	}
	if a.then != nil {
		if err := a.then(ctx); err != nil {
			return model.Answer{Usage: a.usage}, err
		}
	}
	return model.Answer{Stop: a.stop, Usage: a.usage}, a.err
}

// says answers with one turn after the other.
func says(turns ...answer) func(int, *model.Request) answer {
	return func(turn int, _ *model.Request) answer {
		if turn > len(turns) {
			return answer{text: "The script has ended."}
		}
		return turns[turn-1]
	}
}

// call returns a call.
func call(id, tool, input string) toolcall.Call {
	return toolcall.Call{ID: id, Tool: tool, Input: json.RawMessage(input)}
}

// world is a server with agents, and a connection of a caller.
type world struct {
	t         *testing.T
	workspace string
	agents    *agent.Agents
	connect   func(auth.Principal) (service.Conn, error)
	own       grpc.ClientConnInterface // of the caller
	model     *script
	tools     pb.ToolServiceClient
	sessions  pb.SessionServiceClient
	approvals pb.ApprovalServiceClient
	serving   pb.AgentServiceClient
}

// secret is what nobody is told.
const secret = "sk-of-the-provider"

// newWorld serves agents whose model says what say says.
func newWorld(t *testing.T, config agent.Config, mode tools.Mode, say func(int, *model.Request) answer) *world {
	t.Helper()
	w := &world{t: t, workspace: t.TempDir(), model: &script{say: say}}
	mask := func(text string) string { return strings.ReplaceAll(text, secret, "[masked]") }
	registry := new(tools.Registry)
	w.agents = agent.New(config, agent.Options{
		Endpoints: []string{"main"}, Mask: mask,
		Model: func(name string) (model.Model, error) {
			if name != "" && name != "main" {
				return nil, errors.New("there is no endpoint " + name)
			}
			return w.model, nil
		},
		Ours: func(name string) []string {
			if entry, ok := registry.Lookup(name, func(*tools.Spec) bool { return true }); ok {
				return []string{entry.Spec.Name}
			}
			return nil
		},
	})
	if err := registry.Replace("builtin", slices.Concat(files.Tools(nil, nil), turn.Tools(), catalog.Tools(nil), agenttools.Tools(w.agents, w.agents.Unavailable()))...); err != nil {
		t.Fatal(err)
	}
	server, err := service.New(service.Config{
		Logger: zap.NewNop(), Registry: registry, Policy: policy.Builtin(), Authenticator: auth.None{},
		Approvals: approval.Config{SelfApproval: true}, Metrics: prometheus.NewRegistry(), Closers: []io.Closer{w.agents}, Agents: w.agents,
		Sessions: session.NewStore(session.Config{
			DefaultWorkspace: map[string]string{auth.Local.Name: w.workspace}, WorkspaceRoot: t.TempDir(),
			Default:  session.Settings{Level: tools.WorkspaceWrite, Mode: mode, Activation: session.DefaultActivation()},
			MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow, MaxDepth: config.WithDefaults().MaxDepth,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.agents.Connect(server.Connect)
	w.connect = server.Connect
	conn, err := server.Connect(auth.Principal{Name: auth.Local.Name, OnBehalfOf: auth.Local.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		server.Shutdown(ctx)
	})
	w.own = conn
	w.use(conn)
	return w
}

func (w *world) use(conn grpc.ClientConnInterface) {
	w.tools, w.sessions, w.approvals = pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewApprovalServiceClient(conn)
	w.serving = pb.NewAgentServiceClient(conn)
}

func (w *world) file(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.workspace, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// timeout bounds a test that hangs; it is no measure of anything.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// run calls a tool to its end.
func (w *world) run(tool, input string) ([]*pb.Event, *pb.Finished) {
	w.t.Helper()
	return w.follow(timeout(w.t), tool, input, nil)
}

// follow calls a tool to its end, and has seen look at each event on the way.
func (w *world) follow(ctx context.Context, tool, input string, seen func(*pb.Event)) (events []*pb.Event, end *pb.Finished) {
	w.t.Helper()
	stream, err := w.tools.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)})
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err == nil {
			events = append(events, response.GetEvent())
			if seen != nil {
				seen(response.GetEvent())
			}
		}
	}
	if !errors.Is(err, io.EOF) || len(events) == 0 {
		w.t.Fatalf("%v after %d events", err, len(events))
	}
	return events, events[len(events)-1].GetFinished()
}

// text returns the texts that a call ended with.
func text(f *pb.Finished) string {
	var all []string
	for _, c := range f.GetContent() {
		all = append(all, c.GetText()+c.GetJson())
	}
	return strings.Join(all, "\n")
}

// nested returns what happened in loops.
func nested(events []*pb.Event) (list []*pb.Nested) {
	for _, e := range events {
		if n := e.GetNested(); n != nil {
			list = append(list, n)
		}
	}
	return list
}

var reviewer = agent.Definition{Name: "reviewer", Description: "Looks at code", Prompt: "You review."}

func only(definitions ...agent.Definition) agent.Config { return agent.Config{List: definitions} }
