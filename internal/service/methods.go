// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/toolserver/toolserver/internal/auth"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// access is who may call a method, and how it is answered. Its zero value, the row of a method
// that has none, is nobody.
type access struct {
	roles   auth.Roles // one of them is needed
	anybody bool       // also without credentials
	whole   bool       // it shows the whole server, and no tenant may see that
	placed  placement  // which replica answers
	stopped bool       // also who is stopped may call it: it shows what there is, or ends it
	open    bool       // a stream that clients leave open for what may come
}

// placement says which replica answers a method.
type placement int

const (
	anyReplica  placement = iota // whichever was asked: it is about that one, or about none
	atSession                    // the one that has the session
	atExecution                  // the one that has the execution, or else the session
	whoHasIt                     // the one that knows the id in the request: all are asked
	ofAll                        // all, and their answers are joined
	toAll                        // all do it; the answer is that of the one that was asked
)

func (a access) at(placed placement) access { a.placed = placed; return a }
func (a access) whileStopped() access       { a.stopped = true; return a }
func (a access) leftOpen() access           { a.open = true; return a }

// Who may call what. Agents see and stop what is their own, operators and viewers what
// anybody has: the handlers see to that.
var (
	everyRole = access{roles: auth.AllRoles}
	agents    = access{roles: auth.Agent}
	watchers  = access{roles: auth.Agent | auth.Operator | auth.Viewer}
	stoppers  = access{roles: auth.Agent | auth.Operator}
	answerers = access{roles: auth.Agent | auth.Approver}
	revokers  = access{roles: auth.Agent | auth.Approver | auth.Operator}
	operators = access{roles: auth.Operator}
	viewers   = access{roles: mayView}
	overview  = access{roles: mayView, whole: true}
	readers   = access{roles: auth.Approver | mayView, whole: true}
	overAll   = access{roles: auth.Operator, whole: true} // of the default tenant, or of all
	probes    = access{anybody: true}
)

// methods is the method table: every RPC of the server has a row. One without
// a row is refused.
var methods = map[string]access{
	pb.ToolService_ListTools_FullMethodName:      everyRole.at(atSession).whileStopped(),
	pb.ToolService_ExecuteTool_FullMethodName:    agents.at(atSession),
	pb.ToolService_ExecuteBatch_FullMethodName:   agents.at(atSession),
	pb.ToolService_WatchBatch_FullMethodName:     agents.at(atSession),
	pb.ToolService_Cancel_FullMethodName:         stoppers.at(atExecution).whileStopped(),
	pb.ToolService_WatchExecution_FullMethodName: watchers.at(atExecution).whileStopped(),
	pb.ToolService_GetExecution_FullMethodName:   watchers.at(atExecution).whileStopped(),
	pb.ToolService_ListExecutions_FullMethodName: watchers.at(ofAll).whileStopped(),
	pb.ToolService_WriteInput_FullMethodName:     agents.at(atExecution),
	pb.ToolService_ReadArtifact_FullMethodName:   agents.at(whoHasIt),
	pb.ToolService_WatchTools_FullMethodName:     everyRole.at(atSession).whileStopped().leftOpen(),
	pb.ToolService_GetServerInfo_FullMethodName:  everyRole.whileStopped(),

	pb.DialectService_RenderTools_FullMethodName:   everyRole.at(atSession),
	pb.DialectService_RenderResults_FullMethodName: everyRole,
	pb.DialectService_ParseCalls_FullMethodName:    agents.at(atSession).leftOpen(),

	pb.SessionService_CreateSession_FullMethodName: agents.at(atSession),
	pb.SessionService_GetSession_FullMethodName:    watchers.at(atSession).whileStopped(),
	pb.SessionService_ListSessions_FullMethodName:  watchers.at(ofAll).whileStopped(),
	pb.SessionService_UpdateSession_FullMethodName: agents.at(atSession),
	pb.SessionService_CloseSession_FullMethodName:  stoppers.at(atSession),
	pb.SessionService_WatchSession_FullMethodName:  watchers.at(atSession).whileStopped().leftOpen(),

	pb.SessionService_StopPrincipal_FullMethodName:   operators.at(toAll).whileStopped(),
	pb.SessionService_ResumePrincipal_FullMethodName: operators.at(toAll).whileStopped(),
	pb.SessionService_ListStops_FullMethodName:       viewers.whileStopped(),

	// The approvals show each caller no more than it may see.
	pb.ApprovalService_ListApprovals_FullMethodName:   everyRole.at(ofAll).whileStopped(),
	pb.ApprovalService_WatchApprovals_FullMethodName:  everyRole.at(ofAll).whileStopped(),
	pb.ApprovalService_ResolveApproval_FullMethodName: answerers.at(whoHasIt),
	pb.ApprovalService_ListGrants_FullMethodName:      everyRole.at(ofAll).whileStopped(),
	pb.ApprovalService_RevokeGrant_FullMethodName:     revokers.at(whoHasIt),

	pb.PolicyService_CheckCall_FullMethodName: agents.at(atSession),
	pb.PolicyService_GetPolicy_FullMethodName: readers, // rules name tenants

	// The log has what all tenants do.
	pb.AuditService_SearchRecords_FullMethodName: overview,
	pb.AuditService_VerifyLog_FullMethodName:     overview,

	// Sources are those of the whole server; what agents see of them is little.
	pb.SourceService_ListSources_FullMethodName:    everyRole,
	pb.SourceService_ReadSourceLog_FullMethodName:  overview,
	pb.SourceService_RetrySource_FullMethodName:    overAll,
	pb.SourceService_ApproveTools_FullMethodName:   overAll,
	pb.SourceService_CompleteSignIn_FullMethodName: overAll,

	// Who serves agents does so for its own sessions.
	pb.AgentService_Serve_FullMethodName:      agents.leftOpen(),
	pb.AgentService_ListAgents_FullMethodName: watchers,

	pb.WorkspaceService_StatFile_FullMethodName:     agents.at(atSession),
	pb.WorkspaceService_ListFiles_FullMethodName:    agents.at(atSession),
	pb.WorkspaceService_ReadFile_FullMethodName:     agents.at(atSession),
	pb.WorkspaceService_WriteFile_FullMethodName:    agents.at(atSession),
	pb.WorkspaceService_GetUpload_FullMethodName:    agents.at(atSession),
	pb.WorkspaceService_RemoveFile_FullMethodName:   agents.at(atSession),
	pb.WorkspaceService_DownloadTree_FullMethodName: agents.at(atSession),
	pb.WorkspaceService_UploadTree_FullMethodName:   agents.at(atSession),

	// Probes of an orchestrator have no credentials.
	healthpb.Health_Check_FullMethodName: probes,
	healthpb.Health_List_FullMethodName:  probes,
	healthpb.Health_Watch_FullMethodName: probes.leftOpen(),

	reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:      everyRole.leftOpen(),
	reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName: everyRole.leftOpen(),

	// Channelz shows every caller's connections.
	channelzpb.Channelz_GetTopChannels_FullMethodName:   overAll,
	channelzpb.Channelz_GetServers_FullMethodName:       overAll,
	channelzpb.Channelz_GetServer_FullMethodName:        overAll,
	channelzpb.Channelz_GetServerSockets_FullMethodName: overAll,
	channelzpb.Channelz_GetChannel_FullMethodName:       overAll,
	channelzpb.Channelz_GetSubchannel_FullMethodName:    overAll,
	channelzpb.Channelz_GetSocket_FullMethodName:        overAll,
}

// permit refuses calls of methods that the principal may not call.
func permit(ctx context.Context, method string) error {
	row := methods[method]
	switch {
	case row == (access{}):
		return status.Errorf(codes.PermissionDenied, "%s has no row in the method table", method)
	case row.whole && principalOf(ctx).Tenant != "" && !principalOf(ctx).Everywhere(row.roles):
		return status.Errorf(codes.PermissionDenied, "%s is about all tenants: for operators of the default tenant, or of all", method)
	case row.anybody || principalOf(ctx).Roles.Has(row.roles):
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "%s is for callers with a role of %s; yours: %s",
		method, row.roles, cmp.Or(principalOf(ctx).Roles.String(), "none"))
}
