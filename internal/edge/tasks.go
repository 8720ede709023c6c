// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Tasks are calls that their client comes back for, as version 2025-11-25 of the protocol
// has them: the answer to tools/call is a task, which is an execution that nobody has to
// follow, and its state and result are asked for later, over any connection. The SDK has
// no types for them; what it has none for is written here as it is on the wire.

// taskVersion is the version of the protocol that has tasks. Later ones have others.
const taskVersion = "2025-11-25"

// taskMethods are the methods about tasks.
var taskMethods = []string{"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"}

// taskPoll is how often clients should ask for a task.
const taskPoll = 500 * time.Millisecond

// relatedTask is the key of what tells to which task a message belongs.
const relatedTask = "io.modelcontextprotocol/related-task"

// task is what a client is told of one.
type task struct {
	ID       string `json:"taskId"`
	Status   string `json:"status"`
	Message  string `json:"statusMessage,omitempty"`
	Created  string `json:"createdAt"`
	Updated  string `json:"lastUpdatedAt"`
	TTL      *int64 `json:"ttl"` // milliseconds since it was created; none while it runs
	Interval int64  `json:"pollInterval"`
}

type (
	taskParams struct {
		mcp.ParamsBase
		ID     string `json:"taskId"`
		Cursor string `json:"cursor"`
	}
	madeTask struct {
		mcp.ResultBase
		Task task `json:"task"`
	}
	oneTask struct {
		mcp.ResultBase
		task
	}
	taskList struct {
		mcp.ResultBase
		Tasks      []task `json:"tasks"`
		NextCursor string `json:"nextCursor,omitempty"`
	}
)

// initializeResult tells that there are tasks.
type initializeResult struct {
	*mcp.InitializeResult
	Capabilities struct {
		*mcp.ServerCapabilities
		Tasks json.RawMessage `json:"tasks"`
	} `json:"capabilities"`
}

// taskTool is a tool that may be called as a task.
type taskTool struct {
	*mcp.Tool
	Execution struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

type taskToolList struct {
	mcp.ResultBase
	Tools      []*taskTool `json:"tools"`
	NextCursor string      `json:"nextCursor,omitempty"`
}

// addTasks has the SDK take the methods about tasks, which [session.receive] answers.
func (s *session) addTasks() {
	for _, method := range taskMethods {
		mcp.AddReceivingCustomMethod(s.server, method, func(context.Context, *mcp.ServerSession, *taskParams) (*oneTask, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "tasks are of version " + taskVersion + " of the protocol"}
		})
	}
}

// withTasks returns the answer to initialize with tasks, if the version has them.
func (s *session) withTasks(result mcp.Result) mcp.Result {
	plain, ok := result.(*mcp.InitializeResult)
	if !ok || plain.ProtocolVersion != taskVersion {
		return result
	}
	s.mu.Lock()
	s.tasks = true
	s.mu.Unlock()
	extended := &initializeResult{InitializeResult: plain}
	extended.Capabilities.ServerCapabilities = plain.Capabilities
	extended.Capabilities.Tasks = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	return extended
}

// hasTasks reports whether the client may have tasks.
func (s *session) hasTasks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks
}

// asTasks returns a list of tools of which each may be called as a task.
func asTasks(list *mcp.ListToolsResult) mcp.Result {
	extended := &taskToolList{Tools: make([]*taskTool, len(list.Tools)), NextCursor: list.NextCursor}
	for i, tool := range list.Tools {
		extended.Tools[i] = &taskTool{Tool: tool}
		extended.Tools[i].Execution.TaskSupport = "optional"
	}
	return extended
}

// wantsTask reports whether a message is a call that is to be a task.
func wantsTask(message []byte) bool {
	if !bytes.Contains(message, []byte(`"task"`)) { // as in most
		return false
	}
	var call struct {
		Method string `json:"method"`
		Params struct {
			Task *struct{} `json:"task"`
		} `json:"params"`
	}
	return json.Unmarshal(message, &call) == nil && call.Method == "tools/call" && call.Params.Task != nil
}

// startTask runs a tool, and answers as soon as the call was taken.
func (s *session) startTask(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	ctx, hangUp := context.WithCancel(s.outgoing(context.WithoutCancel(ctx), r))
	defer hangUp()
	stream, err := s.tools.ExecuteTool(ctx, &pb.ExecuteToolRequest{
		SessionId: s.sessionID(), Tool: r.Params.Name, InputJson: r.Params.Arguments, OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_DETACH,
	})
	if err != nil {
		return nil, errorOf(err)
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, errorOf(err)
	}
	made, err := s.getTask(ctx, first.GetEvent().GetExecutionId())
	if err != nil {
		return nil, err
	}
	return &madeTask{Task: made}, nil
}

// aboutTask answers a request about tasks.
func (s *session) aboutTask(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
	params, _ := r.GetParams().(*taskParams)
	if params == nil { // there were none
		params = new(taskParams)
	}
	outgoing := s.outgoing(ctx, r)
	switch method {
	case "tasks/list":
		return s.listTasks(outgoing, params.Cursor)
	case "tasks/result":
		return s.taskResult(outgoing, params.ID, r.GetSession().(*mcp.ServerSession))
	case "tasks/cancel":
		if err := s.cancelTask(outgoing, params.ID); err != nil {
			return nil, err
		}
	}
	got, err := s.getTask(outgoing, params.ID)
	if err != nil {
		return nil, err
	}
	return &oneTask{task: got}, nil
}

// getTask returns a task.
func (s *session) getTask(ctx context.Context, id string) (task, error) {
	if id == "" {
		return task{}, invalidParams("taskId is missing")
	}
	response, err := s.tools.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id})
	if err != nil {
		return task{}, errorOf(err)
	}
	return s.taskOf(ctx, response.GetExecution())
}

// taskOf returns an execution as a task.
func (s *session) taskOf(ctx context.Context, x *pb.Execution) (task, error) {
	created, updated := x.GetCreateTime().AsTime(), x.GetCreateTime().AsTime()
	if x.GetStartTime() != nil {
		updated = x.GetStartTime().AsTime()
	}
	t := task{ID: x.GetExecutionId(), Status: "working", Interval: taskPoll.Milliseconds()}
	if x.GetState() == pb.ExecutionState_EXECUTION_STATE_FINISHED {
		updated = x.GetEndTime().AsTime()
		info, err := s.tools.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
		if err != nil {
			return task{}, errorOf(err)
		}
		kept := (updated.Sub(created) + info.GetLimits().GetRetention().AsDuration()).Milliseconds()
		t.TTL = &kept
		switch x.GetOutcome() {
		case pb.Outcome_OUTCOME_SUCCEEDED:
			t.Status = "completed"
		case pb.Outcome_OUTCOME_CANCELLED:
			t.Status = "cancelled"
		default:
			t.Status = "failed"
		}
	} else if a := s.pendingFor(ctx, x.GetExecutionId()); a != nil {
		t.Status, t.Message = "input_required", a.GetTool()+" waits for an answer, as approval "+a.GetApprovalId()
	}
	t.Created, t.Updated = created.Format(time.RFC3339Nano), updated.Format(time.RFC3339Nano)
	return t, nil
}

// pendingFor returns what an execution waits for, or nil.
func (s *session) pendingFor(ctx context.Context, execution string) *pb.Approval {
	list, err := s.approvals.ListApprovals(ctx, &pb.ListApprovalsRequest{})
	if err != nil {
		return nil
	}
	for _, a := range list.GetApprovals() {
		if a.GetExecutionId() == execution {
			return a
		}
	}
	return nil
}

// listTasks returns a page of the tasks of the session: the executions that go on without
// followers.
func (s *session) listTasks(ctx context.Context, cursor string) (mcp.Result, error) {
	page, err := s.tools.ListExecutions(ctx, &pb.ListExecutionsRequest{SessionId: s.sessionID(), PageToken: cursor})
	if err != nil {
		return nil, errorOf(err)
	}
	list := &taskList{Tasks: []task{}, NextCursor: page.GetNextPageToken()}
	for _, x := range page.GetExecutions() {
		if x.GetOnDisconnect() == pb.OnDisconnect_ON_DISCONNECT_DETACH {
			one, err := s.taskOf(ctx, x)
			if err != nil {
				return nil, err
			}
			list.Tasks = append(list.Tasks, one)
		}
	}
	return list, nil
}

// cancelTask cancels a task, and waits for its end.
func (s *session) cancelTask(ctx context.Context, id string) error {
	before, err := s.getTask(ctx, id)
	if err != nil {
		return err
	}
	if before.TTL != nil {
		return invalidParams("the task %s has ended already: it is %s", id, before.Status)
	}
	if _, err := s.tools.Cancel(ctx, &pb.CancelRequest{ExecutionId: id, Reason: "The MCP client has cancelled the task."}); err != nil {
		return errorOf(err)
	}
	stream, err := s.tools.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: id})
	for err == nil {
		var response *pb.WatchExecutionResponse
		if response, err = stream.Recv(); err == nil && response.GetEvent().GetFinished() != nil {
			return nil
		}
	}
	return errorOf(err)
}

// taskResult waits for the end of a task, asks meanwhile what it waits for, and returns
// what the call would have returned.
func (s *session) taskResult(ctx context.Context, id string, peer *mcp.ServerSession) (mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if id == "" {
		return nil, invalidParams("taskId is missing")
	}
	stream, err := s.tools.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: id})
	if err != nil {
		return nil, errorOf(err)
	}
	c := &call{session: s, ctx: ctx, outgoing: ctx, peer: peer, known: make(chan struct{}), task: id}
	return c.follow(func() (*pb.Event, error) {
		response, err := stream.Recv()
		return response.GetEvent(), err
	})
}

// related returns what tells that a message belongs to the task of the call, if it is one.
func (c *call) related() mcp.Meta {
	if c.task == "" {
		return nil
	}
	return mcp.Meta{relatedTask: map[string]string{"taskId": c.task}}
}
