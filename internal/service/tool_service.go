// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// toolService answers ToolService. What it runs, admission has admitted.
type toolService struct {
	pb.UnimplementedToolServiceServer
	server   *Server
	registry *tools.Registry
	sessions *session.Store
	executor *executor.Executor
}

func (s *toolService) ExecuteTool(_ *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	ctx := stream.Context()
	job, err := rpcOf(ctx).takeJob()
	if err != nil {
		return err
	}
	x, err := s.executor.Start(ctx, job)
	if err != nil {
		return err
	}
	s.server.stops.overtake(ctx, x)
	return follow(stream, x, 0)
}

func (s *toolService) WatchExecution(request *pb.WatchExecutionRequest, stream grpc.ServerStreamingServer[pb.WatchExecutionResponse]) error {
	x, err := s.findFor(stream.Context(), request, mayView)
	if err != nil {
		return err
	}
	return follow(stream, x, request.GetAfterSequence())
}

// follow sends the events of an execution after a number, to the last. Whoever does not
// own it looks on.
func follow(stream grpc.ServerStream, x *executor.Execution, after uint64) error {
	ctx := stream.Context()
	rpc := rpcOf(ctx)
	rpc.follows(x)
	for event, err := range x.Events(ctx, after, rpc.principal.Owner() == x.Order.Session.Owner) {
		if err != nil {
			return err
		}
		if outcome := outcomeOf(event.Body); outcome != 0 {
			rpc.ended(outcome)
		}
		if err := stream.SendMsg(&eventMessage{execution: x.ID, event: event}); err != nil {
			return err
		}
	}
	return nil
}

// outcomeOf returns the outcome that the last event tells; 0 for others. It is
// not inlined: the copy of the event would stay on the stack of a call that waits.
//
//go:noinline
func outcomeOf(body executor.Body) executor.Outcome {
	if finished, ok := body.(executor.Finished); ok {
		return finished.Outcome
	}
	return 0
}

func (s *toolService) Cancel(ctx context.Context, request *pb.CancelRequest) (*pb.CancelResponse, error) {
	if n := len(request.GetReason()); n > admission.MaxText {
		return nil, invalid("reason has %d bytes: at most %d", n, admission.MaxText)
	}
	x, err := s.findFor(ctx, request, mayStop)
	if err != nil {
		return nil, err
	}
	if !isClosed(x.Done()) {
		s.server.auditor.cancelled(ctx, x, request.GetReason())
	}
	x.Cancel(request.GetReason(), principalOf(ctx).Name)
	select {
	case <-x.Done():
		return &pb.CancelResponse{Execution: executionWithResult(x)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *toolService) WriteInput(ctx context.Context, request *pb.WriteInputRequest) (*pb.WriteInputResponse, error) {
	control, err := controlOf(request)
	if err != nil {
		return nil, err
	}
	x, err := s.find(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := s.server.auditor.input(x, request); err != nil {
		return nil, err
	}
	var taken uint64
	switch {
	case control != nil:
		if err = x.Control(ctx, control); err == nil {
			taken = x.Taken()
		}
	case request.GetEnd() != nil:
		taken, err = x.EndInput(ctx, request.Offset)
	default:
		taken, err = x.Write(ctx, request.Offset, request.GetData())
	}
	if err != nil {
		return nil, err
	}
	return &pb.WriteInputResponse{TakenBytes: taken}, nil
}

// maxInputData is how much data one request may write.
const maxInputData = 1 << 20

// controlOf checks the input of a request and returns its signal or window size,
// or nil where it has data or its end.
func controlOf(request *pb.WriteInputRequest) (tools.Input, error) {
	switch in := request.GetInput().(type) {
	case *pb.WriteInputRequest_Data:
		if n := len(in.Data); n > maxInputData {
			return nil, invalid("data has %d bytes: at most %d at once", n, maxInputData)
		}
		return nil, nil
	case *pb.WriteInputRequest_End:
		return nil, nil
	case *pb.WriteInputRequest_Signal:
		signal := tools.Signal(strings.TrimPrefix(in.Signal, "SIG"))
		if !slices.Contains(tools.Signals(), signal) {
			return nil, invalid("signal %.32q is unknown: want one of %v", in.Signal, tools.Signals())
		}
		return signal, nil
	case *pb.WriteInputRequest_WindowSize:
		rows, columns := in.WindowSize.GetRows(), in.WindowSize.GetColumns()
		if rows == 0 || columns == 0 || rows > math.MaxUint16 || columns > math.MaxUint16 {
			return nil, invalid("window_size of %d rows and %d columns: want 1 to %d of each", rows, columns, math.MaxUint16)
		}
		return tools.WindowSize{Rows: uint16(rows), Columns: uint16(columns)}, nil
	}
	return nil, invalid("there is no input: set data, end, signal or window_size")
}

func (s *toolService) GetExecution(ctx context.Context, request *pb.GetExecutionRequest) (*pb.GetExecutionResponse, error) {
	x, err := s.findFor(ctx, request, mayView)
	if err != nil {
		return nil, err
	}
	return &pb.GetExecutionResponse{Execution: executionWithResult(x)}, nil
}

// naming is a request that names an execution: by its id or by session and call id.
type naming interface {
	GetExecutionId() string
	GetSessionId() string
	GetCallId() string
}

// checkNaming returns what is wrong with how a request names an execution.
func checkNaming(request naming) error {
	switch id, call := request.GetExecutionId(), request.GetCallId(); {
	case id == "" && call == "":
		return invalid("name the execution: by execution_id, or by call_id and session_id")
	case id != "" && (call != "" || request.GetSessionId() != ""):
		return invalid("execution_id is set together with call_id or session_id: use one way to name the execution")
	}
	return nil
}

// findFor is find, and finds for callers with one of some roles what others have, too.
func (s *toolService) findFor(ctx context.Context, request interface {
	naming
	ownerRequest
}, roles auth.Roles) (*executor.Execution, error) {
	if caller := principalOf(ctx); request.GetPrincipal() == "" && request.GetTenant() == "" && request.GetExecutionId() != "" && caller.Roles.Has(roles) {
		return s.findOf(ctx, everybody(caller, roles), request)
	}
	owner, err := oneOwner(ctx, request, roles)
	if err != nil {
		return nil, err
	}
	return s.findOf(ctx, owner, request)
}

// find returns the caller's execution that a request names.
func (s *toolService) find(ctx context.Context, request naming) (*executor.Execution, error) {
	return s.findOf(ctx, principalOf(ctx).Owner(), request)
}

func (s *toolService) findOf(ctx context.Context, owner auth.Owner, request naming) (x *executor.Execution, err error) {
	if err := checkNaming(request); err != nil {
		return nil, err
	}
	if id := request.GetExecutionId(); id != "" {
		x, err = s.executor.Find(owner, id)
	} else {
		x, err = s.executor.FindCall(owner, request.GetSessionId(), request.GetCallId())
	}
	if err == nil {
		rpcOf(ctx).follows(x)
	}
	return x, err
}

func (s *toolService) ListExecutions(ctx context.Context, request *pb.ListExecutionsRequest) (*pb.ListExecutionsResponse, error) {
	return listExecutions(ctx, request, s.executor.List)
}

// listExecutions answers with a page of a list of the executor.
func listExecutions(ctx context.Context, request *pb.ListExecutionsRequest,
	list func(owner auth.Owner, match func(*executor.Execution) bool, after string, limit int) ([]*executor.Execution, string, error),
) (*pb.ListExecutionsResponse, error) {
	size, err := pageSize(request.GetPageSize())
	if err != nil {
		return nil, err
	}
	match := func(x *executor.Execution) bool {
		return (request.GetSessionId() == "" || x.Order.Session.ID == request.GetSessionId()) &&
			(request.GetTool() == "" || x.Order.Tool == request.GetTool()) &&
			(request.GetState() == 0 || pb.ExecutionState(x.Info().State) == request.GetState())
	}
	owner, err := ownerOf(ctx, request, mayView)
	if err != nil {
		return nil, err
	}
	page, next, err := list(owner, match, request.GetPageToken(), size)
	if errors.Is(err, executor.ErrNotFound) {
		return nil, invalid("page_token is not one that this server gave")
	}
	if err != nil {
		return nil, err
	}
	response := &pb.ListExecutionsResponse{NextPageToken: next}
	for _, x := range page {
		response.Executions = append(response.Executions, executionToProto(x))
	}
	return response, nil
}

// pageSize returns how many items a page has.
func pageSize(asked int32) (int, error) {
	if asked < 0 || asked > 1000 {
		return 0, invalid("page_size must be from 1 to 1000; leave it out for the default")
	}
	return int(cmp.Or(asked, 100)), nil
}

func (s *toolService) ListTools(ctx context.Context, request *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	session, err := s.listed(ctx, request.GetSessionId())
	if err != nil {
		return nil, err
	}
	size := maxToolPage
	if request.GetPageSize() != 0 {
		if size, err = pageSize(request.GetPageSize()); err != nil {
			return nil, err
		}
	}
	p := s.server.rules.Current()
	wanted := tools.Selection{Include: request.GetNames()}
	if err := wanted.Check(); err != nil {
		return nil, invalid("names: %v", err)
	}
	has := availableTo(ctx, session, p)
	system, chosen, err := personaOf(request.GetPersona(), session)
	if err != nil {
		return nil, err
	}
	view, active := request.GetView(), everyTool
	switch {
	case view == pb.ToolView_TOOL_VIEW_ACTIVE && session == nil:
		return nil, invalid("view ACTIVE is of a session: name one in session_id")
	case view == pb.ToolView_TOOL_VIEW_ACTIVE:
		view, active = pb.ToolView_TOOL_VIEW_FULL, session.IsActive()
	case request.GetDialect() != "" && view != pb.ToolView_TOOL_VIEW_FULL:
		return nil, invalid("dialect is set, and definitions need view FULL or ACTIVE")
	}
	if system != nil {
		list := s.inPersona(system, chosen, has, active, view)
		list.Tools = slices.DeleteFunc(list.Tools, func(t *pb.Tool) bool { return !wanted.Has(&tools.Spec{Name: t.Name, Aliases: t.Aliases}) })
		return s.inDialect(pageOf(list, request, size), request)
	}
	shown := s.server.shown.of(s.registry)
	all := shown.view(view)
	everything := (session == nil || session.Below == nil && session.Settings().Tools.All()) && !p.Hides() && !shown.private && request.GetView() != pb.ToolView_TOOL_VIEW_ACTIVE
	first := request.GetPageToken() == "" && len(all.Tools) <= size
	if everything && first && wanted.All() && request.GetQuery() == "" && request.GetCategory() == "" && request.GetKind() == 0 {
		return s.inDialect(all, request)
	}
	some := &pb.ListToolsResponse{Version: shown.version(has)}
	for i, entry := range shown.entries {
		if has(&entry.Spec) && active(&entry.Spec) && wanted.Has(&entry.Spec) {
			some.Tools = append(some.Tools, all.Tools[i])
		}
	}
	return s.inDialect(pageOf(some, request, size), request)
}

// pageOf returns the page of a list that a request asks for. A token is the name of the last
// tool of the page before it.
func pageOf(all *pb.ListToolsResponse, request *pb.ListToolsRequest, size int) *pb.ListToolsResponse {
	page := &pb.ListToolsResponse{Version: all.Version}
	for _, tool := range all.Tools {
		if tool.Name <= request.GetPageToken() || !matches(tool, request) {
			continue
		}
		if len(page.Tools) == size {
			page.NextPageToken = page.Tools[size-1].Name
			break
		}
		page.Tools = append(page.Tools, tool)
	}
	return page
}

// listed returns the session whose tools a caller asks for. It is nil for one who is no
// agent and names none: that caller has no default session, and gets none by looking.
func (s *toolService) listed(ctx context.Context, id string) (*session.Session, error) {
	caller := principalOf(ctx)
	switch {
	case caller.Roles.Has(auth.Agent):
		return s.sessions.Get(caller.Owner(), id)
	case id == "":
		return nil, nil
	}
	return s.sessions.Peek(caller.Owner(), id)
}

// availableTo reports which tools a session has; without one, which the caller could have.
func availableTo(ctx context.Context, of *session.Session, p *policy.Policy) func(*tools.Spec) bool {
	if of == nil {
		caller := principalOf(ctx)
		return func(spec *tools.Spec) bool {
			return spec.Private.To(caller.Tenant, caller.Name, "") && !p.Hidden(caller.Tenant, caller.Name, nil, spec)
		}
	}
	return func(spec *tools.Spec) bool { return admission.Available(of, p, spec) }
}

// maxToolPage is how many tools a page has at most, and where the caller does not say.
const maxToolPage = 1000

func (s *toolService) WatchTools(request *pb.WatchToolsRequest, stream grpc.ServerStreamingServer[pb.WatchToolsResponse]) error {
	ctx := stream.Context()
	var seen *toolList
	for {
		session, err := s.listed(ctx, request.GetSessionId())
		if err != nil {
			return err
		}
		// What tells of changes comes before what may change.
		registry, rules := s.registry.Changed(), s.server.rules.Changed()
		var settings, closed <-chan struct{}
		if session != nil {
			settings, closed = session.Changed(), session.Closed()
		}
		now := s.listOf(ctx, session)
		if change := seen.to(now); change != nil {
			if err := stream.Send(change); err != nil {
				return err
			}
		}
		seen = now
		select {
		case <-registry:
		case <-rules:
		case <-settings:
		case <-closed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A toolList is what a session has of tools at one moment.
type toolList struct {
	version string
	names   []string            // in order
	digests map[string][32]byte // by name
}

func (s *toolService) listOf(ctx context.Context, session *session.Session) *toolList {
	shown, p := s.server.shown.of(s.registry), s.server.rules.Current()
	has := availableTo(ctx, session, p)
	list := &toolList{version: shown.version(has), digests: make(map[string][32]byte)}
	if system, chosen, _ := personaOf("", session); system != nil {
		all := s.inPersona(system, chosen, has, everyTool, pb.ToolView_TOOL_VIEW_FULL)
		list.version = all.Version
		for _, tool := range all.Tools {
			list.names = append(list.names, tool.Name)
			list.digests[tool.Name] = digestOf(tool)
		}
		return list
	}
	for i, entry := range shown.entries {
		if has(&entry.Spec) {
			list.names = append(list.names, entry.Spec.Name)
			list.digests[entry.Spec.Name] = shown.digests[i]
		}
	}
	return list
}

// to returns what tells that l became next; nil where nothing changed. Without l, it
// tells the version alone.
func (l *toolList) to(next *toolList) *pb.WatchToolsResponse {
	change := &pb.WatchToolsResponse{Version: next.version}
	if l == nil {
		return change
	}
	if l.version == next.version {
		return nil
	}
	for _, name := range next.names {
		switch before, known := l.digests[name]; {
		case !known:
			change.Added = append(change.Added, name)
		case before != next.digests[name]:
			change.Changed = append(change.Changed, name)
		}
	}
	for _, name := range l.names {
		if _, known := next.digests[name]; !known {
			change.Removed = append(change.Removed, name)
		}
	}
	return change
}

func matches(tool *pb.Tool, request *pb.ListToolsRequest) bool {
	if c := request.GetCategory(); c != "" && c != tool.Category {
		return false
	}
	if k := request.GetKind(); k != 0 && k != tool.Kind {
		return false
	}
	query := strings.ToLower(request.GetQuery())
	return slices.ContainsFunc([]string{tool.Name, tool.Label, tool.Summary}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), query)
	})
}

func (s *toolService) GetServerInfo(ctx context.Context, _ *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	limits := s.executor.Config()
	config := s.server.config
	usual, most := config.Sessions.Answers()
	features := map[string]bool{
		"reflection": config.Reflection, "channelz": config.Channelz,
		"tracing": config.Tracer != nil, "tls": config.TLS != nil,
	}
	if config.State != nil {
		features["state_writable"] = config.State.Condition() == nil
	}
	if config.Limits != nil {
		features["limits_shared"] = config.Limits.Away() == nil
	}
	return &pb.GetServerInfoResponse{
		Version:   config.Version,
		GoVersion: goVersion,
		StartTime: timestamppb.New(s.server.started),
		Limits: &pb.Limits{
			MaxInputBytes:       uint64(min(tools.MaxInputBytes, s.server.config.Wire.WithDefaults().MaxMessageBytes-Envelope)),
			MaxInputDepth:       tools.MaxDepth,
			MaxResultBytes:      uint64(limits.MaxResultBytes),
			MaxOutputChunkBytes: executor.MaxChunk,
			MaxTimeout:          durationpb.New(limits.MaxTimeout),
			DisconnectGrace:     durationpb.New(limits.DisconnectGrace),
			MaxRunning:          uint32(limits.MaxRunning),
			Retention:           durationpb.New(limits.Retention),
			MaxLogBytes:         uint64(limits.MaxLogBytes),
			MaxRememberedCalls:  uint32(limits.MaxRemembered),
			MaxBatchCalls:       uint32(limits.MaxBatchCalls),

			DefaultAnswerCharacters: uint32(usual),
			MinAnswerCharacters:     tools.MinAnswer,
			MaxAnswerCharacters:     uint32(most),
			CharactersPerToken:      tools.TokenCharacters,
		},
		Capabilities:   s.registry.Capabilities,
		Features:       features,
		Authentication: config.Authenticator.Name(),
		Principal:      principalOf(ctx).Name,
		Roles:          principalOf(ctx).Roles.Names(),
		Tenant:         principalOf(ctx).Tenant,
		AllTenants:     principalOf(ctx).Everywhere(auth.AllRoles),
		OnBehalfOf:     output.ValidText(principalOf(ctx).OnBehalfOf),
		SelfApproval:   s.server.approvals.SelfApproval(),
		Sandbox:        s.server.sandbox(),
		Sessions:       sessionOffer(s.sessions.Config(), s.sessions.Modes(principalOf(ctx).MaxMode), s.sessions.AllowedWorkspaces(principalOf(ctx).Tenant)),
		Files:          fileLimits(config.Files.WithDefaults()),
		Replicas:       replicasOf(config.Replication),
	}, nil
}

// replicasOf tells which servers are this one together.
func replicasOf(among *Replication) []*pb.Replica {
	if among == nil {
		return nil
	}
	var list []*pb.Replica
	for _, m := range among.Members() {
		list = append(list, &pb.Replica{Id: m.Run, Version: output.ValidText(m.Version), JoinTime: timestamppb.New(m.Joined), Answers: m.Run == among.Run()})
	}
	return list
}

// fileLimits tells what files may be brought.
func fileLimits(l FileLimits) *pb.FileLimits {
	return &pb.FileLimits{
		MaxFileBytes: uint64(l.MaxFileBytes), MaxTreeBytes: uint64(l.MaxTreeBytes), MaxTreeEntries: uint32(l.MaxTreeEntries),
		MaxUploads: uint32(l.MaxUploads), MaxUploadBytes: uint64(l.MaxUploadBytes),
		UploadTtl: durationpb.New(l.UploadTTL), StreamIdle: durationpb.New(l.Idle),
	}
}

// sessionOffer tells what sessions may be.
func sessionOffer(c session.Config, modes []tools.Mode, workspaces []string) *pb.SessionOffer {
	m := &pb.SessionOffer{
		DefaultMode: pb.Mode(c.Default.Mode), DefaultLevel: pb.Level(c.Default.Level), MaxLevel: pb.Level(c.MaxLevel),
		DefaultNetwork: pb.Network(c.Default.Network), MaxNetwork: pb.Network(c.MaxNetwork),
		AllowedWorkspaces: workspaces, KeepWorkspace: durationpb.New(c.KeepWorkspace),
		DefaultIdleTtl: idleToProto(cmp.Or(c.Default.IdleTTL, session.Forever)), MaxSessions: uint32(c.MaxPerPrincipal),
	}
	for _, mode := range modes {
		m.Modes = append(m.Modes, pb.Mode(mode))
	}
	return m
}

// sandbox tells how commands are confined; nil where none run.
func (s *Server) sandbox() *pb.Sandbox {
	c := &s.config
	if c.Offer == nil || c.Confines == nil {
		return nil
	}
	offer := c.Offer()
	m := &pb.Sandbox{Holds: offer.Holds, MaxNetwork: pb.Network(offer.Network), Readable: offer.Readable}
	namespaces, landlock := c.Confines()
	m.Namespaces, m.Landlock = namespaces, uint32(landlock)
	if failed := s.failedChecks.Load(); failed != nil {
		m.FailedChecks = *failed
	}
	return m
}

// SelfTested takes note of the checks of the sandbox that do not hold.
func (s *Server) SelfTested(failed []string) { s.failedChecks.Store(&failed) }
