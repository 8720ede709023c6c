// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

const (
	// usageInterval is how often it is looked how full the spaces of the state are.
	usageInterval = 30 * time.Second

	// nearlyFull is how many percent of a bucket are told of before it refuses writes.
	nearlyFull = 80
)

// usageWatch tells metrics how full the spaces of the state are, and the log of buckets that are
// nearly full. Logs are not told of: they forget their oldest records.
type usageWatch struct {
	logger *zap.Logger
	bytes  *prometheus.GaugeVec
	limits *prometheus.GaugeVec
	full   map[string]bool // buckets that were told of

	stop context.CancelFunc
	done chan struct{}
}

// watchUsage begins to look, until it is closed.
func watchUsage(engine state.Engine, metrics prometheus.Registerer, logger *zap.Logger) *usageWatch {
	labels := []string{"space", "kind"}
	w := &usageWatch{
		logger: logger, full: make(map[string]bool), done: make(chan struct{}),
		bytes:  promauto.With(metrics).NewGaugeVec(prometheus.GaugeOpts{Name: "toolserver_state_bytes", Help: "How much a bucket or a log of the state has."}, labels),
		limits: promauto.With(metrics).NewGaugeVec(prometheus.GaugeOpts{Name: "toolserver_state_limit_bytes", Help: "How much it may have."}, labels),
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		tick := time.NewTicker(usageInterval)
		defer tick.Stop()
		for {
			if list, err := engine.Usage(ctx); err == nil {
				w.check(list)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

func (w *usageWatch) check(list []state.Usage) {
	for _, space := range list {
		kind := "bucket"
		if space.Log {
			kind = "log"
		}
		w.bytes.WithLabelValues(space.Name, kind).Set(float64(space.Bytes))
		w.limits.WithLabelValues(space.Name, kind).Set(float64(space.MaxBytes))
		full := !space.Log && space.Bytes > space.MaxBytes/100*nearlyFull
		if full && !w.full[space.Name] {
			w.logger.Warn("a bucket of the state is nearly full: when it is, what is new is refused",
				zap.String("bucket", space.Name), zap.Uint64("bytes", space.Bytes), zap.Uint64("most", space.MaxBytes))
		}
		w.full[space.Name] = full
	}
}

// Close ends it.
func (w *usageWatch) Close() error {
	w.stop()
	<-w.done
	return nil
}
