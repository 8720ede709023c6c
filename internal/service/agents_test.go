// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	agenttools "github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// runtimesAlone are agents that runtimes serve, without any of an operator.
type runtimesAlone struct{ *agent.Runtimes }

func (runtimesAlone) Serves() bool { return true }

// withRuntimes starts a server where runtimes may serve agents other than "taken".
func withRuntimes(t *testing.T) (*testServer, *agent.Runtimes) {
	t.Helper()
	runtimes := agent.NewRuntimes(func(name string) bool { return name == "taken" })
	return serve(t, withTokens, func(c *service.Config) { c.Agents = runtimesAlone{runtimes} }), runtimes
}

// servedTask is a task that a test gives to runtimes.
type servedTask struct {
	*agent.Task
	cancel context.CancelCauseFunc
	news   chan struct{}
	ended  chan struct{} // closed when report and err are there
	report agent.Report
	err    error

	mu      sync.Mutex
	heard   []string
	summary *agenttools.Summary
	updates []*agent.Update
}

// give has the runtimes of a principal work on a task, in a session of that principal.
func give(c *client, runtimes *agent.Runtimes, owner auth.Owner, name string, change ...func(*agent.Task)) *servedTask {
	c.t.Helper()
	ctx, cancel := context.WithCancelCause(timeout(c.t))
	created, err := c.CreateSession(ctx, &pb.CreateSessionRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	task := &servedTask{cancel: cancel, news: make(chan struct{}, 1), ended: make(chan struct{})}
	task.Task = &agent.Task{
		ID: created.GetSession().GetSessionId(), Agent: &agent.Definition{Name: name}, Description: "a test", Prompt: "do " + name, Conn: c.conn,
		Before: "user: said before", Summarize: true, News: task.news,
		Steering: func() ([]string, *agenttools.Summary) {
			task.mu.Lock()
			defer task.mu.Unlock()
			heard := task.heard
			task.heard = nil
			return heard, task.summary
		},
		Accept: func(s agenttools.Summary) error {
			if task.ResultSchema == nil || len(s.Result) > 0 {
				return nil
			}
			return errors.New("the result is missing")
		},
	}
	for _, do := range change {
		do(task.Task)
	}
	go func() {
		defer close(task.ended)
		task.report, task.err = runtimes.Runner(owner).Run(ctx, task.Task, func(u *agent.Update) {
			task.mu.Lock()
			defer task.mu.Unlock()
			task.updates = append(task.updates, u)
		})
	}()
	c.t.Cleanup(func() { cancel(nil); <-task.ended })
	return task
}

// say says something to the agent.
func (s *servedTask) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, text)
	s.news <- struct{}{}
}

// wantFailure waits for the end of a task that was not done.
func (s *servedTask) wantFailure(t *testing.T, code string, words ...string) {
	t.Helper()
	<-s.ended
	failure, ok := errors.AsType[*tools.Failure](s.err)
	if !ok || failure.Code != code {
		t.Fatalf("the task ended with %v, want the failure %s", s.err, code)
	}
	for _, word := range words {
		if !strings.Contains(failure.Message, word) {
			t.Errorf("%q does not say %q", failure.Message, word)
		}
	}
}

// runtimeOf is a runtime of a test.
type runtimeOf struct {
	grpc.BidiStreamingClient[pb.ServeRequest, pb.ServeResponse]
	t    *testing.T
	stop context.CancelFunc
}

// serveAgents serves agents.
func (c *client) serveAgents(offer *pb.AgentOffer) *runtimeOf {
	c.t.Helper()
	r := c.serveStream(&pb.ServeRequest{Kind: &pb.ServeRequest_Offer{Offer: offer}})
	if first := r.next(); first.GetOffered() == nil {
		c.t.Fatalf("the first message is %v", first)
	}
	return r
}

func (c *client) serveStream(messages ...*pb.ServeRequest) *runtimeOf {
	c.t.Helper()
	ctx, stop := context.WithCancel(timeout(c.t))
	stream, err := pb.NewAgentServiceClient(c.conn).Serve(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range messages {
		stream.Send(m)
	}
	return &runtimeOf{stream, c.t, stop}
}

func (r *runtimeOf) next() *pb.ServeResponse {
	r.t.Helper()
	m, err := r.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// task returns the next message, which has to be a task.
func (r *runtimeOf) task() *pb.AgentTask {
	r.t.Helper()
	m := r.next()
	if m.GetTask() == nil {
		r.t.Fatalf("got %v, want a task", m)
	}
	return m.GetTask()
}

func (r *runtimeOf) report(report *pb.TaskReport) {
	r.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Report{Report: report}})
}

func (r *runtimeOf) fail(failure *pb.TaskFailure) {
	r.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Failure{Failure: failure}})
}

func offerOf(most uint32, names ...string) *pb.AgentOffer {
	offer := &pb.AgentOffer{MaxTasks: most}
	for _, name := range names {
		offer.Agents = append(offer.Agents, &pb.OfferedAgent{Name: name, Description: "helps with " + name})
	}
	return offer
}

// TestServedAgent proves that a runtime works on a task: it is told of it, calls in its
// session, tells what happens, hears what is said, and reports.
func TestServedAgent(t *testing.T) {
	s, runtimes := withRuntimes(t)
	s.write("a.txt", "hello")
	alice := s.dial("alice-alice-alice")
	r := alice.serveAgents(offerOf(1, "Reviewer"))
	task := give(alice, runtimes, "alice", "Reviewer")

	got := r.task()
	if got.GetTaskId() != task.ID || got.GetAgent() != "Reviewer" || got.GetPrompt() != "do Reviewer" || got.GetDescription() != "a test" || got.GetDeadline() == nil ||
		got.GetBefore() != "user: said before" || !got.GetSummarize() {
		t.Errorf("the task is %v", got)
	}
	r.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Update{Update: &pb.TaskUpdate{TaskId: task.ID, Kind: &pb.TaskUpdate_Turn{Turn: &pb.TurnBegun{Turn: 1}}}}})
	r.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Update{Update: &pb.TaskUpdate{TaskId: task.ID, Kind: &pb.TaskUpdate_Text{Text: "I look."}}}})
	call := asJSON("read_file", `{"path":"a.txt"}`)
	call.SessionId = got.GetTaskId()
	alice.run(call)
	task.say("hurry")
	if m := r.next().GetMessage(); m.GetTaskId() != task.ID || m.GetText() != "hurry" {
		t.Errorf("heard %v", m)
	}
	r.report(&pb.TaskReport{TaskId: task.ID, Text: "It says hello.", Usage: &pb.LoopUsage{Turns: 2, InputTokens: 10, OutputTokens: 5, Calls: 77}})
	<-task.ended
	if task.err != nil || task.report.Text != "It says hello." || task.report.Turns != 2 || task.report.Calls != 1 || task.report.Usage.Input != 10 {
		t.Fatalf("%+v, %v", task.report, task.err)
	}
	var updates []string
	for _, u := range task.updates {
		switch kind := u.GetKind().(type) {
		case *pb.Nested_Turn:
			updates = append(updates, fmt.Sprint("turn ", kind.Turn.GetTurn()))
		case *pb.Nested_Text:
			updates = append(updates, kind.Text)
		case *pb.Nested_Heard:
			updates = append(updates, "heard "+kind.Heard)
		case *pb.Nested_Call:
			if kind.Call.GetEvent().GetFinished() != nil {
				updates = append(updates, "ended "+kind.Call.GetTool())
			} else {
				updates = append(updates, "call "+kind.Call.GetTool())
			}
		}
	}
	slices.Sort(updates) // calls are seen by another way than updates
	if got, want := strings.Join(updates, ", "), "I look., call read_file, ended read_file, heard hurry, turn 1"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// TestServedResult proves that a result that does not fit is corrected, and that the report
// of the tool summary ends a task.
func TestServedResult(t *testing.T) {
	s, runtimes := withRuntimes(t)
	alice := s.dial("alice-alice-alice")
	r := alice.serveAgents(offerOf(1, "counter"))
	task := give(alice, runtimes, "alice", "counter", func(t *agent.Task) { t.ResultSchema = []byte(`{"type":"number"}`) })
	if schema := r.task().GetResultSchema(); schema != `{"type":"number"}` {
		t.Errorf("schema %s", schema)
	}
	r.report(&pb.TaskReport{TaskId: task.ID, Text: "many"})
	if m := r.next().GetRejected(); m.GetTaskId() != task.ID || m.GetMessage() != "the result is missing" {
		t.Errorf("rejected: %v", m)
	}
	r.report(&pb.TaskReport{TaskId: task.ID, Text: "many", Result: "42"})
	if m := r.next().GetTaken(); m.GetTaskId() != task.ID {
		t.Errorf("taken: %v", m)
	}
	if <-task.ended; task.err != nil || !json.Valid(task.report.Result) || string(task.report.Result) != "42" {
		t.Fatalf("%+v, %v", task.report, task.err)
	}

	task = give(alice, runtimes, "alice", "counter")
	r.task()
	task.mu.Lock()
	task.summary = &agenttools.Summary{Text: "by the tool"}
	task.mu.Unlock()
	task.news <- struct{}{}
	if m := r.next().GetCancelled(); m.GetTaskId() != task.ID || !strings.Contains(m.GetReason(), "report was taken") {
		t.Errorf("cancelled: %v", m)
	}
	if <-task.ended; task.err != nil || task.report.Text != "by the tool" {
		t.Fatalf("%+v, %v", task.report, task.err)
	}
}

// TestServedFailures proves that a task ends with words when its runtime fails, is killed, or
// nobody serves it, and that a cancel reaches a runtime that does not answer.
func TestServedFailures(t *testing.T) {
	s, runtimes := withRuntimes(t)
	alice := s.dial("alice-alice-alice")
	give(alice, runtimes, "alice", "nobody").wantFailure(t, "agent_gone", "no runtime serves it")

	r := alice.serveAgents(offerOf(1, "one", "two"))
	task := give(alice, runtimes, "alice", "ONE")
	r.task()
	r.fail(&pb.TaskFailure{TaskId: task.ID, Reason: "the model is asleep", Retryable: true})
	task.wantFailure(t, "agent_failed", "could not do it: the model is asleep")
	r.next() // that it was taken

	task = give(alice, runtimes, "alice", "one")
	r.task()
	task.cancel(errors.New("the caller had enough"))
	if m := r.next().GetCancelled(); m.GetTaskId() != task.ID || m.GetReason() != "the caller had enough" {
		t.Errorf("cancelled: %v", m)
	}
	if <-task.ended; task.err == nil || task.err.Error() != "the caller had enough" {
		t.Errorf("the task ended with %v", task.err)
	}
	r.fail(&pb.TaskFailure{TaskId: task.ID, Reason: "cancelled"})

	task = give(alice, runtimes, "alice", "two")
	waits := give(alice, runtimes, "alice", "one")
	if got := r.task().GetTaskId(); got != task.ID && got != waits.ID {
		t.Errorf("an unknown task %s", got)
	}
	r.stop()
	task.wantFailure(t, "agent_gone")
	waits.wantFailure(t, "agent_gone")
	if list := runtimes.List("alice"); len(list) != 0 {
		t.Errorf("there are still agents: %v", list)
	}
}

// TestServedStuck proves that a runtime that does not answer a cancel is cut off, so that it
// can serve anew.
func TestServedStuck(t *testing.T) {
	s, runtimes := withRuntimes(t)
	runtimes.Grace = time.Millisecond
	alice := s.dial("alice-alice-alice")
	r := alice.serveAgents(offerOf(1, "one"))
	task := give(alice, runtimes, "alice", "one")
	r.task()
	task.cancel(errors.New("enough"))
	m, err := r.Recv()
	for err == nil && m.GetCancelled() != nil {
		m, err = r.Recv()
	}
	wantCode(t, err, codes.Aborted, task.ID, "has not answered")
}

// TestServedRoom proves that a runtime has no more tasks at once than it takes, that others
// wait their turn, and that runtimes of a principal share them.
func TestServedRoom(t *testing.T) {
	s, runtimes := withRuntimes(t)
	alice := s.dial("alice-alice-alice")
	first := alice.serveAgents(offerOf(1, "one"))
	working := give(alice, runtimes, "alice", "one")
	first.task()
	cancelled := give(alice, runtimes, "alice", "one")
	waitForWaiting(t, runtimes, 1)
	left := give(alice, runtimes, "alice", "one")
	waitForWaiting(t, runtimes, 2)

	cancelled.cancel(errors.New("while it waits"))
	if <-cancelled.ended; cancelled.err == nil || cancelled.err.Error() != "while it waits" {
		t.Errorf("a task that waited ended with %v", cancelled.err)
	}
	working.cancel(errors.New("enough")) // which takes effect when it is answered
	first.next()
	waitForWaiting(t, runtimes, 1)
	first.report(&pb.TaskReport{TaskId: working.ID, Text: "too late"})
	if got := first.task().GetTaskId(); got != left.ID {
		t.Errorf("the next task is %s, want %s", got, left.ID)
	}
	second := alice.serveAgents(offerOf(2, "one"))
	for range 2 {
		shared := give(alice, runtimes, "alice", "one")
		if got := second.task().GetTaskId(); got != shared.ID {
			t.Errorf("the task of the other runtime is %s, want %s", got, shared.ID)
		}
	}
	listed, err := pb.NewAgentServiceClient(alice.conn).ListAgents(timeout(t), &pb.ListAgentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(listed.GetAgents()[0].GetRuntimes()); got != "count:2 max_tasks:3 running:3" && got != "count:2  max_tasks:3  running:3" {
		t.Errorf("the runtimes are %s", got)
	}
	for _, line := range []string{"toolserver_agent_runtimes 2", `toolserver_agent_runtime_tasks{state="running"} 3`} {
		if text := metricsText(t, s.metrics); !strings.Contains(text, line) {
			t.Errorf("there is no metric %s", line)
		}
	}
}

// waitForWaiting waits until as many tasks wait.
func waitForWaiting(t *testing.T, runtimes *agent.Runtimes, want int) {
	t.Helper()
	waitFor(t, func() bool {
		_, _, waiting := runtimes.Counts()
		return waiting == want
	})
}

// TestServedForOwnersAlone proves that nobody sees agents and tasks of others, and that names
// of others are free.
func TestServedForOwnersAlone(t *testing.T) {
	s, runtimes := withRuntimes(t)
	alice, bob, root := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob"), s.dial("root-root-root-root")
	bob.serveAgents(offerOf(1, "one", "bobs"))
	give(alice, runtimes, "alice", "one").wantFailure(t, "agent_gone")
	mine := alice.serveAgents(offerOf(1, "one"))
	task := give(alice, runtimes, "alice", "one")
	if got := mine.task().GetTaskId(); got != task.ID {
		t.Errorf("the task is %s, want %s", got, task.ID)
	}
	names := func(c *client, request *pb.ListAgentsRequest) string {
		response, err := pb.NewAgentServiceClient(c.conn).ListAgents(timeout(t), request)
		if err != nil {
			return err.Error()
		}
		var list []string
		for _, a := range response.GetAgents() {
			list = append(list, a.GetPrincipal()+":"+a.GetName())
		}
		return strings.Join(list, " ")
	}
	for _, c := range []struct {
		who  *client
		of   string
		want string
	}{
		{alice, "", "alice:one"},
		{bob, "", "bob:bobs bob:one"},
		{alice, "bob", "names somebody else"},
		{root, "bob", "bob:bobs bob:one"},
		{root, "*", "bob:bobs alice:one bob:one"},
	} {
		if got := names(c.who, &pb.ListAgentsRequest{Principal: c.of}); !strings.Contains(got, c.want) {
			t.Errorf("the agents of %q are %s, want %s", c.of, got, c.want)
		}
	}
	// A task of somebody else cannot be answered.
	thief := bob.serveAgents(offerOf(1, "thief"))
	thief.report(&pb.TaskReport{TaskId: task.ID, Text: "mine"})
	if m := thief.next().GetRefused(); m.GetTaskId() != task.ID || !strings.Contains(m.GetMessage(), "has no task") {
		t.Errorf("refused: %v", m)
	}
	call := asJSON("read_file", `{"path":"a.txt"}`)
	call.SessionId = task.ID
	_, err := bob.call(call)
	wantCode(t, err, codes.NotFound)
}

// TestServedBadInput proves that what is wrong is told, and that what is wrong with a task ends
// no stream.
func TestServedBadInput(t *testing.T) {
	s, runtimes := withRuntimes(t)
	alice := s.dial("alice-alice-alice")
	offer := func(o *pb.AgentOffer) []*pb.ServeRequest {
		return []*pb.ServeRequest{{Kind: &pb.ServeRequest_Offer{Offer: o}}}
	}
	one := func(a *pb.OfferedAgent) []*pb.ServeRequest {
		return offer(&pb.AgentOffer{Agents: []*pb.OfferedAgent{a}})
	}
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint("agent", i)
	}
	for name, c := range map[string]struct {
		messages []*pb.ServeRequest
		code     codes.Code
		words    string
	}{
		"nothing":          {nil, codes.InvalidArgument, "begin with offer"},
		"no offer":         {[]*pb.ServeRequest{{}}, codes.InvalidArgument, "the first message is not offer"},
		"report first":     {[]*pb.ServeRequest{{Kind: &pb.ServeRequest_Report{}}}, codes.InvalidArgument, "the first message is not offer"},
		"no agents":        {offer(&pb.AgentOffer{}), codes.InvalidArgument, "no agents"},
		"10,000":           {offer(offerOf(1, many...)), codes.InvalidArgument, "10000 agents: at most 64"},
		"no name":          {offer(offerOf(1, "")), codes.InvalidArgument, "is no name"},
		"a bad name":       {offer(offerOf(1, "../x y")), codes.InvalidArgument, "is no name"},
		"a long name":      {offer(offerOf(1, strings.Repeat("x", 65))), codes.InvalidArgument, "is no name"},
		"twice":            {offer(offerOf(1, "one", "ONE")), codes.InvalidArgument, "agents[1]: the offer has an agent named ONE already"},
		"of the operator":  {offer(offerOf(1, "taken")), codes.AlreadyExists, "agent of the operator"},
		"too many tasks":   {offer(offerOf(5000, "one")), codes.InvalidArgument, "max_tasks is 5000"},
		"long description": {one(&pb.OfferedAgent{Name: "one", Description: strings.Repeat("x", 3000)}), codes.InvalidArgument, "3000 bytes"},
		"bad level":        {one(&pb.OfferedAgent{Name: "one", Level: 99}), codes.InvalidArgument, "level 99"},
		"mode deny":        {one(&pb.OfferedAgent{Name: "one", Mode: pb.Mode_MODE_DENY}), codes.InvalidArgument, "lets no call run"},
		"many patterns":    {one(&pb.OfferedAgent{Name: "one", Tools: &pb.ToolSelection{Include: make([]string, 1000)}}), codes.InvalidArgument, "the tools of one"},
		"two offers":       {append(offer(offerOf(1, "one")), offer(offerOf(1, "two"))...), codes.InvalidArgument, "offer came twice"},
		"empty":            {append(offer(offerOf(1, "one")), &pb.ServeRequest{}), codes.InvalidArgument, "the message is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			r := alice.serveStream(c.messages...)
			r.CloseSend()
			m, err := r.Recv()
			for err == nil && m.GetOffered() != nil {
				m, err = r.Recv()
			}
			wantCode(t, err, c.code, c.words)
		})
	}

	r := alice.serveAgents(offerOf(1, "one"))
	task := give(alice, runtimes, "alice", "one")
	r.task()
	update := func(text string, usage *pb.LoopUsage) *pb.ServeRequest {
		u := &pb.TaskUpdate{TaskId: task.ID, Kind: &pb.TaskUpdate_Text{Text: text}}
		if usage != nil {
			u.Kind = &pb.TaskUpdate_Turn{Turn: &pb.TurnBegun{Turn: 1, Usage: usage}}
		}
		return &pb.ServeRequest{Kind: &pb.ServeRequest_Update{Update: u}}
	}
	for words, m := range map[string]*pb.ServeRequest{
		"has no task":         {Kind: &pb.ServeRequest_Report{Report: &pb.TaskReport{TaskId: "x"}}},
		"at most 65536":       update(strings.Repeat("x", 70_000), nil),
		"nobody can have":     update("", &pb.LoopUsage{InputTokens: 1 << 63}),
		"no amount of money":  update("", &pb.LoopUsage{Dollars: -1}),
		"the update is empty": {Kind: &pb.ServeRequest_Update{Update: &pb.TaskUpdate{TaskId: task.ID}}},
		"at most 1048576":     {Kind: &pb.ServeRequest_Report{Report: &pb.TaskReport{TaskId: task.ID, Text: strings.Repeat("x", 2<<20)}}},
		"at most 4096":        {Kind: &pb.ServeRequest_Failure{Failure: &pb.TaskFailure{TaskId: task.ID, Reason: strings.Repeat("x", 5000)}}},
	} {
		r.Send(m)
		if refused := r.next().GetRefused(); !strings.Contains(refused.GetMessage(), words) {
			t.Errorf("refused: %v, want %q", refused, words)
		}
	}
	r.report(&pb.TaskReport{TaskId: task.ID, Text: "once"})
	r.report(&pb.TaskReport{TaskId: task.ID, Text: "twice"})
	refused := r.next()
	if refused.GetTaken() != nil { // before the second came
		refused = r.next()
	}
	if !strings.Contains(refused.GetRefused().GetMessage(), "answered") {
		t.Errorf("refused: %v", refused)
	}
	if <-task.ended; task.err != nil || task.report.Text != "once" {
		t.Errorf("%+v, %v", task.report, task.err)
	}
}

// TestServingIsPermitted proves that runtimes serve only where the operator permits it.
func TestServingIsPermitted(t *testing.T) {
	s := serve(t)
	r := s.dial("").serveStream(&pb.ServeRequest{Kind: &pb.ServeRequest_Offer{Offer: offerOf(1, "one")}})
	_, err := r.Recv()
	wantCode(t, err, codes.FailedPrecondition, "agents: {serve: true}")
}

// TestServedStopped proves that an emergency stop ends what a runtime serves, with its tasks.
func TestServedStopped(t *testing.T) {
	s, runtimes := withRuntimes(t)
	alice, root := s.dial("alice-alice-alice"), s.dial("root-root-root-root")
	r := alice.serveAgents(offerOf(1, "one"))
	task := give(alice, runtimes, "alice", "one")
	r.task()
	if _, err := root.StopPrincipal(timeout(t), &pb.StopPrincipalRequest{Principal: "alice", Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Recv()
	wantCode(t, err, codes.FailedPrecondition, "enough")
	task.wantFailure(t, "agent_gone")
	_, err = alice.serveStream(&pb.ServeRequest{Kind: &pb.ServeRequest_Offer{Offer: offerOf(1, "one")}}).Recv()
	wantCode(t, err, codes.FailedPrecondition, "enough")
}

// TestServedOnBehalfOfTheSame proves that a runtime calls in the session of a task for the user
// whom the task is for, so that rules about that user hold.
func TestServedOnBehalfOfTheSame(t *testing.T) {
	s := serve(t, withRuntime, withDepth(t, 1), withPolicy(t, `
rules:
  - {name: guests, action: deny, tools: [read_file], when: 'on_behalf_of == "user:guest"'}
`))
	runtime := s.dial(runtimeToken)
	forGuest := s.connect(auth.Principal{Name: "runtime", OnBehalfOf: "user:guest"})
	ctx := withHeader(timeout(t), onBehalfOf, "user:guest")
	if _, err := runtime.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "main"}); err != nil {
		t.Fatal(err)
	}
	stream, err := runtime.ExecuteTool(ctx, &pb.ExecuteToolRequest{SessionId: "main", Tool: "listens"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	request := below("main", first.GetEvent().GetExecutionId(), "explorer")
	request.SessionId = "exploring"
	if _, err := forGuest.CreateSession(ctx, request); err != nil {
		t.Fatal(err)
	}
	call := asJSON("read_file", `{"path":"a.txt"}`)
	call.SessionId = "exploring"
	for _, user := range []string{"", "user:carol"} {
		other := timeout(t)
		if user != "" {
			other = withHeader(other, onBehalfOf, user)
		}
		stream, err := runtime.ExecuteTool(other, call)
		if err == nil {
			_, err = rest(stream)
		}
		wantCode(t, err, codes.PermissionDenied, `on behalf of "user:guest"`, "call on behalf of the same")
	}
	denied, err := runtime.ExecuteTool(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	events, err := rest(denied)
	if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Errorf("a guest reads: %v, %v", events, err)
	}
}
