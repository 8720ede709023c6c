// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

#define SYS_clone 56

// The functions are called by address: they are on a stack of their own, which
// the linker does not know when it adds up what their callers need.

// func cloneGuard(flags, stack, tid uintptr, s *slot) int
TEXT ·cloneGuard(SB), NOSPLIT, $16-40
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	XORL	DX, DX
	MOVQ	tid+16(FP), R10
	XORL	R8, R8
	MOVQ	s+24(FP), R12
	MOVL	$SYS_clone, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, ret+32(FP)
	RET
child:
	XORL	BP, BP
	MOVQ	R12, 0(SP)
	LEAQ	·guard(SB), AX
	CALL	AX
	INT	$3
	RET

// func cloneCommand(flags, stack uintptr, s *slot) int
TEXT ·cloneCommand(SB), NOSPLIT, $16-32
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	MOVQ	s+16(FP), R12
	MOVL	$SYS_clone, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, ret+24(FP)
	RET
child:
	XORL	BP, BP
	MOVQ	R12, 0(SP)
	LEAQ	·command(SB), AX
	CALL	AX
	INT	$3
	RET
