// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package helper

import "errors"

// Execute fails: commands run on Linux alone.
func Execute([]string) error { return errors.ErrUnsupported }
