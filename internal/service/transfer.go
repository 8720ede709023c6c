// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// FileLimits are the section "files" of the configuration: they bound what
// WorkspaceService takes. Zero fields take their defaults.
type FileLimits struct {
	MaxFileBytes   size.Bytes    `yaml:"max_file_bytes"`   // of one file; 1 GiB
	MaxTreeBytes   size.Bytes    `yaml:"max_tree_bytes"`   // of the files of a tree, and of its archive; 4 GiB
	MaxTreeEntries int           `yaml:"max_tree_entries"` // of an archive; 200,000
	MaxUploads     int           `yaml:"max_uploads"`      // that are not finished, of one session; 16
	MaxUploadBytes size.Bytes    `yaml:"max_upload_bytes"` // of those, together; 2 GiB
	UploadTTL      time.Duration `yaml:"upload_ttl"`       // how long an upload waits to be continued; 15 minutes
	Idle           time.Duration `yaml:"stream_idle"`      // how long a stream may bring nothing; 2 minutes
}

// WithDefaults returns l with its zero fields filled in.
func (l FileLimits) WithDefaults() FileLimits {
	return FileLimits{
		MaxFileBytes:   cmp.Or(l.MaxFileBytes, 1<<30),
		MaxTreeBytes:   cmp.Or(l.MaxTreeBytes, 4<<30),
		MaxTreeEntries: cmp.Or(l.MaxTreeEntries, 200_000),
		MaxUploads:     cmp.Or(l.MaxUploads, 16),
		MaxUploadBytes: cmp.Or(l.MaxUploadBytes, 2<<30),
		UploadTTL:      cmp.Or(l.UploadTTL, 15*time.Minute),
		Idle:           cmp.Or(l.Idle, 2*time.Minute),
	}
}

// A transfer is one call of Workspaceservice: what admission decided, and its record.
type transfer struct {
	*admission.Transfer
	service *workspaceService
	record  audit.Record
	began   time.Time
	written func() // tells that nothing more is written; nil where nothing is
}

// readsTree is [tools.Env.ReadsTree] as effects of a transfer.
func readsTree(env tools.Env, names ...string) []tools.Effect { return env.ReadsTree(names[0]) }

// transferOf translates a message; ok is false where it asks for no transfer.
func transferOf(message any) (request admission.TransferRequest, ok bool) {
	switch m := message.(type) {
	case *pb.StatFileRequest:
		return admission.TransferRequest{SessionID: m.GetSessionId(), Path: m.GetPath(), Tool: admission.ReadsFiles, Effects: tools.Env.ReadsEntries}, true
	case *pb.ListFilesRequest:
		reads := tools.Env.Reads
		if m.GetRecursive() {
			reads = readsTree
		}
		return admission.TransferRequest{SessionID: m.GetSessionId(), Path: topOf(m.GetPath()), Tool: admission.ReadsFiles, Effects: reads}, true
	case *pb.ReadFileRequest:
		return admission.TransferRequest{SessionID: m.GetSessionId(), Path: m.GetPath(), Tool: admission.ReadsFiles, Effects: tools.Env.Reads}, true
	case *pb.DownloadTreeRequest:
		return admission.TransferRequest{SessionID: m.GetSessionId(), Path: topOf(m.GetPath()), Tool: admission.ReadsFiles, Effects: readsTree}, true
	case *pb.RemoveFileRequest:
		removes := func(env tools.Env, names ...string) []tools.Effect {
			return effects.Removes(env, names[0], m.GetRecursive())
		}
		return admission.TransferRequest{SessionID: m.GetSessionId(), Path: m.GetPath(), Tool: admission.RemovesFiles, Effects: removes}, true
	case *pb.WriteFileRequest:
		h := m.GetHeader()
		return admission.TransferRequest{SessionID: h.GetSessionId(), Path: h.GetPath(), Tool: admission.WritesFiles, Effects: tools.Env.Writes}, h != nil
	case *pb.UploadTreeRequest:
		h := m.GetHeader()
		return admission.TransferRequest{SessionID: h.GetSessionId(), Path: topOf(h.GetPath()), Tool: admission.WritesFiles, Effects: tools.Env.Writes}, h != nil
	}
	return request, false
}

// admit asks admission about the transfer that a message asks for, if any, and leaves it
// for the handler. A stream has one: what says later that it is another is the handler's
// to refuse.
func (s *workspaceService) admit(ctx context.Context, message any) error {
	rpc := rpcOf(ctx)
	request, ok := transferOf(message)
	if !ok || !rpc.asked.first() {
		return nil
	}
	if err := checkPath(request.Path); err != nil {
		return err
	}
	request.Principal = principalOf(ctx)
	_, decide := span.Start(ctx, "decide")
	defer decide.End()
	s.underWay.Add(1)
	admitted, err := s.admission.Transfer(request)
	if admitted == nil {
		s.underWay.Add(-1)
		return err
	}
	t := &transfer{Transfer: admitted, service: s, began: time.Now()}
	t.record = audit.Record{
		Step: audit.Transfer, Tenant: t.Session.Owner.Tenant(), Principal: t.Session.Owner.Name(), OnBehalfOf: request.Principal.OnBehalfOf, SessionID: t.Session.ID, Tool: t.Spec.Name, Path: request.Path,
		Trace: rpc.span.Trace(), Action: t.Decision.Action.String(), Rule: t.Decision.Rule, Policy: t.Decision.Policy,
	}
	decide.Set("toolserver.tool", t.Spec.Name)
	decide.Set("toolserver.action", t.record.Action)
	decide.Set("toolserver.rule", t.record.Rule)
	decide.Set("toolserver.policy", t.record.Policy)
	rpc.server.meters.decided(t.record.Action, t.record.Rule)
	if err == nil {
		err = t.propose()
	}
	if !rpc.asked.leave(t, err == nil) && err == nil {
		err = status.Error(codes.Aborted, "the call has ended")
	}
	if err != nil {
		t.noteRefusal(err)
		t.end(&err)
	}
	return err
}

// A transferSlot is where admission leaves the transfer of a call for its handler. The
// first message of an upload may arrive after the call has ended.
type transferSlot struct {
	mu            sync.Mutex
	transfer      *transfer
	session, tool string // of the transfer, whether it was admitted or not
	used          bool   // by the first transfer
	closed        bool
}

// first reports whether the call has asked for no transfer before.
func (s *transferSlot) first() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used
	s.used = true
	return !before
}

// leave puts a transfer there, if it was admitted; it reports false where nobody will
// take it.
func (s *transferSlot) leave(t *transfer, admitted bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.session, s.tool = t.Session.ID, t.Spec.Name
	if admitted {
		s.transfer = t
	}
	return admitted
}

// take returns what is there, which is then nobody else's.
func (s *transferSlot) take() *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.transfer
	s.transfer = nil
	return t
}

// close ends what no handler has taken, and returns what the call was about; nothing
// where it was about no transfer.
func (s *transferSlot) close() (session, tool string) {
	s.mu.Lock()
	s.closed = true
	session, tool = s.session, s.tool // nobody changes them any more
	s.mu.Unlock()
	if t := s.take(); t != nil {
		err := status.Error(codes.Aborted, "the call ended before it began")
		t.end(&err)
	}
	return session, tool
}

// takeTransfer returns the transfer that admission left, once. End it.
func (r *rpc) takeTransfer() *transfer {
	t := r.asked.take()
	if t.Spec.Level == tools.WorkspaceWrite && t.service.receiving != nil {
		t.written = t.service.receiving(t.Env)
	}
	return t
}

// propose records the transfer before it begins, where it must be recorded.
func (t *transfer) propose() error {
	log := t.service.auditor.log
	if log == nil || !log.Required() {
		return nil
	}
	intent := t.record
	intent.Step = audit.Proposed
	if log.Append(intent) != nil {
		return withRetryInfo(status.New(codes.Unavailable, "the server must record every transfer and cannot: nothing was done"), time.Second).Err()
	}
	return nil
}

// noteRefusal puts the reason of the policy into the record, where it refused.
func (t *transfer) noteRefusal(err error) {
	if errors.Is(err, admission.ErrDenied) {
		t.record.Action, t.record.Rule, t.record.Reason = t.Decision.Action.String(), t.Decision.Rule, t.Decision.Reason
	}
}

// again judges the transfer once more, when what it brings has arrived.
func (t *transfer) again() error {
	err := t.Again()
	t.record.Rule, t.record.Policy = t.Decision.Rule, t.Decision.Policy
	t.noteRefusal(err)
	return err
}

// fits returns an error where so many bytes more would take what is reserved.
func (t *transfer) fits(more uint64) error {
	return t.service.space(t.Session, t.Env, more)
}

func denied(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, format, args...)
}

// withheld reports what is left out of the tree that is read; nil where that is
// nothing.
func (t *transfer) withheld() func(path string) bool { return t.Env.WithheldBelow(t.Path, true) }

// end writes the record of the call, and makes a status of its error.
func (t *transfer) end(err *error) {
	if t.written != nil {
		t.written()
	}
	t.Release()
	t.service.underWay.Add(-1)
	*err = fileStatus(*err)
	if log := t.service.auditor.log; log != nil {
		t.record.DurationMs = float64(time.Since(t.began)) / 1e6
		t.record.Outcome = outcomeOfStatus(*err)
		if t.record.Reason == "" && *err != nil {
			t.record.Reason = status.Convert(toStatus(*err)).Message()
		}
		log.Append(t.record)
	}
}

func outcomeOfStatus(err error) string {
	if err == nil {
		return executor.Succeeded.String()
	}
	return strings.ToLower(status.Code(toStatus(err)).String())
}

// errTooMany is wrapped by errors about what is more than the server takes.
var errTooMany = errors.New("this is more than the server takes")
