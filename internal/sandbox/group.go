// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"iter"
	"sync/atomic"
	"time"
)

// GroupLimits bound the commands of a group together. 0 means no limit.
type GroupLimits struct {
	Memory    uint64        // bytes that they have at a time
	Processes int           // at a time
	CPU       time.Duration // of all there ever were
}

// A Group is commands that share limits, beside those that each has alone. Of a
// group that uses too much memory, or has too many processes, the command with
// the most is ended; of one that has used up its CPU time, all are. It is safe
// for concurrent use.
type Group struct {
	limits GroupLimits
	within *Group
	ended  time.Duration // CPU time of what has ended; guarded by the monitor
	spent  atomic.Bool
}

// NewGroup returns a group that is part of another, which may be nil.
func NewGroup(limits GroupLimits, within *Group) *Group {
	return &Group{limits: limits, within: within}
}

// Spent reports whether the CPU time of the group is used up. What is started
// then is ended soon.
func (g *Group) Spent() bool { return g.spent.Load() }

// all iterates over a group and those it is part of; over none if it is nil.
func (g *Group) all() iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		for ; g != nil && yield(g); g = g.within {
		}
	}
}
