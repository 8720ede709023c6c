// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	// saturating is how many calls the busy tenant has under way.
	saturating = 64

	// busyCommand keeps a core busy for some ten milliseconds.
	busyCommand = "for ((i = 0; i < 10000; i++)); do :; done"
)

// tenantsFigure is figure 14: what one tenant notices of another that sends as many
// calls as it can. Beside it stands what it has alone, on the same server.
func tenantsFigure(ctx context.Context, h *harness) ([]row, error) {
	s, err := h.startTenants(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	busy, err := s.tenant("busy")
	if err != nil {
		return nil, err
	}
	defer busy.conn.Close()
	quiet, err := s.tenant("quiet")
	if err != nil {
		return nil, err
	}
	defer quiet.conn.Close()
	ids, err := sessions(ctx, busy, saturating)
	if err != nil {
		return nil, err
	}
	own, err := sessions(ctx, quiet, 1)
	if err != nil {
		return nil, err
	}
	commands := func(s *server, ids []string) caller {
		run := inTurn(ids)
		return func(ctx context.Context) error {
			return run(func(id string) error {
				return bash(ctx, s, id, busyCommand, func(*pb.Output) error { return nil })
			})
		}
	}
	var rows []row
	for _, kind := range []struct {
		name        string
		busy, quiet caller
		target      target
	}{
		{"commands", commands(busy, ids), commands(quiet, own), ratioAtMost(2)},
		{"calls that do nothing", noop(busy, work.Noop, false), noop(quiet, work.Noop, false), target{}},
	} {
		var pair sides[slice]
		length := 8 * h.plan.slice // for a p99 of one call at a time
		alone := func(ctx context.Context) (slice, error) { return load(ctx, quiet, kind.quiet, 1, length) }
		beside := func(ctx context.Context) (slice, error) {
			stop := saturate(ctx, kind.busy)
			sample, err := alone(ctx)
			return sample, errors.Join(err, stop())
		}
		steps := pair.entrants(beside, alone, alone)
		if err := interleave(ctx, 1, steps); err != nil { // which does not count
			return nil, err
		}
		pair.forget()
		if err := interleave(ctx, h.plan.shellRounds, steps); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s beside %d of another tenant", kind.name, saturating)
		rows = append(rows, pair.row(name+": p99", "µs", p99Of, kind.target), pair.row(name+": p50", "µs", p50Of, target{}))
	}
	return rows, nil
}

// startTenants starts toolserver with two tenants, and with as many places as there are
// cores.
func (b *binaries) startTenants(ctx context.Context) (*server, error) {
	config, policy := filepath.Join(b.dir, "tenants.yaml"), filepath.Join(b.dir, "tenants-policy.yaml")
	text := fmt.Sprintf(`authentication:
  tokens:
  - {principal: agent, tenant: busy, token: %s}
  - {principal: agent, tenant: quiet, token: %s}
sessions:
  max_mode: accept_edits
executions:
  max_active: %d
`, tenantToken("busy"), tenantToken("quiet"), runtime.NumCPU())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(policy, []byte("version: 1\nrules:\n- {name: bench, action: allow, tools: [bash]}\n"), 0o600); err != nil {
		return nil, err
	}
	command := b.toolserver(b.subject, anyPort)
	command.Args = append(command.Args, "--config", config, "--policy", policy)
	return b.start(ctx, command)
}

func tenantToken(tenant string) tokenCredentials {
	return tokenCredentials("token-of-tenant-" + tenant)
}

// tenant returns the server as a tenant calls it, over a connection of its own.
func (s *server) tenant(name string) (*server, error) {
	conn, err := grpc.NewClient(s.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(tenantToken(name)))
	if err != nil {
		return nil, err
	}
	as := *s
	as.name, as.conn, as.client = s.name+" as "+name, conn, pb.NewToolServiceClient(conn)
	return &as, nil
}

// tokenCredentials send a bearer token.
type tokenCredentials string

func (t tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (tokenCredentials) RequireTransportSecurity() bool { return false }

// saturate makes calls, as many at once as the busy tenant has, until stop is called,
// which returns what went wrong.
func saturate(ctx context.Context, call caller) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	errs := make([]error, saturating)
	for i := range errs {
		wait.Go(func() {
			for ctx.Err() == nil {
				if err := call(ctx); err != nil && ctx.Err() == nil {
					errs[i] = err
					return
				}
			}
		})
	}
	return func() error {
		cancel()
		wait.Wait()
		return errors.Join(errs...)
	}
}

// inTurn gives out ids, each to one at a time.
func inTurn(ids []string) func(use func(id string) error) error {
	free := make(chan string, len(ids))
	for _, id := range ids {
		free <- id
	}
	return func(use func(id string) error) error {
		id := <-free
		defer func() { free <- id }()
		return use(id)
	}
}
