// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Landlock keeps the signals of a command to the command: that is how its guard
// finds all of it. But a session is to end what it has started in an earlier call.
// So the filter hands kill to the helper, which sends a signal to processes of other
// commands of the same session.

// Signals is a root that lets a command signal the other commands of its session.
const Signals = "signals"

// signal sends a signal for a command. What it may send by itself it does: the
// kernel looks at the arguments once, and they are numbers.
func (h *helper) signal(a *asked) {
	target, sig := int(int32(a.args[0])), int(int32(a.args[1]))
	own := h.guardAbove(int(a.thread))
	if target <= 0 || own == nil || !slices.Contains(h.rootsIn(own), Signals) {
		a.goOn()
		return
	}
	process, err := unix.PidfdOpen(target, 0)
	if err != nil {
		a.goOn()
		return
	}
	defer unix.Close(process) // what has the id now is what is looked at
	switch guard := h.guardAbove(target); {
	case guard == nil, guard == own, guard.pid == target, !a.waits():
		a.goOn()
	default:
		a.respond(0, unix.PidfdSendSignal(process, unix.Signal(sig), nil, 0))
	}
}

// guardAbove returns the guard that a process descends from, or is; nil if none.
func (h *helper) guardAbove(process int) *guarded {
	for range 3 { // a parent may end while it is looked for
		for pid := process; pid > 1 && pid != h.pid; pid = parentOf(pid) {
			if g := h.guardOf(pid); g != nil {
				return g
			}
		}
	}
	return nil
}
