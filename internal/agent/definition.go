// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Definition is an agent of the operator.
type Definition struct {
	Name        string      `yaml:"name"`
	Description string      `yaml:"description"` // for models: when to give it a task
	Prompt      string      `yaml:"prompt"`      // the system prompt
	Endpoint    string      `yaml:"endpoint"`    // of models; empty: the first of the table
	Tools       []string    `yaml:"tools"`       // names, aliases or globs; none: all of the caller's
	Level       tools.Level `yaml:"level"`       // 0: that of the caller
	Mode        tools.Mode  `yaml:"mode"`        // 0: that of the caller
	Limits      Limits      `yaml:"limits"`
}

// Limits end a loop that would go on. Zero fields take the defaults named.
type Limits struct {
	Turns   int           `yaml:"turns"`   // 50
	Tokens  int64         `yaml:"tokens"`  // of all turns together, read and written; none
	Dollars float64       `yaml:"dollars"` // none
	Time    time.Duration `yaml:"time"`    // 30 minutes
}
