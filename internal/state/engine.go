// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const (
	// patience is how long an operation may take, with all its attempts. An
	// election takes longer: whoever waits for one tries again himself.
	patience = 1500 * time.Millisecond

	// provisioning is how long a space is tried to be made while a cluster begins.
	provisioning = 30 * time.Second

	// markerAge is how long it is known that an entry was deleted. Watches that were
	// without news for so long were cut off before.
	markerAge = 10 * time.Minute

	defaultSpace   = 64 << 20
	defaultPrefix  = "ts"
	defaultCluster = 3
)

// engine is NATS JetStream, in this process or elsewhere.
type engine struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	local    *local // nil in a cluster
	prefix   string
	replicas int
	storage  jetstream.StorageType
	log      *zap.Logger

	condition *condition

	mu     sync.Mutex
	cut    chan struct{} // closed when the connection is lost
	logs   map[string]*logSpace
	kvs    map[string]*kvSpace
	memory map[string]jetstream.StreamConfig // of spaces that end with the engine
	closed bool

	unwatch func() // the condition; nil where nobody does
}

var names = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// CheckName refuses what no space and no prefix can be named.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%.64q is not 1 to 32 of a-z, 0-9 and _", name)
	}
	return nil
}

// Open begins an engine, or connects to one. Nothing is begun before: who needs no state
// does not call it.
func Open(ctx context.Context, options Options) (Engine, error) {
	options.Log = cmp.Or(options.Log, zap.NewNop())
	options.Prefix = cmp.Or(options.Prefix, defaultPrefix)
	if err := CheckName(options.Prefix); err != nil {
		return nil, fmt.Errorf("the prefix %w, and it begins all names of the state", err)
	}
	e := &engine{
		prefix: options.Prefix,
		log:    options.Log,

		condition: newCondition(),

		cut:    make(chan struct{}),
		logs:   make(map[string]*logSpace),
		kvs:    make(map[string]*kvSpace),
		memory: make(map[string]jetstream.StreamConfig),
	}
	var err error
	switch {
	case options.URL != "" && options.Dir != "":
		return nil, errors.New("the state has a URL and a directory: it is in a cluster or here, so give one of them")
	case options.URL != "":
		err = e.connect(options)
	default:
		err = e.begin(ctx, options)
	}
	if err == nil {
		e.js, err = jetstream.New(e.conn, jetstream.WithDefaultTimeout(patience))
	}
	if err == nil && options.URL != "" {
		err = e.suits(ctx)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	if e.local != nil && e.local.dir != nil {
		var mending context.Context
		mending, e.local.stop = context.WithCancel(context.Background())
		e.local.stopped = make(chan struct{})
		go e.local.mend(mending, e.provideVolatile)
	}
	if options.URL != "" || options.Dir != "" {
		e.watchCondition()
	}
	return e, nil
}

// watchConnection are the options of the connection that tell when it is lost.
func (e *engine) watchConnection() []nats.Option {
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			close(e.cut)
			e.cut = make(chan struct{})
			if !e.closed {
				e.log.Warn("the connection to the state engine is lost", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			e.log.Info("connected to the state engine again", zap.String("server", c.ConnectedUrlRedacted()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			e.log.Warn("the state engine complains", zap.Error(err))
		}),
	}
}

// provide makes a space, or sees that it is as it should be.
func (e *engine) provide(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, provisioning)
	defer cancel()
	for {
		stream, err := e.provideOnce(ctx, want)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return stream, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond): // an engine that elects its leader is asked again
		}
	}
}

func (e *engine) provideOnce(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := e.js.Stream(short, want.Name)
	if err == nil {
		e.keep(want)
		have := stream.CachedInfo().Config
		if have.MaxBytes == want.MaxBytes && have.MaxAge == want.MaxAge && have.Replicas == want.Replicas {
			return stream, nil
		}
		stream, err = e.js.UpdateStream(short, want)
		return stream, e.failure(ctx, err)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, e.failure(ctx, err)
	}
	if err := e.room(want.Storage, 0); err != nil {
		return nil, err
	}
	stream, err = e.js.CreateStream(short, want)
	if err != nil {
		return nil, e.failure(ctx, err)
	}
	e.keep(want)
	return stream, nil
}

// provideVolatile makes spaces in memory again, when the engine has begun again.
func (e *engine) provideVolatile(ctx context.Context) error {
	e.mu.Lock()
	spaces := maps.Clone(e.memory)
	e.mu.Unlock()
	for _, c := range spaces {
		if _, err := e.provide(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// mayWrite sees to what must be before something is written to a space.
func (e *engine) mayWrite(storage jetstream.StorageType, size int) error {
	if err := e.room(storage, size); err != nil {
		return err
	}
	if e.local == nil || storage != jetstream.FileStorage {
		return nil
	}
	return e.local.dir.settle()
}

// room refuses what the disk of an engine in this process has no room for.
func (e *engine) room(storage jetstream.StorageType, size int) error {
	if e.local == nil || storage != jetstream.FileStorage {
		return nil
	}
	if err := e.local.broken(); err != nil {
		return e.condition.suspect(err)
	}
	return e.condition.suspect(e.local.disk.room(size))
}

// keep notes a space that is there.
func (e *engine) keep(c jetstream.StreamConfig) {
	switch {
	case c.Storage != jetstream.FileStorage:
		e.mu.Lock()
		e.memory[c.Name] = c
		e.mu.Unlock()
	case e.local != nil:
		e.local.dir.keep(c.Name)
	}
}

// space returns what spaces of both kinds have in common.
func (e *engine) space(s Space, name string, subjects string) (jetstream.StreamConfig, error) {
	if err := CheckName(s.Name); err != nil {
		return jetstream.StreamConfig{}, fmt.Errorf("the name %w, and it is that of a space", err)
	}
	c := jetstream.StreamConfig{
		Name:     name,
		Subjects: []string{subjects},
		MaxBytes: cmp.Or(s.MaxBytes, defaultSpace),
		MaxAge:   s.MaxAge,
		Replicas: e.replicas,
		Storage:  e.storage,
		// Any replica would answer a direct read, with what was.
		AllowDirect: false,
	}
	if s.Volatile {
		c.Storage = jetstream.MemoryStorage
	}
	return c, nil
}

// failure translates what the engine says. ctx is that of the caller, whose end is his own.
func (e *engine) failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.condition.suspect(e.translate(err))
}

func (e *engine) translate(err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, wrongLastSequenceUnknown:
			return ErrConflict
		case jetstream.JSErrCodeMessageNotFound:
			return ErrNotFound
		case storeFailed, insufficientResources, storageExceeded, memoryExceeded, accountExceeded:
			return fmt.Errorf("%w: %s", ErrFull, api.Description)
		case noSuitablePeers: // or not yet, while servers find each other
			return fmt.Errorf("%w: it has not %d servers for as many replicas (%s)", ErrUnavailable, e.replicas, api.Description)
		case replicasNotSupported:
			return fmt.Errorf("the cluster of the state cannot keep %d replicas (%s): set as many as it has servers, 1 or 3", e.replicas, api.Description)
		case invalidConfig:
			return fmt.Errorf("the state engine refuses a space: %s", api.Description)
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return ErrNotFound
	case errors.Is(err, nats.ErrMaxPayload):
		return ErrTooLarge
	}
	return fmt.Errorf("%w: %v", ErrUnavailable, err)
}

// What the engine's errors are called that its client has no names for.
const (
	insufficientResources    jetstream.ErrorCode = 10023
	accountExceeded          jetstream.ErrorCode = 10002
	memoryExceeded           jetstream.ErrorCode = 10028
	storageExceeded          jetstream.ErrorCode = 10047
	invalidConfig            jetstream.ErrorCode = 10052
	replicasNotSupported     jetstream.ErrorCode = 10074
	storeFailed              jetstream.ErrorCode = 10077
	noSuitablePeers          jetstream.ErrorCode = 10005
	wrongLastSequenceUnknown jetstream.ErrorCode = 10164
)

func (e *engine) Usage(ctx context.Context) ([]Usage, error) {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var list []Usage
	infos := e.js.ListStreams(short)
	for info := range infos.Info() {
		u := Usage{
			Bytes:    info.State.Bytes,
			MaxBytes: uint64(max(info.Config.MaxBytes, 0)),
		}
		name, isLog := strings.CutPrefix(info.Config.Name, e.logName(""))
		name, isKV := strings.CutPrefix(name, kvStream+e.bucketName(""))
		if isLog || isKV {
			u.Name, u.Log = name, isLog
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b Usage) int { return cmp.Compare(a.Name, b.Name) })
	return list, e.failure(ctx, infos.Err())
}

// healthSpace is written to by those who ask for the health.
var healthSpace = Space{Name: "health", MaxBytes: 64 << 10}

func (e *engine) Health(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := e.room(e.storage, MaxValue); err != nil {
		return err
	}
	kv, err := e.bucket(short, healthSpace)
	if err == nil {
		_, err = kv.write(short, "asked", nil, time.Minute, "", nil)
	}
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return unanswered()
	}
	return err
}

func (e *engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	if e.unwatch != nil {
		e.unwatch()
	}
	if e.conn != nil {
		e.conn.Close()
	}
	if e.local != nil {
		return e.local.close()
	}
	return nil
}
