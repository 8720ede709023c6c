// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"strings"
)

// An ending finds where a call ends that comes in pieces.
type ending struct {
	at     int
	json   jsonScan
	inJSON bool
	value  bool // a value was begun
	nested int  // calls within it
	mixed  bool // there were some
	lost   bool // JSON went wrong, so that nobody can say where the call ends
	past   int  // where the last value ended, or JSON
}

// find returns where the body ends, and how long what ends it is.
func (e *ending) find(s *syntax, body []byte) (end, size int, found bool) {
	if e.lost {
		return 0, 0, false
	}
	for e.at < len(body) {
		left := body[e.at:]
		switch {
		case e.inJSON:
			n, state := e.json.scan(left)
			e.at += n
			switch tag := hasPrefix(left[n:], "</"); {
			case state == jsonMore || state == jsonBad && tag == unsure:
				return 0, 0, false
			case state == jsonBad && tag == no: // quotation marks are wrong, or what ends it is missing
				e.lost = true
				return 0, 0, false
			}
			e.inJSON, e.past = false, e.at
			if s.close == "" {
				return e.at, 0, true
			}
		case e.value:
			next := bytes.IndexByte(left, '<')
			if next < 0 {
				e.at = len(body)
				return 0, 0, false
			}
			e.at += next
			left = left[next:]
			ends, begins, closes := hasPrefix(left, s.value[1]), hasPrefix(left, s.again), hasPrefix(left, s.close)
			switch {
			case begins == yes:
				e.nested, e.mixed = e.nested+1, true
			case closes == yes && e.nested > 0:
				e.nested--
			case ends == yes && e.nested == 0:
				e.value = false
				e.at += len(s.value[1]) - 1
				e.past = e.at + 1
			case ends == unsure || begins == unsure || closes == unsure:
				return 0, 0, false
			}
			e.at++
		case left[0] == '{' && (s.json == nil || s.json(body[:e.at])):
			e.inJSON, e.json = true, jsonScan{}
		default:
			closes, opens, values := no, hasPrefix(left, s.open), no
			if s.close != "" && (s.ends == nil || s.ends(body[:e.at])) {
				closes = hasPrefix(left, s.close)
			}
			if s.value[0] != "" {
				values = hasPrefix(left, s.value[0])
			}
			switch {
			case closes == yes:
				return e.at, len(s.close), true
			case opens == yes && e.at > 0: // the end of the one before is missing
				return e.at, 0, true
			case values == yes:
				e.value = true
				e.at += len(s.value[0]) - 1
			case closes == unsure || opens == unsure || values == unsure:
				return 0, 0, false
			}
			e.at++
		}
	}
	return 0, 0, false
}

// cutOff returns where a call ends that never ended. Where only a value was not ended,
// that is the end of the call in it, if nothing follows that could belong to the value;
// otherwise it is the end of the text, for all of that may belong to the call.
func (e *ending) cutOff(s *syntax, body []byte) (end, size int) {
	i := -1
	if e.value && !e.mixed {
		i = bytes.Index(body[e.past:], []byte(s.close))
	}
	if i < 0 {
		return len(body), 0
	}
	end = e.past + i
	left := strings.TrimSpace(string(body[end+len(s.close):]))
	for _, tag := range s.rest {
		left = strings.TrimSpace(strings.TrimPrefix(left, tag))
	}
	if left != "" {
		return len(body), 0
	}
	return end, len(s.close)
}
