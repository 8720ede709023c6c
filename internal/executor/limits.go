// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"time"

	"github.com/toolserver/toolserver/internal/size"
)

// Limits are the section "executions" of the configuration. Zero fields take the
// defaults named.
type Limits struct {
	MaxRunning       int           `yaml:"max_running"`        // unfinished executions at once; 20,000
	MaxActive        int           `yaml:"max_active"`         // tools that run at once, while others wait for their turn; 0: no bound
	MaxBatchCalls    int           `yaml:"max_batch_calls"`    // calls of one batch; 1,000
	DefaultTimeout   time.Duration `yaml:"default_timeout"`    // of a tool that names none; 2 minutes
	MaxTimeout       time.Duration `yaml:"max_timeout"`        // 1 hour
	StopGrace        time.Duration `yaml:"stop_grace"`         // for a tool that was told to stop; 5 seconds
	DisconnectGrace  time.Duration `yaml:"disconnect_grace"`   // for a client to come back; 30 seconds
	Retention        time.Duration `yaml:"retention"`          // of ended executions; 10 minutes
	MaxRetained      int           `yaml:"max_retained"`       // ended executions kept; 10,000
	MaxRemembered    int           `yaml:"max_remembered"`     // call ids of a session, of executions that are no longer kept; 20,000
	MaxRememberedAll int           `yaml:"max_remembered_all"` // the same of all sessions together; 500,000
	MaxResultBytes   size.Bytes    `yaml:"max_result_bytes"`   // content of a result; 1 MiB
	MaxLogBytes      size.Bytes    `yaml:"max_log_bytes"`      // events of one execution; 256 KiB
	MaxLogEvents     int           `yaml:"max_log_events"`     // events of one execution; 10,000
	LogMemory        size.Bytes    `yaml:"log_memory"`         // bytes of all logs together; 256 MiB
	ReaderPatience   time.Duration `yaml:"reader_patience"`    // how long a full log waits for a reader that stopped; 1 second
	ProgressInterval time.Duration `yaml:"progress_interval"`  // between two reports of progress; 100 ms
	Heartbeat        time.Duration `yaml:"heartbeat"`          // on a stream without events; 15 seconds
}

// WithDefaults returns l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MaxRunning:       cmp.Or(l.MaxRunning, 20_000),
		MaxActive:        l.MaxActive,
		MaxBatchCalls:    cmp.Or(l.MaxBatchCalls, 1000),
		DefaultTimeout:   cmp.Or(l.DefaultTimeout, 2*time.Minute),
		MaxTimeout:       cmp.Or(l.MaxTimeout, time.Hour),
		StopGrace:        cmp.Or(l.StopGrace, 5*time.Second),
		DisconnectGrace:  cmp.Or(l.DisconnectGrace, 30*time.Second),
		Retention:        cmp.Or(l.Retention, 10*time.Minute),
		MaxRetained:      cmp.Or(l.MaxRetained, 10_000),
		MaxRemembered:    cmp.Or(l.MaxRemembered, 20_000),
		MaxRememberedAll: cmp.Or(l.MaxRememberedAll, 500_000),
		MaxResultBytes:   cmp.Or(l.MaxResultBytes, 1<<20),
		MaxLogBytes:      cmp.Or(l.MaxLogBytes, 256<<10),
		MaxLogEvents:     cmp.Or(l.MaxLogEvents, 10_000),
		LogMemory:        cmp.Or(l.LogMemory, 256<<20),
		ReaderPatience:   cmp.Or(l.ReaderPatience, time.Second),
		ProgressInterval: cmp.Or(l.ProgressInterval, 100*time.Millisecond),
		Heartbeat:        cmp.Or(l.Heartbeat, 15*time.Second),
	}
}
