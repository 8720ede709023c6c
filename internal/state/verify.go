// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

func (d *directory) verify() error { return nil }
