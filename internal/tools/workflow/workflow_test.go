// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow_test

import (
	"context"
	"testing"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	workflowtools "github.com/toolserver/toolserver/internal/tools/workflow"
	"github.com/toolserver/toolserver/internal/workflow"
)

func TestContract(t *testing.T) {
	w := workflow.New(workflow.Options{Door: new(errand.Door), Engine: func(ctx context.Context) (state.Engine, error) {
		engine, err := state.Open(ctx, state.Options{})
		if err == nil {
			t.Cleanup(func() { engine.Close() })
		}
		return engine, err
	}})
	defer w.Close()
	for _, tool := range workflowtools.Tools(w) {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}
