// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func scanPair(p *byte, n, first, second int, a, foldA, b, foldB byte) (place int, found uint64)
TEXT ·scanPair(SB), NOSPLIT, $0-56
	MOVQ         p+0(FP), DI
	MOVQ         n+8(FP), CX
	MOVQ         first+16(FP), R10
	MOVQ         second+24(FP), R11
	VPBROADCASTB a+32(FP), Y8
	VPBROADCASTB foldA+33(FP), Y9
	VPBROADCASTB b+34(FP), Y10
	VPBROADCASTB foldB+35(FP), Y11
	ADDQ         DI, R10
	ADDQ         DI, R11
	XORL         BX, BX

next:
	CMPQ      BX, CX
	JAE       none
	VMOVDQU   (R10)(BX*1), Y0
	VMOVDQU   32(R10)(BX*1), Y1
	VMOVDQU   (R11)(BX*1), Y2
	VMOVDQU   32(R11)(BX*1), Y3
	VPOR      Y9, Y0, Y0
	VPOR      Y9, Y1, Y1
	VPOR      Y11, Y2, Y2
	VPOR      Y11, Y3, Y3
	VPCMPEQB  Y8, Y0, Y0
	VPCMPEQB  Y8, Y1, Y1
	VPCMPEQB  Y10, Y2, Y2
	VPCMPEQB  Y10, Y3, Y3
	VPAND     Y2, Y0, Y0
	VPAND     Y3, Y1, Y1
	VPOR      Y1, Y0, Y4
	VPTEST    Y4, Y4
	JNZ       some
	ADDQ      $64, BX
	JMP       next

some:
	VPMOVMSKB Y0, AX
	VPMOVMSKB Y1, DX
	SHLQ      $32, DX
	ORQ       DX, AX
	VZEROUPPER
	MOVQ      BX, place+40(FP)
	MOVQ      AX, found+48(FP)
	RET

none:
	VZEROUPPER
	MOVQ $-1, place+40(FP)
	MOVQ $0, found+48(FP)
	RET
