// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// stored is what outlives a server. The zero value is for a server of which nothing does.
type stored struct {
	installation   string
	engine         state.Engine // nil where nothing is stored, as the records are
	sessionRecords *session.Records
	callRecords    *executor.Records
	grantRecords   state.KV
	stopRecords    state.KV
	limitRecords   state.KV // nil unless servers share the state
	artifactBytes  state.KV // the same
	usage          *usageWatch
	logger         *zap.Logger

	replication *service.Replication           // nil where the state is this server's alone
	place       string                         // of its workspaces
	fence       atomic.Pointer[service.Server] // told when it can no longer prove that it lives
}

// identity is what a server is, however often it is started.
type identity struct {
	Version      int    `json:"v"`
	Installation string `json:"installation"` // names directories of it
	Run          uint64 `json:"run"`          // of its last start; see nextRun
	Key          []byte `json:"key"`          // makes the ids of executions
}

const identityVersion = 1

// artifactRoom is how many bytes the copies of artifacts take that several servers share.
const artifactRoom = 256 << 20

// openState begins to open what a server keeps beyond its process, and returns what waits
// for it; nil where nothing is kept. The configuration is filled in. The rest of the server
// is made meanwhile.
// buried is called where other replicas have declared this one dead.
func openState(c *config.Config, buried func(), logger *zap.Logger) (opened func() (*stored, error)) {
	if c.State.Off() {
		return nil
	}
	options, filled := c.State.Options(), *c
	options.Log = logger
	var s *stored
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err = open(context.Background(), options, &filled, buried)
	}()
	return func() (*stored, error) {
		<-done
		return s, err
	}
}

func open(ctx context.Context, options state.Options, c *config.Config, buried func()) (_ *stored, err error) {
	s, limits := &stored{logger: options.Log}, &c.State
	where := "state.dir " + limits.Dir
	if limits.Shared() {
		where = "state.url"
	}
	if s.engine, err = state.Open(ctx, options); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	defer func() {
		if err != nil {
			if s.callRecords != nil {
				s.callRecords.Close()
			}
			if s.replication != nil {
				s.replication.Leave()
				s.replication.Listener.Close()
			}
			s.engine.Close()
		}
	}()
	var who identity
	var group errgroup.Group
	group.Go(func() (err error) {
		if who, err = identify(ctx, s.engine); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		records := executor.RecordsConfig{
			Engine: s.engine, Run: who.Run, Key: [16]byte(who.Key), Retention: limits.Retention, HistoryBytes: int64(limits.MaxHistory), Logger: options.Log,
		}
		if limits.Shared() {
			if err := s.join(ctx, c, who, buried, options.Log); err != nil {
				return err
			}
			records.Replicas = s.replication
		}
		s.callRecords, err = executor.OpenRecords(ctx, records)
		return err
	})
	group.Go(func() (err error) {
		s.sessionRecords, err = session.OpenRecords(ctx, s.engine, options.Log)
		return err
	})
	group.Go(func() (err error) {
		if s.grantRecords, err = s.engine.KV(ctx, state.Space{Name: "grants"}); err != nil {
			return fmt.Errorf("records of grants: %w", err)
		}
		return nil
	})
	group.Go(func() (err error) {
		if s.stopRecords, err = s.engine.KV(ctx, state.Space{Name: "stops"}); err != nil {
			return fmt.Errorf("stops: %w", err)
		}
		return nil
	})
	if limits.Shared() {
		group.Go(func() (err error) {
			if s.limitRecords, err = s.engine.KV(ctx, state.Space{Name: "limits", MaxBytes: 16 << 20, Volatile: true}); err != nil {
				return fmt.Errorf("limits: %w", err)
			}
			return nil
		})
		group.Go(func() (err error) {
			if s.artifactBytes, err = s.engine.KV(ctx, state.Space{Name: "artifacts", MaxBytes: artifactRoom}); err != nil {
				return fmt.Errorf("artifacts: %w", err)
			}
			return nil
		})
	}
	if err = group.Wait(); err != nil {
		return s, err
	}
	s.installation, s.sessionRecords.Installation = who.Installation, who.Installation
	return s, nil
}

// identify returns what the server is, and numbers its run. Replicas
// that start at the same time count one after the other.
func identify(ctx context.Context, engine state.Engine) (who identity, err error) {
	for range 100 {
		if who, err = identifyOnce(ctx, engine); !errors.Is(err, state.ErrConflict) {
			break
		}
	}
	return who, err
}

func identifyOnce(ctx context.Context, engine state.Engine) (identity, error) {
	kv, err := engine.KV(ctx, state.Space{Name: "server", MaxBytes: 1 << 20})
	if err != nil {
		return identity{}, err
	}
	const key = "identity"
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		secret := make([]byte, 16)
		rand.Read(secret) // never fails
		who := identity{identityVersion, strings.ToLower(rand.Text())[:16], nextRun(0), secret}
		_, err := kv.Create(ctx, key, encodeIdentity(who), 0)
		return who, err
	}
	if err != nil {
		return identity{}, err
	}
	var who identity
	if err := json.Unmarshal(entry.Value, &who); err != nil {
		return identity{}, fmt.Errorf("what the server is cannot be read: %w", err)
	}
	if len(who.Key) != 16 && who.Version <= identityVersion {
		return identity{}, fmt.Errorf("what the server is cannot be read: its key has %d bytes, and should have 16: restore a backup, or serve with another state.dir", len(who.Key))
	}
	if who.Version > identityVersion {
		return identity{}, fmt.Errorf("it is of version %d, and this server knows %d: serve with a later version, or with another state.dir", who.Version, identityVersion)
	}
	who.Run = nextRun(who.Run)
	_, err = kv.Update(ctx, key, encodeIdentity(who), entry.Revision, 0)
	return who, err
}

// nextRun returns the number of a run that begins now. It is a time where it can be: a
// backup that is restored does not know how many runs there were after it, and none of
// their ids may be given again.
func nextRun(last uint64) uint64 {
	return max(last+1, uint64(max(0, time.Since(runsBegin)/time.Second)))
}

var runsBegin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func encodeIdentity(who identity) []byte {
	text, err := json.Marshal(who)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return text
}

// artifacts opens the store of artifacts, which outlive the server where the rest does.
func (s *stored) artifacts(c artifact.Config) (*artifact.Store, error) {
	switch {
	case s.engine == nil:
		return artifact.Open(c)
	case s.replication != nil: // those of others may be in the same directory
		return artifact.OpenShared(c, artifact.SharedConfig{
			Entries: s.artifactBytes, Room: artifactRoom - artifactRoom/8, Tenant: func(owner string) string { return auth.Owner(owner).Tenant() }, Logger: s.logger,
		})
	}
	return artifact.OpenLasting(c, s.installation)
}

// limits returns what has rates count over all servers that share the state; nil where this one
// is alone.
func (s *stored) limits(metrics prometheus.Registerer, logger *zap.Logger) *limit.Shared {
	if s.limitRecords == nil {
		return nil
	}
	servers := func() int { return 1 + len(s.replication.Others()) }
	shared := limit.NewShared(limit.SharedConfig{Entries: s.limitRecords, Servers: servers, Changed: func(err error) {
		if err != nil {
			logger.Warn("rates cannot be counted over all replicas: this one keeps to its share", zap.Int("replicas", servers()), zap.Error(err))
			return
		}
		logger.Info("rates are counted over all replicas again")
	}})
	promauto.With(metrics).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "toolserver_limits_shared", Help: "Whether rates are counted over all replicas, 1, or this one keeps to its share, 0.",
	}, func() float64 {
		if shared.Away() != nil {
			return 0
		}
		return 1
	})
	return shared
}

// measure has metrics tell whether the state can be used, how full it is, and how far it is
// behind.
func (s *stored) measure(metrics prometheus.Registerer, logger *zap.Logger) {
	if s.engine == nil {
		return
	}
	s.usage = watchUsage(s.engine, metrics, logger)
	metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolserver_state_up", Help: "Whether the state can be read and written: 1 or 0.",
		}, func() float64 {
			if s.engine.Condition() != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolserver_state_queued_calls", Help: "Calls that ended and wait to be recorded.",
		}, func() float64 { return float64(s.callRecords.Stats().Queued) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "toolserver_state_unrecorded_calls_total", Help: "Calls whose end was not recorded: those that only read and came too fast, and any that found no room in the queue or were too large.",
		}, func() float64 { return float64(s.callRecords.Stats().Dropped) }))
}

// lastingEngine is where the things are that outlive calls, such as runs of workflows: in what
// outlives the server or, where nothing does, in memory, from when that is first needed.
type lastingEngine struct {
	stored func() (*stored, error) // nil where nothing outlives the server

	mu     sync.Mutex
	memory state.Engine
}

func (l *lastingEngine) engine(ctx context.Context) (state.Engine, error) {
	if l.stored != nil {
		s, err := l.stored()
		if err != nil {
			return nil, err
		}
		return s.engine, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.memory == nil {
		l.memory, err = state.Open(ctx, state.Options{})
	}
	return l.memory, err
}

// Close ends what is in memory.
func (l *lastingEngine) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		return nil
	}
	return l.memory.Close()
}

// closers are closed after everything that stores something.
func (s *stored) closers() []io.Closer {
	if s.engine == nil {
		return nil
	}
	var closers []io.Closer
	if s.usage != nil {
		closers = append(closers, s.usage)
	}
	closers = append(closers, s.callRecords)
	if s.replication != nil {
		closers = append(closers, leaver{s.replication})
	}
	return append(closers, s.engine)
}

func (s *stored) close() {
	for _, closer := range s.closers() {
		closer.Close()
	}
}
