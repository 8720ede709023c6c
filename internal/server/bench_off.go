// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !bench

package server

import "github.com/toolserver/toolserver/internal/tools"

// benchTools returns the tools that make bench measures with: none here.
func benchTools(int) []tools.Tool { return nil }
