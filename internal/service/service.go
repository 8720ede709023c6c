// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package service is the gRPC face of the server: one chain of interceptors
// that every call passes, from outside or inside, and handlers that translate
// between messages and the floors below.
//
// Locks: those of connections, open RPCs, artifacts, uploads, tools that are shown, labels
// and refusals are independent of each other; whoever holds that of artifacts or uploads
// may take that of a session. Of the stops, storing comes before writing, and that before mu, which comes before that
// of their mirror: storing is held while a stop is stored, writing while the file is written, mu for moments.
// waitingCalls.mu is held while a call of a batch is started, which may wait until the call is stored, and comes before all of
// the executor. None is held while a message is sent or received.
//
// Goroutines: gRPC has one for each connection and each RPC, also of those inside the
// process, which ends with it. New starts one that looks whether the callers of open RPCs
// are still known; Shutdown ends it. A download has one that
// sends, until its RPC ends. A runtime that serves agents has one that receives and one that
// sends, until its RPC has ended. A batch has one that receives, until its client has sent all or its
// RPC has ended. A session of an agent whose call is to stop has one that ends it; Shutdown
// waits for those. Where there are replicas, one serves them and one takes over what others
// leave, until Shutdown; a stream that is passed on has one for what its caller sends. Shutdown itself starts one that waits for gRPC to stop, and
// waits for it.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/recording"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Config is what a server is made of. Fields without a default are required.
type Config struct {
	Logger        *zap.Logger
	Registry      *tools.Registry
	Sessions      *session.Store
	Policy        *policy.Policy // that is in force first
	Authenticator auth.Authenticator
	Metrics       prometheus.Registerer

	// Executor sets the limits of executions. The server sets what its calls are
	// recorded with, and where they ask.
	Executor executor.Config

	// Tenants has the quotas of tenants. The session store has those of sessions.
	Tenants quota.Tenants

	// Approvals sets the limits of questions to people. Who may answer, the
	// policy says too.
	Approvals approval.Config

	// Audit, if set, takes a record of every step of every call, and is closed
	// with the server. AuditInputs puts the content of inputs into it.
	Audit       *audit.Log
	AuditInputs bool

	// Hooks, if set, are the operator's own checks around calls, and are closed with the
	// server. The server sets what it is told of their runs.
	Hooks *hook.Hooks

	// Sources, if set, keeps what offers tools that are not built in. It is not closed with
	// the server unless it is among Closers.
	Sources *source.Keeper

	// Agents, if set, are those whom tasks can be given. They are not closed with the server
	// unless they are among Closers.
	Agents Agents

	// Artifacts, if set, keeps whole outputs, and is closed with the server.
	Artifacts *artifact.Store

	// State, if set, is what keeps sessions, grants and calls. It is not closed with the server
	// unless it is among Closers.
	State state.Engine

	// Limits, if set, has rates be those of several servers together.
	Limits *limit.Shared

	// Closers are closed with the server, once nothing uses them any more.
	Closers []io.Closer

	// Files sets the limits of files that are brought and fetched; zero fields take
	// their defaults.
	Files FileLimits

	// Receiving, if set, is called before files that a client brings are written, and
	// done after it.
	Receiving func(env tools.Env) (done func())

	// Monitored, if set, returns what the server protects of the workspace of a session by now,
	// as [policy.Monitored] has it; nil where that is nothing.
	Monitored func(env tools.Env, p tools.Protection) func(path string, below bool) string

	// Space, if set, returns why so many bytes more may not be written for a session,
	// or nil.
	Space func(env tools.Env, more uint64) error

	// Wire sets the limits of connections; zero fields take their defaults.
	Wire Wire

	// TLS, if set, secures connections from outside.
	TLS *tls.Config

	// Offer, if set, tells what commands can be given and kept from.
	Offer func() *tools.Offer

	// Confines, if set, tells how they are confined: whether each session has
	// namespaces, and the version of Landlock.
	Confines func() (namespaces bool, landlock int)

	// Halt, if set, ends the background processes and interpreters of a session, which
	// goes on, and returns how many there were; with a user, those for that user alone.
	Halt func(of *session.Session, user string) int

	// Processes, if set, returns how many commands run.
	Processes func() int

	// Stops, if set, is where emergency stops are kept, for all replicas. StopFile, if set,
	// has them, too: either has them outlive the server.
	Stops    state.KV
	StopFile string

	// Replay, if set, is what calls are answered from: nothing runs. Its tools are those of
	// the registry, which [OfferRecorded] fills.
	Replay *recording.Recording

	// Replication, if set, is this server among others that have the same state.
	Replication *Replication

	// Version is what the server tells about itself.
	Version string

	// Tracer, if set, makes spans of every call and of what happens below it.
	Tracer trace.TracerProvider

	// Reflection lets clients ask for the schema of the services; Channelz lets
	// operators look at connections.
	Reflection, Channelz bool
}

var goVersion = runtime.Version()

// A Server serves the tools of a registry over gRPC.
type Server struct {
	config    Config
	grpc      *grpc.Server
	replicas  *grpc.Server // for calls that other replicas pass on; nil without any
	relay     *relay       // the same
	health    *health.Server
	executor  *executor.Executor
	approvals *approval.Store
	rules     *admission.ActivePolicy
	admission *admission.Admission
	auditor   *auditor
	meters    *meters
	rates     *quota.Rates
	refused   refusals // by quotas

	artifacts *artifacts // nil where none are kept
	files     *workspaceService

	failedChecks atomic.Pointer[[]string] // of the self-test; nil before it has run
	shown        shownTools
	inside       *inside
	started      time.Time

	stops       *stopList
	calls       openRPCs
	connections connections     // from outside
	underWay    atomic.Int64    // RPCs that have begun and not ended
	closing     context.Context // ends when nothing runs any more
	close       context.CancelFunc
	ending      sync.WaitGroup // sessions of agents that end with the call that began them
}

// New returns a server that serves callers inside the process at once, and
// those outside once Serve was called. Shut it down after use. An error is about
// the policy, the file of stops or what was stored before; what the configuration brought is then still the caller's to close.
func New(config Config) (*Server, error) {
	s := &Server{
		config: config, started: time.Now(), health: health.NewServer(),
		auditor: &auditor{log: config.Audit, inputs: config.AuditInputs},
	}
	s.closing, s.close = context.WithCancel(context.Background())
	var err error
	if s.stops, err = openStops(s.closing, config.StopFile, config.Stops, s.stopAppeared); err != nil {
		s.close()
		return nil, err
	}
	if config.Artifacts != nil {
		s.artifacts = &artifacts{store: config.Artifacts, known: make(map[*session.Session]bool)}
	}
	if s.rates, err = quota.NewRates(config.Tenants); err != nil {
		s.close()
		return nil, err
	}
	config.Approvals.Sessions = config.Sessions
	s.approvals = approval.NewStore(config.Approvals)
	s.rules = admission.NewActivePolicy(s.approvals)
	if config.Limits != nil {
		s.rules.Share(config.Limits)
		s.rates.Share(config.Limits)
	}
	if err := s.rules.Replace(config.Policy); err != nil {
		s.close()
		return nil, err
	}
	config.Executor.Logger, config.Executor.Sessions, config.Executor.Approvals = config.Logger, config.Sessions, s.approvals
	config.Executor.Steps, config.Executor.Tenants = steps{s}, config.Tenants
	s.executor = executor.New(config.Executor)
	s.meters = newMeters(config.Metrics, s.executor.Stats)
	s.meters.watch(config.Metrics, s)
	if config.Sources != nil {
		config.Metrics.MustRegister(sourceMeter{config.Sources})
	}
	if config.Agents != nil {
		config.Metrics.MustRegister(agentMeter{config.Agents})
	}
	config.Hooks.Watch(s.ranHook)
	config.Sessions.Notify(session.Notices{Default: s.madeDefault, Ending: s.endsIdle, Idle: s.auditor.idled})
	if err = config.Sessions.Restore(s.closing); err == nil {
		err = s.approvals.Restore(s.closing, config.Logger)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	if s.artifacts != nil {
		for _, found := range config.Sessions.List(auth.NewOwner(auth.AllTenants, auth.Everybody)) {
			s.artifacts.enter(found) // they end with it, also those of before
		}
	}

	s.admission = admission.New(s.admissionConfig())
	if config.Replication != nil {
		s.relay = &relay{Replication: config.Replication, server: s, conns: make(map[uint64]*grpc.ClientConn)}
	}

	links := s.links()
	options := append(chain(links...), config.Wire.options(newCodec())...)
	var handler stats.Handler
	if config.Tracer != nil {
		handler = otelgrpc.NewServerHandler(append(tracing(config.Tracer), ofStrangers(config.Authenticator))...)
		options = append(options, grpc.StatsHandler(handler))
	}
	if config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config.TLS)))
	}
	s.grpc = grpc.NewServer(options...)
	s.inside = newInside(s.grpc, links, handler, int(config.Wire.WithDefaults().MaxMessageBytes))
	if s.relay != nil {
		s.replicas = s.relay.newServer(links)
		s.inside.replicas = s.replicas
	}

	tools := &toolService{server: s, registry: config.Registry, sessions: config.Sessions, executor: s.executor}
	if config.Replay != nil {
		pb.RegisterToolServiceServer(s.inside, &replayService{tools, newRecorded(config.Replay)})
	} else {
		pb.RegisterToolServiceServer(s.inside, tools)
	}
	pb.RegisterDialectServiceServer(s.inside, &dialectService{tools: tools})
	limits := config.Files.WithDefaults()
	s.files = &workspaceService{admission: s.admission, auditor: s.auditor, limits: limits, uploads: newUploads(limits), receiving: config.Receiving, space: s.space}
	pb.RegisterWorkspaceServiceServer(s.inside, s.files)
	pb.RegisterSessionServiceServer(s.inside, &sessionService{server: s, sessions: config.Sessions, executor: s.executor, auditor: s.auditor, storage: s.storage})
	pb.RegisterApprovalServiceServer(s.inside, &approvalService{approvals: s.approvals, auditor: s.auditor})
	pb.RegisterAuditServiceServer(s.inside, &auditService{log: config.Audit})
	pb.RegisterPolicyServiceServer(s.inside, &policyService{admission: s.admission, rules: s.rules, since: s.started})
	pb.RegisterSourceServiceServer(s.inside, &sourceService{sources: config.Sources, auditor: s.auditor, logger: config.Logger})
	pb.RegisterAgentServiceServer(s.inside, &agentService{agents: config.Agents, auditor: s.auditor, logger: config.Logger})
	healthpb.RegisterHealthServer(s.inside, s.health)
	if config.Reflection {
		registerReflection(s.grpc)
	}
	if config.Channelz {
		channelz.RegisterChannelzServiceToServer(s.inside)
	}
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	if config.State != nil {
		config.State.Notify(s.tellCondition)
	}
	if _, everybody := config.Authenticator.(auth.None); !everybody {
		go s.recheck(s.closing)
	}
	if s.relay != nil {
		go s.replicas.Serve(config.Replication.Listener)
		go s.relay.adoptOrphans(s.closing)
	}
	return s, nil
}

// Policy returns the version of the policy in force.
func (s *Server) Policy() string {
	return s.rules.Current().Version()
}

// ReplacePolicy puts another policy in force for all calls that come later, as
// a whole or, with an error, not at all. Calls that were admitted keep the one
// they were judged by, but what waits for a person is judged by the new one when it
// is allowed, and runs under it.
func (s *Server) ReplacePolicy(p *policy.Policy) error { return s.rules.Replace(p) }

func (s *Server) admissionConfig() admission.Config {
	return admission.Config{
		Registry: s.config.Registry, Sessions: s.config.Sessions, ActivePolicy: s.rules, Approvals: s.approvals,
		Executor: s.executor, Offer: s.config.Offer, Monitored: s.config.Monitored, Limited: s.meters.overLimit,
		Rate: s.rates.Take, Room: s.room, Hooks: s.config.Hooks, Artifacts: s.artifacts.of,
	}
}

// links is the chain that every call passes, the outermost link first.
func (s *Server) links() []link {
	links := []link{
		recoverPanics(s.config.Logger), // outermost: a panic ends one call
		s.meters.link(),                // around all that makes a status
		s.telemetry(),                  // what is known of the call; refusals are counted
		onEntry(authenticate(s.config.Authenticator), permit, s.addressee), // who, may they call this method at all, and is it for this server
		s.calls.link(s.refuseStopped),                                      // unless they were stopped, now or later
	}
	if s.relay != nil {
		links = append(links, s.relay.link()) // is it for another replica
	}
	links = append(links, endKeptOpen(s.closing)) // what only waits ends with the server
	if s.config.Replay != nil {
		links = append(links, onEntry(notReplayed), onMessage(s.openReplayed)) // is there an answer, and where
	}
	return append(links, onMessage(s.admit)) // may this call run
}

// firstCallers is how long those who came while the server started have it to themselves
// before it starts and connects to sources of tools.
const firstCallers = 300 * time.Millisecond

// Serve serves callers that come through listener until the server is shut
// down.
func (s *Server) Serve(listener net.Listener) error {
	if s.config.Sources != nil {
		defer time.AfterFunc(firstCallers, s.config.Sources.Begin).Stop()
	}
	err := s.grpc.Serve(s.connections.watch(listener))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Fence ends calls that may change something: this replica can no longer prove that it lives,
// and others may begin them.
func (s *Server) Fence() {
	s.executor.CancelClaimed("the server lost its place among its replicas")
}

// Ready returns nil while the server takes all calls, and otherwise why it does not.
func (s *Server) Ready() error {
	if s.executor.Draining() {
		return errors.New("draining")
	}
	if s.config.State != nil && s.config.State.Condition() != nil {
		return errors.New("the state cannot be written: only reads are served")
	}
	return nil
}

// tellCondition has the health of the server as a whole tell whether the state can be written.
// That of its services does not: who calls them can still read.
func (s *Server) tellCondition(err error) {
	now := healthpb.HealthCheckResponse_SERVING
	if err != nil {
		now = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", now)
}

// Takes reports whether the server takes calls, also where its state cannot be written: it does
// not end.
func (s *Server) Takes() bool { return !s.executor.Draining() }

// Shutdown ends the server in peace: it stops taking calls, lets those that run
// finish until ctx ends, cancels the rest, and sees to it that every stream gets
// its last event.
func (s *Server) Shutdown(ctx context.Context) {
	s.health.Shutdown()
	s.executor.Drain(ctx, "the server is shutting down")
	s.files.drain(ctx)
	s.close()
	s.approvals.Close()
	s.config.Hooks.Close()
	s.stop()
	s.executor.Close()
	s.ending.Wait()
	s.config.Sessions.Close()
	if s.config.Artifacts != nil {
		s.config.Artifacts.Close()
	}
	if s.config.Audit != nil {
		s.config.Audit.Close()
	}
	for _, closer := range s.config.Closers {
		closer.Close()
	}
}

// stop ends all connections, once they have sent what is left.
func (s *Server) stop() {
	stopped := make(chan struct{})
	go func() {
		if s.replicas != nil {
			go s.grpc.GracefulStop()
			s.replicas.GracefulStop()
		}
		s.grpc.GracefulStop()
		s.inside.wait()
		close(stopped)
	}()
	if s.underWay.Load() == 0 {
		s.connections.closeQuiet()
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	late := time.After(flushTime)
	for {
		select {
		case <-stopped:
			return
		case <-tick.C:
			if s.underWay.Load() == 0 {
				s.connections.closeQuiet()
			}
		case <-late:
			s.config.Logger.Warn("clients whose streams have not ended are cut off", zap.Duration("after", flushTime))
			s.connections.closeAll()
			if s.replicas != nil {
				s.replicas.Stop()
			}
			s.grpc.Stop()
			s.inside.cutOff()
			<-stopped
			return
		}
	}
}

const (
	// flushTime is how long streams may take to send what is left once every
	// execution has ended.
	flushTime = 5 * time.Second

	// quietTime is how long nothing goes through a connection that has nothing left
	// to send, once no RPC is under way.
	quietTime = 250 * time.Millisecond
)
