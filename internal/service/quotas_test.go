// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestQuotas: each quota says what it is, what its value is and what helps, and one
// tenant's is not another's.
func TestQuotas(t *testing.T) {
	s := serveTenants(t, func(c *service.Config) {
		c.Tenants = quota.Tenants{{Name: "acme", MaxSessions: 2, MaxRunning: 1, MaxStorage: 1 << 20}, {Name: "beta", CallsPerMinute: 6}}
		config := c.Sessions.Config()
		c.Sessions.Close()
		config.Tenants = c.Tenants
		config.Default.Mode = tools.ModeAllow
		c.Sessions = session.NewStore(config)
	})
	alice, carol, other := s.as("acme-alice"), s.as("acme-carol"), s.as("default-alice")
	ctx := timeout(t)
	over := func(err error, quota, limit, help string, retry bool) {
		t.Helper()
		wantCode(t, err, codes.ResourceExhausted, quota, limit, help, "ask the operator")
		var failure *errdetails.QuotaFailure
		var again *errdetails.RetryInfo
		for _, detail := range status.Convert(err).Details() {
			switch detail := detail.(type) {
			case *errdetails.QuotaFailure:
				failure = detail
			case *errdetails.RetryInfo:
				again = detail
			}
		}
		if len(failure.GetViolations()) != 1 || !strings.HasPrefix(failure.GetViolations()[0].GetSubject(), "tenant:") || !strings.Contains(failure.GetViolations()[0].GetDescription(), quota+" is "+limit) {
			t.Errorf("details: %v", failure)
		}
		if (again.GetRetryDelay().AsDuration() > 0) != retry {
			t.Errorf("retry: %v", again)
		}
	}
	sleeps := asJSON("sleep", `{"duration_ms":600000}`)
	_, first := alice.begin(sleeps)
	_, err := carol.call(asJSON("count", `{}`))
	over(err, "max_running", "1", "cancel some", true)
	if end := other.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("another tenant: %v", end)
	}
	if _, err := alice.Cancel(ctx, &pb.CancelRequest{ExecutionId: first.GetExecutionId()}); err != nil {
		t.Fatal(err)
	}
	_, err = alice.CreateSession(ctx, &pb.CreateSessionRequest{}) // beside two default sessions
	over(err, "max_sessions", "2", "close sessions", false)

	_, err = alice.write(&pb.WriteFileHeader{Path: "large", Size: proto.Uint64(2 << 20)}, "")
	over(err, "max_storage", "1048576 bytes", "delete files", false)
	if _, err := alice.write(&pb.WriteFileHeader{Path: "half"}, strings.Repeat("x", 1<<19)); err != nil {
		t.Error(err)
	}

	bob := s.as("beta-bob")
	if end := bob.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v", end)
	}
	_, err = bob.call(asJSON("count", `{}`))
	over(err, "calls_per_minute", "6", "call again in", true)
	if _, err := bob.ListSessions(ctx, &pb.ListSessionsRequest{}); err != nil {
		t.Errorf("what is no call: %v", err)
	}
	bob.call(asJSON("count", `{}`))
	b := bob.batch(&pb.BatchStart{})
	b.call("over", "count", `{}`)
	refused := b.until(func(e *pb.BatchEvent) bool { return e.GetRefused() != nil }).GetRefused()
	if codes.Code(refused.GetCode()) != codes.ResourceExhausted || refused.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("in a batch: %v", refused)
	}

	// Operators see it: each refusal as a metric, and in the audit log that there were some.
	exported := metricsText(t, s.metrics)
	for _, want := range []string{`{quota="max_running",tenant="acme"} 1`, `{quota="max_sessions",tenant="acme"} 1`, `{quota="max_storage",tenant="acme"} 1`, `{quota="calls_per_minute",tenant="beta"} 3`} {
		if !strings.Contains(exported, "\ntoolserver_over_quota_total"+want+"\n") {
			t.Errorf("no metric is %s: %q", want, regexp.MustCompile(`toolserver_over_quota_total\{.*`).FindAllString(exported, -1))
		}
	}
	s.shutdown()
	records := make(map[string]int)
	for line := range strings.Lines(readAll(t, s.audit)) {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Step == audit.OverQuota && r.Principal != "" && strings.Contains(r.Reason, "has reached its quota") {
			records[r.Tenant+" "+r.Rule] += int(r.Count)
		}
	}
	if want := map[string]int{"acme max_running": 1, "acme max_sessions": 1, "acme max_storage": 1, "beta calls_per_minute": 1}; !maps.Equal(records, want) {
		t.Errorf("the audit log has %v, want %v", records, want)
	}
}

// TestTenantAttacks has the attacks of the catalogue on a tenant, by another over TLS.
func TestTenantAttacks(t *testing.T) {
	s := serveTenants(t, func(c *service.Config) { c.Tenants = quota.Tenants{{Name: "beta", CallsPerMinute: 12}} })
	acme := furnish(t, s)
	beta, ctx := s.as("beta-alice"), timeout(t)
	for id, attack := range map[string]func(t *testing.T){
		"P-145 cancel the call of another": func(t *testing.T) {
			for _, request := range []*pb.CancelRequest{{ExecutionId: acme.execution}, {SessionId: acme.session, CallId: acme.call}, {SessionId: acme.session, CallId: acme.call, Principal: "alice", Tenant: "acme"}} {
				_, err := beta.Cancel(ctx, request)
				wantCode(t, err, codes.NotFound)
			}
		},
		"P-146 be of two tenants at once": func(t *testing.T) {
			_, err := beta.ListSessions(withHeader(ctx, "authorization", "Bearer "+tokenOf("acme-alice")), &pb.ListSessionsRequest{})
			wantCode(t, err, codes.Unauthenticated)
			for _, header := range []string{"tenant", "x-tenant", "x-tenant-id"} { // nothing but credentials says who calls
				info, err := beta.GetServerInfo(withHeader(ctx, header, "acme"), &pb.GetServerInfoRequest{})
				if err != nil || info.GetTenant() != "beta" {
					t.Errorf("%s: %v, %v", header, info.GetTenant(), err)
				}
			}
		},
		"P-147 work in the workspace of another": func(t *testing.T) {
			for _, dir := range []string{acme.workspace, acme.workspace + "/", filepath.Dir(acme.workspace), filepath.Dir(filepath.Dir(acme.workspace)), os.Getenv("TEST_ALLOWED")} {
				_, err := beta.CreateSession(ctx, &pb.CreateSessionRequest{Workspace: dir})
				wantCode(t, err, codes.PermissionDenied)
			}
		},
		"P-151 send ten times what is allowed": func(t *testing.T) {
			refused := 0
			for range 20 {
				_, err := beta.call(asJSON("count", `{}`))
				if status.Code(err) == codes.ResourceExhausted {
					refused++
				}
			}
			if refused < 17 { // two at once, and what comes back meanwhile
				t.Errorf("%d were refused", refused)
			}
			if end := s.as("acme-alice").run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Errorf("another tenant: %v", end)
			}
		},
		"read the secrets of another": func(t *testing.T) {
			other := s.as("default-alice")
			for _, path := range []string{acme.file, "../" + filepath.Base(acme.workspace) + "/secret.txt", "/proc/self/environ"} {
				events, err := other.call(asJSON("list_dir", `{"path":"`+path+`"}`))
				for _, event := range events {
					if strings.Contains(event.String(), acmeSecret) {
						t.Errorf("%s: %v, %v", path, event, err)
					}
				}
			}
			stream, err := other.ReadFile(ctx, &pb.ReadFileRequest{Path: acme.file})
			if err == nil {
				_, err = stream.Recv()
			}
			wantCode(t, err, codes.PermissionDenied, "outside") // as for any path that is
		},
	} {
		t.Run(id, attack)
	}
	s.intact(acme)
}
