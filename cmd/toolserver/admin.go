// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// newMetrics returns a registry with what this server was built from.
func newMetrics() *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "toolserver_build_info", Help: "What this server was built from; always 1.",
		ConstLabels: prometheus.Labels{"version": versionText(), "go_version": runtime.Version()},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(build)
	return registry
}

// serveMetrics returns the handler of a registry. The metrics of the process and
// of the runtime join it when it is first asked: making them takes a tenth of
// the time this server needs to start.
func serveMetrics(registry *prometheus.Registry, logger *zap.Logger) http.HandlerFunc {
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(logger)})
	join := sync.OnceFunc(func() {
		registry.MustRegister(
			collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		join()
		handler.ServeHTTP(w, r)
	}
}

// newAdmin returns the HTTP server for operators: metrics, probes and, if
// wanted, profiles.
func newAdmin(metrics *prometheus.Registry, ready func() bool, profiles bool, logger *zap.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", serveMetrics(metrics, logger))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, true, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ready() {
			answer(w, true, "ready")
		} else {
			answer(w, false, "draining")
		}
	})
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return &http.Server{
		Handler:           mux,
		ErrorLog:          zap.NewStdLog(logger),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // of a profile that takes its time
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// answer writes the answer to a probe.
func answer(w http.ResponseWriter, ok bool, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	w.Write([]byte(word + "\n"))
}
