// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// access is who may call a method. Its zero value, the row of a method that has
// none, is nobody.
type access int

const (
	nobody   access = iota
	anybody         // also without credentials
	callers         // every principal
	operator        // principals that run this server
)

// methods is the method table: every RPC of the server has a row. One without
// a row is refused.
var methods = map[string]access{
	pb.ToolService_ListTools_FullMethodName:      callers,
	pb.ToolService_ExecuteTool_FullMethodName:    callers,
	pb.ToolService_Cancel_FullMethodName:         callers,
	pb.ToolService_WatchExecution_FullMethodName: callers,
	pb.ToolService_GetExecution_FullMethodName:   callers,
	pb.ToolService_ListExecutions_FullMethodName: callers,
	pb.ToolService_WriteInput_FullMethodName:     callers,
	pb.ToolService_ReadArtifact_FullMethodName:   callers,
	pb.ToolService_WatchTools_FullMethodName:     callers,
	pb.ToolService_GetServerInfo_FullMethodName:  callers,

	pb.SessionService_CreateSession_FullMethodName: callers,
	pb.SessionService_GetSession_FullMethodName:    callers,
	pb.SessionService_ListSessions_FullMethodName:  callers,
	pb.SessionService_UpdateSession_FullMethodName: callers,
	pb.SessionService_CloseSession_FullMethodName:  callers,
	pb.SessionService_WatchSession_FullMethodName:  callers,

	// The desk tells each caller no more than it may see.
	pb.ApprovalService_ListApprovals_FullMethodName:   callers,
	pb.ApprovalService_WatchApprovals_FullMethodName:  callers,
	pb.ApprovalService_ResolveApproval_FullMethodName: callers,
	pb.ApprovalService_ListGrants_FullMethodName:      callers,
	pb.ApprovalService_RevokeGrant_FullMethodName:     callers,

	pb.PolicyService_CheckCall_FullMethodName: callers,

	pb.WorkspaceService_StatFile_FullMethodName:     callers,
	pb.WorkspaceService_ListFiles_FullMethodName:    callers,
	pb.WorkspaceService_ReadFile_FullMethodName:     callers,
	pb.WorkspaceService_WriteFile_FullMethodName:    callers,
	pb.WorkspaceService_GetUpload_FullMethodName:    callers,
	pb.WorkspaceService_RemoveFile_FullMethodName:   callers,
	pb.WorkspaceService_DownloadTree_FullMethodName: callers,
	pb.WorkspaceService_UploadTree_FullMethodName:   callers,

	// Probes of an orchestrator have no credentials.
	healthpb.Health_Check_FullMethodName: anybody,
	healthpb.Health_List_FullMethodName:  anybody,
	healthpb.Health_Watch_FullMethodName: anybody,

	reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:      callers,
	reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName: callers,

	// Channelz shows every caller's connections.
	channelzpb.Channelz_GetTopChannels_FullMethodName:   operator,
	channelzpb.Channelz_GetServers_FullMethodName:       operator,
	channelzpb.Channelz_GetServer_FullMethodName:        operator,
	channelzpb.Channelz_GetServerSockets_FullMethodName: operator,
	channelzpb.Channelz_GetChannel_FullMethodName:       operator,
	channelzpb.Channelz_GetSubchannel_FullMethodName:    operator,
	channelzpb.Channelz_GetSocket_FullMethodName:        operator,
}

// permit refuses calls of methods that the principal may not call.
func permit(ctx context.Context, method string) error {
	switch methods[method] {
	case anybody, callers: // authenticate has seen to it
		return nil
	case operator:
		if principalOf(ctx).Operator {
			return nil
		}
		return status.Errorf(codes.PermissionDenied, "%s is for operators of this server", method)
	}
	return status.Errorf(codes.PermissionDenied, "%s has no row in the method table", method)
}
