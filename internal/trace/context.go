// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// A Sampler chooses traces. The zero value follows the caller, and takes every
// trace that begins here.
type Sampler struct {
	Skip         float64 // share of the traces that are left out, from 0 to 1
	IgnoreCaller bool    // choose also for traces that a caller has begun
}

// samples reports whether spans of a trace are exported. It chooses by id as
// OpenTelemetry does, so that all servers that see a trace choose alike.
func (s Sampler) samples(trace [16]byte, called, wanted bool) bool {
	if called && !s.IgnoreCaller {
		return wanted
	}
	return binary.BigEndian.Uint64(trace[8:])>>1 < uint64((1-s.Skip)*(1<<63))
}

// caller is what a traceparent header says.
type caller struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

// parseParent reads a traceparent header: version, trace, span and flags. Later
// versions may have more behind them.
func parseParent(header string) (c caller, ok bool) {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(header) < size || header[2] != '-' || header[35] != '-' || header[52] != '-' || strings.ContainsAny(header[:size], "ABCDEF") {
		return c, false
	}
	version := header[:2]
	if version == "ff" || version == "00" && len(header) > size || len(header) > size && header[size] != '-' {
		return c, false
	}
	var one [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{one[:], version}, {c.trace[:], header[3:35]}, {c.span[:], header[36:52]}, {one[:], header[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return c, false
		}
	}
	c.sampled = one[0]&1 != 0
	return c, c.trace != [16]byte{} && c.span != [8]byte{}
}

// maxState is the most that a server has to pass on of a tracestate header.
const maxState = 512

// checkState returns a tracestate header that can be passed on, or nothing.
func checkState(header string) string {
	if len(header) > maxState || strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return header
}

// fillRandom makes an id, of which none is zero.
func fillRandom(id []byte) {
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], rand.Uint64()|1)
	}
}
