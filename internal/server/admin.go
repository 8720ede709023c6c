// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/version"
)

// newMetrics returns a registry with what this server was built from and what
// the system tells about it.
func newMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	addFacts(registry, "toolserver_build_info", "What this server was built from; always 1.",
		[]string{"version", "go_version"}, [][]string{{version.Text(), runtime.Version()}})
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// addFacts registers a gauge that is always 1, once for each of the values of its
// labels, which are what it tells.
func addFacts(registry prometheus.Registerer, name, help string, labels []string, values [][]string) {
	facts := promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	for _, v := range values {
		facts.WithLabelValues(v...).Set(1)
	}
}

// showMetrics serves metrics as text or, with exemplars, as OpenMetrics, whichever
// is asked for.
func showMetrics(registry *prometheus.Registry, logger *zap.Logger) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorLog: zap.NewStdLog(logger)})
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
	ready    func() error
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
	case path == "/readyz":
		if err := h.ready(); err != nil {
			answer(w, false, err.Error())
			return
		}
		answer(w, true, "ready")
	case h.profiles && strings.HasPrefix(path, profilesPath):
		showProfile(w, r)
	default:
		http.NotFound(w, r)
	}
}

// maxProfile is how many seconds a profile may take.
const maxProfile = 100

// showProfile answers "go tool pprof" and "go tool trace".
func showProfile(w http.ResponseWriter, r *http.Request) {
	if text := r.FormValue("seconds"); text != "" {
		if seconds, err := strconv.Atoi(text); err != nil || seconds < 1 || seconds > maxProfile {
			http.Error(w, fmt.Sprintf("seconds=%s: want 1 to %d", text, maxProfile), http.StatusBadRequest)
			return
		}
	}
	switch strings.TrimPrefix(r.URL.Path, profilesPath) {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
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
