// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const (
	defaultStore = 4 << 30
	beginning    = 30 * time.Second // that an engine on a large directory may take to begin
)

// local is the engine of this process. It opens no port.
type local struct {
	options *server.Options
	dir     *directory // nil in memory
	disk    *disk      // nil in memory
	temp    string     // what an engine in memory asks for, and leaves empty
	log     *zap.Logger

	mu     sync.Mutex
	server *server.Server // nil while there is none
	why    string         // it gave up a space, and is begun again

	stop    context.CancelFunc
	stopped chan struct{}
}

// begin starts an engine in this process and connects to it.
func (e *engine) begin(ctx context.Context, options Options) error {
	e.local = &local{log: options.Log}
	e.replicas = 1
	store := options.Dir
	if store == "" {
		e.storage = jetstream.MemoryStorage
		temp, err := os.MkdirTemp("", "toolserver-state-")
		if err != nil {
			return fmt.Errorf("the state in memory: %w", err)
		}
		e.local.temp, store = temp, temp
	} else {
		dir, err := openDirectory(store)
		if err != nil {
			return err
		}
		e.local.dir, e.local.disk = dir, &disk{path: store}
		if err := dir.verify(); err != nil {
			return err
		}
		if err := dir.use(); err != nil {
			return err
		}
	}
	limit := cmp.Or(options.MaxBytes, defaultStore)
	e.local.options = &server.Options{
		ServerName:             "toolserver",
		DontListen:             true,
		NoSigs:                 true,
		NoSystemAccount:        true,
		DisableJetStreamBanner: true,
		JetStream:              true,
		StoreDir:               store,
		JetStreamMaxStore:      limit,
		JetStreamMaxMemory:     limit,
		SyncAlways:             true,
		SyncInterval:           time.Second,
	}
	if err := e.local.start(ctx); err != nil {
		return err
	}
	conn, err := nats.Connect("", append(e.watchConnection(),
		nats.InProcessServer(e.local),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectBufSize(-1))...)
	if err != nil {
		return fmt.Errorf("the state engine does not begin on %s: %w", store, err)
	}
	e.conn = conn
	return nil
}

func (l *local) start(ctx context.Context) error {
	s, err := server.NewServer(l.options.Clone())
	if err != nil {
		return fmt.Errorf("the state engine does not begin: %w", err)
	}
	words := &logger{local: l, failed: make(chan string, 1)}
	s.SetLoggerV2(words, false, false, false)
	s.Start()
	err = words.begun(ctx, s)
	l.mu.Lock()
	l.server = s
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("the state engine does not begin on %s: %w", l.options.StoreDir, err)
	}
	return nil
}

// InProcessConn connects to the server of now.
func (l *local) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	s := l.server
	l.mu.Unlock()
	if s == nil {
		return nil, errors.New("it begins again")
	}
	return s.InProcessConn()
}

// gaveUp is told that the engine gave up a space whose files it could not write: it would
// never write to it again.
func (l *local) gaveUp(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
}

// broken is not nil while the engine does not write.
func (l *local) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFull, l.why)
}

// mend begins the engine again when it gave up a space, as soon as there is room, until
// ctx is done. again is called then.
func (l *local) mend(ctx context.Context, again func(context.Context) error) {
	defer close(l.stopped)
	for tick := time.NewTicker(lookEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if l.broken() == nil || l.disk.room(0) != nil {
			continue
		}
		l.shutdown()
		err := l.start(ctx)
		if err == nil {
			err = again(ctx)
		}
		if err != nil {
			l.log.Error("the state engine does not begin again", zap.Error(err))
			continue
		}
		l.gaveUp("")
		l.log.Info("the state engine has begun again")
	}
}

func (l *local) shutdown() {
	l.mu.Lock()
	s := l.server
	l.server = nil
	l.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

func (l *local) close() error {
	if l.stop != nil {
		l.stop()
		<-l.stopped
	}
	began := l.server != nil
	l.shutdown()
	var err error
	if l.dir != nil {
		if began {
			err = l.dir.rest()
		}
		err = errors.Join(err, l.dir.close())
	}
	if l.temp != "" {
		err = errors.Join(err, os.RemoveAll(l.temp))
	}
	return err
}

// logger passes on what the engine says. What it calls fatal ends its beginning, not the
// process.
type logger struct {
	local  *local
	failed chan string
	once   sync.Once
}

func (l *logger) begun(ctx context.Context, s *server.Server) error {
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(beginning) }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case why := <-l.failed:
		return errors.New(why)
	case ok := <-ready:
		switch {
		case !ok:
			return fmt.Errorf("it is not ready after %v", beginning)
		case !s.JetStreamEnabled():
			return errors.New("it has no store")
		}
		return nil
	}
}

func (l *logger) Noticef(format string, v ...any) { l.local.log.Debug(said(format, v)) }
func (l *logger) Debugf(format string, v ...any)  {}
func (l *logger) Tracef(format string, v ...any)  {}

func (l *logger) Warnf(format string, v ...any) {
	text := said(format, v)
	for _, usual := range afterKill {
		if strings.Contains(text, usual) {
			l.local.log.Debug(text)
			return
		}
	}
	l.local.log.Warn(text)
}

// afterKill is what the engine says when the process before was killed, and reads its files
// again: it is no reason to worry.
var afterKill = []string{"state is outdated", "Stream state outdated", "Recovering stream state", "Recovering TTL state"}

func (l *logger) Errorf(format string, v ...any) {
	text := said(format, v)
	l.local.log.Error(text)
	if strings.Contains(text, "failed to store a msg") {
		l.local.gaveUp(text)
	}
}

func (l *logger) Fatalf(format string, v ...any) {
	text := said(format, v)
	l.local.log.Error(text)
	l.once.Do(func() { l.failed <- text })
}

func said(format string, v []any) string {
	return "state engine: " + strings.TrimSpace(fmt.Sprintf(format, v...))
}
