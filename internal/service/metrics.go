// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolserver/toolserver/internal/executor"
)

// metrics are what Prometheus sees of a server.
type metrics struct {
	rpcs      *prometheus.CounterVec
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// unknownTool is the label of calls of tools that do not exist: their names
// come from outside and would never end.
const unknownTool = "(unknown)"

// newMetrics registers the metrics of a server. stats is asked at each scrape.
func newMetrics(registerer prometheus.Registerer, stats func() executor.Stats) *metrics {
	m := &metrics{
		rpcs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolserver_rpcs_total", Help: "RPCs by method and status code.",
		}, []string{"method", "code"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolserver_calls_total", Help: "Ended executions by tool and outcome.",
		}, []string{"tool", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "toolserver_call_duration_seconds", Help: "Time tools ran.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 12),
		}, []string{"tool"}),
	}
	registerer.MustRegister(m.rpcs, m.calls, m.durations)

	gauge := func(name, help string, value func(executor.Stats) float64) {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(stats()) }))
	}
	counter := func(name, help string, value func(executor.Stats) float64) {
		registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return value(stats()) }))
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
func (m *metrics) observe(x *executor.Execution, end *executor.Finished) {
	tool := x.Order.Tool
	if end.Outcome == executor.NoSuchTool {
		tool = unknownTool
	}
	m.calls.WithLabelValues(tool, end.Outcome.String()).Inc()
	if x.Info().State == executor.Running { // a refused call never was
		m.durations.WithLabelValues(tool).Observe(end.Ran.Seconds())
	}
}
