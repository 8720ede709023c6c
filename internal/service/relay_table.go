// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

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

// placements has the methods that are not answered by whichever replica was asked.
var placements = map[string]placement{
	pb.ToolService_ListTools_FullMethodName:      atSession,
	pb.ToolService_WatchTools_FullMethodName:     atSession,
	pb.ToolService_ExecuteTool_FullMethodName:    atSession,
	pb.ToolService_ExecuteBatch_FullMethodName:   atSession,
	pb.ToolService_WatchBatch_FullMethodName:     atSession,
	pb.ToolService_Cancel_FullMethodName:         atExecution,
	pb.ToolService_WatchExecution_FullMethodName: atExecution,
	pb.ToolService_GetExecution_FullMethodName:   atExecution,
	pb.ToolService_WriteInput_FullMethodName:     atExecution,
	pb.ToolService_ListExecutions_FullMethodName: ofAll,
	pb.ToolService_ReadArtifact_FullMethodName:   whoHasIt,

	pb.DialectService_RenderTools_FullMethodName: atSession,
	pb.DialectService_ParseCalls_FullMethodName:  atSession,

	pb.SessionService_CreateSession_FullMethodName:   atSession,
	pb.SessionService_GetSession_FullMethodName:      atSession,
	pb.SessionService_UpdateSession_FullMethodName:   atSession,
	pb.SessionService_CloseSession_FullMethodName:    atSession,
	pb.SessionService_WatchSession_FullMethodName:    atSession,
	pb.SessionService_ListSessions_FullMethodName:    ofAll,
	pb.SessionService_StopPrincipal_FullMethodName:   toAll,
	pb.SessionService_ResumePrincipal_FullMethodName: toAll,

	pb.ApprovalService_ListApprovals_FullMethodName:   ofAll,
	pb.ApprovalService_WatchApprovals_FullMethodName:  ofAll,
	pb.ApprovalService_ResolveApproval_FullMethodName: whoHasIt,
	pb.ApprovalService_ListGrants_FullMethodName:      ofAll,
	pb.ApprovalService_RevokeGrant_FullMethodName:     whoHasIt,

	pb.PolicyService_CheckCall_FullMethodName: atSession,

	pb.WorkspaceService_StatFile_FullMethodName:     atSession,
	pb.WorkspaceService_ListFiles_FullMethodName:    atSession,
	pb.WorkspaceService_ReadFile_FullMethodName:     atSession,
	pb.WorkspaceService_WriteFile_FullMethodName:    atSession,
	pb.WorkspaceService_GetUpload_FullMethodName:    atSession,
	pb.WorkspaceService_RemoveFile_FullMethodName:   atSession,
	pb.WorkspaceService_DownloadTree_FullMethodName: atSession,
	pb.WorkspaceService_UploadTree_FullMethodName:   atSession,
}

// sessionNamed returns which session a request is about. It reports false where that is
// none, or where the request is wrong, which its handler tells.
func sessionNamed(ctx context.Context, request any) (owner auth.Owner, id string, ok bool) {
	owner = principalOf(ctx).Owner()
	switch m := request.(type) {
	case *pb.ExecuteBatchRequest:
		id = m.GetStart().GetSessionId()
	case *pb.ParseCallsRequest:
		id = m.GetStart().GetSessionId()
	case *pb.WriteFileRequest:
		id = m.GetHeader().GetSessionId()
	case *pb.UploadTreeRequest:
		id = m.GetHeader().GetSessionId()
	case *pb.UpdateSessionRequest:
		id = m.GetSession().GetSessionId()
	case *pb.CreateSessionRequest:
		if id = m.GetSessionId(); id == "" || m.GetParentSessionId() != "" {
			return "", "", false // it is made here
		}
	case interface{ GetSessionId() string }:
		id = m.GetSessionId()
	default:
		return "", "", false
	}
	if others, is := request.(ownerRequest); is {
		roles := mayView
		if _, closes := request.(*pb.CloseSessionRequest); closes {
			roles = mayStop
		}
		var err error
		if owner, err = oneOwner(ctx, others, roles); err != nil {
			return "", "", false // so that where the session is tells nothing, and nobody brings it here
		}
	}
	if id == "" && owner == principalOf(ctx).Owner() && !principalOf(ctx).Roles.Has(auth.Agent) {
		return "", "", false // who has no default session
	}
	return owner, cmp.Or(id, session.DefaultID), true
}
