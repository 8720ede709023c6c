// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestSoak runs many commands, some of which are cancelled or leave something
// running, and looks for what they left: nothing.
func TestSoak(t *testing.T) {
	runs := int64(soaktest.Times(150, 100_000))
	tool := shell.Bash(running(t))
	sessions := make([]tools.Env, 4)
	for i := range sessions {
		sessions[i] = toolstest.Env(t, nil)
	}
	commands := []string{"true", "echo hello", "sleep 100 & echo left", "exit 3", "cat /dev/zero | head -c 100000", "sleep 100"}
	ends := map[string]tools.ExitReason{"sleep 100": tools.Cancelled} // of those that do not exit
	for _, text := range commands[:len(commands)-1] {
		ends[text] = tools.Exited
	}
	run := func(env tools.Env, n int64) {
		text := commands[n%int64(len(commands))]
		input, _ := json.Marshal(m{"command": text})
		c, err := tool.Decode(&env, input)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if text == "sleep 100" {
			time.AfterFunc(5*time.Millisecond, cancel)
		}
		result, err := c.Run(ctx, toolstest.RightsOf(c), new(toolstest.Recorder))
		if want := ends[text]; result.Exit == nil || result.Exit.Reason != want {
			t.Errorf("%s: %+v %v, want %s", text, result.Exit, err, want)
		}
	}
	all := func(runs int64) {
		var next atomic.Int64
		var workers sync.WaitGroup
		for i := range 8 {
			workers.Go(func() {
				for n := next.Add(1); n <= runs; n = next.Add(1) {
					run(sessions[i%len(sessions)], n)
				}
			})
		}
		workers.Wait()
	}
	all(min(runs, 2000)) // what is made once is made
	before := tally(t, sessions)
	all(runs)
	deadline := time.Now().Add(10 * time.Second)
	after := tally(t, sessions)
	for ; after.more(before) && time.Now().Before(deadline); after = tally(t, sessions) {
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d commands: before %+v, after %+v", runs, before, after)
	if after.more(before) {
		t.Error("something is left")
	}
	if after.memory > before.memory+32<<20 {
		t.Errorf("memory grew by %d MiB", (after.memory-before.memory)>>20)
	}
	for _, env := range sessions {
		noneLeft(t, env)
	}
}

// counts is what commands could leave behind.
type counts struct{ files, goroutines, zombies, temporary, memory int }

// more reports whether there is clearly more than there was: a shell that is
// ready for each session is not.
func (c counts) more(before counts) bool {
	ready := 4
	return c.files > before.files+5*ready || c.goroutines > before.goroutines+ready || c.zombies > 0 || c.temporary > before.temporary
}

func tally(t *testing.T, sessions []tools.Env) counts {
	t.Helper()
	runtime.GC()
	c := counts{goroutines: runtime.NumGoroutine()}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	c.files = len(files)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[0]) == "Z" && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			c.zombies++
		}
	}
	for _, env := range sessions {
		private, err := env.Session.Private()
		if err != nil {
			t.Fatal(err)
		}
		filepath.WalkDir(filepath.Join(private, "tmp"), func(string, fs.DirEntry, error) error {
			c.temporary++
			return nil
		})
	}
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.Atoi(string(bytes.Fields(status)[1]))
	c.memory = pages * os.Getpagesize()
	return c
}
