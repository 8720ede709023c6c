// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"testing"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/schedule"
	"github.com/toolserver/toolserver/internal/state"
	scheduletools "github.com/toolserver/toolserver/internal/tools/schedule"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestContract(t *testing.T) {
	s := schedule.New(schedule.Options{Door: new(errand.Door), Engine: func(ctx context.Context) (state.Engine, error) {
		engine, err := state.Open(ctx, state.Options{})
		if err == nil {
			t.Cleanup(func() { engine.Close() })
		}
		return engine, err
	}})
	defer s.Close()
	for _, tool := range scheduletools.Tools(s) {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}
