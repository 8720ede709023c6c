// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	server *server.Server
	dir    *directory // nil in memory
	temp   string     // what an engine in memory asks for, and leaves empty
}

// begin starts an engine in this process and connects to it.
func (e *engine) begin(ctx context.Context, options Options) error {
	e.local = new(local)
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
		e.local.dir = dir
		if err := dir.verify(); err != nil {
			return err
		}
		if err := dir.use(options.Unsynced); err != nil {
			return err
		}
	}
	limit := cmp.Or(options.MaxBytes, defaultStore)
	o := &server.Options{
		ServerName:             "toolserver",
		DontListen:             true,
		NoSigs:                 true,
		NoSystemAccount:        true,
		DisableJetStreamBanner: true,
		JetStream:              true,
		StoreDir:               store,
		JetStreamMaxStore:      limit,
		JetStreamMaxMemory:     limit,
		SyncAlways:             !options.Unsynced,
		SyncInterval:           time.Second,
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("the state engine does not begin: %w", err)
	}
	words := &logger{log: options.Log, failed: make(chan string, 1)}
	s.SetLoggerV2(words, false, false, false)
	e.local.server = s
	s.Start()
	if err := words.begun(ctx, s); err != nil {
		return fmt.Errorf("the state engine does not begin on %s: %w", store, err)
	}
	e.conn, err = nats.Connect("", append(e.watchConnection(), nats.InProcessServer(s), nats.MaxReconnects(-1))...)
	if err != nil {
		return fmt.Errorf("the state engine does not begin on %s: %w", store, err)
	}
	return nil
}

func (l *local) close() error {
	if l.server != nil {
		l.server.Shutdown()
		l.server.WaitForShutdown()
	}
	var err error
	if l.dir != nil {
		if l.server != nil {
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
	log    *zap.Logger
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

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(said(format, v)) }
func (l *logger) Debugf(format string, v ...any)  {}
func (l *logger) Tracef(format string, v ...any)  {}
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(said(format, v)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error(said(format, v)) }

func (l *logger) Fatalf(format string, v ...any) {
	text := said(format, v)
	l.log.Error(text)
	l.once.Do(func() { l.failed <- text })
}

func said(format string, v []any) string {
	return "state engine: " + strings.TrimSpace(fmt.Sprintf(format, v...))
}
