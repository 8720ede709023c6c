// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// tenantTokens are principals of two tenants. Names repeat on purpose.
var tenantTokens = map[string]auth.Principal{
	"acme-alice":     {Name: "alice", Tenant: "acme", Roles: auth.Agent},
	"acme-carol":     {Name: "carol", Tenant: "acme", Roles: auth.Agent | auth.Approver | auth.Operator | auth.Viewer},
	"beta-alice":     {Name: "alice", Tenant: "beta", Roles: auth.AllRoles},
	"beta-bob":       {Name: "bob", Tenant: "beta", Roles: auth.Agent},
	"default-alice":  {Name: "alice", Roles: auth.AllRoles},
	"default-root":   {Name: "root", Roles: auth.AllRoles, AllTenants: auth.AllRoles},
	"beta-root":      {Name: "root", Tenant: "beta", Roles: auth.AllRoles},
	"beta-acmealice": {Name: "acme/alice", Tenant: "beta", Roles: auth.AllRoles},
}

func tokenOf(who string) string { return who + "-0123456789abcdef" }

// tenantServer is a server with TLS and two tenants.
type tenantServer struct {
	*testServer
	tls   credentials.TransportCredentials
	audit string
}

func serveTenants(t *testing.T, options ...func(*service.Config)) *tenantServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate)
	s := &tenantServer{
		tls:   credentials.NewTLS(&tls.Config{RootCAs: trusted, ServerName: "localhost"}),
		audit: filepath.Join(t.TempDir(), "audit.log"),
	}
	all := []func(*service.Config){withArtifacts(t, artifact.Config{}), func(c *service.Config) {
		var list []auth.Token
		for who, principal := range tenantTokens {
			list = append(list, auth.Token{Principal: principal, Secret: tokenOf(who)})
		}
		known, err := auth.NewTokens(list)
		if err != nil {
			t.Fatal(err)
		}
		c.Authenticator = &auth.Chain{Tokens: known}
		if c.Audit, err = audit.Open(audit.Options{Config: audit.Config{File: s.audit}, Logger: c.Logger}); err != nil {
			t.Fatal(err)
		}
		if c.Policy, err = policy.Parse("policy.yaml", []byte("version: 1\n"+askToRead)); err != nil {
			t.Fatal(err)
		}
		c.Approvals.SelfApproval = false
		c.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
	}}
	s.testServer = serve(t, append(all, options...)...)
	return s
}

// as connects over TLS.
func (s *tenantServer) as(who string) *fileClient {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:"+s.address, grpc.WithTransportCredentials(s.tls), grpc.WithPerRPCCredentials(bearer(tokenOf(who))))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	c := &client{
		pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn),
		pb.NewApprovalServiceClient(conn), pb.NewPolicyServiceClient(conn), conn, s.t,
	}
	return &fileClient{pb.NewWorkspaceServiceClient(conn), c, s.testServer}
}

// belongings are what a tenant has, by its ids.
type belongings struct {
	session, ended, execution, call, listener, approval, expired, grant, artifact, upload, workspace, file, principal, tenant string
}

// missing are ids of the same shape of what does not exist.
var missing = belongings{
	session: "missing", ended: "missing-too", execution: "accdefghijklmnopqrstuvwxya", call: "missing-call", listener: "adcdefghijklmnopqrstuvwxya", approval: "abcdefghijklmnopqrstuvwxyz", expired: "bbcdefghijklmnopqrstuvwxyz",
	grant: "zzcdefghijklmnopqrstuvwxyz", artifact: "artifact:aacdefghijklmnopqrstuvwxyz", upload: "missing-upload", workspace: "/missing/workspace", file: "/missing/workspace/secret.txt",
	principal: "nobody", tenant: "nothing",
}

// hide replaces the ids, which an answer may repeat.
func (b belongings) hide(text string) string {
	for _, pair := range [][2]string{
		{b.file, "FILE"}, {b.workspace, "WORKSPACE"}, {`"` + filepath.Dir(b.workspace) + `"`, "TOP"}, {b.execution, "EXECUTION"}, {b.listener, "LISTENER"}, {b.approval, "APPROVAL"}, {b.expired, "EXPIRED"}, {b.grant, "GRANT"},
		{b.artifact, "ARTIFACT"}, {strings.TrimPrefix(b.artifact, "artifact:"), "ARTIFACT"}, {b.upload, "UPLOAD"}, {b.call, "CALL"}, {b.ended, "ENDED"}, {b.session, "SESSION"}, {`tenant "` + b.tenant, `tenant "TENANT`},
	} {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

const acmeSecret = "acme-secret-content"

// furnish has a tenant own something of every kind.
func furnish(t *testing.T, s *tenantServer) belongings {
	t.Helper()
	alice, carol := s.as("acme-alice"), s.as("acme-carol")
	ctx := timeout(t)
	b := belongings{session: "acme-work", ended: "acme-ended", call: "acme-call", upload: "acme-upload", principal: "alice", tenant: "acme"}
	created, err := alice.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: b.session, Mode: pb.Mode_MODE_ALLOW, Labels: map[string]string{"what": acmeSecret}})
	if err != nil {
		t.Fatal(err)
	}
	b.workspace = created.GetSession().GetWorkspace()
	b.file = filepath.Join(b.workspace, "secret.txt")
	if _, err := alice.write(&pb.WriteFileHeader{SessionId: b.session, Path: "secret.txt"}, acmeSecret); err != nil {
		t.Fatal(err)
	}
	alice.half(&pb.WriteFileHeader{SessionId: b.session, Path: "half.txt", UploadId: b.upload, Size: proto.Uint64(5000)}, acmeSecret)
	sleeps := asJSON("sleep", `{"duration_ms":600000}`)
	sleeps.SessionId, sleeps.CallId, sleeps.Purpose = b.session, proto.String(b.call), acmeSecret
	_, first := alice.begin(sleeps)
	b.execution = first.GetExecutionId()
	listens := asJSON("listens", `{}`)
	listens.SessionId = b.session
	_, first = alice.begin(listens)
	b.listener = first.GetExecutionId()
	b.artifact = alice.keep(b.session, `{"bytes":1000}`).GetUri()

	reads := asJSON("read_file", `{"path":"secret.txt"}`)
	reads.SessionId = b.session
	stream, asked := alice.asked(reads)
	answer, err := carol.ResolveApproval(ctx, &pb.ResolveApprovalRequest{
		ApprovalId: asked.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: asked.GetTiers()[0].GetTierId(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest(stream); err != nil {
		t.Fatal(err)
	}
	b.expired, b.grant = asked.GetApprovalId(), answer.GetAnswer().GetGrantId()
	reads = asJSON("read_file", `{"path":"half.txt"}`)
	reads.SessionId = b.session
	_, asked = alice.asked(reads)
	b.approval = asked.GetApprovalId()

	if _, err := alice.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: b.ended}); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: b.ended, Reason: acmeSecret}); err != nil {
		t.Fatal(err)
	}
	return b
}

// requests are, for every RPC, requests that name what somebody has. Several messages
// are the stream of one request.
func requests(b belongings) map[string][][]proto.Message {
	one := func(list ...proto.Message) (all [][]proto.Message) {
		for _, m := range list {
			all = append(all, []proto.Message{m})
		}
		return all
	}
	execs := []func(id, session, call, principal, tenant string) proto.Message{
		func(id, session, call, principal, tenant string) proto.Message {
			return &pb.GetExecutionRequest{ExecutionId: id, SessionId: session, CallId: call, Principal: principal, Tenant: tenant}
		},
		func(id, session, call, principal, tenant string) proto.Message {
			return &pb.WatchExecutionRequest{ExecutionId: id, SessionId: session, CallId: call, Principal: principal, Tenant: tenant}
		},
		func(id, session, call, principal, tenant string) proto.Message {
			return &pb.CancelRequest{ExecutionId: id, SessionId: session, CallId: call, Principal: principal, Tenant: tenant}
		},
	}
	execution := func(of func(id, session, call, principal, tenant string) proto.Message) [][]proto.Message {
		return one(of(b.execution, "", "", "", ""), of("", b.session, b.call, "", ""), of("", b.session, b.call, b.principal, ""),
			of("", b.session, b.call, b.principal, b.tenant), of(b.execution, "", "", "", b.tenant), of(b.execution, "", "", b.principal, b.tenant))
	}
	at := func(of func(principal, tenant string) proto.Message) [][]proto.Message {
		return one(of("", ""), of(b.principal, ""), of(b.principal, b.tenant), of("*", ""), of("*", b.tenant), of("*", "*"), of("", b.tenant))
	}
	execute := func(session, tool, input string) proto.Message {
		r := asJSON(tool, input)
		r.SessionId = session
		return r
	}
	return map[string][][]proto.Message{
		"ToolService/ListTools":      one(&pb.ListToolsRequest{SessionId: b.session}),
		"ToolService/WatchTools":     one(&pb.WatchToolsRequest{SessionId: b.session}),
		"ToolService/ExecuteTool":    one(execute(b.session, "count", `{}`), execute("", "write_file", `{"path":"`+b.file+`","content":"x"}`), execute("", "list_dir", `{"path":"`+b.workspace+`"}`), execute("", "glob", `{"pattern":"*","path":"`+b.workspace+`"}`)),
		"ToolService/ExecuteBatch":   one(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: &pb.BatchStart{SessionId: b.session}}}),
		"ToolService/WatchBatch":     one(&pb.WatchBatchRequest{SessionId: b.session, BatchId: "turn"}, &pb.WatchBatchRequest{SessionId: b.session, BatchId: b.call}),
		"ToolService/GetExecution":   execution(execs[0]),
		"ToolService/WatchExecution": execution(execs[1]),
		"ToolService/Cancel":         execution(execs[2]),
		"ToolService/ListExecutions": slices.Concat(one(&pb.ListExecutionsRequest{SessionId: b.session}), at(func(p, t string) proto.Message {
			return &pb.ListExecutionsRequest{Principal: p, Tenant: t, SessionId: b.session}
		})),
		"ToolService/WriteInput": one(
			&pb.WriteInputRequest{ExecutionId: b.listener, Input: &pb.WriteInputRequest_Data{Data: []byte("x")}},
			&pb.WriteInputRequest{SessionId: b.session, CallId: b.call, Input: &pb.WriteInputRequest_Signal{Signal: "INT"}}),
		"ToolService/ReadArtifact":  one(&pb.ReadArtifactRequest{Uri: b.artifact}, &pb.ReadArtifactRequest{Uri: b.artifact, Offset: 1 << 40}),
		"ToolService/GetServerInfo": one(&pb.GetServerInfoRequest{}),

		"SessionService/CreateSession": one(&pb.CreateSessionRequest{Workspace: b.workspace}, &pb.CreateSessionRequest{Workspace: filepath.Dir(b.workspace)},
			&pb.CreateSessionRequest{SessionId: b.ended, Restore: true}, &pb.CreateSessionRequest{SessionId: b.session, Restore: true}),
		"SessionService/GetSession": slices.Concat(one(&pb.GetSessionRequest{SessionId: b.ended}), at(func(p, t string) proto.Message {
			return &pb.GetSessionRequest{SessionId: b.session, Principal: p, Tenant: t}
		})),
		"SessionService/ListSessions": at(func(p, t string) proto.Message {
			return &pb.ListSessionsRequest{Principal: p, Tenant: t, IncludeEnded: true, PageToken: b.session + " " + b.tenant + "/" + b.principal}
		}),
		"SessionService/UpdateSession": one(&pb.UpdateSessionRequest{Session: &pb.Session{SessionId: b.session}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}}),
		"SessionService/CloseSession": at(func(p, t string) proto.Message {
			return &pb.CloseSessionRequest{SessionId: b.session, Principal: p, Tenant: t}
		}),
		"SessionService/StopPrincipal":   one(&pb.StopPrincipalRequest{Principal: b.principal, Tenant: b.tenant}, &pb.StopPrincipalRequest{Principal: "*", Tenant: b.tenant}),
		"SessionService/ResumePrincipal": one(&pb.ResumePrincipalRequest{Principal: b.principal, Tenant: b.tenant}, &pb.ResumePrincipalRequest{Principal: "*", Tenant: b.tenant}),
		"SessionService/ListStops":       one(&pb.ListStopsRequest{}),
		"SessionService/WatchSession": at(func(p, t string) proto.Message {
			return &pb.WatchSessionRequest{SessionId: b.session, Principal: p, Tenant: t}
		}),

		"ApprovalService/ListApprovals":  one(&pb.ListApprovalsRequest{}, &pb.ListApprovalsRequest{SessionId: b.session}),
		"ApprovalService/WatchApprovals": one(&pb.WatchApprovalsRequest{}, &pb.WatchApprovalsRequest{SessionId: b.session}),
		"ApprovalService/ResolveApproval": one(
			&pb.ResolveApprovalRequest{ApprovalId: b.approval, Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE},
			&pb.ResolveApprovalRequest{ApprovalId: b.approval, Kind: pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS, TierId: "99"},
			&pb.ResolveApprovalRequest{ApprovalId: b.expired, Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE}),
		"ApprovalService/ListGrants":  one(&pb.ListGrantsRequest{}, &pb.ListGrantsRequest{SessionId: b.session}),
		"ApprovalService/RevokeGrant": one(&pb.RevokeGrantRequest{GrantId: b.grant}),

		"DialectService/RenderTools":   one(&pb.RenderToolsRequest{SessionId: b.session, Dialect: "openai"}),
		"DialectService/RenderResults": one(&pb.RenderResultsRequest{Dialect: "openai"}),
		"DialectService/ParseCalls":    one(&pb.ParseCallsRequest{Kind: &pb.ParseCallsRequest_Start{Start: &pb.ParseStart{SessionId: b.session}}}),

		"PolicyService/CheckCall": one(&pb.CheckCallRequest{SessionId: b.session, Tool: "count", InputJson: []byte("{}")}),
		"PolicyService/GetPolicy": one(&pb.GetPolicyRequest{}),

		"AgentService/Serve":      one(&pb.ServeRequest{Kind: &pb.ServeRequest_Offer{Offer: &pb.AgentOffer{Agents: []*pb.OfferedAgent{{Name: b.principal}}}}}),
		"AgentService/ListAgents": at(func(p, t string) proto.Message { return &pb.ListAgentsRequest{Principal: p, Tenant: t} }),

		"AuditService/SearchRecords":   one(&pb.SearchRecordsRequest{Query: "x"}),
		"AuditService/VerifyLog":       one(&pb.VerifyLogRequest{}),
		"SourceService/ListSources":    one(&pb.ListSourcesRequest{}),
		"SourceService/ReadSourceLog":  one(&pb.ReadSourceLogRequest{Name: "x"}),
		"SourceService/RetrySource":    one(&pb.RetrySourceRequest{Name: "x"}),
		"SourceService/ApproveTools":   one(&pb.ApproveToolsRequest{Name: "x"}),
		"SourceService/CompleteSignIn": one(&pb.CompleteSignInRequest{Name: "x"}),

		"WorkspaceService/StatFile":     one(&pb.StatFileRequest{SessionId: b.session, Path: "secret.txt"}, &pb.StatFileRequest{Path: b.file}),
		"WorkspaceService/ListFiles":    one(&pb.ListFilesRequest{SessionId: b.session}, &pb.ListFilesRequest{Path: b.workspace}),
		"WorkspaceService/ReadFile":     one(&pb.ReadFileRequest{SessionId: b.session, Path: "secret.txt"}, &pb.ReadFileRequest{Path: b.file}),
		"WorkspaceService/RemoveFile":   one(&pb.RemoveFileRequest{SessionId: b.session, Path: "secret.txt"}, &pb.RemoveFileRequest{Path: b.file}),
		"WorkspaceService/GetUpload":    one(&pb.GetUploadRequest{SessionId: b.session, UploadId: b.upload}, &pb.GetUploadRequest{UploadId: b.upload}),
		"WorkspaceService/DownloadTree": one(&pb.DownloadTreeRequest{SessionId: b.session, Path: "."}, &pb.DownloadTreeRequest{Path: b.workspace}),
		"WorkspaceService/WriteFile": {
			{&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{SessionId: b.session, Path: "x"}}}},
			{&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{Path: b.file}}}},
			{&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{Path: "half.txt", UploadId: b.upload, Offset: 19, Size: proto.Uint64(5000)}}}},
		},
		"WorkspaceService/UploadTree": {
			{&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Header{Header: &pb.UploadTreeHeader{SessionId: b.session, Path: "x"}}}},
			{&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Header{Header: &pb.UploadTreeHeader{Path: b.workspace}}}},
		},
	}
}

// answer sends a request and returns its first answers, or error, in words.
func answer(ctx context.Context, t *testing.T, conn service.Conn, method protoreflect.MethodDescriptor, messages []proto.Message) (string, codes.Code) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
	if err != nil {
		return err.Error(), status.Code(err)
	}
	for _, m := range messages {
		stream.SendMsg(m) // where that fails, there is an answer already
	}
	stream.CloseSend()
	var text strings.Builder
	for range 3 { // of a stream, what matters comes first
		response := dynamicpb.NewMessage(method.Output())
		err := stream.RecvMsg(response)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s := status.Convert(err)
			text.WriteString(s.Code().String() + ": " + s.Message())
			for _, detail := range s.Details() {
				text.WriteString(protojson.Format(detail.(proto.Message)))
			}
			return text.String(), s.Code()
		}
		text.WriteString(protojson.Format(response) + "\n")
		if keepsOpen[string(method.Name())] {
			break
		}
	}
	return text.String(), codes.OK
}

// keepsOpen are the RPCs whose answers go on for as long as somebody listens.
var keepsOpen = map[string]bool{"WatchTools": true, "WatchSession": true, "WatchApprovals": true}

// servicesOf are the RPCs of the contract.
func servicesOf(t testing.TB) (list []protoreflect.MethodDescriptor) {
	t.Helper()
	for _, file := range []string{"tool", "session", "approval", "policy", "workspace", "dialect", "source"} {
		found, err := protoregistry.GlobalFiles.FindFileByPath("toolserver/v1/" + file + "_service.proto")
		if err != nil {
			t.Fatal(err)
		}
		for i := range found.Services().Len() {
			methods := found.Services().Get(i).Methods()
			for j := range methods.Len() {
				list = append(list, methods.Get(j))
			}
		}
	}
	return list
}

// TestTwoTenants walks every RPC with the ids of another tenant, as callers of all roles
// and of the same name, and compares with the answer for what does not exist.
func TestTwoTenants(t *testing.T) {
	s := serveTenants(t)
	acme := furnish(t, s)
	theirs, none := requests(acme), requests(missing)
	for _, method := range servicesOf(t) {
		name := string(method.Parent().Name()) + "/" + string(method.Name())
		if len(theirs[name]) == 0 {
			t.Errorf("%s is not tried: give it a row", name)
		}
		for _, who := range []string{"beta-alice", "beta-bob", "beta-root", "beta-acmealice", "default-alice"} {
			conn := s.as(who).conn
			for k := range theirs[name] {
				got, _ := answer(timeout(t), t, conn, method, theirs[name][k])
				want, _ := answer(timeout(t), t, conn, method, none[name][k])
				if plain(acme.hide(got)) != plain(missing.hide(want)) {
					t.Errorf("%s %d as %s, of another tenant:\n%s\nof nobody:\n%s", name, k, who, got, want)
				}
				if strings.Contains(got, acmeSecret) || strings.Contains(got, "carol") {
					t.Errorf("%s %d as %s tells of another tenant: %s", name, k, who, got)
				}
			}
		}
	}
	s.intact(acme)
	// Nobody but acme is in what acme's calls wrote to the audit log.
	for line := range strings.Lines(readAll(t, s.audit)) {
		if strings.Contains(line, acme.session) && !strings.Contains(line, `"tenant":"acme","principal":"alice"`) {
			t.Errorf("audit: %s", line)
		}
	}
}

// plain takes out of an answer what differs from one to the next.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "Time\"") || strings.Contains(line, "time\"") || strings.Contains(line, "\"executionId\"") || strings.Contains(line, "\"callId\"") || strings.Contains(line, "Duration\"") || strings.Contains(line, "\"ran\"") || strings.Contains(line, "\"waited\"") || strings.Contains(line, "\"digest\"") || strings.Contains(line, "\"contentTokens\"") {
			continue
		}
		lines = append(lines, strings.Join(strings.Fields(line), " ")) // protojson adds spaces at random
	}
	return strings.Join(lines, "\n")
}

func readAll(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestOperatorsOfTenants: operators look into their tenant, and those of all tenants
// into the one they name.
func TestOperatorsOfTenants(t *testing.T) {
	s := serveTenants(t)
	acme := furnish(t, s)
	ctx := timeout(t)
	carol, root := s.as("acme-carol"), s.as("default-root")
	for _, id := range []*pb.GetExecutionRequest{{ExecutionId: acme.execution}, {Principal: "alice", SessionId: acme.session, CallId: acme.call}} {
		if got, err := carol.GetExecution(ctx, id); err != nil || got.GetExecution().GetExecutionId() != acme.execution || got.GetExecution().GetTenant() != "acme" {
			t.Errorf("an operator of the tenant: %v, %v", got, err)
		}
	}
	if got, err := root.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: acme.execution}); err != nil || got.GetExecution().GetPrincipal() != "alice" {
		t.Errorf("an operator of all tenants: %v, %v", got, err)
	}
	_, err := root.GetSession(ctx, &pb.GetSessionRequest{SessionId: acme.session, Principal: "alice"})
	wantCode(t, err, codes.NotFound)
	if got, err := root.GetSession(ctx, &pb.GetSessionRequest{SessionId: acme.session, Principal: "alice", Tenant: "acme"}); err != nil || got.GetSession().GetTenant() != "acme" {
		t.Errorf("a session of a tenant: %v, %v", got, err)
	}
	for tenant, want := range map[string]int{"": 0, "default": 0, "acme": 1, "beta": 0, "*": 1} {
		list, err := root.ListSessions(ctx, &pb.ListSessionsRequest{Principal: "*", Tenant: tenant})
		if err != nil || len(list.GetSessions()) != want {
			t.Errorf("sessions of %q: %v, %v", tenant, list, err)
		}
	}
	for _, tenant := range []string{"../x", strings.Repeat("x", 65)} {
		_, err := root.ListSessions(ctx, &pb.ListSessionsRequest{Principal: "*", Tenant: tenant})
		wantCode(t, err, codes.InvalidArgument, "is no tenant")
	}
	for _, name := range []string{"acme\x00alice", "\x00alice", "alice\n"} { // as owners are told apart inside
		_, err := s.as("default-alice").GetSession(ctx, &pb.GetSessionRequest{SessionId: acme.session, Principal: name})
		wantCode(t, err, codes.InvalidArgument, "principal: ")
		_, err = s.as("default-alice").ListSessions(ctx, &pb.ListSessionsRequest{Principal: name})
		wantCode(t, err, codes.InvalidArgument, "principal: ")
	}
	_, err = root.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: acme.session})
	wantCode(t, err, codes.FailedPrecondition, "acme/alice")
	if list, err := root.ListApprovals(ctx, &pb.ListApprovalsRequest{}); err != nil || len(list.GetApprovals()) != 1 || list.GetApprovals()[0].GetTenant() != "acme" {
		t.Errorf("approvals of all tenants: %v, %v", list, err)
	}
	if answer, err := root.ResolveApproval(ctx, &pb.ResolveApprovalRequest{ApprovalId: acme.approval, Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE}); err != nil || answer.GetAnswer().GetBy() != "root" {
		t.Errorf("an approver of all tenants: %v, %v", answer, err)
	}
	if closed, err := root.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: acme.session, Principal: "alice", Tenant: "acme", Reason: "maintenance"}); err != nil || closed.GetCancelledExecutions() != 2 {
		t.Errorf("closed by an operator of all tenants: %v, %v", closed, err)
	}
	_, err = s.as("acme-alice").GetSession(ctx, &pb.GetSessionRequest{SessionId: acme.session})
	wantCode(t, err, codes.NotFound, "closed by root: maintenance")
	info, err := root.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	if err != nil || !info.GetAllTenants() || info.GetTenant() != "" {
		t.Errorf("what root is told: %v, %v", info, err)
	}
	if stopped, err := carol.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "alice"}); err != nil || stopped.GetStop().GetTenant() != "acme" {
		t.Errorf("an operator of the tenant stops one of its own: %v, %v", stopped, err)
	}
	if _, err := s.as("default-alice").CreateSession(ctx, &pb.CreateSessionRequest{}); err != nil {
		t.Errorf("one of the same name in another tenant: %v", err)
	}
	_, err = s.as("acme-alice").CreateSession(ctx, &pb.CreateSessionRequest{})
	wantCode(t, err, codes.FailedPrecondition, `"alice" was stopped by carol`, "one of tenant acme or of all tenants, with toolserver resume --tenant acme alice")
	if _, err := root.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "alice", Tenant: "acme"}); err != nil {
		t.Error(err)
	}
}
