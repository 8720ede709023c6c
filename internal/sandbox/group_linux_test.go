// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
)

const (
	// holds has memory that is its own, of so many MiB, and keeps it.
	holds = `echo ready; exec perl -e '$x = "x" x ($ARGV[0] << 20); sleep 300' `
	burns = `echo ready; while :; do :; done`
)

// TestGroups has commands that stay under their own limits, and not under those
// they have together.
func TestGroups(t *testing.T) {
	const mib = 1 << 20
	p := newPlace(t, sandbox.Config{}, nil)
	own := sandbox.Limits{Memory: 1024 * mib, Processes: 200}
	for _, test := range []struct {
		name     string
		limits   sandbox.GroupLimits
		commands []string // the first is to end, alone unless all are
		reason   sandbox.Reason
		all      bool
	}{
		{
			name: "memory", limits: sandbox.GroupLimits{Memory: 192 * mib}, reason: sandbox.OutOfMemory,
			commands: []string{holds + "150", holds + "40", holds + "40"},
		},
		{
			name: "memory of one", limits: sandbox.GroupLimits{Memory: 128 * mib}, reason: sandbox.OutOfMemory,
			commands: []string{holds + "200"},
		},
		{
			name: "processes", limits: sandbox.GroupLimits{Processes: 40}, reason: sandbox.TooManyProcesses,
			commands: []string{`echo ready; for i in {1..30}; do sleep 300 & done; wait`, `echo ready; for i in {1..15}; do sleep 300 & done; wait`},
		},
		{
			name: "CPU time", limits: sandbox.GroupLimits{CPU: time.Second}, reason: sandbox.OutOfTime, all: true,
			commands: []string{burns, burns, `echo ready; sleep 300`},
		},
		{
			name: "CPU time of descendants", limits: sandbox.GroupLimits{CPU: time.Second}, reason: sandbox.OutOfTime, all: true,
			commands: []string{`echo ready; while :; do timeout 0.2 bash -c 'while :; do :; done'; done`},
		},
		{
			name: "CPU time nobody waits for", limits: sandbox.GroupLimits{CPU: time.Second}, reason: sandbox.OutOfTime, all: true,
			commands: []string{`echo ready; exec perl -e '$SIG{CHLD} = "IGNORE"; while (1) { if (!fork) { $e = time + 3; 1 while time < $e; exit } wait }'`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			session := sandbox.NewGroup(test.limits, nil)
			other := sandbox.NewGroup(sandbox.GroupLimits{}, session) // which a limit counts through
			type outcome struct {
				end sandbox.End
				err error
			}
			var processes []*sandbox.Process
			var outcomes []chan outcome
			for i, command := range test.commands {
				group := session
				if i > 0 {
					group = other
				}
				process, r, err := p.startIn(group, command, own)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				waitFor(t, r, "ready\n")
				ended := make(chan outcome, 1)
				go func() {
					end, err := process.Wait()
					ended <- outcome{end, err}
				}()
				processes, outcomes = append(processes, process), append(outcomes, ended)
			}
			for i, ended := range outcomes {
				want := sandbox.End{Reason: test.reason, Group: session}
				if i > 0 && !test.all {
					processes[i].Kill()
					want = sandbox.End{Reason: sandbox.Killed}
				}
				got := <-ended
				if got.err != nil || got.end.Reason != want.Reason || got.end.Group != want.Group {
					t.Errorf("%s: %+v, want %+v", test.commands[i], got, want)
				}
			}
			if session.Spent() != (test.reason == sandbox.OutOfTime) {
				t.Errorf("spent: %t", session.Spent())
			}
			p.wantNothingLeft(t)
		})
	}
}

// TestGroupsCount adds up the CPU time of commands that are too short to be
// looked at, and finds memory that is shared to be there once.
func TestGroupsCount(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	group := sandbox.NewGroup(sandbox.GroupLimits{CPU: 200 * time.Millisecond, Memory: 192 << 20}, nil)
	for range 1000 {
		if group.Spent() {
			break
		}
		process, r, err := p.startIn(group, "for i in {1..3000}; do :; done", sandbox.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if _, err := process.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if !group.Spent() {
		t.Error("many short commands have used no CPU time")
	}
	group = sandbox.NewGroup(sandbox.GroupLimits{Memory: 192 << 20}, nil)
	process, r, err := p.startIn(group, `exec perl -e '$x = "x" x (60 << 20); for (1..3) { if (!fork) { sleep 2; exit } } 1 while wait > 0; print "ready\n"'`, sandbox.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	waitFor(t, r, "ready\n")
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Exited {
		t.Errorf("what is shared was counted for each: %+v %v", end, err)
	}
}
