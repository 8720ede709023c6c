// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
)

// A policyFile keeps the policy of a running server in step with its file. It
// looks at the file instead of listening for changes: that works on every file
// system, and with the links that Kubernetes swaps under a mounted ConfigMap.
type policyFile struct {
	path    string
	server  *service.Server
	logger  *zap.Logger
	reloads *prometheus.CounterVec // by result

	text []byte // that was last read, valid or not; nil where it could not be
}

// reloadInterval is how often the file is looked at.
const reloadInterval = time.Second

func newPolicyFile(path string, server *service.Server, registry prometheus.Registerer, logger *zap.Logger) *policyFile {
	return &policyFile{
		path: path, server: server, logger: logger,
		reloads: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "toolserver_policy_reloads_total", Help: "Changes of the policy file by result.",
		}, []string{"result"}),
	}
}

// watch reloads the policy when its file changes, and at once on SIGHUP, until
// ctx ends.
func (f *policyFile) watch(ctx context.Context, interval time.Duration) {
	f.text, _ = os.ReadFile(f.path) // which is in force
	everySoOften(ctx, interval, f.reload)
}

// reload puts a changed file in force, as a whole or not at all.
func (f *policyFile) reload() {
	text, err := os.ReadFile(f.path)
	if err == nil && bytes.Equal(text, f.text) {
		return
	}
	if err != nil && f.text == nil {
		return // told already
	}
	f.text = text
	var next *policy.Policy
	if err == nil {
		next, err = policy.Parse(f.path, text)
	}
	if err == nil {
		err = f.server.ReplacePolicy(next)
	}
	if err != nil {
		f.reloads.WithLabelValues("failed").Inc()
		f.server.Reloaded("policy", f.server.Policy(), err)
		f.logger.Error("the policy file is not valid: the policy stays as it was",
			zap.String("policy", f.server.Policy()), zap.Error(err))
		return
	}
	f.reloads.WithLabelValues("succeeded").Inc()
	f.server.Reloaded("policy", next.Version(), nil)
	f.logger.Info("policy in force", zap.String("policy", next.Version()), zap.String("file", f.path))
}
