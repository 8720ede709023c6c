// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// auditor writes every step of every call to the audit log. Without a log it
// does nothing.
type auditor struct {
	log    *audit.Log
	inputs bool // record what inputs say, not only their shape
}

// shapeOf outlines the input of an order; nothing, where no tool decoded it: its keys are what the
// caller wrote, and may be anything.
func shapeOf(order *executor.Order) string {
	if refusal := order.Refusal; refusal != nil && (refusal.Outcome == executor.InvalidInput || refusal.Outcome == executor.NoSuchTool || !json.Valid(order.Input)) {
		return ""
	}
	return outline(order.Input)
}

// proposed records a call and what was decided about it, before anything of it happens.
// Where the call must be recorded and cannot be, it does not run.
func (a *auditor) proposed(x *executor.Execution) *executor.Refusal {
	if a.log == nil {
		return nil
	}
	order := &x.Order
	proposed := audit.Record{
		Step: audit.Proposed, InputDigest: sha256.Sum256(order.Input), InputBytes: len(order.Input),
		InputShape: shapeOf(order), Trace: order.Trace,
	}
	if a.inputs {
		proposed.Input = string(order.Input)
	}
	verdict := audit.Record{
		Step: audit.Verdict, Policy: order.Policy,
		Action: order.Verdict.Action.String(), Rule: order.Verdict.Rule, Reason: order.Verdict.Reason,
	}
	if refusal := order.Refusal; refusal != nil && refusal.Outcome != executor.RateLimited {
		verdict.Outcome = refusal.Outcome.String()
		verdict.Action, verdict.Reason = "deny", refusal.Failure.Message
	}
	if a.write(x, proposed) != nil || a.write(x, verdict) != nil {
		return unrecorded()
	}
	return nil
}

// unrecorded is how a call ends that had to be recorded and could not be.
func unrecorded() *executor.Refusal {
	refusal := executor.Refuse(executor.Failed, "audit_unavailable",
		"The call did not run: the server must record every call and cannot. Try again later.")
	refusal.Failure.Retryable = true
	return refusal
}

// write completes a record with whose step it is.
func (a *auditor) write(x *executor.Execution, record audit.Record) error {
	owner := x.Order.Session.Owner
	record.Tenant, record.Principal, record.OnBehalfOf = owner.Tenant(), owner.Name(), x.Order.OnBehalfOf
	record.SessionID, record.ExecutionID = x.Order.Session.ID, x.ID
	record.CallID, record.Tool, record.Version, record.CalledAs = x.Order.CallID, x.Order.Tool, x.Order.Version, x.Order.CalledAs
	record.Chain = chainText(x.Order.Chain)
	return a.log.Append(record)
}

// starting records that a tool begins to run. One that must be recorded and
// cannot be does not: also not where a person has just allowed it.
func (a *auditor) starting(x *executor.Execution) *executor.Refusal {
	if a.log != nil && a.write(x, audit.Record{Step: audit.Started}) != nil {
		return unrecorded()
	}
	return nil
}

// input records that input was sent to a call: of data, how much it is. It has no
// digest, for what people type is short enough to be guessed by it.
func (a *auditor) input(x *executor.Execution, request *pb.WriteInputRequest) error {
	if a.log == nil {
		return nil
	}
	record := audit.Record{Step: audit.Input}
	switch in := request.GetInput().(type) {
	case *pb.WriteInputRequest_Data:
		record.Action, record.InputBytes = "data", len(in.Data)
		if a.inputs {
			record.Input = string(in.Data)
		}
	case *pb.WriteInputRequest_End:
		record.Action = "end"
	case *pb.WriteInputRequest_Signal:
		record.Action, record.Reason = "signal", in.Signal
	case *pb.WriteInputRequest_WindowSize:
		record.Action = "window_size"
	}
	if a.write(x, record) != nil {
		return withRetryInfo(status.New(codes.Unavailable, "the server must record every input and cannot: nothing was sent to the call"), time.Second).Err()
	}
	return nil
}

// cancelled records who asked for the end of a call, and why.
func (a *auditor) cancelled(ctx context.Context, x *executor.Execution, reason string) {
	a.cancelledBy(x, principalOf(ctx).Name, peerOf(ctx), reason)
}

// cancelledBy is cancelled where that is known already.
func (a *auditor) cancelledBy(x *executor.Execution, by, from, reason string) {
	if a.log != nil {
		a.write(x, audit.Record{Step: audit.Cancelled, By: by, From: from, Reason: reason})
	}
}

// closed records who closed a session, from where, and why.
func (a *auditor) closed(s *session.Session, calls int, by, from, reason string) {
	a.log.Append(audit.Record{
		Step: audit.SessionClosed, Tenant: s.Owner.Tenant(), Principal: s.Owner.Name(), SessionID: s.ID, Count: uint64(calls),
		By: by, From: from, Reason: reason, Chain: chainText(s.Chain()),
	})
}

// discarded records who gave up a session whose files are at no replica, and why.
func (a *auditor) discarded(ctx context.Context, owner auth.Owner, id, reason string) {
	a.log.Append(audit.Record{
		Step: audit.SessionClosed, Tenant: owner.Tenant(), Principal: owner.Name(), SessionID: id,
		By: principalOf(ctx).Name, From: peerOf(ctx), Reason: reason, Comment: "its files are at no replica that runs",
	})
}

// stopped records who stopped a principal, and why; fresh says that it was not stopped
// before. calls is how many executions that ended.
func (a *auditor) stopped(ctx context.Context, s stop, fresh bool, calls int) {
	record := audit.Record{
		Step: audit.Stopped, Tenant: s.Tenant, Principal: s.Principal, Count: uint64(calls), By: principalOf(ctx).Name, From: peerOf(ctx), Reason: s.Reason,
	}
	if !fresh {
		record.Action = "again"
	}
	a.log.Append(record)
}

// resumed records who lifted a stop.
func (a *auditor) resumed(ctx context.Context, s stop, reason string) {
	a.log.Append(audit.Record{Step: audit.Resumed, Tenant: s.Tenant, Principal: s.Principal, By: principalOf(ctx).Name, From: peerOf(ctx), Reason: reason})
}

// overQuota records a call that a quota refused: the last of as many as were not told of.
func (a *auditor) overQuota(r *rpc, over *quota.Error, calls uint64) {
	a.log.Append(audit.Record{
		Step: audit.OverQuota, Tenant: over.Tenant, Principal: r.principal.Name, OnBehalfOf: r.principal.OnBehalfOf,
		SessionID: r.session, CallID: r.callID, Tool: r.tool, Rule: over.Quota, Action: "deny", Reason: over.Error(), Count: calls,
	})
}

// created records that a session was made, by whom it is of.
func (a *auditor) created(ctx context.Context, s *session.Session) {
	record := ofSession(audit.SessionCreated, s)
	record.OnBehalfOf, record.By, record.From = principalOf(ctx).OnBehalfOf, s.Owner.Name(), peerOf(ctx)
	a.log.Append(record)
}

// madeDefault records a session that was made for who named none.
func (a *auditor) madeDefault(s *session.Session) {
	a.log.Append(ofSession(audit.SessionCreated, s))
}

func ofSession(step audit.Step, s *session.Session) audit.Record {
	return audit.Record{Step: step, Tenant: s.Owner.Tenant(), Principal: s.Owner.Name(), SessionID: s.ID, Action: s.Settings().Mode.String(), Path: s.Workspace.Dir(), Chain: chainText(s.Chain())}
}

// idled records a session that ended because nobody used it.
func (a *auditor) idled(s *session.Session, idle time.Duration) {
	a.log.Append(audit.Record{
		Step: audit.SessionClosed, Tenant: s.Owner.Tenant(), Principal: s.Owner.Name(), SessionID: s.ID, By: auth.Server, Reason: "it was not used for " + idle.String(),
	})
}

// changed records which settings of a session are others now.
func (a *auditor) changed(ctx context.Context, s *session.Session, paths []string) {
	settings := s.Settings()
	values := map[string]string{
		"level": settings.Level.String(), "mode": settings.Mode.String(), "network": settings.Network.String(),
		"idle_ttl": settings.IdleTTL.String(), "call_order": "free", "edit_errors": max(0, settings.EditErrors).String(),
	}
	if settings.Ordered {
		values["call_order"] = "safe"
	}
	var text []string
	for _, path := range paths {
		if value, ok := values[path]; ok {
			path += "=" + value
		}
		text = append(text, path)
	}
	record := ofSession(audit.SessionChanged, s)
	record.OnBehalfOf, record.By, record.From, record.Reason = principalOf(ctx).OnBehalfOf, principalOf(ctx).Name, peerOf(ctx), strings.Join(text, " ")
	a.log.Append(record)
}

// revoked records that somebody takes a grant back, before that happens.
func (a *auditor) revoked(ctx context.Context, g *approval.Grant) error {
	return a.log.Append(audit.Record{
		Step: audit.Revoked, Tenant: g.Session.Owner.Tenant(), Principal: g.Session.Owner.Name(), SessionID: g.Session.ID, Tool: g.Tool, Rule: "grant " + g.ID,
		Action: g.Action.String(), Reason: g.Tier.Label, By: principalOf(ctx).Name, From: peerOf(ctx),
	})
}

// Reloaded records that a file of the configuration changed: it is in force as a whole,
// or not at all, with the reason.
func (s *Server) Reloaded(what, version string, err error) {
	record := audit.Record{Step: audit.Reloaded, Rule: what, Policy: version, By: auth.Server, Outcome: "succeeded"}
	if err != nil {
		record.Outcome, record.Reason = "failed", err.Error()
	}
	s.auditor.log.Append(record)
}

// peerOf returns where a call comes from.
func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// finished records how a call ended.
func (a *auditor) finished(x *executor.Execution, end *executor.Finished) {
	if a.log != nil {
		record := audit.Record{Step: audit.Finished, Outcome: end.Outcome.String(), DurationMs: float64(end.Ran) / 1e6}
		if end.Failure != nil {
			record.Reason = end.Failure.Code
		}
		if len(end.Result.Warnings) > 0 {
			a.write(x, audit.Record{Step: audit.Violation, Reason: strings.Join(end.Result.Warnings, "; ")})
		}
		a.write(x, record)
	}
}

// hooked records what a hook said about a call.
func (a *auditor) hooked(x *executor.Execution, run hook.Run) {
	a.write(x, recordOf(run))
}

// hookedSession records what a hook said about a session.
func (a *auditor) hookedSession(s *session.Session, run hook.Run) {
	record := recordOf(run)
	record.Tenant, record.Principal, record.SessionID = s.Owner.Tenant(), s.Owner.Name(), s.ID
	a.log.Append(record)
}

func recordOf(run hook.Run) audit.Record {
	return audit.Record{
		Step: audit.Hook, Rule: "hook " + run.Hook, Action: string(run.Point), Outcome: run.Outcome.String(), Reason: run.Message,
		DurationMs: float64(run.Took) / 1e6,
	}
}

// resolved records how a question ended.
func (a *auditor) resolved(q *approval.Question, answer approval.Answer) {
	record := audit.Record{
		Step: audit.Approval, Tenant: q.Session.Owner.Tenant(), Principal: q.Session.Owner.Name(), OnBehalfOf: q.OnBehalfOf, SessionID: q.Session.ID, ExecutionID: q.ExecutionID,
		CallID: q.CallID, Tool: q.Tool, CalledAs: q.CalledAs, Policy: q.Policy, Action: answer.Kind.String(),
		By: answer.By, From: answer.From, Comment: answer.Comment, DurationMs: float64(answer.At.Sub(q.Created)) / 1e6, Chain: chainText(q.Chain),
	}
	if answer.Grant != nil {
		record.Rule, record.Reason = "grant "+answer.Grant.ID, answer.Grant.Tier.Label
	}
	a.log.Append(record)
	if answer.Kind == approval.AllowAlways || answer.Kind == approval.DenyAlways {
		record.Step, record.Action, record.DurationMs, record.ExecutionID, record.CallID = audit.Granted, answer.Grant.Action.String(), 0, "", ""
		a.log.Append(record)
	}
}
