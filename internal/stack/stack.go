// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package stack grows stacks before they are full. A goroutine begins with 2 KiB;
// when it needs more, Go unwinds and moves whatever is on its stack. That takes
// the longer the deeper the stack is, and brings in tables of the program which
// then stay in memory. Grown at once, near its beginning, a stack costs little.
//
// The package imports the runtime alone: Go initialises such packages before
// nearly all others, so that the stack on which they are initialised is grown
// when they are.
package stack

import "runtime"

func init() {
	runtime.MemProfileRate = 0 // or some allocations would unwind the stack to record their callers
	GrowTo16K()
}

// GrowTo8K has its caller go on with a stack of at least 8 KiB. It suits a
// goroutine that may wait for long: what runs a call needs no more.
func GrowTo8K()

// GrowTo16K has its caller go on with a stack of at least 16 KiB. It suits a
// goroutine that ends soon.
func GrowTo16K()
