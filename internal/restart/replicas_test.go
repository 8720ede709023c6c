// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/state/statetest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

const replicaConfiguration = `
authentication:
  tokens:
    - {principal: agent, max_mode: allow, token: the-token-of-agent}
    - {principal: other, max_mode: allow, token: the-token-of-other}
    - {principal: agent, tenant: acme, max_mode: allow, token: the-token-of-acme}
    - {principal: person, approver: true, token: the-token-of-person}
    - {principal: operator, roles: [operator], token: the-token-of-operator}
sessions: {workspace_root: %s}
state: {engine: cluster, url: "%s"}
replica: {listen: "%s", lease: 3s}
http: {listen: "%s"}
`

// A fleet is three servers with one state.
type fleet struct {
	t       *testing.T
	cluster *statetest.Cluster
	servers []*sdktest.Server
	peers   []string // where they listen for each other
	faces   []string // where they serve HTTP
}

// startFleet starts servers whose workspaces are in the directories that are named, one
// for each server.
func startFleet(t *testing.T, roots ...string) *fleet {
	t.Helper()
	return startFleetOf(t, slices.Repeat([]string{sdktest.Build(t)}, len(roots)), roots...)
}

// startFleetOf is startFleet with a program for each server.
func startFleetOf(t *testing.T, programs []string, roots ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: statetest.NewCluster(t, 3, nil)}
	for i, root := range roots {
		peer, face := freeAddress(t), freeAddress(t)
		file := filepath.Join(t.TempDir(), "toolserver.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, replicaConfiguration, root, f.cluster.URL(), peer, face), 0o600); err != nil {
			t.Fatal(err)
		}
		f.servers = append(f.servers, sdktest.Start(t, programs[i], "TOOLSERVER_CONFIG="+file))
		f.peers, f.faces = append(f.peers, peer), append(f.faces, face)
	}
	return f
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// shared returns the same directory three times.
func shared(t *testing.T) []string { return slices.Repeat([]string{t.TempDir()}, 3) }

// at returns a caller of one of the servers.
func (f *fleet) at(i int, token string) *caller {
	f.t.Helper()
	return connect(f.t, f.servers[i].Address, token)
}

// begun begins a call and returns the events up to the first that is wanted, and a stream
// of the rest.
func (c *caller) begun(session, id, tool, input string, wanted func(*pb.Event) bool) (*pb.Event, func() ([]*pb.Event, error)) {
	c.t.Helper()
	stream, err := c.tools.ExecuteTool(c.ctx, &pb.ExecuteToolRequest{SessionId: session, CallId: &id, Tool: tool, InputJson: []byte(input)})
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err == nil && wanted(response.GetEvent()) {
			return response.GetEvent(), func() ([]*pb.Event, error) {
				return eventsOf(func() (interface{ GetEvent() *pb.Event }, error) { return stream.Recv() })
			}
		}
	}
	c.t.Fatal(id, err)
	return nil, nil
}

// artifactIn returns the URI of an artifact of a result.
func artifactIn(f *pb.Finished) (uri string) {
	for _, content := range f.GetContent() {
		uri = max(uri, content.GetArtifact().GetUri())
	}
	return uri
}

func isOutput(e *pb.Event) bool { return e.GetOutput() != nil }

// TestAnyReplicaAnswers: whatever a session has, each replica answers for, and to nobody
// else than the one that has it.
func TestAnyReplicaAnswers(t *testing.T) {
	t.Parallel()
	f := startFleet(t, t.TempDir(), t.TempDir(), t.TempDir())
	here, there, third := f.at(0, "agent"), f.at(1, "agent"), f.at(2, "agent")
	person := f.at(2, "person")
	made := here.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	if got := there.state("s"); got.GetWorkspace() != made.GetWorkspace() {
		t.Errorf("another replica has another session: %v", got)
	}
	if _, err := third.sessions.CreateSession(third.ctx, &pb.CreateSessionRequest{SessionId: "s"}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same session again: %v", err)
	}
	info, err := third.tools.GetServerInfo(third.ctx, &pb.GetServerInfoRequest{})
	if list := info.GetReplicas(); err != nil || len(list) != 3 || list[0].GetAnswers() || !list[2].GetAnswers() {
		t.Errorf("replicas: %v, %v", list, err)
	}

	// A call through another replica is run where its session is, and seen and cancelled
	// through a third.
	up, rest := there.begun("s", "long", "bash", `{"command": "echo up; sleep 60"}`, isOutput)
	watched := make(chan []*pb.Event)
	go func() {
		events, err := third.watch(up.GetExecutionId(), 0)
		if err != nil {
			t.Error(err)
		}
		watched <- events
	}()
	got, err := third.tools.GetExecution(third.ctx, &pb.GetExecutionRequest{SessionId: "s", CallId: "long"})
	if err != nil || got.GetExecution().GetState() != pb.ExecutionState_EXECUTION_STATE_RUNNING {
		t.Errorf("%v, %v", got, err)
	}
	for _, stranger := range []string{"other", "acme"} {
		c := f.at(2, stranger)
		if _, err := c.watch(up.GetExecutionId(), 0); status.Code(err) != codes.NotFound {
			t.Errorf("%s watches: %v", stranger, err)
		}
		if _, err := c.tools.Cancel(c.ctx, &pb.CancelRequest{ExecutionId: up.GetExecutionId()}); status.Code(err) != codes.NotFound {
			t.Errorf("%s cancels: %v", stranger, err)
		}
		if _, err := c.sessions.GetSession(c.ctx, &pb.GetSessionRequest{SessionId: "s"}); status.Code(err) != codes.NotFound {
			t.Errorf("%s looks: %v", stranger, err)
		}
	}
	cancelled, err := third.tools.Cancel(third.ctx, &pb.CancelRequest{ExecutionId: up.GetExecutionId(), Reason: "enough"})
	if err != nil || cancelled.GetExecution().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Fatalf("%v, %v", cancelled, err)
	}
	ran, err := rest()
	if err != nil || ran[len(ran)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("who made the call: %v, %v", ran, err)
	}
	if events := <-watched; len(events) == 0 || !proto.Equal(events[len(events)-1], ran[len(ran)-1]) || events[0].GetSequence() != 1 {
		t.Errorf("who watched: %v", events)
	}

	// Input.
	reads, rest := here.begun("s", "reads", "bash", `{"command": "stty -echo; echo up; read line; echo got $line", "interactive": true}`, isOutput)
	if _, err := there.tools.WriteInput(there.ctx, &pb.WriteInputRequest{ExecutionId: reads.GetExecutionId(), Input: &pb.WriteInputRequest_Data{Data: []byte("hello\n")}}); err != nil {
		t.Fatal(err)
	}
	if ran, err := rest(); err != nil || !strings.Contains(textOf(ran[len(ran)-1].GetFinished()), "got hello") {
		t.Errorf("input: %v, %v", ran, err)
	}

	// An artifact.
	_, large := here.end("s", "large", "bash", `{"command": "seq 1 200000"}`)
	uri := artifactIn(large)
	if n := third.artifact(uri); n < 1_000_000 {
		t.Errorf("the artifact %q has %d bytes through another replica", uri, n)
	}

	// Settings, a question and its answer, a grant.
	if err := third.mode("s", pb.Mode_MODE_ASK); err != nil {
		t.Fatal(err)
	}
	if here.state("s").GetMode() != pb.Mode_MODE_ASK {
		t.Error("the mode was not changed")
	}
	changes := person.watchApprovals()
	granted(there, person, "s")
	if len(f.at(1, "person").grants()) != 1 {
		t.Error("the grant is not listed by another replica")
	}
	if asked, ended := changes(), changes(); asked.GetAsked() == nil || ended.GetEnded().GetApprovalId() != asked.GetAsked().GetApprovalId() {
		t.Errorf("a watch of approvals at a third replica: %v, %v", asked, ended)
	}

	// Lists.
	there.session(&pb.CreateSessionRequest{SessionId: "t"})
	third.session(&pb.CreateSessionRequest{SessionId: "u"})
	for i := range f.servers {
		var ids []string
		for token := ""; ; {
			page, err := f.at(i, "agent").sessions.ListSessions(here.ctx, &pb.ListSessionsRequest{PageSize: 2, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.GetSessions() {
				ids = append(ids, s.GetSessionId())
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if !slices.Equal(ids, []string{"s", "t", "u"}) {
			t.Errorf("replica %d lists the sessions %v", i, ids)
		}
		list, err := f.at(i, "agent").tools.ListExecutions(here.ctx, &pb.ListExecutionsRequest{})
		if err != nil || len(list.GetExecutions()) < 4 {
			t.Errorf("replica %d lists %v, %v", i, list, err)
		}
	}

	// The same over HTTP, and nobody but replicas where these listen.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.faces[1]+"/v1/sessions/s", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer the-token-of-agent")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || !strings.Contains(string(body), made.GetWorkspace()) {
		t.Errorf("over HTTP: %s, %s", response.Status, body)
	}
	stranger, err := tls.Dial("tcp", f.peers[0], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err == nil {
		defer stranger.Close()
		stranger.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = io.ReadAll(stranger)
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger among replicas: %v", err)
	}

	// The call id is run once, whoever is asked how often.
	var asking sync.WaitGroup
	agents := []*caller{here, there, third}
	once := here.session(&pb.CreateSessionRequest{SessionId: "once", Mode: pb.Mode_MODE_ALLOW})
	for n := range 12 {
		asking.Go(func() {
			if _, end := agents[n%3].end("once", fmt.Sprint("call ", n/6), "bash", `{"command": "echo ran >> effects; pwd"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Errorf("the same call: %v", end)
			}
		})
	}
	asking.Wait()
	if got := lines(t, filepath.Join(once.GetWorkspace(), "effects")); got["ran"] != 2 {
		t.Errorf("two calls ran %d times", got["ran"])
	}
	mcpElsewhere(t, f, once)
	uploadElsewhere(t, f, once)
	batchElsewhere(t, f, once)
}

// artifact returns how many bytes an artifact has.
func (c *caller) artifact(uri string) (n int) {
	c.t.Helper()
	stream, err := c.tools.ReadArtifact(c.ctx, &pb.ReadArtifactRequest{Uri: uri})
	for err == nil {
		var response *pb.ReadArtifactResponse
		if response, err = stream.Recv(); err == nil {
			n += len(response.GetData())
		}
	}
	if err != io.EOF { //nolint:errorlint // it is that itself
		c.t.Errorf("artifact %s: %v", uri, err)
	}
	return n
}

// watchApprovals returns what has the next change, after the snapshot.
func (c *caller) watchApprovals() func() *pb.WatchApprovalsResponse {
	c.t.Helper()
	stream, err := c.approvals.WatchApprovals(c.ctx, &pb.WatchApprovalsRequest{})
	next := func() *pb.WatchApprovalsResponse {
		response, err := stream.Recv()
		if err != nil {
			c.t.Error(err)
		}
		return response
	}
	if err != nil || next().GetSnapshot() == nil {
		c.t.Fatal("no snapshot", err)
	}
	return next
}

// TestOwnerIsKilled: what ran at a replica that is gone is lost, once and for all, for those
// who watch through others; its sessions go on with their files where these are shared.
func TestOwnerIsKilled(t *testing.T) {
	t.Parallel()
	f := startFleet(t, shared(t)...)
	owner := f.at(0, "agent")
	made := owner.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	owner.session(&pb.CreateSessionRequest{SessionId: "asks", Mode: pb.Mode_MODE_ASK})
	_, done := owner.end("s", "done", "bash", `{"command": "echo done >> effects; echo said"}`)
	up, rest := f.at(1, "agent").begun("s", "runs", "bash", `{"command": "echo run >> effects; echo up; sleep 60"}`, isOutput)
	asked, restAsked := f.at(2, "agent").begun("asks", "waits", "bash", `{"command": "echo no >> effects"}`, func(e *pb.Event) bool { return e.GetApprovalRequested() != nil })
	changes := f.at(2, "person").watchApprovals()
	var watching sync.WaitGroup
	ends := make([][]*pb.Event, 4)
	for i := range 2 {
		watching.Go(func() {
			events, err := f.at(1+i, "agent").watch(up.GetExecutionId(), 0)
			if err != nil {
				t.Error(err)
			}
			ends[i] = events
		})
	}
	for i, rest := range []func() ([]*pb.Event, error){rest, restAsked} {
		watching.Go(func() {
			events, err := rest()
			if err != nil {
				t.Error(err)
			}
			ends[2+i] = events
		})
	}
	f.servers[0].Kill()
	watching.Wait()
	for i, events := range ends {
		if len(events) == 0 {
			t.Errorf("watcher %d was told nothing", i)
			continue
		}
		lost := 0
		for _, e := range events {
			if e.GetFinished() != nil {
				lost++
			}
		}
		last := events[len(events)-1]
		code := "lost_effects_unknown"
		if i == 3 {
			code = "lost_without_effects"
		}
		if lost != 1 || last.GetFinished().GetOutcome() != pb.Outcome_OUTCOME_LOST || last.GetFinished().GetFailure().GetCode() != code {
			t.Errorf("watcher %d: %d ends, the last %v", i, lost, last)
		}
		for n := 1; n < len(events); n++ {
			if events[n].GetSequence() != events[n-1].GetSequence()+1 {
				t.Errorf("watcher %d: event %d after %d", i, events[n].GetSequence(), events[n-1].GetSequence())
			}
		}
	}
	if ended := changes().GetEnded(); ended.GetApprovalId() != asked.GetApprovalRequested().GetApproval().GetApprovalId() || ended.GetAnswer().GetKind() != pb.AnswerKind_ANSWER_KIND_WITHDRAWN {
		t.Errorf("the question of a replica that is gone: %v", ended)
	}
	for i := 1; i < 3; i++ {
		agent := f.at(i, "agent")
		if _, again := agent.end("s", "runs", "bash", `{"command": "echo run >> effects; echo up; sleep 60"}`); again.GetFailure().GetCode() != "lost_effects_unknown" {
			t.Errorf("the call again at %d: %v", i, again)
		}
		if _, again := agent.end("s", "done", "bash", `{"command": "echo done >> effects; echo said"}`); !proto.Equal(again, done) {
			t.Errorf("what had ended, at %d: %v", i, again)
		}
		if _, more := agent.end("s", "", "bash", `{"command": "cat effects"}`); !strings.Contains(textOf(more), "run") {
			t.Errorf("the session does not go on at %d: %v", i, more)
		}
	}
	if got := lines(t, filepath.Join(made.GetWorkspace(), "effects")); got["run"] != 1 || got["done"] != 1 || got["no"] != 0 {
		t.Errorf("effects: %v", got)
	}
}

// TestPausedOwner: a replica that was paused for longer than its lease does not tell another
// end than the others did, and ends itself.
func TestPausedOwner(t *testing.T) {
	t.Parallel()
	f := startFleet(t, shared(t)...)
	owner := f.at(0, "agent")
	made := owner.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	up, rest := owner.begun("s", "runs", "bash", `{"command": "echo up; until test -e go; do sleep 0.05; done; echo ran >> effects"}`, isOutput)
	f.servers[0].Pause()
	events, err := f.at(1, "agent").watch(up.GetExecutionId(), 0)
	for status.Code(err) == codes.Unavailable { // nobody has buried it yet
		events, err = f.at(1, "agent").watch(up.GetExecutionId(), 0)
	}
	if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_LOST {
		t.Fatalf("%v, %v", events, err)
	}
	if err := os.WriteFile(filepath.Join(made.GetWorkspace(), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.servers[0].Continue()
	late, err := rest()
	if err == nil && late[len(late)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_LOST {
		t.Errorf("the owner told another end: %v", late)
	}
	if err := f.servers[0].Wait(); err == nil {
		t.Error("a replica that others declared dead ended as if nothing were")
	}
	if _, again := f.at(2, "agent").end("s", "runs", "bash", `{"command": "echo up; until test -e go; do sleep 0.05; done; echo ran >> effects"}`); again.GetOutcome() != pb.Outcome_OUTCOME_LOST {
		t.Errorf("the call again: %v", again)
	}
}

// TestRollingRestart: replicas that are stopped in good order, one after the other, lose no
// end, and no session.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	f := startFleet(t, shared(t)...)
	owner := f.at(0, "agent")
	made := owner.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	first, err := owner.call("s", "first", "bash", `{"command": "echo first >> effects; echo said"}`)
	if err != nil {
		t.Fatal(err)
	}
	_, large := owner.end("s", "large", "bash", `{"command": "seq 1 20000"}`)
	uri := artifactIn(large)
	up, rest := f.at(1, "agent").begun("s", "drains", "bash", `{"command": "echo up; sleep 1; echo drained >> effects"}`, isOutput)
	for i, server := range f.servers {
		server.Stop()
		other := f.at((i+1)%3, "agent")
		if i == 0 {
			if events, err := rest(); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Errorf("what ran: %v, %v", events, err)
			}
		}
		again, err := patient(func() ([]*pb.Event, error) { return other.watch(first[0].GetExecutionId(), 0) })
		if err != nil {
			t.Fatal(err)
		}
		same(t, "watched", again, first)
		again, err = patient(func() ([]*pb.Event, error) { return other.watch(up.GetExecutionId(), 0) })
		if err != nil || again[len(again)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("what drained: %v, %v", again, err)
		}
		again, err = patient(func() ([]*pb.Event, error) {
			return other.call("s", "first", "bash", `{"command": "echo first >> effects; echo said"}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "called", again, first)
		if _, end := other.end("s", "", "read_file", `{"path": "`+uri+`"}`); uri == "" || end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("the artifact %q, where its session goes on: %v", uri, end)
		}
		server.Restart()
	}
	if got := lines(t, filepath.Join(made.GetWorkspace(), "effects")); got["first"] != 1 || got["drained"] != 1 {
		t.Errorf("effects: %v", got)
	}
}

// TestFilesAreElsewhere: a session whose files went with their replica says so, and does not
// begin with none.
func TestFilesAreElsewhere(t *testing.T) {
	t.Parallel()
	f := startFleet(t, t.TempDir(), t.TempDir())
	owner, other := f.at(0, "agent"), f.at(1, "agent")
	owner.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	owner.end("s", "", "bash", `{"command": "echo kept > file"}`)
	f.servers[0].Stop()
	_, err := other.call("s", "", "bash", `{"command": "cat file"}`)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "close the session") {
		t.Errorf("without its files: %v", err)
	}
	list, err := other.sessions.ListSessions(other.ctx, &pb.ListSessionsRequest{})
	if all := list.GetSessions(); err != nil || len(all) != 1 || all[0].GetSessionId() != "s" || all[0].GetMode() != pb.Mode_MODE_ALLOW || !strings.Contains(all[0].GetStranded(), "close the session") {
		t.Errorf("listed: %v, %v", list, err)
	}
	for _, stranger := range []string{"other", "acme"} {
		if list, err := f.at(1, stranger).sessions.ListSessions(f.at(1, stranger).ctx, &pb.ListSessionsRequest{}); err != nil || len(list.GetSessions()) != 0 {
			t.Errorf("%s lists %v, %v", stranger, list, err)
		}
	}
	f.servers[0].Restart()
	if _, end := other.end("s", "", "bash", `{"command": "cat file"}`); !strings.Contains(textOf(end), "kept") {
		t.Errorf("when they are back: %v", end)
	}
	owner = f.at(0, "agent")
	owner.session(&pb.CreateSessionRequest{SessionId: "t"})
	if _, end := owner.end("", "", "read_file", `{"path": "none"}`); end.GetOutcome() == pb.Outcome_OUTCOME_UNSPECIFIED {
		t.Error("no end in the default session")
	}
	if _, err := owner.sessions.UpdateSession(owner.ctx, &pb.UpdateSessionRequest{Session: &pb.Session{Labels: map[string]string{"a": "b"}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}}); err != nil {
		t.Fatal(err)
	}
	f.servers[0].Stop()

	// Who may not close it learns nothing of it, and changes nothing.
	stranger := f.at(1, "other")
	if _, err := stranger.sessions.CloseSession(stranger.ctx, &pb.CloseSessionRequest{SessionId: "s", Principal: "agent"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("somebody else closes it: %v", err)
	}
	if _, err := stranger.sessions.GetSession(stranger.ctx, &pb.GetSessionRequest{SessionId: "s", Principal: "agent"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("somebody else looks at it: %v", err)
	}
	for _, id := range []string{"s", "default"} {
		if _, err := other.sessions.GetSession(other.ctx, &pb.GetSessionRequest{SessionId: id}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("session %s without its files: %v", id, err)
		}
		if _, err := other.sessions.CloseSession(other.ctx, &pb.CloseSessionRequest{SessionId: id}); err != nil {
			t.Fatal(id, err)
		}
	}
	other.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	other.end("", "", "read_file", `{"path": "none"}`)
	closing := exec.Command(sdktest.Build(t), "sessions", "close", "--address", f.servers[1].Address, "t")
	closing.Env = append(os.Environ(), "TOOLSERVER_TOKEN=the-token-of-agent")
	if out, err := closing.CombinedOutput(); err != nil || !strings.Contains(string(out), "t closed") {
		t.Errorf("closed by the command: %s, %v", out, err)
	}
}

// TestEngineIsAway: without the engine, what changes something is refused soon and says when
// to try again; what only reads goes on; and all is well when it is back.
func TestEngineIsAway(t *testing.T) {
	t.Parallel()
	f := startFleet(t, t.TempDir())
	agent := f.at(0, "agent")
	agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	agent.end("s", "", "bash", `{"command": "echo here > file"}`)
	for i := range 3 {
		f.cluster.Stop(i)
	}
	_, err := agent.call("s", "", "bash", `{"command": "echo no >> file"}`)
	detailed := slices.ContainsFunc(status.Convert(err).Details(), func(d any) bool { _, ok := d.(*errdetails.RetryInfo); return ok })
	if status.Code(err) != codes.Unavailable || !detailed {
		t.Errorf("a change: %v", err)
	}
	if _, end := agent.end("s", "", "read_file", `{"path": "file"}`); !strings.Contains(textOf(end), "here") {
		t.Errorf("a read: %v", end)
	}
	for i := range 3 {
		f.cluster.Start(i)
	}
	for {
		events, err := agent.call("s", "", "bash", `{"command": "cat file"}`)
		if status.Code(err) == codes.Unavailable {
			continue
		}
		if err != nil || !strings.Contains(textOf(events[len(events)-1].GetFinished()), "here") {
			t.Errorf("when it is back: %v, %v", events, err)
		}
		return
	}
}
