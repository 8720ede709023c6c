// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/cors"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/console"
	"github.com/toolserver/toolserver/internal/edge"
	"github.com/toolserver/toolserver/internal/rest"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/version"
)

// httpServer serves other protocols than gRPC over HTTP. It may be off.
type httpServer struct {
	http    *http.Server
	mcp     *edge.Handler
	address string // "off" when it is
}

// serveHTTP begins to serve clients of server over HTTP.
func serveHTTP(c *config.Config, access *config.Access, server *service.Server, metrics prometheus.Registerer, logger *zap.Logger) (*httpServer, error) {
	if c.HTTP.Off() {
		return &httpServer{address: "off"}, nil
	}
	listener, err := Listen(c.HTTP.Listen)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	s := &httpServer{address: addressOf(listener)}
	filter := c.Site()
	s.mcp = edge.New(edge.Config{Forward: server.Forward, Authenticator: access.Authenticator, Version: version.Text(), Limits: c.HTTP.MCP, Site: filter})
	paths := http.NewServeMux()
	paths.Handle(edge.Path, s.mcp)
	rpcs := rest.New(rest.Config{Forward: server.Forward, Authenticator: access.Authenticator, Site: filter})
	paths.Handle("/", rpcs)
	paths.Handle(console.Path, console.New(console.Config{REST: rpcs, Authenticator: access.Authenticator, Issuers: access.Issuers, Site: filter}))
	paths.Handle("GET /{$}", http.RedirectHandler(console.Path, http.StatusFound))
	s.http = &http.Server{
		Handler:           measured(shared(paths, filter.Origins), metrics),
		ErrorLog:          zap.NewStdLog(logger),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	serve := s.http.Serve
	if access.TLS != nil {
		s.http.TLSConfig = httpTLS(access.TLS.Config())
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	go func() {
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("http", zap.Error(err))
		}
	}()
	return s, nil
}

// shared returns a handler whose answers browsers let scripts of other sites read.
func shared(handler http.Handler, origins []string) http.Handler {
	if len(origins) == 0 {
		return handler
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"Authorization", "Content-Type", "Last-Event-ID", "Mcp-Protocol-Version", "Mcp-Session-Id", "Toolserver-On-Behalf-Of"},
		ExposedHeaders: []string{"Mcp-Session-Id", "Retry-After"},
		MaxAge:         600,
	}).Handler(handler)
}

// measured returns a handler whose requests are counted and timed. A stream takes as long as
// its client stays.
func measured(handler http.Handler, registry prometheus.Registerer) http.Handler {
	add := promauto.With(registry)
	requests := add.NewCounterVec(prometheus.CounterOpts{Name: "toolserver_http_requests_total", Help: "Requests by HTTP, by method and status code."}, []string{"method", "code"})
	durations := add.NewHistogramVec(prometheus.HistogramOpts{
		Name: "toolserver_http_request_duration_seconds", Help: "Time that requests by HTTP took, streams included.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	}, []string{"method"})
	underWay := add.NewGauge(prometheus.GaugeOpts{Name: "toolserver_http_requests_in_flight", Help: "Requests by HTTP that are under way, streams included."})
	return promhttp.InstrumentHandlerInFlight(underWay, promhttp.InstrumentHandlerDuration(durations, promhttp.InstrumentHandlerCounter(requests, handler)))
}

// httpTLS returns the configuration for clients that may speak HTTP/1.1 too.
func httpTLS(c *tls.Config) *tls.Config {
	protocols := []string{"h2", "http/1.1"}
	current := c.GetConfigForClient
	c.NextProtos = protocols
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := current(hello)
		if err != nil || slices.Equal(config.NextProtos, protocols) {
			return config, err
		}
		config = config.Clone()
		config.NextProtos = protocols
		return config, nil
	}
	return c
}

// Drain takes no new connections. What runs goes on.
func (s *httpServer) Drain() {
	if s.http != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // it does not wait
		s.http.Shutdown(ctx)
	}
}

// Close ends all sessions and connections.
func (s *httpServer) Close() {
	if s.http != nil {
		s.mcp.Close()
		s.http.Close()
	}
}
