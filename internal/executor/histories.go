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

	mu     sync.Mutex           // never held while the engine is asked
	byName map[string]state.Log // beside common
	full   bool                 // there are as many as may be: no other is made
}

const (
	historyName = "history"

	// maxHistories is how many tenants have a log of their own, at all servers that share the
	// engine: each log costs memory.
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

// known returns a log that is open. full says that no other is to be made.
func (h *histories) known(name string) (log state.Log, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name == historyName {
		return h.common, h.full
	}
	return h.byName[name], h.full
}

// named opens a log that there is.
func (h *histories) named(ctx context.Context, name string) (state.Log, error) {
	if log, _ := h.known(name); log != nil {
		return log, nil
	}
	log, err := h.open(ctx, name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byName[name] = log // which is the same for who opened it meanwhile
	return log, nil
}

// forTenant returns the log of a tenant, and its name: the common one where there are too many.
func (h *histories) forTenant(ctx context.Context, tenant string) (state.Log, string, error) {
	name := nameFor(tenant)
	log, full := h.known(name)
	switch {
	case log != nil:
		return log, name, nil
	case full:
		return h.common, historyName, nil
	}
	there, err := h.names(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(there) >= maxHistories {
		return h.common, historyName, h.closeList(ctx, there)
	}
	log, err = h.named(ctx, name)
	if errors.Is(err, state.ErrFull) { // for one more log; ends have room in the common one
		return h.common, historyName, nil
	}
	return log, name, err
}

// closeList opens the logs that there are, and has no other be made.
func (h *histories) closeList(ctx context.Context, there []string) error {
	for _, name := range there {
		if _, err := h.named(ctx, name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.full = true
	return nil
}

// names returns which logs of tenants there are, also of earlier runs and at other servers.
func (h *histories) names(ctx context.Context) (names []string, err error) {
	spaces, err := h.config.Engine.Usage(ctx)
	for _, space := range spaces {
		if space.Log && strings.HasPrefix(space.Name, historyName+"_") {
			names = append(names, space.Name)
		}
	}
	return names, err
}

// append stores a batch, and returns where it is.
func (h *histories) append(ctx context.Context, tenant string, batch []byte) (*storedPlace, error) {
	log, name, err := h.forTenant(ctx, tenant)
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
	log, err := h.named(ctx, at.Log)
	if err != nil {
		return nil, err
	}
	records, err := log.Read(ctx, "", at.Seq, 1)
	if err != nil || len(records) != 1 || records[0].Seq != at.Seq || at.At < 0 || at.Size < 0 || at.At > len(records[0].Data)-at.Size {
		return nil, err
	}
	return records[0].Data[at.At : at.At+at.Size], nil
}

// all returns the logs that there are, also of earlier runs, by name.
func (h *histories) all(ctx context.Context) (map[string]state.Log, error) {
	names, err := h.names(ctx)
	logs := map[string]state.Log{historyName: h.common}
	for _, name := range names {
		if err != nil {
			break
		}
		var log state.Log
		if log, err = h.named(ctx, name); err == nil {
			logs[name] = log
		}
	}
	return logs, err
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
	return e.oldest()
}

// oldest takes out the oldest claim of the tenant that has the most; "" where there is none.
func (e *endedClaims) oldest() (oldest callName) {
	var most string
	for tenant, claims := range e.byTenant {
		if len(claims) > len(e.byTenant[most]) {
			most = tenant
		}
	}
	if claims := e.byTenant[most]; len(claims) > 0 {
		oldest, e.byTenant[most] = claims[0], claims[1:]
		e.total--
	}
	return oldest
}
