// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/metrics"
)

// TestProcess holds what is told of the process against what it knows of
// itself.
func TestProcess(t *testing.T) {
	r := new(metrics.Registry)
	r.AddProcess()
	value := func(name string) float64 {
		families := parse(t, r.Text())
		if families[name] == nil {
			t.Fatalf("no %s", name)
		}
		m := families[name].GetMetric()[0]
		return m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	between := func(name string, low, high float64) {
		t.Helper()
		if v := value(name); !(low <= v && v <= high) {
			t.Errorf("%s is %v, not in [%v, %v]", name, v, low, high)
		}
	}
	const mib, tib = 1 << 20, 1 << 40
	between("go_info", 1, 1)
	between("go_goroutines", 2, 1000)
	between("go_threads", 1, 1000)
	between("go_memstats_heap_alloc_bytes", 1, tib)
	between("go_memstats_heap_sys_bytes", value("go_memstats_heap_alloc_bytes")/2, tib)
	between("go_memstats_next_gc_bytes", mib, tib)
	between("go_memstats_alloc_bytes_total", 1, math.Inf(1))
	if runtime.GOOS != "linux" {
		t.Skip("the rest comes from /proc")
	}
	now := float64(time.Now().Unix())
	between("process_start_time_seconds", now-3600, now+2)
	between("process_cpu_seconds_total", 0, 3600)
	between("process_resident_memory_bytes", mib, tib)
	between("process_virtual_memory_bytes", value("process_resident_memory_bytes"), 1024*tib)
	between("process_max_fds", 16, math.Inf(1))

	before := value("process_open_fds")
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	between("process_open_fds", before+1, before+1)
}
