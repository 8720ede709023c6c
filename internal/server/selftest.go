// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/sandbox"
)

const (
	// selfTestDelay lets a server that has just started answer its first callers.
	selfTestDelay = 200 * time.Millisecond

	selfTestTime = 30 * time.Second
)

// selfTest tries what commands must not be able to do, logs and exports what
// holds, and fails if something required does not, or with ctx.
func selfTest(ctx context.Context, c *config.Config, logger *zap.Logger, registry prometheus.Registerer, tested func(failed []string)) error {
	stderr, err := LogLines(logger, "a helper of the sandbox failed")
	if err != nil {
		return err
	}
	defer stderr.Close()
	checks, _, err := Probe(ctx, c, stderr)
	if ctx.Err() != nil {
		return ctx.Err() // what was found says nothing
	}
	if err != nil {
		logger.Warn("the sandbox could not be tried: toolserver sandbox probe tells more", zap.Error(err))
		return fmt.Errorf("the sandbox could not be tried: %w", err)
	}
	values := make([][]string, len(checks))
	var failed, weak, untried []string
	for i, check := range checks {
		values[i] = []string{check.Name, strconv.FormatBool(check.Holds)}
		switch {
		case !check.Tried:
			values[i][1] = "unknown"
			untried = append(untried, check.Name)
		case check.Holds:
		case check.Required:
			failed = append(failed, check.Name)
		default:
			weak = append(weak, check.Name)
		}
	}
	tested(slices.Concat(failed, weak, untried))
	addFacts(registry, "toolserver_sandbox_check", "What the self-test of the sandbox found; always 1.", []string{"check", "holds"}, values)
	fields := []zap.Field{zap.Int("checks", len(checks)), zap.Strings("failed", failed), zap.Strings("weak", weak), zap.Strings("not_tried", untried)}
	err = VerdictOn(checks)
	if err == nil {
		logger.Info("the sandbox holds", fields...)
		return nil
	}
	logger.Warn(err.Error()+"; toolserver sandbox probe tells more", fields...)
	return fmt.Errorf("sandbox.mode is %s, and %w; toolserver sandbox probe tells more", c.Sandbox.Mode, err)
}

// VerdictOn is an error unless all checks that are required hold. It tells what
// does not hold from what could not be tried.
func VerdictOn(checks []sandbox.Check) error {
	var failed, untried []string
	why := ""
	for _, check := range checks {
		switch {
		case !check.Required:
		case !check.Tried:
			untried = append(untried, check.Name)
			why = check.Detail
		case !check.Holds:
			failed = append(failed, check.Name)
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("the sandbox does not hold: %s", strings.Join(failed, ", "))
	case len(untried) == 0:
		return nil
	case len(untried) > maxNamed:
		untried = append(untried[:maxNamed], fmt.Sprintf("and %d more", len(untried)-maxNamed))
	}
	return fmt.Errorf("the sandbox could not be tried, so it is not known to hold (%s): %s", strings.Join(untried, ", "), strings.Join(strings.Fields(why), " "))
}

// maxNamed is how many checks are named that could not be tried: mostly it is
// all of them, for one reason.
const maxNamed = 3

// Probe runs the self-test in a sandbox of its own, whose helpers write to stderr.
func Probe(ctx context.Context, c *config.Config, stderr *os.File) ([]sandbox.Check, sandbox.Capabilities, error) {
	jails, err := OpenSandbox(&c.Sandbox, stderr)
	if err != nil {
		return nil, sandbox.Capabilities{}, err
	}
	defer jails.Close()
	ctx, cancel := context.WithTimeout(ctx, selfTestTime)
	defer cancel()
	return jails.Probe(ctx, c.StateDir()), jails.Capabilities(), nil
}
