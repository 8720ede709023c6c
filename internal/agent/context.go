// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
)

// before returns what an agent is told of the conversation of its caller.
func (a *Agents) before(env tools.Env, c agent.Context) ([]model.Message, error) { return nil, nil }
