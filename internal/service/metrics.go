// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/metrics"
)

// meters are what Prometheus sees of a server.
type meters struct {
	rpcs          *metrics.Counter
	calls         *metrics.Counter
	limited       *metrics.Counter
	shadowLimited *metrics.Counter
	durations     *metrics.Histogram
}

// unknownTool is the label of calls of tools that do not exist: their names
// come from outside and would never end.
const unknownTool = "(unknown)"

// durationBounds are in seconds, each four times the one before: from what a
// tool needs that only computes to half an hour.
var durationBounds = []float64{0.0005, 0.002, 0.008, 0.032, 0.128, 0.512, 2.048, 8.192, 32.768, 131.072, 524.288, 2097.152}

// newMeters registers the metrics of a server. stats is asked at each scrape.
func newMeters(registry *metrics.Registry, stats func() executor.Stats) *meters {
	m := &meters{
		rpcs:    registry.Counter("toolserver_rpcs_total", "RPCs by method and status code.", "method", "code"),
		calls:   registry.Counter("toolserver_calls_total", "Ended executions by tool and outcome.", "tool", "outcome"),
		limited: registry.Counter("toolserver_limited_total", "Calls that a rate limit refused.", "limit", "tool"),
		shadowLimited: registry.Counter("toolserver_shadow_limited_total", "Calls that a rate limit in shadow would have refused.",
			"limit", "tool"),
		durations: registry.Histogram("toolserver_call_duration_seconds", "Time tools ran.", durationBounds, "tool"),
	}
	gauge := func(name, help string, value func(executor.Stats) float64) {
		registry.GaugeFunc(name, help, func() float64 { return value(stats()) })
	}
	counter := func(name, help string, value func(executor.Stats) float64) {
		registry.CounterFunc(name, help, func() float64 { return value(stats()) })
	}
	gauge("toolserver_running", "Executions that run.",
		func(s executor.Stats) float64 { return float64(s.Running) })
	gauge("toolserver_queue", "Executions that are accepted and wait.",
		func(s executor.Stats) float64 { return float64(s.Waiting) })
	gauge("toolserver_retained", "Ended executions that can still be read.",
		func(s executor.Stats) float64 { return float64(s.Retained) })
	gauge("toolserver_log_bytes", "Bytes of events kept.",
		func(s executor.Stats) float64 { return float64(s.LogBytes) })
	counter("toolserver_log_dropped_events_total", "Events dropped because a log was full.",
		func(s executor.Stats) float64 { return float64(s.DroppedEvents) })
	counter("toolserver_output_bytes_total", "Bytes of output tools wrote.",
		func(s executor.Stats) float64 { return float64(s.OutputBytes) })
	return m
}

// observe counts an execution that ends.
func (m *meters) observe(x *executor.Execution, end *executor.Finished) {
	tool := x.Order.Tool
	if end.Outcome == executor.NoSuchTool {
		tool = unknownTool
	}
	m.calls.Inc(tool, end.Outcome.String())
	if x.Info().State == executor.Running { // a refused call never was
		m.durations.Observe(end.Ran.Seconds(), tool)
	}
}
