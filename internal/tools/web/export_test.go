// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import "github.com/toolserver/toolserver/internal/tools"

// Tools returns the tools of [New].
func Tools(c Config, documents Documents) ([]tools.Tool, error) {
	f, err := New(c, documents)
	if err != nil {
		return nil, err
	}
	return f.Tools(), nil
}
