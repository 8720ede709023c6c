// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"sync"
)

// maxTail is how many bytes a Tail keeps.
const maxTail = 2000

// A Tail keeps the end of what a program writes about itself, for the message when it fails. The zero value
// is empty. Its methods are safe for concurrent use.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Add adds what the program wrote next.
func (t *Tail) Add(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, data...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
}

// String returns the end as plain text.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(Clean(t.text))
}
