// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
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

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/tools"
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

	// missingHeader names replicas of which the answer has nothing, for they did not answer: by
	// their numbers, for where they are is nothing that callers need to know. "ended" stands for
	// those that have ended, where their records could not be read.
	missingHeader = "toolserver-missing-replicas"

	// relayAttempts bounds how often a call follows a session that moves.
	relayAttempts = 3

	// joinTime is how long those who are asked for a part of an answer may take.
	joinTime = 2 * time.Second
)

// elsewhere is the trailer of a call that did nothing, for another replica has its session.
var elsewhere = metadata.Pairs(elsewhereTrailer, "1")

// relayedCaller is who calls, as one replica tells another. It is also the address that the
// call comes from there.
type relayedCaller struct {
	Name       string `json:"name"`
	Tenant     string `json:"tenant,omitempty"`
	Roles      int    `json:"roles,omitempty"`
	AllTenants int    `json:"all_tenants,omitempty"`
	MaxMode    int    `json:"max_mode,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
	Remote     string `json:"remote,omitempty"`

	// At is when the call came, by the clock of the replica that was called. A version before
	// this one does not say.
	At time.Time `json:"at,omitzero"`
}

// relayed returns who makes the call of a context.
func relayed(ctx context.Context) relayedCaller {
	p := principalOf(ctx)
	return relayedCaller{p.Name, p.Tenant, int(p.Roles), int(p.AllTenants), int(p.MaxMode), p.OnBehalfOf, peerOf(ctx), rpcOf(ctx).began}
}

// principal is whom the other replica has authenticated. For whom it may act was asked
// there.
func (c *relayedCaller) principal() auth.Principal {
	return auth.Principal{
		Name: c.Name, Tenant: c.Tenant, Roles: auth.Roles(c.Roles), AllTenants: auth.Roles(c.AllTenants), MaxMode: tools.Mode(c.MaxMode), OnBehalfOf: c.OnBehalfOf,
	}
}

func (*relayedCaller) Network() string  { return "relayed" }
func (c *relayedCaller) String() string { return c.Remote }

// isRelayed reports whether another replica passes a call on.
func isRelayed(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if ok {
		_, ok = p.Addr.(*relayedCaller)
	}
	return ok
}

// cameAt returns when a call came, here or, before it was passed on, at another replica.
func cameAt(ctx context.Context) time.Time {
	if p, ok := peer.FromContext(ctx); ok {
		if from, ok := p.Addr.(*relayedCaller); ok && !from.At.IsZero() {
			return from.At
		}
	}
	return rpcOf(ctx).began
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
		caller := new(relayedCaller)
		if len(values) != 1 || json.Unmarshal([]byte(values[0]), caller) != nil || caller.Name == "" {
			return nil, status.Error(codes.Unauthenticated, "the call does not tell who makes it")
		}
		return peer.NewContext(ctx, &peer.Peer{Addr: caller, LocalAddr: p.LocalAddr}), nil
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
			return next(server, &middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx})
		},
	}
}

// link passes calls on that are for other replicas.
func (r *relay) link() link {
	return link{
		unary: func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			switch methods[info.FullMethod].placed {
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
			switch placed := methods[info.FullMethod].placed; {
			case placed == anyReplica || isRelayed(stream.Context()) && placed != atSession && placed != atExecution:
				return next(server, stream)
			case placed == ofAll:
				return r.watchAll(server, stream, info.FullMethod, next)
			}
			return r.stream(server, stream, info, next)
		},
	}
}

// broken returns the error of a call that was passed on: that of the other replica, or that
// it did not answer.
func (r *relay) broken(to *replica.Member, trailer metadata.MD, err error) error {
	if len(trailer.Get(answeredTrailer)) > 0 || status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		return err
	}
	return withRetryInfo(status.Newf(codes.Unavailable, "the replica that has it, %d, broke off: what it was asked may have been done. Ask again", to.Run), time.Second).Err()
}

// nameOf is how callers are told of a replica.
func nameOf(m *replica.Member) string { return strconv.FormatUint(m.Run, 10) }

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

// newServer returns the server for calls that other replicas pass on.
func (r *relay) newServer(links []link) *grpc.Server {
	wire := r.server.config.Wire
	wire.MaxStreams, wire.MaxConnectionAge = math.MaxInt32, math.MaxInt64 // one connection has the calls of many callers, who have limits of their own
	wire.MinPingInterval = time.Second
	options := append(chain(append([]link{r.fromReplicas()}, links...)...), wire.options(newCodec())...)
	options = append(options, grpc.Creds(credentials.NewTLS(r.Credential.Server(r.ByRun))), grpc.MaxHeaderListSize(64<<10))
	return grpc.NewServer(options...)
}
