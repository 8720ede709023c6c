// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import "errors"

// Brief returns what callers of the server may be told of an error: what it means for
// them, and not where the state is. The rest is for the operator.
func Brief(err error) error {
	for _, known := range []error{ErrFull, ErrUnavailable} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}
