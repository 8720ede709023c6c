// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package index

// A kernelLimits is what the kernel lets this process and its user have.
type kernelLimits struct{ watches, instances, files int }

func limitsOfKernel() kernelLimits { return kernelLimits{} }

func (kernelLimits) runsShort() bool { return false }
