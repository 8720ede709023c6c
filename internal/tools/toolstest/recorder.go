// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Recorder is a sink that keeps everything. The zero value is ready, and safe
// for concurrent use.
type Recorder struct {
	// Answer, if set, answers questions. Without it nobody does.
	Answer func([]tools.Question) ([]tools.Answer, error)

	// Said, if set, has what the client says.
	Said chan string

	mu      sync.Mutex
	reports []tools.Report
	take    func(context.Context, tools.Input) (int, error) // nil while nobody listens
}

// Emit keeps r, with bytes of its own.
func (r *Recorder) Emit(report tools.Report) {
	if output, ok := report.(tools.Output); ok {
		output.Data = bytes.Clone(output.Data)
		report = output
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, report)
}

// Ask answers with r.Answer.
func (r *Recorder) Ask(_ context.Context, questions []tools.Question) ([]tools.Answer, error) {
	if r.Answer == nil {
		return nil, tools.Failf("unanswered", "Nobody answered.")
	}
	return r.Answer(questions)
}

// Messages returns r.Said.
func (r *Recorder) Messages() <-chan string { return r.Said }

// Listen keeps take for Send.
func (r *Recorder) Listen(_ context.Context, take func(context.Context, tools.Input) (int, error)) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take = take
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.take = nil
	}
}

// Execution is nobody's.
func (r *Recorder) Execution() string { return "" }

// Send sends input to the call, if it listens.
func (r *Recorder) Send(ctx context.Context, in tools.Input) (n int, err error) {
	r.mu.Lock()
	take := r.take
	r.mu.Unlock()
	if take == nil {
		return 0, tools.Failf("no_input", "The call does not listen.")
	}
	return take(ctx, in)
}

// Reports returns what was reported so far.
func (r *Recorder) Reports() []tools.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports)
}
