// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package history

import (
	"errors"
	"os"
)

// nameless makes a file that never has a name.
func nameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }
