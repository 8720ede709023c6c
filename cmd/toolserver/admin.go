// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"runtime"
	"strings"
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

// newAdmin returns the HTTP server for operators.
func newAdmin(handler http.Handler, logger *zap.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ErrorLog:          zap.NewStdLog(logger),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // of a profile that takes its time
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

const profilesPath = "/debug/pprof/"

// adminHandler answers operators: metrics, probes and, if wanted, profiles.
type adminHandler struct {
	metrics  http.Handler
	ready    func() bool
	profiles bool
}

func (h *adminHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	switch path := r.URL.Path; {
	case path == "/metrics":
		h.metrics.ServeHTTP(w, r)
	case path == "/livez":
		answer(w, true, "alive")
	case path == "/readyz" && h.ready():
		answer(w, true, "ready")
	case path == "/readyz":
		answer(w, false, "draining")
	case h.profiles && strings.HasPrefix(path, profilesPath):
		profiles(w, r)
	default:
		http.NotFound(w, r)
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
