// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// dead are replicas of which all others count as over, also one that does not know.
type dead struct{}

func (dead) Prove() error                       { return nil }
func (dead) Bury(context.Context, uint64) error { return nil }
func (dead) Over(uint64) bool                   { return true }

// endings notes the ends that are recorded.
type endings struct {
	executor.NoSteps
	mu   *sync.Mutex
	ends *[]executor.Outcome
}

func (e endings) Finished(_ *executor.Execution, end *executor.Finished) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*e.ends = append(*e.ends, end.Outcome)
}

// TestLostEndIsRecordedAsLost: who records the ends of calls is told the one that counts: a call
// that others have declared lost did not succeed, though its tool did.
func TestLostEndIsRecordedAsLost(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	open := func(run uint64) *executor.Records {
		records, err := executor.OpenRecords(t.Context(), executor.RecordsConfig{
			Engine: engine, Run: run, Key: [16]byte{1}, Retention: time.Hour, HistoryBytes: 1 << 20, Replicas: dead{}, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	steps := endings{mu: new(sync.Mutex), ends: new([]executor.Outcome)}
	records := open(1)
	defer records.Close()
	f := newFixture(t, executor.Config{Records: records, Steps: steps})
	goOn := make(chan struct{})
	job := func() *executor.Job {
		return f.named("call", 1, func(context.Context, tools.Sink) (tools.Result, error) {
			<-goOn
			return tools.TextResult("done"), nil
		})
	}
	x := f.start(job())
	others := open(2)
	defer others.Close()
	other := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: f.sessions, Records: others})
	defer other.Close()
	found, err := other.Start(t.Context(), job())
	if err != nil {
		t.Fatal(err)
	}
	if end := finished(t, found); end.Outcome != executor.Lost {
		t.Fatalf("another replica tells %+v", end)
	}
	close(goOn)
	if end := finished(t, x); end.Outcome != executor.Lost {
		t.Errorf("its own tells %+v", end)
	}
	steps.mu.Lock()
	defer steps.mu.Unlock()
	if len(*steps.ends) != 1 || (*steps.ends)[0] != executor.Lost {
		t.Errorf("recorded: %v", *steps.ends)
	}
}
