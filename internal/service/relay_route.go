// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func (r *relay) unary(ctx context.Context, method string, request any, next grpc.UnaryHandler) (any, error) {
	for attempt := 1; ; attempt++ {
		to, err := r.route(ctx, method, request, attempt > 1)
		if closes, is := request.(*pb.CloseSessionRequest); is && errors.Is(err, session.ErrElsewhere) {
			return r.discard(ctx, closes)
		}
		var response any = new(passed)
		var trailer metadata.MD
		switch {
		case err != nil:
		case to == nil:
			response, err = next(ctx, request)
		default:
			trailer, err = r.ask(ctx, to, method, request, response)
		}
		switch moved := errors.Is(err, replica.ErrTaken); {
		case moved && isRelayed(ctx):
			grpc.SetTrailer(ctx, elsewhere)
		case (moved || len(trailer.Get(elsewhereTrailer)) > 0) && attempt < relayAttempts:
			continue // to who has it by now
		case err != nil && to != nil:
			err = r.broken(to, trailer, err)
		}
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

// route returns the replica that a call is for; nil where that is this one. fresh says that
// what is known of it here was wrong.
func (r *relay) route(ctx context.Context, method string, request any, fresh bool) (*replica.Member, error) {
	if named, ok := request.(interface{ GetExecutionId() string }); ok && methods[method].placed == atExecution && named.GetExecutionId() != "" {
		return r.routeExecution(ctx, named.GetExecutionId())
	}
	owner, id, ok := sessionNamed(ctx, request)
	if !ok {
		return nil, nil
	}
	return r.routeSession(ctx, owner, id, fresh)
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

// discard closes a session whose files are at no replica. Its owner may begin it anew, also
// the default one.
func (r *relay) discard(ctx context.Context, request *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	owner, err := oneOwner(ctx, request, mayStop)
	if err != nil {
		return nil, err
	}
	id := cmp.Or(request.GetSessionId(), session.DefaultID)
	if err := r.server.config.Sessions.Discard(ctx, owner, id); err != nil {
		return nil, err
	}
	r.server.auditor.discarded(ctx, owner, id, request.GetReason())
	return new(pb.CloseSessionResponse), nil
}

func (r *relay) routeExecution(ctx context.Context, id string) (*replica.Member, error) {
	run, ok := r.server.executor.RunOf(id)
	if !ok || run == r.Run() || r.Over(run) || isRelayed(ctx) {
		return nil, nil
	}
	if m, ok := r.ByRun(ctx, run); ok {
		return &m, nil
	}
	return nil, nil // the records tell
}

func (r *relay) routeSession(ctx context.Context, owner auth.Owner, id string, fresh bool) (*replica.Member, error) {
	key := session.OwnerKey(owner, id)
	if r.Mine(key) {
		return nil, nil
	}
	has, known, err := r.Owner(ctx, key, fresh)
	switch {
	case err != nil:
		return nil, fmt.Errorf("which replica has session %.64q is not known: %w", id, err)
	case !known:
		return nil, nil
	case has.Run == r.Run(): // it is just being made, or taken over
		return nil, r.adopt(ctx, owner, id)
	case isRelayed(ctx) && has.Run != 0 && !r.Over(has.Run):
		return nil, fmt.Errorf("%w: session %.64q is at another replica", replica.ErrTaken, id)
	case has.Run != 0 && !r.Over(has.Run):
		m, ok := r.ByRun(ctx, has.Run)
		if ok {
			return &m, nil
		}
		if err := r.Bury(ctx, has.Run); err != nil {
			return nil, fmt.Errorf("session %.64q: %w", id, err)
		}
	}
	err = r.adopt(ctx, owner, id)
	if errors.Is(err, session.ErrElsewhere) && !isRelayed(ctx) {
		for _, other := range r.Others() {
			if other.Place == has.Place {
				return &other, nil // which has the files, and takes it over
			}
		}
	}
	return nil, err
}

// adopt takes a session over that no replica has.
func (r *relay) adopt(ctx context.Context, owner auth.Owner, id string) error {
	_, err, _ := r.flight.Do(session.OwnerKey(owner, id), func() (any, error) {
		s := r.server
		return s.config.Sessions.Adopt(context.WithoutCancel(ctx), owner, id, func(adopted *session.Session) error {
			if err := s.executor.CatchUp(); err != nil {
				return err
			}
			if s.artifacts != nil {
				s.artifacts.enter(adopted)
				s.artifacts.store.Moved(artifactsOf(adopted))
			}
			return s.approvals.RestoreOf(context.WithoutCancel(ctx), adopted.Ref()) // others wait for this, too
		})
	})
	return err
}

// adoptOrphans takes over the sessions that fall to this replica, whenever others end, so
// that they are listed and end when nobody uses them.
func (r *relay) adoptOrphans(ctx context.Context) {
	for {
		changed := r.Changed()
		for _, key := range r.Orphans() {
			if owner, id, ok := session.KeyOwner(key); ok && ctx.Err() == nil && !r.server.executor.Draining() {
				r.adopt(ctx, owner, id) // who asks for it is told why it cannot be
			}
		}
		timer := time.NewTimer(r.Lease())
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// search has the call answered by the replica that knows what it names: this one is asked
// first.
func (r *relay) search(ctx context.Context, method string, request any, next grpc.UnaryHandler) (any, error) {
	response, err := next(ctx, request)
	if isRelayed(ctx) || status.Code(toStatus(err)) != codes.NotFound {
		return response, err
	}
	silent := 0
	for _, other := range r.Others() {
		found := new(passed)
		trailer, otherErr := r.ask(ctx, &other, method, request, found)
		switch {
		case otherErr == nil:
			return found, nil
		case len(trailer.Get(answeredTrailer)) == 0:
			silent++
		case status.Code(otherErr) != codes.NotFound:
			return nil, otherErr
		}
	}
	if silent > 0 {
		return nil, mayBeKnown(silent)
	}
	return nil, err
}

// mayBeKnown is the answer where some replicas, which may know something, did not answer.
func mayBeKnown(silent int) error {
	return withRetryInfo(status.Newf(codes.Unavailable, "it is not known to those replicas that answered, and may be to %d that did not: ask again", silent), time.Second).Err()
}

func (r *relay) tellMissing(ctx context.Context, missing []string) {
	if len(missing) > 0 {
		grpc.SetHeader(ctx, metadata.Pairs(missingHeader, strings.Join(missing, ",")))
	}
}

// tellTime is how long another replica may take to do what all do: a stop waits for what it
// ends.
const tellTime = 15 * time.Second

// tellAll has all replicas do something.
func (r *relay) tellAll(ctx context.Context, method string, request any, next grpc.UnaryHandler) (any, error) {
	response, err := next(ctx, request)
	if err != nil || isRelayed(ctx) {
		return response, err
	}
	var mu sync.Mutex
	var missing []string
	var telling sync.WaitGroup
	for _, other := range r.Others() {
		telling.Go(func() {
			short, cancel := context.WithTimeout(ctx, tellTime)
			defer cancel()
			var part any = new(passed)
			if _, stops := response.(*pb.StopPrincipalResponse); stops {
				part = new(pb.StopPrincipalResponse)
			}
			_, err := r.ask(short, &other, method, request, part)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missing = append(missing, nameOf(&other))
				return
			}
			if all, stops := response.(*pb.StopPrincipalResponse); stops {
				addStopped(all, part.(*pb.StopPrincipalResponse))
			}
		})
	}
	telling.Wait()
	r.tellMissing(ctx, missing)
	return response, nil
}

// addStopped adds what another replica ended.
func addStopped(all, part *pb.StopPrincipalResponse) {
	all.CancelledExecutions += part.GetCancelledExecutions()
	all.EndedCalls += part.GetEndedCalls()
	all.EndedProcesses += part.GetEndedProcesses()
	all.Unknown = all.Unknown && part.GetUnknown()
}
