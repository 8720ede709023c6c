// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// A sandboxMode is how much of the sandbox there must be.
type sandboxMode int

const (
	SandboxOff sandboxMode = iota
	SandboxPreferred
	SandboxRequired
)

var sandboxModes = []string{"off", "preferred", "required"}

// UnmarshalText reads the name of a mode.
func (m *sandboxMode) UnmarshalText(text []byte) error {
	i := slices.Index(sandboxModes, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no mode of the sandbox: want %s", text, strings.Join(sandboxModes, ", "))
	}
	*m = sandboxMode(i)
	return nil
}

func (m sandboxMode) String() string { return sandboxModes[m] }
