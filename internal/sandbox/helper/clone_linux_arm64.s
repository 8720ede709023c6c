// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

#define SYS_clone 220

// The functions are called by address: they are on a stack of their own, which
// the linker does not know when it adds up what their callers need.

// func cloneGuard(flags, stack, tid uintptr, s *slot) int
TEXT ·cloneGuard(SB), NOSPLIT, $16-40
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	tid+16(FP), R4
	MOVD	s+24(FP), R19
	MOVD	$SYS_clone, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+32(FP)
	RET
child:
	MOVD	R19, 8(RSP)
	MOVD	$·guard(SB), R20
	BL	(R20)
	BRK
	RET

// func cloneCommand(flags, stack uintptr, s *slot) int
TEXT ·cloneCommand(SB), NOSPLIT, $16-32
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	s+16(FP), R19
	MOVD	$SYS_clone, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+24(FP)
	RET
child:
	MOVD	R19, 8(RSP)
	MOVD	$·command(SB), R20
	BL	(R20)
	BRK
	RET
