// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package command

import (
	"errors"
	"time"
)

// spaceOf is not known where no command runs.
func spaceOf(string) (device uint64, s space, err error) { return 0, s, errors.ErrUnsupported }

func (c *counter) count(string, time.Time) {}
