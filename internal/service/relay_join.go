// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/replica"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// join answers a list with what all replicas have. Those that do not answer in time are
// named in a header.
func (r *relay) join(ctx context.Context, method string, request any, next grpc.UnaryHandler) (any, error) {
	if isRelayed(ctx) {
		return next(ctx, request)
	}
	switch request := request.(type) {
	case *pb.ListApprovalsRequest:
		parts, err := gather[*pb.ListApprovalsResponse](ctx, r, method, func(uint64) proto.Message { return request }, next)
		all := new(pb.ListApprovalsResponse)
		for _, part := range parts {
			all.Approvals = append(all.Approvals, part.GetApprovals()...)
		}
		slices.SortStableFunc(all.Approvals, func(a, b *pb.Approval) int { return a.GetCreateTime().AsTime().Compare(b.GetCreateTime().AsTime()) })
		return all, err
	case *pb.ListGrantsRequest:
		parts, err := gather[*pb.ListGrantsResponse](ctx, r, method, func(uint64) proto.Message { return request }, next)
		all := new(pb.ListGrantsResponse)
		for _, part := range parts {
			all.Grants = append(all.Grants, part.GetGrants()...)
		}
		slices.SortStableFunc(all.Grants, func(a, b *pb.Grant) int { return a.GetCreateTime().AsTime().Compare(b.GetCreateTime().AsTime()) })
		return all, err
	case *pb.ListSessionsRequest:
		return r.joinSessions(ctx, method, request, next)
	case *pb.ListExecutionsRequest:
		return r.joinExecutions(ctx, method, request, next)
	}
	return next(ctx, request)
}

func (r *relay) joinSessions(ctx context.Context, method string, request *pb.ListSessionsRequest, next grpc.UnaryHandler) (*pb.ListSessionsResponse, error) {
	owner, err := ownerOf(ctx, request, mayView)
	if err != nil {
		return nil, err
	}
	parts, tokens, size, err := gatherPages[*pb.ListSessionsResponse](ctx, r, method, request, func(q *pb.ListSessionsRequest, token string) { q.PageToken = token }, next)
	if err != nil {
		return nil, err
	}
	lists, here := make(map[uint64]list[*pb.Session]), make(map[string]bool)
	tokenOf := func(s *pb.Session) string { return sessionToken(owner, s) }
	for run, part := range parts {
		lists[run] = list[*pb.Session]{part.GetSessions(), part.GetNextPageToken()}
		for _, s := range part.GetSessions() {
			here[tokenOf(s)] = s.GetEndTime() == nil
		}
	}
	if token, wanted := tokens.of(overRuns); wanted {
		over := r.strandedSessions(ctx, owner, token, size, tokenOf)
		over.items = slices.DeleteFunc(over.items, func(s *pb.Session) bool { return here[tokenOf(s)] }) // it was just taken over
		lists[overRuns] = over
	}
	all := new(pb.ListSessionsResponse)
	all.Sessions, all.NextPageToken = merge(lists, tokens, size, func(a, b *pb.Session) int {
		return cmp.Or(cmp.Compare(boolInt(a.GetEndTime() != nil), boolInt(b.GetEndTime() != nil)), a.GetCreateTime().AsTime().Compare(b.GetCreateTime().AsTime()), cmp.Compare(a.GetSessionId(), b.GetSessionId()))
	}, tokenOf)
	return all, nil
}

// strandedSessions returns a page of the sessions that no replica has.
func (r *relay) strandedSessions(ctx context.Context, owner auth.Owner, after string, size int, tokenOf func(*pb.Session) string) (page list[*pb.Session]) {
	stranded, err := r.server.config.Sessions.Stranded(ctx, owner, r.Unowned())
	if err != nil { // the state is away: what lives is listed all the same
		r.tellMissing(ctx, []string{"ended"})
	}
	for _, one := range stranded {
		s := strandedToProto(one)
		switch {
		case after != "":
			if tokenOf(s) == after {
				after = ""
			}
		case len(page.items) == size:
			page.next = tokenOf(page.items[size-1])
			return page
		default:
			page.items = append(page.items, s)
		}
	}
	return page
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sessionToken is where the page after a session begins: the id of the session, and its
// owner where there are several.
func sessionToken(owner auth.Owner, last *pb.Session) string {
	if owner.Name() == auth.Everybody {
		return last.GetSessionId() + " " + last.GetTenant() + "/" + last.GetPrincipal()
	}
	return last.GetSessionId()
}

func (r *relay) joinExecutions(ctx context.Context, method string, request *pb.ListExecutionsRequest, next grpc.UnaryHandler) (*pb.ListExecutionsResponse, error) {
	parts, tokens, size, err := gatherPages[*pb.ListExecutionsResponse](ctx, r, method, request, func(q *pb.ListExecutionsRequest, token string) { q.PageToken = token }, next)
	if err != nil {
		return nil, err
	}
	lists := make(map[uint64]list[*pb.Execution])
	for run, part := range parts {
		lists[run] = list[*pb.Execution]{part.GetExecutions(), part.GetNextPageToken()}
	}
	if token, wanted := tokens.of(overRuns); wanted {
		asked := proto.CloneOf(request)
		asked.PageToken = token
		over, err := listExecutions(ctx, asked, r.server.executor.ListOver)
		if err != nil { // the state is away: what lives is listed all the same
			r.tellMissing(ctx, []string{"ended"})
		}
		lists[overRuns] = list[*pb.Execution]{over.GetExecutions(), over.GetNextPageToken()}
	}
	all := new(pb.ListExecutionsResponse)
	all.Executions, all.NextPageToken = merge(lists, tokens, size, func(a, b *pb.Execution) int {
		return b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime())
	}, (*pb.Execution).GetExecutionId)
	return all, nil
}

// overRuns stands in tokens of pages for the replicas that have ended.
const overRuns = math.MaxUint64

// gather asks all replicas at the same time, this one by next. ask returns nil for one that
// has nothing more. An error is this one's own; another that fails or refuses is told as missing.
func gather[R proto.Message](ctx context.Context, r *relay, method string, ask func(run uint64) proto.Message, next grpc.UnaryHandler) (map[uint64]R, error) {
	var mu sync.Mutex
	var missing []string
	parts := make(map[uint64]R)
	var asking sync.WaitGroup
	for _, other := range r.Others() {
		request := ask(other.Run)
		if request == nil {
			continue
		}
		asking.Go(func() {
			short, cancel := context.WithTimeout(ctx, joinTime)
			defer cancel()
			var none R
			part := none.ProtoReflect().New().Interface().(R)
			_, err := r.ask(short, &other, method, request, part)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missing = append(missing, nameOf(&other))
				return
			}
			parts[other.Run] = part
		})
	}
	var own any
	var err error
	if request := ask(r.Run()); request != nil {
		own, err = next(ctx, request)
	}
	asking.Wait()
	if err != nil {
		return nil, err
	}
	if part, ok := own.(R); ok {
		parts[r.Run()] = part
	}
	r.tellMissing(ctx, missing)
	return parts, nil
}

// A pagedRequest is for a page of a list.
type pagedRequest interface {
	proto.Message
	GetPageToken() string
	GetPageSize() int32
}

// gatherPages has gather ask each replica for what follows its token, which set puts into a copy of
// the request, and returns also the tokens and how many items are wanted.
func gatherPages[R proto.Message, Q pagedRequest](ctx context.Context, r *relay, method string, request Q, set func(Q, string), next grpc.UnaryHandler) (parts map[uint64]R, tokens pageTokens, size int, err error) {
	if tokens, err = readTokens(request.GetPageToken()); err != nil {
		return nil, nil, 0, err
	}
	if size, err = pageSize(request.GetPageSize()); err != nil {
		return nil, nil, 0, err
	}
	parts, err = gather[R](ctx, r, method, func(run uint64) proto.Message {
		token, wanted := tokens.of(run)
		if !wanted {
			return nil
		}
		asked := proto.CloneOf(request)
		set(asked, token)
		return asked
	}, next)
	return parts, tokens, size, err
}

// A list is the page of one replica.
type list[T any] struct {
	items []T
	next  string // token of its next page
}

// pageTokens are where the next page continues, by replica; nil for the first page of all.
type pageTokens map[uint64]string

func readTokens(text string) (pageTokens, error) {
	if text == "" {
		return nil, nil
	}
	var tokens pageTokens
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &tokens)
	}
	if err != nil || tokens == nil {
		return nil, invalid("page_token is not one that this server gave")
	}
	return tokens, nil
}

func (t pageTokens) of(run uint64) (token string, wanted bool) {
	if t == nil {
		return "", true
	}
	token, wanted = t[run]
	return token, wanted
}

// merge returns the first items of several lists that are in order, and the token of the
// page after them.
func merge[T any](lists map[uint64]list[T], tokens pageTokens, size int, compare func(a, b T) int, tokenOf func(T) string) ([]T, string) {
	var page []T
	at := make(map[uint64]int)
	for len(page) < size {
		var best uint64
		for run, l := range lists {
			if at[run] < len(l.items) && (best == 0 || compare(l.items[at[run]], lists[best].items[at[best]]) < 0) {
				best = run
			}
		}
		if best == 0 {
			break
		}
		page = append(page, lists[best].items[at[best]])
		at[best]++
		if at[best] == len(lists[best].items) && lists[best].next != "" {
			break // what comes next there is not known
		}
	}
	next := make(pageTokens)
	for run, l := range lists {
		switch n := at[run]; {
		case n == len(l.items) && l.next == "":
		case n == len(l.items):
			next[run] = l.next
		case n == 0:
			next[run], _ = tokens.of(run)
		default:
			next[run] = tokenOf(l.items[n-1])
		}
	}
	if len(next) == 0 {
		return page, ""
	}
	text, err := json.Marshal(next)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return page, base64.RawURLEncoding.EncodeToString(text)
}

// approvalsOf are what one replica tells of its approvals; nil at its end.
type approvalsOf struct {
	run    uint64
	change *pb.WatchApprovalsResponse
}

// watchAll watches the approvals of all replicas. What comes first is all that waits
// anywhere; of a replica that ends, what waited there is told to have ended.
func (r *relay) watchAll(server any, stream grpc.ServerStream, method string, next grpc.StreamHandler) error {
	request := new(pb.WatchApprovalsRequest)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	changes := make(chan approvalsOf)
	tell := func(run uint64, change *pb.WatchApprovalsResponse) error {
		select {
		case changes <- approvalsOf{run, change}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ended := make(chan error, 1)
	watching.Go(func() {
		own := &tellingStream{replayed{&middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx}, request}, func(change *pb.WatchApprovalsResponse) error { return tell(r.Run(), change) }}
		ended <- next(server, own)
	})
	j := &joined{pending: make(map[uint64]map[string]*pb.Approval), send: stream.SendMsg, waits: map[uint64]bool{r.Run(): true}}
	followed := make(map[uint64]bool)
	late := time.After(joinTime)
	for {
		changed := r.Changed()
		for _, other := range r.Others() {
			if followed[other.Run] {
				continue
			}
			followed[other.Run] = true
			if !j.begun {
				j.waits[other.Run] = true
			}
			watching.Go(func() { r.watchOther(ctx, other, method, request, tell) })
		}
		select {
		case <-changed:
		case <-late: // who has not answered by now is told of later
			if err := j.begin(); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case change := <-changes:
			if change.change == nil {
				delete(followed, change.run)
			}
			if err := j.take(change); err != nil {
				return err
			}
		}
	}
}

// watchOther tells of the approvals of another replica until that ends.
func (r *relay) watchOther(ctx context.Context, other replica.Member, method string, request proto.Message, tell func(uint64, *pb.WatchApprovalsResponse) error) {
	defer tell(other.Run, nil)
	for ctx.Err() == nil {
		r.watchOnce(ctx, &other, method, request, func(change *pb.WatchApprovalsResponse) error { return tell(other.Run, change) })
		select {
		case <-ctx.Done():
		case <-r.Changed():
		case <-time.After(r.Lease() / 20):
		}
		if _, _, lives := r.Find(other.Run); !lives {
			return
		}
	}
}

func (r *relay) watchOnce(ctx context.Context, other *replica.Member, method string, request proto.Message, tell func(*pb.WatchApprovalsResponse) error) {
	ctx, leave, conn, err := r.enter(ctx, other)
	if err != nil {
		return
	}
	defer leave()
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil || out.SendMsg(request) != nil || out.CloseSend() != nil {
		return
	}
	for {
		change := new(pb.WatchApprovalsResponse)
		if out.RecvMsg(change) != nil || tell(change) != nil {
			return
		}
	}
}

// joined is what a caller was told of the approvals of all replicas.
type joined struct {
	pending map[uint64]map[string]*pb.Approval
	waits   map[uint64]bool // replicas whose first snapshot is waited for
	begun   bool            // the caller has a snapshot
	send    func(any) error
}

// take takes note of a change, and tells the caller.
func (j *joined) take(c approvalsOf) error {
	if j.pending[c.run] == nil {
		j.pending[c.run] = make(map[string]*pb.Approval)
	}
	before, now := j.pending[c.run], make(map[string]*pb.Approval)
	switch change := c.change.GetChange().(type) {
	case *pb.WatchApprovalsResponse_Snapshot:
		for _, a := range change.Snapshot.GetApprovals() {
			now[a.GetApprovalId()] = a
		}
	case *pb.WatchApprovalsResponse_Asked:
		before[change.Asked.GetApprovalId()] = change.Asked
		return j.pass(c.change)
	case *pb.WatchApprovalsResponse_Ended:
		delete(before, change.Ended.GetApprovalId())
		return j.pass(c.change)
	}
	j.pending[c.run] = now
	if !j.begun {
		if delete(j.waits, c.run); len(j.waits) > 0 {
			return nil
		}
		return j.begin()
	}
	for id := range before {
		if now[id] == nil {
			end := &pb.ApprovalEnd{ApprovalId: id, Answer: &pb.ApprovalAnswer{Kind: pb.AnswerKind_ANSWER_KIND_WITHDRAWN, By: auth.Server, Comment: "the replica that asked has ended"}}
			if err := j.send(&pb.WatchApprovalsResponse{Change: &pb.WatchApprovalsResponse_Ended{Ended: end}}); err != nil {
				return err
			}
		}
	}
	for id, a := range now {
		if before[id] == nil {
			if err := j.send(&pb.WatchApprovalsResponse{Change: &pb.WatchApprovalsResponse_Asked{Asked: a}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass tells the caller of a change, once there was a snapshot.
func (j *joined) pass(change *pb.WatchApprovalsResponse) error {
	if !j.begun {
		return nil
	}
	return j.send(change)
}

// begin sends the snapshot, once.
func (j *joined) begin() error {
	if j.begun {
		return nil
	}
	j.begun = true
	all := new(pb.PendingApprovals)
	for _, of := range j.pending {
		all.Approvals = slices.AppendSeq(all.Approvals, maps.Values(of))
	}
	slices.SortFunc(all.Approvals, func(a, b *pb.Approval) int { return a.GetCreateTime().AsTime().Compare(b.GetCreateTime().AsTime()) })
	return j.send(&pb.WatchApprovalsResponse{Change: &pb.WatchApprovalsResponse_Snapshot{Snapshot: all}})
}

// tellingStream is a stream whose messages are told to somebody.
type tellingStream struct {
	replayed
	tell func(*pb.WatchApprovalsResponse) error
}

func (s *tellingStream) SendMsg(message any) error {
	return s.tell(message.(*pb.WatchApprovalsResponse))
}
