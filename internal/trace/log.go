// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
)

// Levels of what OpenTelemetry tells its log.
const (
	levelWarn  = 1
	levelDebug = 8
)

// sink takes what OpenTelemetry tells its log: what is wrong goes on to ours. Of the
// rest one thing is of use, how many spans were dropped because too many waited.
type sink struct {
	logger  *zap.Logger
	dropped *atomic.Uint32
}

func newLogger(logger *zap.Logger) logr.Logger {
	return logr.New(sink{logger, new(atomic.Uint32)})
}

func (sink) Init(logr.RuntimeInfo) {}

func (sink) Enabled(level int) bool { return level <= levelWarn || level == levelDebug }

func (s sink) Info(level int, message string, pairs ...any) {
	if level <= levelWarn {
		s.logger.Warn("tracing: " + message)
		return
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if total, ok := pairs[i+1].(uint32); ok && pairs[i] == "total_dropped" {
			if before := s.dropped.Swap(total); total > before {
				s.logger.Warn("tracing: spans were dropped, for too many waited: see OTEL_BSP_MAX_QUEUE_SIZE", zap.Uint32("dropped", total-before))
			}
		}
	}
}

// Error leaves out what the error is about: it may be a header. URLs were checked, and
// exporters take none from the variables.
func (s sink) Error(err error, message string, _ ...any) {
	if message == "parse url" {
		return // an endpoint without a scheme, which is none
	}
	s.logger.Warn("tracing: "+message, zap.Error(err))
}

func (s sink) WithValues(...any) logr.LogSink { return s }

func (s sink) WithName(string) logr.LogSink { return s }
