// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion

import "slices"

// ring keeps the last bytes of what is written to it. Offsets count from the
// first byte ever written.
type ring struct {
	limit int
	data  []byte // at limit bytes the oldest is at next
	next  int
	end   uint64 // the offset behind the last byte
}

func (r *ring) write(p []byte) {
	r.end += uint64(len(p))
	p = p[max(0, len(p)-r.limit):]
	room := min(r.limit-len(r.data), len(p))
	r.data = append(r.data, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		n := copy(r.data[r.next:], p)
		p = p[n:]
		r.next = (r.next + n) % r.limit
	}
}

// from returns a copy of what is kept from an offset on, and the offset at which
// that begins.
func (r *ring) from(offset uint64) ([]byte, uint64) {
	begin := max(offset, r.end-uint64(len(r.data)))
	skip := len(r.data) - int(r.end-begin)
	old := r.data[r.next:]
	if skip >= len(old) {
		return slices.Clone(r.data[skip-len(old) : r.next]), begin
	}
	return slices.Concat(old[skip:], r.data[:r.next]), begin
}

// drop forgets what is kept.
func (r *ring) drop() { r.data, r.next = nil, 0 }
