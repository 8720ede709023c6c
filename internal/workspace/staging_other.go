// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workspace

import "errors"

func syncAll(int) error { return errors.ErrUnsupported }
