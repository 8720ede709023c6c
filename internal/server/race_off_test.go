// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package server

// allowedGrowth is how much memory a server may take that does its worst.
const allowedGrowth = 64 << 20
