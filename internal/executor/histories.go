// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/state"
)

// histories are the logs of ends: each tenant has one, so that none pushes out what is kept for
// another. Where there are too many, the rest share that of the default tenant.
type histories struct {
	config RecordsConfig
	common state.Log

	mu     sync.Mutex
	byName map[string]state.Log // beside common
}

const (
	historyName = "history"

	// maxHistories is how many tenants have a log of their own: each log costs memory.
	maxHistories = 32
)

// openHistories opens the common log. Those of tenants are opened when they are needed.
func openHistories(ctx context.Context, config RecordsConfig) (_ *histories, err error) {
	h := &histories{config: config, byName: make(map[string]state.Log)}
	h.common, err = h.open(ctx, historyName)
	return h, err
}

func (h *histories) open(ctx context.Context, name string) (state.Log, error) {
	return h.config.Engine.Log(ctx, state.Space{Name: name, MaxBytes: h.config.HistoryBytes, MaxAge: h.config.Retention})
}

// nameFor returns the name of the log of a tenant.
func nameFor(tenant string) string {
	if tenant == "" {
		return historyName
	}
	sum := sha256.Sum256([]byte(tenant))
	return historyName + "_" + hex.EncodeToString(sum[:8])
}

// named returns a log, and its name: that of another where there are too many.
func (h *histories) named(ctx context.Context, name string) (state.Log, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name == historyName {
		return h.common, historyName, nil
	}
	if log := h.byName[name]; log != nil {
		return log, name, nil
	}
	if len(h.byName) >= maxHistories {
		return h.common, historyName, nil
	}
	log, err := h.open(ctx, name)
	if errors.Is(err, state.ErrFull) { // for one more log; ends have room in the common one
		return h.common, historyName, nil
	}
	if err != nil {
		return nil, "", err
	}
	h.byName[name] = log
	return log, name, nil
}

// append stores a batch, and returns where it is.
func (h *histories) append(ctx context.Context, tenant string, batch []byte) (*storedPlace, error) {
	log, name, err := h.named(ctx, nameFor(tenant))
	if err != nil {
		return nil, err
	}
	seq, err := log.Append(ctx, "calls", batch)
	if err != nil {
		return nil, err
	}
	return &storedPlace{Log: name, Seq: seq, Size: len(batch)}, nil
}

// read returns what is at a place; nil where it is gone.
func (h *histories) read(ctx context.Context, at *storedPlace) ([]byte, error) {
	log, name, err := h.named(ctx, at.Log)
	if err != nil || name != at.Log {
		return nil, err
	}
	records, err := log.Read(ctx, "", at.Seq, 1)
	if err != nil || len(records) != 1 || records[0].Seq != at.Seq || at.At < 0 || at.Size < 0 || at.At > len(records[0].Data)-at.Size {
		return nil, err
	}
	return records[0].Data[at.At : at.At+at.Size], nil
}

// all returns the logs that there are, also of earlier runs.
func (h *histories) all(ctx context.Context) ([]state.Log, error) {
	spaces, err := h.config.Engine.Usage(ctx)
	list := []state.Log{h.common}
	for _, space := range spaces {
		if !space.Log || !strings.HasPrefix(space.Name, historyName+"_") || err != nil {
			continue
		}
		var log state.Log
		if log, _, err = h.named(ctx, space.Name); err == nil && log != h.common {
			list = append(list, log)
		}
	}
	return list, err
}

// endedClaims are the claims whose calls ended, by tenant, the oldest first.
type endedClaims struct {
	byTenant map[string][]callName
	total    int
}

// add adds a claim, and returns one that is to be removed for it: the oldest of the tenant that
// has the most, or "" while there is room.
func (e *endedClaims) add(tenant string, newest callName) (oldest callName) {
	e.byTenant[tenant] = append(e.byTenant[tenant], newest)
	if e.total++; e.total <= maxClaims {
		return ""
	}
	for other, claims := range e.byTenant {
		if len(claims) > len(e.byTenant[tenant]) {
			tenant = other
		}
	}
	oldest = e.byTenant[tenant][0]
	e.byTenant[tenant] = e.byTenant[tenant][1:]
	e.total--
	return oldest
}
