// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// This file reads what Linux tells about processes and the machine.

// cpuTime returns the time all threads of a process have spent on a core. It
// is exact, unlike that in /proc/PID/stat, which counts ticks.
func cpuTime(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d has no threads to read the time of", pid)
	}
	var sum time.Duration
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread ended meanwhile
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// busyTime returns the time the cores of the machine have been busy since it
// started, for us or for other virtual machines, in ticks of 10 ms.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var ticks int64
	for i, field := range strings.Fields(string(line)) {
		switch i {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, irq, softirq, steal
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns the bytes of a process that are in memory now, and the most
// there were since resetPeak.
func memory(pid int) (now, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			now = kib * 1024
		case "VmHWM:":
			peak = kib * 1024
		}
	}
	return now, peak, nil
}

// resetPeak lets memory count its peak from now on.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// machine is where the run took place.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Load   string `json:"load"` // before the run: of the last 1, 5 and 15 minutes
	Go     string `json:"go"`
	GRPC   string `json:"grpc"`
}

func thisMachine() machine {
	m := machine{CPU: "unknown CPU", Cores: runtime.NumCPU(), Go: runtime.Version(), Kernel: firstLine("/proc/sys/kernel/osrelease")}
	if load := strings.Fields(firstLine("/proc/loadavg")); len(load) > 3 {
		m.Load = strings.Join(load[:3], " ")
	}
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpus)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "google.golang.org/grpc" {
				m.GRPC = dep.Version
			}
		}
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s, %s, grpc-go %s, load before the run %s",
		m.CPU, m.Cores, m.Kernel, m.Go, m.GRPC, m.Load)
}

func firstLine(file string) string {
	text, _ := os.ReadFile(file)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
