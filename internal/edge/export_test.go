// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

// Sessions returns how many sessions there are.
func (h *Handler) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions)
}
