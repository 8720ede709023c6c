// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/metrics"
)

// newMetrics returns a registry with what this server was built from and what
// the system tells about it.
func newMetrics() *metrics.Registry {
	registry := new(metrics.Registry)
	registry.Info("toolserver_build_info", "What this server was built from; always 1.",
		map[string]string{"version": versionText(), "go_version": runtime.Version()})
	registry.AddProcess()
	return registry
}

// newAdmin returns the HTTP server for operators: metrics, probes and, if
// wanted, profiles.
func newAdmin(metrics http.Handler, ready func() bool, profiles bool, logger *zap.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
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
