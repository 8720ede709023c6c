// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/config"
)

// watchAccess keeps tokens and certificates in step with their files until ctx ends, and
// tells the log of issuers that do not answer.
func watchAccess(ctx context.Context, c *config.Config, access *config.Access, registry prometheus.Registerer, logger *zap.Logger, report func(what, version string, err error)) {
	reloads := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "toolserver_reloads_total", Help: "Changes of the files of tokens and certificates by result.",
	}, []string{"what", "result"})
	watch := func(what string, files []string, load func() error) {
		r := &reloaded{what: what, files: files, load: load, reloads: reloads, logger: logger, report: report}
		for _, result := range []string{"succeeded", "failed"} {
			reloads.WithLabelValues(what, result)
		}
		r.inForce = r.digest()
		go everySoOften(ctx, reloadInterval, r.check)
	}
	if c.Authentication.TokenFile != "" {
		watch("tokens", []string{c.Authentication.TokenFile}, func() error { return c.Authentication.LoadTokens(access.Tokens) })
	}
	if access.TLS != nil {
		watch("certificates", access.TLS.Files(), access.TLS.Reload)
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolserver_tls_certificate_expiry_timestamp_seconds", Help: "When the certificate in force expires.",
		}, func() float64 { return float64(access.TLS.Expires().Unix()) })
	}
	for _, issuer := range access.Issuers {
		go func() {
			if err := issuer.Discover(ctx); err != nil && ctx.Err() == nil {
				logger.Warn("an issuer does not answer: its tokens are refused until it does", zap.String("issuer", issuer.URL()), zap.Error(err))
			}
		}()
	}
}

// reloaded are files whose content is put in force when it changes. Like the policy,
// they are looked at, for that works with the links that Kubernetes swaps.
type reloaded struct {
	what    string
	files   []string
	load    func() error // as a whole or not at all
	reloads *prometheus.CounterVec
	logger  *zap.Logger
	report  func(what, version string, err error)

	inForce, wrong, reported [sha256.Size]byte
}

// everySoOften calls check after each interval, and at once on SIGHUP, until ctx ends.
func everySoOften(ctx context.Context, interval time.Duration, check func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		case <-ticker.C:
		}
		check()
	}
}

// check puts changed files in force. What is wrong is looked at once more before it is
// told: it may be half written, or of two files one may be new.
func (r *reloaded) check() {
	now := r.digest()
	if now == r.inForce || now == r.reported {
		return
	}
	err := r.load()
	switch {
	case err == nil:
		r.inForce, r.wrong, r.reported = now, [sha256.Size]byte{}, [sha256.Size]byte{}
		r.reloads.WithLabelValues(r.what, "succeeded").Inc()
		r.report(r.what, "", nil)
		r.logger.Info(r.what+" in force", zap.Strings("files", r.files))
	case now != r.wrong:
		r.wrong = now
	default:
		r.reported = now
		r.reloads.WithLabelValues(r.what, "failed").Inc()
		r.report(r.what, "", err)
		r.logger.Error("files of "+r.what+" are not valid: those before stay in force", zap.Error(err))
	}
}

// digest returns that of all files, with those that cannot be read.
func (r *reloaded) digest() (digest [sha256.Size]byte) {
	sum := sha256.New()
	for _, path := range r.files {
		text, err := os.ReadFile(path)
		writeLong(sum, text)
		if err != nil {
			writeLong(sum, []byte(err.Error()))
		}
	}
	sum.Sum(digest[:0])
	return digest
}

// writeLong writes text so that it cannot be taken for a part of what follows.
func writeLong(sum hash.Hash, text []byte) {
	sum.Write(binary.AppendUvarint(nil, uint64(len(text))))
	sum.Write(text)
}
