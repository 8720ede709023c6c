// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

// cloneGuard makes a process that shares the memory of this one and calls guard
// on a stack of its own. It returns the process id or, negative, an error. The
// kernel clears the word at tid when the process ends.
//
//go:noescape
func cloneGuard(flags, stack, tid uintptr, s *slot) int

// cloneCommand makes a process that calls command. This one goes on when that
// one has executed a program or has ended.
//
//go:noescape
func cloneCommand(flags, stack uintptr, s *slot) int

// What the new processes call, which only assembly sees.
var _ = [...]func(*slot){guard, command}
