// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package statetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/state"
)

// Unsure is an engine some of whose writes are made and told as failed, as where the answer is lost.
type Unsure struct {
	state.Engine
	Lost atomic.Int64 // writes that are told so from now on
}

var errAnswer = errors.New("the answer was lost")

// KV opens a space whose answers are lost.
func (e *Unsure) KV(ctx context.Context, space state.Space) (state.KV, error) {
	kv, err := e.Engine.KV(ctx, space)
	return unsureKV{kv, e}, err
}

type unsureKV struct {
	state.KV
	engine *Unsure
}

func (kv unsureKV) told(revision state.Revision, err error) (state.Revision, error) {
	if err == nil && kv.engine.Lost.Load() > 0 && kv.engine.Lost.Add(-1) >= 0 {
		return 0, errAnswer
	}
	return revision, err
}

func (kv unsureKV) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (state.Revision, error) {
	return kv.told(kv.KV.Create(ctx, key, value, ttl))
}

func (kv unsureKV) Update(ctx context.Context, key string, value []byte, last state.Revision, ttl time.Duration) (state.Revision, error) {
	return kv.told(kv.KV.Update(ctx, key, value, last, ttl))
}
