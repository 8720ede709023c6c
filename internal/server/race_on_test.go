// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package server

// allowedGrowth is how much memory a server may take that does its worst: the race detector
// has shadows of all of it.
const allowedGrowth = 512 << 20
