// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// These do nothing but have a frame: half of the stack and a little more, since
// the stack is doubled until the frame fits.

// func GrowTo8K()
TEXT ·GrowTo8K(SB), 0, $5120-0
	RET

// func GrowTo16K()
TEXT ·GrowTo16K(SB), 0, $10240-0
	RET
