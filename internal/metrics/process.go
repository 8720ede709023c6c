// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
)

// AddProcess registers what operators expect of every server written in Go,
// under the usual names. What the system does not tell is left out.
func (r *Registry) AddProcess() {
	r.Info("go_info", "Information about the Go environment.",
		map[string]string{"version": runtime.Version()})
	r.GaugeFunc("go_goroutines", "Number of goroutines that currently exist.",
		ofRuntime("/sched/goroutines:goroutines"))
	r.GaugeFunc("go_threads", "Number of OS threads created.",
		ofRuntime("/sched/threads/total:threads"))
	r.GaugeFunc("go_memstats_heap_alloc_bytes", "Number of heap bytes allocated and currently in use.",
		ofRuntime("/memory/classes/heap/objects:bytes"))
	r.GaugeFunc("go_memstats_heap_sys_bytes", "Number of heap bytes obtained from system.",
		ofRuntime("/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes",
			"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes"))
	r.GaugeFunc("go_memstats_next_gc_bytes", "Number of heap bytes when next garbage collection will take place.",
		ofRuntime("/gc/heap/goal:bytes"))
	r.CounterFunc("go_memstats_alloc_bytes_total", "Total number of bytes allocated in heap until now, even if released already.",
		ofRuntime("/gc/heap/allocs:bytes"))

	r.CounterFunc("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
		func() float64 { return (stat(userTime) + stat(systemTime)) / ticks })
	r.GaugeFunc("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
		func() float64 { return entry("/proc/stat", "btime ") + stat(startTime)/ticks })
	r.GaugeFunc("process_virtual_memory_bytes", "Virtual memory size in bytes.",
		func() float64 { return stat(virtualBytes) })
	r.GaugeFunc("process_resident_memory_bytes", "Resident memory size in bytes.",
		func() float64 { return stat(residentPages) * float64(os.Getpagesize()) })
	r.GaugeFunc("process_open_fds", "Number of open file descriptors.", openFiles)
	r.GaugeFunc("process_max_fds", "Maximum number of open file descriptors.",
		func() float64 { return entry("/proc/self/limits", "Max open files ") })
}

// ofRuntime returns a function that sums up some metrics of the Go runtime.
func ofRuntime(names ...string) func() float64 {
	return func() float64 {
		samples := make([]metrics.Sample, len(names))
		for i, name := range names {
			samples[i].Name = name
		}
		metrics.Read(samples)
		var sum float64
		for _, s := range samples {
			if s.Value.Kind() != metrics.KindUint64 {
				return math.NaN() // another Go does not know it
			}
			sum += float64(s.Value.Uint64())
		}
		return sum
	}
}

// The numbers of some fields in /proc/self/stat, as proc(5) counts them.
const (
	userTime      = 14
	systemTime    = 15
	startTime     = 22
	virtualBytes  = 23
	residentPages = 24
)

// ticks is how many of its units of time Linux counts in a second.
const ticks = 100

// stat returns a field of /proc/self/stat. They are counted from behind the
// second, which is the name of the program and may hold anything.
func stat(field int) float64 {
	text, _ := os.ReadFile("/proc/self/stat")
	return number(string(text[bytes.LastIndexByte(text, ')')+1:]), field-3)
}

// entry returns the number behind the words that begin a line of a file.
func entry(path, words string) float64 {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, words); ok {
			return number(rest, 0)
		}
	}
	return math.NaN()
}

// number returns the number that is field i of a text, and NaN if there is none.
func number(text string, i int) float64 {
	fields := strings.Fields(text)
	if i >= len(fields) {
		return math.NaN()
	}
	n, err := strconv.ParseFloat(fields[i], 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// openFiles counts without the directory it reads.
func openFiles() float64 {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return math.NaN()
	}
	return float64(len(files) - 1)
}
