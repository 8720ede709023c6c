// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	failedHeader = "Toolserver-Error" // what a handler returned
	busyHeader   = "Toolserver-Busy"
	handlers     = "handlers" // of several that handle a subject, one gets a request
	maxHandled   = 256        // requests that a handler has at once
)

type bus struct{ e *engine }

func (b bus) prefix() string { return b.e.prefix + ".bus." }

func (b bus) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	encoded, packed, err := pack(subject, data)
	if err != nil {
		return nil, err
	}
	waiting := ctx
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	answer, err := b.e.conn.RequestWithContext(waiting, b.prefix()+encoded, packed)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNoResponder
	case err != nil:
		return nil, b.e.failure(ctx, err)
	case answer.Header.Get(busyHeader) != "":
		return nil, ErrBusy
	case answer.Header.Get(failedHeader) != "":
		return nil, RemoteError(answer.Data)
	}
	return answer.Data, nil
}

func (b bus) Handle(subject string, f func(context.Context, []byte) ([]byte, error)) (func(), error) {
	encoded, _, err := subjectOf(subject)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	room := make(chan struct{}, maxHandled)
	var running sync.WaitGroup
	handle := func(m *nats.Msg) {
		defer func() { <-room }()
		_, data := unpack(encoded, m.Data)
		answer := nats.NewMsg(m.Reply)
		result, err := f(ctx, data)
		if err == nil && len(result) > MaxValue {
			err = fmt.Errorf("%w: an answer of %d bytes, and %d are allowed", ErrTooLarge, len(result), MaxValue)
		}
		if err != nil {
			answer.Header.Set(failedHeader, "1")
			result = []byte(err.Error())
		}
		answer.Data = result
		m.RespondMsg(answer)
	}
	stopped := make(chan struct{})
	sub, err := b.e.conn.QueueSubscribe(b.prefix()+encoded, handlers, func(m *nats.Msg) {
		select {
		case room <- struct{}{}:
			running.Go(func() { handle(m) })
		default:
			answer := nats.NewMsg(m.Reply)
			answer.Header.Set(busyHeader, "1")
			m.RespondMsg(answer)
		}
	})
	if err != nil {
		cancel()
		return nil, b.e.failure(context.Background(), err)
	}
	sub.SetClosedHandler(func(string) { close(stopped) })
	if err := b.known(); err != nil {
		cancel()
		sub.Unsubscribe()
		return nil, err
	}
	return b.e.onClose(sync.OnceFunc(func() {
		cancel()
		sub.Unsubscribe()
		<-stopped // no request begins any more
		running.Wait()
	})), nil
}

// known returns when the engine knows of all subscriptions so far.
func (b bus) known() error {
	return b.e.failure(context.Background(), b.e.conn.FlushTimeout(patience))
}

func (b bus) Publish(subject string, data []byte) error {
	encoded, packed, err := pack(subject, data)
	if err != nil {
		return err
	}
	return b.e.failure(context.Background(), b.e.conn.Publish(b.prefix()+encoded, packed))
}

func (b bus) Subscribe(subject string, f func(string, []byte)) (func(), error) {
	filter, err := selection(subject)
	if err != nil {
		return nil, err
	}
	sub, err := b.e.conn.Subscribe(b.prefix()+filter, func(m *nats.Msg) {
		text, data := unpack(strings.TrimPrefix(m.Subject, b.prefix()), m.Data)
		if selects(subject, text) {
			f(text, data)
		}
	})
	if err == nil {
		err = b.known()
	}
	if err != nil {
		return nil, b.e.failure(context.Background(), err)
	}
	return b.e.onClose(sync.OnceFunc(func() { sub.Unsubscribe() })), nil
}
