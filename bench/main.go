// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures toolserver side by side with a bare grpc-go server
// that sends the same messages, its search with ripgrep and fd, and its file tools
// with an MCP server. See README.md for how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A figure is one thing to measure. run returns its rows.
type figure struct {
	title, targets string
	run            func(context.Context, *harness) ([]row, error)
}

// figures are all there are; the first is number 1.
var figures = []figure{
	{"ExecuteTool of a tool that does nothing with 1 KiB of result", "calls/s at least 0.85 of bare, p99 at most 1.3", executeTool},
	{"ListTools, index of 100 tools", "calls/s at least 0.9 of bare", listIndex},
	{"decode and validate a 1 KiB input", "time at most 0.4 of a generic schema library", decodeInput},
	{"10,000 executions that wait with open streams", "at most 32 KiB of RSS each", waiting},
	{"1 GiB of output, alone and beside 100 readers that never read", "speed at least 1.0 of bare, RSS at most 64 MiB over idle", output},
	{"start to first served call, and idle RSS", "at most 300 ms, and 64 MiB", startup},
	{"judge a call", "at most 0.08 of a bare call for a file, 0.5 for a pipe, 0.01 for a token of a rate limit", judge},
	{"grep and glob, against starting ripgrep and fd", "cold at least 1.3, 0.9 without a literal, glob 2; warm 40 and 8, glob 50; the index at most 0.25 of the text", searching},
	{"read_file of 4 KiB, and edit_file in 1 MiB", "calls/s at least 0.85 of bare and 5 times the MCP file system server; an edit at most 2 times the bare one", filesFigure},
	{"commands in the sandbox, against os/exec without one", "with pauses p50 at most 1.0, 16 at once at least 0.5, without the sandbox 0.95; first byte at most 5 ms later than a pipe; 1 GiB at least 0.25 of a pipe; cancelled at most 50 ms, 500 processes 100 ms", shellFigure},
	{"what containment costs", "a command that writes among 20,000 directories at most 1.5 of an empty workspace, with a repository too; a connection on a session's loopback at most 1.5, 1 GiB over it at least 0.9", containFigure},
	{"files in and out", "a ranged read of 4 KiB at least 0.95 of bare; a tree of 20,000 files, up and down, at least 0.5 of tar over a pipe", transferFigure},
	{"what work leaves in memory", "30 s after 10,000 commands, 256 MiB of output and two searches of Go's source at most 64 MiB over idle; the second search takes no longer than the first", remains},
	{"two tenants, one of which saturates the server", "the p99 of the other's commands at most 2 times its p99 alone", tenantsFigure},
	{"what it costs to prove who calls", "with mTLS and a token, on a kept connection, calls/s at least 0.9 of toolserver without", identityFigure},
	{"a batch of 32 read_file calls", "at most 0.5 of the time of 32 calls one after the other, at most 1.3 times that of the bare server", batchFigure},
	{"hooks", "what a hook adds to a call at most 1.5 times starting its program; a call that no hook is about at most 1.05 times one without hooks", hooksFigure},
	{"toolserver as an MCP server", "read_file over HTTP at least 1.0 of the calls/s of a bare server of the SDK; over stdio at least 3 times server-filesystem", mcpFace},
	{"what models see", "index and tool_search at most 0.1 of the tokens of 200 definitions; 1 MiB of text with 200 calls in pieces of 20 bytes at most 30 ms of CPU; tool_search over 2,000 tools at most 2 ms", dialectFigure},
	{"tools of MCP servers", "a call at most 1.15 times that of the SDK's own client; with 2,000 tools of 20 servers the first call is served at most 50 ms later, and the index costs at most 2 times as much for each tool", sourcesFigure},
	{"web_fetch of a page of 100 KiB, 16 at once", "at most 1.5 times a client without checks that converts with the same libraries", webFigure},
	{"the browser", "a click and a snapshot of an open page at most 1.3 times the same with chromedp", browserFigure},
	{"agents", "a turn with 3 reads at most 2 ms more than a runtime outside takes for it; at most 64 KiB of heap and stacks for each of 1,000 that sleep", agentsFigure},
	{"what it costs that a restart breaks no promise", "ExecuteTool of a tool that only reads at least 0.95 of the calls/s with state: memory; start at most 60 ms later, and 25 MiB of RSS more", stateFigure},
	{"code", "an outline of 2,000 lines at most 5 ms, and 30 ms with the start of its process; a symbol by name at most 10 ms; the first index of Go's source at most 30 s of CPU, and 0.1 of the text, and 0.9 of the searches beside it; code of a shape at most 3 times ripgrep for its longest literal", codeFigure},
	{"the HTTP edge, against gRPC", "a unary call at least 0.5 of the calls/s, output as NDJSON at least 0.4 of the speed; 1,000 open event streams at most 100 KiB of RSS each; the first paint of the console within 200 ms", restFigure},
	{"memory and knowledge", "memory_recall and knowledge_search among 100,000 entries p99 at most 20 ms; ingest of Go's documentation at most 3 times reading and hashing it", memoryFigure},
	{"replicas", "a call is cancelled through another replica in at most 20 ms, p99; output through another replica at least 0.5 of the speed", replicasFigure},
	{"schedules", "of 10,000, those that are due are called at most 250 ms late", schedulesFigure},
}

// plan says how much is measured.
type plan struct {
	warmups, rounds int // of figures 1, 2 and 3
	slice           time.Duration
	concurrency     []int

	waitingRounds, executions int
	fetches, hooked           int           // pages that are fetched and calls that are hooked, in a round
	turns, agents             int           // of an agent that reads, and those that sleep
	settle                    time.Duration // for a server to come to rest

	outputRounds        int
	outputSlice, output int64 // bytes
	stopped             int   // readers that never read

	startupRounds int

	searchRounds, treeFiles int
	sample                  time.Duration // of searches at least, one of which differs by a tenth from the next

	remainsCommands int
	remainsOutput   int64 // bytes
	remainsRest     time.Duration

	shellRounds, pacedCalls   int
	floodRounds, cancelRounds int

	limit time.Duration // of one figure
}

var full = plan{
	warmups: 3, rounds: 20, slice: 250 * time.Millisecond, concurrency: []int{1, 16, 64},
	waitingRounds: 3, executions: 10_000, fetches: 64, hooked: 50, turns: 100, agents: 1000, settle: 500 * time.Millisecond,
	outputRounds: 20, outputSlice: 128 * mib, output: 1024 * mib, stopped: 100,
	startupRounds: 15, searchRounds: 11, treeFiles: 20_000, sample: 200 * time.Millisecond,
	shellRounds: 15, pacedCalls: 15, floodRounds: 5, cancelRounds: 9,
	remainsCommands: 10_000, remainsOutput: 256 * mib, remainsRest: 30 * time.Second, limit: 10 * time.Minute,
}

// short is only to see that everything works.
var short = plan{
	warmups: 0, rounds: 1, slice: 20 * time.Millisecond, concurrency: []int{1, 16},
	waitingRounds: 1, executions: 200, fetches: 2, hooked: 3, turns: 4, agents: 20, settle: 50 * time.Millisecond,
	outputRounds: 1, outputSlice: 4 * mib, output: 16 * mib, stopped: 10,
	startupRounds: 1, searchRounds: 1, treeFiles: 200, sample: time.Millisecond,
	shellRounds: 1, pacedCalls: 3, floodRounds: 1, cancelRounds: 1,
	remainsCommands: 20, remainsOutput: mib, remainsRest: time.Millisecond, limit: 5 * time.Minute,
}

// harness is a run: what it measures with, and what it noticed on the way.
type harness struct {
	*binaries
	plan    plan
	foreign []float64 // cores that others kept busy, in each slice of calls
	notes   []string
}

// errMissing is wrapped by errors about what a figure needs and this machine
// does not have: the figure is left out.
var errMissing = errors.New("not installed")

// options are what the command line says.
type options struct {
	short   bool
	only    []int // figures to measure; empty: all
	rounds  int   // instead of the plan's; 0: the plan's
	profile string
	json    string // where the report goes; empty: nowhere
}

func main() {
	var o options
	list := flag.Bool("list", false, "list the figures and exit")
	only := flag.String("only", "", "measure these figures alone, such as 1,2")
	flag.BoolVar(&o.short, "short", false, "measure next to nothing: only see that everything works")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds of each figure; 0: what each needs")
	flag.StringVar(&o.profile, "profile", "", "also write CPU profiles of toolserver into this directory")
	flag.StringVar(&o.json, "json", "bench/results/latest.json", "file for the results as JSON")
	flag.Parse()
	if *list {
		for i, f := range figures {
			fmt.Printf("%d  %s: %s\n", i+1, f.title, f.targets)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if o.only, err = numbers(*only); err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// numbers reads a list of figures.
func numbers(list string) ([]int, error) {
	var numbers []int
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(figures) {
			return nil, fmt.Errorf("%q is no figure: want 1 to %d", word, len(figures))
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// run measures and reports. A figure that misses its target is no error: what
// a machine is able to do today must not break a build.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "toolserver-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	r := &report{Time: time.Now(), Short: o.short, Machine: thisMachine()}
	fmt.Fprintln(out, r.Machine)
	h := &harness{plan: planOf(o)}
	if h.binaries, err = build(ctx, dir, o.short); err != nil {
		return err
	}
	if err := h.recordAnswers(ctx); err != nil {
		return err
	}
	broken := measure(ctx, h, o.only, r) // what was measured before is told all the same
	r.Took = time.Since(r.Time)
	r.Notes = append(r.Notes, h.notes...)
	if len(h.foreign) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf(
			"other processes kept %.2f of %d cores busy while calls were measured.", max(0, spreadOf(h.foreign).Median), r.Machine.Cores))
	}
	if o.short {
		r.Notes = append(r.Notes, "this run was short: its numbers mean nothing.")
	}
	r.print(out)
	if o.json != "" {
		broken = errors.Join(broken, r.save(o.json))
	}
	if broken == nil && o.profile != "" {
		return profile(ctx, h, o.profile, out)
	}
	return broken
}

// measure adds the rows of all figures, or of some, to a report, up to one that cannot be
// measured.
func measure(ctx context.Context, h *harness, only []int, r *report) error {
	for i, f := range figures {
		if len(only) > 0 && !slices.Contains(only, i+1) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %d: %s\n", i+1, f.title)
		ctx, cancel := context.WithTimeoutCause(ctx, h.plan.limit, errors.New("it took too long"))
		rows, err := f.run(ctx, h)
		cancel()
		if errors.Is(err, errMissing) {
			r.Notes = append(r.Notes, fmt.Sprintf("figure %d was left out: %v.", i+1, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("figure %d: %w", i+1, err)
		}
		for _, row := range rows {
			row.Figure = i + 1
			r.Rows = append(r.Rows, row)
		}
	}
	return nil
}

func planOf(o options) plan {
	p := full
	if o.short {
		p = short
	}
	if o.rounds > 0 {
		p.rounds, p.waitingRounds, p.outputRounds, p.startupRounds, p.searchRounds = o.rounds, o.rounds, o.rounds, o.rounds, o.rounds
		p.shellRounds, p.floodRounds, p.cancelRounds = o.rounds, o.rounds, o.rounds
	}
	return p
}
