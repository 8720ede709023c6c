// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import "golang.org/x/sys/cpu"

// wide says that scanPair works on this machine.
var wide = cpu.X86.HasAVX2

// block is how many places scanPair looks at in one step.
const block = 64

// scanPair looks for a place where two bytes are: at one distance from it a, and
// at another b. Before it compares, it sets the bits foldA and foldB in what it
// reads. It looks at n places, a multiple of [block], the first of them at p; of
// each it reads no more than the two bytes. It returns the first place of the
// first block that has some, with a bit for each place of the block, or -1.
//
//go:noescape
func scanPair(p *byte, n, first, second int, a, foldA, b, foldB byte) (place int, found uint64)
