// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Replication is this server among others that have the same state.
type Replication struct {
	*replica.Replica
	Credential *replica.Credential
	Listener   net.Listener // for the others
}

// relay passes calls on to the replica that has what they are about: as a whole, so that the
// chain of that one judges them. Who calls is known here already, and is passed on as data,
// which the listener for replicas alone takes.
type relay struct {
	*Replication
	server *Server
	flight singleflight.Group // sessions that are taken over

	mu    sync.Mutex
	conns map[uint64]*grpc.ClientConn
}

const (
	// callerHeader has a relayedCaller. It counts from other replicas alone.
	callerHeader = "toolserver-relayed-caller-bin"

	// answeredTrailer names the replica that answered. An error without it is none of the
	// other replica's chain: it could not be reached, or broke off.
	answeredTrailer = "toolserver-replica"

	// elsewhereTrailer says that the replica which was asked does not have the session, and
	// did nothing.
	elsewhereTrailer = "toolserver-elsewhere"

	// missingHeader names replicas of which the answer has nothing, for they did not answer.
	missingHeader = "toolserver-missing-replicas"

	// relayAttempts bounds how often a call follows a session that moves.
	relayAttempts = 3

	// joinTime is how long those who are asked for a part of an answer may take.
	joinTime = 2 * time.Second
)

// relayedCaller is who calls, as one replica tells another.
type relayedCaller struct {
	Name       string `json:"name"`
	Tenant     string `json:"tenant,omitempty"`
	Roles      int    `json:"roles,omitempty"`
	AllTenants int    `json:"all_tenants,omitempty"`
	MaxMode    int    `json:"max_mode,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
	Remote     string `json:"remote,omitempty"`
}

// relayed returns who makes the call of a context.
func relayed(ctx context.Context) relayedCaller {
	p := principalOf(ctx)
	return relayedCaller{p.Name, p.Tenant, int(p.Roles), int(p.AllTenants), int(p.MaxMode), p.OnBehalfOf, peerOf(ctx)}
}

// principal is whom the other replica has authenticated. For whom it may act was asked
// there.
func (c *relayedCaller) principal() auth.Principal {
	return auth.Principal{
		Name: c.Name, Tenant: c.Tenant, Roles: auth.Roles(c.Roles), AllTenants: auth.Roles(c.AllTenants), MaxMode: tools.Mode(c.MaxMode), OnBehalfOf: c.OnBehalfOf,
	}
}

// relayedAddr is where a caller comes from whose call another replica passes on.
type relayedAddr struct {
	principal auth.Principal
	remote    string
}

func (*relayedAddr) Network() string  { return "relayed" }
func (a *relayedAddr) String() string { return a.remote }

// isRelayed reports whether another replica passes a call on.
func isRelayed(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if ok {
		_, ok = p.Addr.(*relayedAddr)
	}
	return ok
}

// passed is a message on its way through, as it came: with fields that this version may
// not know.
type passed struct{ data mem.BufferSlice }

// head returns the first bytes of a message.
func (p *passed) head(buffer []byte) []byte {
	n := 0
	for _, b := range p.data {
		n += copy(buffer[n:], b.ReadOnlyData())
		if n == len(buffer) {
			break
		}
	}
	return buffer[:n]
}

// fromReplicas is the outermost link for calls that other replicas pass on.
func (r *relay) fromReplicas() link {
	enter := func(ctx context.Context) (context.Context, error) {
		p, _ := peer.FromContext(ctx)
		info, ok := p.AuthInfo.(credentials.TLSInfo)
		if !ok {
			return nil, status.Error(codes.Unauthenticated, "only replicas may call here")
		}
		run, err := replica.RunOf(info.State)
		if err != nil {
			return nil, status.Error(codes.Unauthenticated, "only replicas may call here")
		}
		if r.Over(run) {
			return nil, withRetryInfo(status.New(codes.Unavailable, "the replica that was asked was declared dead by the others: ask another"), time.Second).Err()
		}
		values := metadata.ValueFromIncomingContext(ctx, callerHeader)
		var caller relayedCaller
		if len(values) != 1 || json.Unmarshal([]byte(values[0]), &caller) != nil || caller.Name == "" {
			return nil, status.Error(codes.Unauthenticated, "the call does not tell who makes it")
		}
		return peer.NewContext(ctx, &peer.Peer{Addr: &relayedAddr{caller.principal(), caller.Remote}, LocalAddr: p.LocalAddr}), nil
	}
	answered := metadata.Pairs(answeredTrailer, strconv.FormatUint(r.Run(), 10))
	return link{
		unary: func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			ctx, err := enter(ctx)
			if err != nil {
				return nil, err
			}
			grpc.SetTrailer(ctx, answered) // it fails for no call of a server
			return next(ctx, request)
		},
		stream: func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			ctx, err := enter(stream.Context())
			if err != nil {
				return err
			}
			stream.SetTrailer(answered)
			return next(server, &streamFrom{stream, ctx})
		},
	}
}

// link passes calls on that are for other replicas.
func (r *relay) link() link {
	return link{
		unary: func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			switch placements[info.FullMethod] {
			case anyReplica:
				return next(ctx, request)
			case whoHasIt:
				return r.search(ctx, info.FullMethod, request, next)
			case ofAll:
				return r.join(ctx, info.FullMethod, request, next)
			case toAll:
				return r.tellAll(ctx, info.FullMethod, request, next)
			}
			return r.unary(ctx, info.FullMethod, request, next)
		},
		stream: func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			switch placed := placements[info.FullMethod]; {
			case placed == anyReplica || isRelayed(stream.Context()) && placed != atSession && placed != atExecution:
				return next(server, stream)
			case placed == ofAll:
				return r.watchAll(server, stream, info.FullMethod, next)
			}
			return r.stream(server, stream, info, next)
		},
	}
}

func (r *relay) unary(ctx context.Context, method string, request any, next grpc.UnaryHandler) (any, error) {
	for attempt := 1; ; attempt++ {
		to, err := r.route(ctx, method, request, attempt > 1)
		if closes, is := request.(*pb.CloseSessionRequest); is && errors.Is(err, session.ErrElsewhere) {
			return r.discard(ctx, closes)
		}
		if err != nil {
			return nil, err
		}
		if to == nil {
			return next(ctx, request)
		}
		response := new(passed)
		trailer, err := r.ask(ctx, to, method, request, response)
		if len(trailer.Get(elsewhereTrailer)) > 0 && attempt < relayAttempts {
			continue
		}
		if err != nil {
			return nil, r.broken(to, trailer, err)
		}
		return response, nil
	}
}

// broken returns the error of a call that was passed on: that of the other replica, or that
// it did not answer.
func (r *relay) broken(to *replica.Member, trailer metadata.MD, err error) error {
	if len(trailer.Get(answeredTrailer)) > 0 || status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		return err
	}
	return withRetryInfo(status.Newf(codes.Unavailable, "the replica that has it, %d at %s, broke off: what it was asked may have been done. Ask again", to.Run, to.Address), time.Second).Err()
}

// ask makes a call at another replica.
func (r *relay) ask(ctx context.Context, to *replica.Member, method string, request, response any) (trailer metadata.MD, err error) {
	ctx, leave, conn, err := r.enter(ctx, to)
	if err != nil {
		return nil, err
	}
	defer leave()
	var header metadata.MD
	err = conn.Invoke(ctx, method, request, response, grpc.Header(&header), grpc.Trailer(&trailer))
	grpc.SetHeader(ctx, passable(header)) // it fails for callers inside the process alone, who ask for none
	grpc.SetTrailer(ctx, passable(trailer))
	return trailer, err
}

// passable returns metadata that a caller may see.
func passable(md metadata.MD) metadata.MD {
	kept := make(metadata.MD)
	for key, values := range md {
		if key != "content-type" && key != elsewhereTrailer && !strings.HasPrefix(key, "grpc-") {
			kept[key] = values
		}
	}
	return kept
}

// enter returns the context of a call at another replica, which ends with that, what ends it,
// and a connection.
func (r *relay) enter(ctx context.Context, to *replica.Member) (context.Context, func(), *grpc.ClientConn, error) {
	_, life, ok := r.Find(to.Run)
	if !ok {
		return nil, nil, nil, replica.ErrLives
	}
	conn, err := r.connect(to, life)
	if err != nil {
		return nil, nil, nil, err
	}
	text, err := json.Marshal(relayed(ctx))
	if err != nil {
		return nil, nil, nil, err
	}
	md := metadata.Pairs(callerHeader, string(text))
	incoming, _ := metadata.FromIncomingContext(ctx)
	for key, values := range incoming {
		switch {
		case strings.HasPrefix(key, ":"), strings.HasPrefix(key, "grpc-"), strings.HasPrefix(key, "toolserver-"):
		case key == "authorization", key == "content-type", key == "user-agent", key == "te", key == "cookie":
		default:
			md[key] = values
		}
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, md))
	stopLife, stopClosing := context.AfterFunc(life, cancel), context.AfterFunc(r.server.closing, cancel)
	return ctx, func() {
		stopLife()
		stopClosing()
		cancel()
	}, conn, nil
}

// connect returns the connection to a member, which ends with it.
func (r *relay) connect(to *replica.Member, life context.Context) (*grpc.ClientConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn := r.conns[to.Run]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+to.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(r.Credential.Client(*to))),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec()), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithInitialWindowSize(windows), grpc.WithInitialConnWindowSize(windows), grpc.WithWriteBufferSize(writeBuffer), grpc.WithReadBufferSize(writeBuffer),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry())
	if err != nil {
		return nil, err
	}
	r.conns[to.Run] = conn
	context.AfterFunc(life, func() {
		r.mu.Lock()
		delete(r.conns, to.Run)
		r.mu.Unlock()
		conn.Close()
	})
	return conn, nil
}

// route returns the replica that a call is for; nil where that is this one. fresh says that
// what is known of it here was wrong.
func (r *relay) route(ctx context.Context, method string, request any, fresh bool) (*replica.Member, error) {
	if named, ok := request.(interface{ GetExecutionId() string }); ok && placements[method] == atExecution && named.GetExecutionId() != "" {
		return r.routeExecution(ctx, named.GetExecutionId())
	}
	owner, id, ok := sessionNamed(ctx, request)
	if !ok {
		return nil, nil
	}
	return r.routeSession(ctx, owner, id, fresh)
}

// discard closes a session whose files are at no replica. Its owner may begin it anew, also
// the default one.
func (r *relay) discard(ctx context.Context, request *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	owner, err := oneOwner(ctx, request, mayStop)
	if err != nil {
		return nil, err
	}
	if err := r.server.config.Sessions.Discard(ctx, owner, cmp.Or(request.GetSessionId(), session.DefaultID)); err != nil {
		return nil, err
	}
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
		grpc.SetTrailer(ctx, metadata.Pairs(elsewhereTrailer, "1"))
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
	var missing []string
	for _, other := range r.Others() {
		found := new(passed)
		trailer, otherErr := r.ask(ctx, &other, method, request, found)
		switch {
		case otherErr == nil:
			return found, nil
		case len(trailer.Get(answeredTrailer)) == 0:
			missing = append(missing, other.Address)
		case status.Code(otherErr) != codes.NotFound:
			return nil, otherErr
		}
	}
	if len(missing) > 0 {
		return nil, notAsked(missing)
	}
	return nil, err
}

// notAsked is the answer where replicas that may know something did not answer.
func notAsked(missing []string) error {
	return withRetryInfo(status.Newf(codes.Unavailable, "it is not known to those replicas that answered, and may be to %s, which did not: ask again", strings.Join(missing, ", ")), time.Second).Err()
}

func (r *relay) tellMissing(ctx context.Context, missing []string) {
	if len(missing) > 0 {
		grpc.SetHeader(ctx, metadata.Pairs(missingHeader, strings.Join(missing, ",")))
	}
}

// tellAll has all replicas do something.
func (r *relay) tellAll(ctx context.Context, method string, request any, next grpc.UnaryHandler) (any, error) {
	response, err := next(ctx, request)
	if err != nil || isRelayed(ctx) {
		return response, err
	}
	var missing []string
	for _, other := range r.Others() {
		short, cancel := context.WithTimeout(ctx, joinTime)
		if _, err := r.ask(short, &other, method, request, new(passed)); err != nil {
			missing = append(missing, other.Address)
		}
		cancel()
	}
	r.tellMissing(ctx, missing)
	return response, nil
}

// errElsewhere ends a handler whose call is passed on.
var errElsewhere = errors.New("the call is for another replica")

// firstMessage is a stream whose first message decides where the call goes.
type firstMessage struct {
	grpc.ServerStream
	decide func(message any) error

	mu     sync.Mutex
	first  any
	passes bool // the call is passed on
}

func (s *firstMessage) RecvMsg(message any) error {
	s.mu.Lock()
	first, passes := s.first == nil, s.passes
	s.mu.Unlock()
	if passes {
		return errElsewhere
	}
	if err := s.ServerStream.RecvMsg(message); err != nil || !first {
		return err
	}
	err := s.decide(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.passes = message, errors.Is(err, errElsewhere)
	return err
}

// isPassed returns the first message where the call is passed on.
func (s *firstMessage) isPassed() (message any, passes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, s.passes
}

func (r *relay) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx := stream.Context()
	var to *replica.Member
	first := &firstMessage{ServerStream: stream, decide: func(message any) (err error) {
		if placements[info.FullMethod] == whoHasIt {
			return nil
		}
		if to, err = r.route(ctx, info.FullMethod, message, false); err == nil && to != nil {
			err = errElsewhere
		}
		return err
	}}
	err := next(server, first)
	message, passes := first.isPassed()
	if placements[info.FullMethod] == whoHasIt && status.Code(toStatus(err)) == codes.NotFound {
		return r.searchStream(stream, info, message, err)
	}
	if !passes {
		return err
	}
	for attempt := 1; ; attempt++ {
		p := &passing{relay: r, stream: stream, info: info, to: to}
		if watch, ok := message.(*pb.WatchExecutionRequest); ok {
			p.at = eventPlace{watch.GetExecutionId(), watch.GetAfterSequence()}
		}
		err := p.run(ctx, message)
		if !p.elsewhere || attempt == relayAttempts {
			return err
		}
		if info.IsClientStream { // what the caller sent after the first message is gone, and is still being read
			return withRetryInfo(status.New(codes.Unavailable, "the session has just moved to another replica, and nothing was done: call again"), time.Second).Err()
		}
		if to, err = r.route(ctx, info.FullMethod, message, true); err != nil {
			return err
		}
		if to == nil { // it is here by now
			return next(server, &replayed{ServerStream: stream, first: message})
		}
	}
}

// searchStream is search for a stream of which nothing was sent yet.
func (r *relay) searchStream(stream grpc.ServerStream, info *grpc.StreamServerInfo, message any, notFound error) error {
	var missing []string
	for _, other := range r.Others() {
		p := &passing{relay: r, stream: stream, info: info, to: &other}
		err := p.run(stream.Context(), message)
		switch {
		case p.sent || p.answered && status.Code(err) != codes.NotFound || stream.Context().Err() != nil:
			return err
		case !p.answered:
			missing = append(missing, other.Address)
		}
	}
	if len(missing) > 0 {
		return notAsked(missing)
	}
	return notFound
}

// passing is a stream that is passed on.
type passing struct {
	*relay
	stream    grpc.ServerStream
	info      *grpc.StreamServerInfo
	to        *replica.Member
	sent      bool // something, to the caller
	elsewhere bool // the other replica does not have the session
	answered  bool // the end is that of the other replica
	at        eventPlace
}

// run passes the stream on, with its first message. Where the other replica ends in the
// middle of an execution, the caller is told how that ended.
func (p *passing) run(ctx context.Context, first any) error {
	trailer, err := p.pump(ctx, p.info.FullMethod, first)
	if p.elsewhere = len(trailer.Get(elsewhereTrailer)) > 0; p.elsewhere {
		return err
	}
	for {
		if err == nil || len(trailer.Get(answeredTrailer)) > 0 || ctx.Err() != nil || p.server.closing.Err() != nil || !p.follows() {
			break
		}
		if p.Over(p.to.Run) {
			return p.rest(ctx)
		}
		select {
		case <-p.Changed():
		case <-time.After(p.Lease() / 50):
		case <-ctx.Done():
		}
		trailer, err = p.pump(ctx, pb.ToolService_WatchExecution_FullMethodName, &pb.WatchExecutionRequest{ExecutionId: p.at.execution, AfterSequence: p.at.sequence})
	}
	p.answered = err == nil || len(trailer.Get(answeredTrailer)) > 0
	p.stream.SetTrailer(passable(trailer))
	switch {
	case err == nil:
		return nil
	case p.server.closing.Err() != nil:
		return executor.ErrDraining
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return p.broken(p.to, trailer, err)
}

// follows reports whether the stream is one of an execution that is known by now.
func (p *passing) follows() bool {
	method := p.info.FullMethod
	return p.at.execution != "" && (method == pb.ToolService_ExecuteTool_FullMethodName || method == pb.ToolService_WatchExecution_FullMethodName)
}

// rest sends what is known of an execution whose replica has ended.
func (p *passing) rest(ctx context.Context) error {
	service := &toolService{server: p.server, executor: p.server.executor, sessions: p.server.config.Sessions}
	x, err := service.findFor(ctx, &pb.WatchExecutionRequest{ExecutionId: p.at.execution}, mayLook)
	if err != nil {
		return err
	}
	return follow(p.stream, x, p.at.sequence)
}

// pump passes messages on in both directions until the other replica has ended the stream.
func (p *passing) pump(ctx context.Context, method string, first any) (metadata.MD, error) {
	ctx, leave, conn, err := p.enter(ctx, p.to)
	if err != nil {
		return nil, err
	}
	defer leave()
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err := out.SendMsg(first); err != nil && !errors.Is(err, io.EOF) {
		return out.Trailer(), err
	}
	if p.info.IsClientStream && method == p.info.FullMethod {
		go p.upstream(out) // until the RPC has ended, at the latest
	} else if err := out.CloseSend(); err != nil {
		return out.Trailer(), err
	}
	for {
		message := new(passed)
		if err := out.RecvMsg(message); errors.Is(err, io.EOF) {
			return out.Trailer(), nil
		} else if err != nil {
			return out.Trailer(), err
		}
		if !p.sent {
			if header, err := out.Header(); err == nil {
				p.stream.SetHeader(passable(header))
			}
		}
		p.at.note(message)
		p.sent = true
		if err := p.stream.SendMsg(message); err != nil {
			return metadata.Pairs(answeredTrailer, ""), err
		}
	}
}

// upstream passes on what the caller sends.
func (p *passing) upstream(out grpc.ClientStream) {
	for {
		message := new(passed)
		if err := p.stream.RecvMsg(message); err != nil {
			out.CloseSend()
			return
		}
		if out.SendMsg(message) != nil {
			return
		}
	}
}

// replayed is a stream whose first message was received already.
type replayed struct {
	grpc.ServerStream
	first any
}

func (s *replayed) RecvMsg(message any) error {
	if s.first == nil {
		return s.ServerStream.RecvMsg(message)
	}
	first := s.first
	s.first = nil
	data, err := newCodec().Marshal(first)
	if err != nil {
		return err
	}
	defer data.Free()
	return newCodec().Unmarshal(data, message)
}

// newServer returns the server for calls that other replicas pass on.
func (r *relay) newServer(links []link) *grpc.Server {
	wire := r.server.config.Wire
	wire.MaxStreams, wire.MaxConnectionAge = math.MaxInt32, math.MaxInt64 // one connection has the calls of many callers, who have limits of their own
	wire.MinPingInterval = time.Second
	options := append(chain(append([]link{r.fromReplicas()}, links...)...), wire.options(newCodec())...)
	options = append(options, grpc.Creds(credentials.NewTLS(r.Credential.Server(r.ByRun))), grpc.MaxHeaderListSize(64<<10))
	return grpc.NewServer(options...)
}

// eventPlace is the last event of an execution that was passed on.
type eventPlace struct {
	execution string
	sequence  uint64
}

// note reads the place of an event from the beginning of its message: what is not one
// changes nothing.
func (e *eventPlace) note(message *passed) {
	var buffer [128]byte
	head := message.head(buffer[:])
	number, kind, n := protowire.ConsumeTag(head)
	if number != 1 || kind != protowire.BytesType || n < 0 {
		return
	}
	head = head[n:]
	if _, n = protowire.ConsumeVarint(head); n < 0 {
		return
	}
	head = head[n:]
	if number, kind, n = protowire.ConsumeTag(head); number != 1 || kind != protowire.BytesType || n < 0 {
		return
	}
	id, m := protowire.ConsumeString(head[n:])
	if m < 0 {
		return
	}
	head = head[n+m:]
	if number, kind, n = protowire.ConsumeTag(head); number != 2 || kind != protowire.VarintType || n < 0 {
		return // a heartbeat has none
	}
	if sequence, m := protowire.ConsumeVarint(head[n:]); m > 0 {
		e.execution, e.sequence = id, sequence
	}
}
