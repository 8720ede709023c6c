// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package search

const (
	wide  = false
	block = 64
)

func scanPair(*byte, int, int, int, byte, byte, byte, byte) (int, uint64) { panic("not wide") }
