// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// catalog is the tools of a session, for its calls.
type catalog struct {
	*Admission
	of *session.Session
}

func (c catalog) All() ([]*tools.Entry, uint64) { return c.Registry.All() }

func (c catalog) Has(entry *tools.Entry) bool {
	return entry.Unavailable == "" && Available(c.of, c.ActivePolicy.Current(), &entry.Spec)
}

func (c catalog) Activate(names ...string) {
	for _, name := range slices.Backward(names) { // the first is the one that is wanted most
		if entry, ok := c.Registry.Lookup(name, nil); ok {
			c.of.Activate(&entry.Spec)
		}
	}
}
