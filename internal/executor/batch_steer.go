// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"slices"
	"strings"
)

// interruption is the cause of an execution that was skipped.
type interruption struct{ reason, by string }

func (i *interruption) Error() string {
	text := "interrupted by " + i.by
	if i.reason != "" {
		text += ": " + strings.TrimSuffix(i.reason, ".")
	}
	return text
}

// finished returns the end of a call that was skipped.
func (i *interruption) finished() *Finished {
	return withFailure(Skip, "skipped", fmt.Sprintf(
		"The call was skipped, and nothing of it ran: before its turn the batch was %s. Call again if it is still wanted.", i))
}

// unfinished returns the executions of the batch that have not ended, the newest first:
// where they are ended in this order, none begins for the end of another.
func (b *Batch) unfinished() (list []*Execution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range slices.Backward(b.calls) {
		if call.execution != nil && call.outcome == 0 {
			list = append(list, call.execution)
		}
	}
	return list
}

// executions returns all that are kept, the newest first.
func (b *Batch) executions() (list []*Execution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range slices.Backward(b.calls) {
		if call.execution != nil {
			list = append(list, call.execution)
		}
	}
	return list
}

// Interrupt skips the calls that wait for their turn or for a person. Those that run go
// on, and those that come later run as usual.
func (b *Batch) Interrupt(reason, by string) {
	for _, x := range b.unfinished() {
		x.end(&interruption{reason, by}, true)
	}
}

// Unfinished returns the calls that have not ended: all of the batch, or the one with an
// id. [ErrNotFound] says that the batch has no such call.
func (b *Batch) Unfinished(callID string) ([]*Execution, error) {
	if callID == "" {
		return b.unfinished(), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	position, known := b.byID[callID]
	switch call := &b.calls[position]; {
	case !known:
		return nil, fmt.Errorf("%w: the batch has no call %.64q", ErrNotFound, callID)
	case call.execution == nil || call.outcome != 0:
		return nil, nil
	default:
		return []*Execution{call.execution}, nil
	}
}

// maxSaid is how many messages wait for a tool. With more, the oldest are dropped.
const maxSaid = 16

// Say tells something to the tools of the batch that run.
func (b *Batch) Say(text string) {
	for _, x := range b.unfinished() {
		x.say(text)
	}
}

func (x *Execution) say(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != Running {
		return
	}
	said := x.heard()
	for {
		select {
		case said <- text:
			return
		default:
		}
		select {
		case <-said:
		default:
		}
	}
}

// heard returns where messages wait. The execution is locked.
func (x *Execution) heard() chan string {
	if x.said == nil {
		x.said = make(chan string, maxSaid)
	}
	return x.said
}

// Messages returns what the client says to the call.
func (s *sink) Messages() <-chan string {
	x := (*Execution)(s)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.heard()
}
