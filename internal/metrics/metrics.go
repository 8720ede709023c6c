// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what a server does and tells it in the text format of
// Prometheus. Counting takes no memory once a series is known, and everything
// else waits until somebody asks.
package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// A Registry is the metrics of a server, and the handler that tells them. The
// zero Registry has none. Its methods, and those of its metrics, are safe for
// concurrent use.
//
// A name that Prometheus would not take, or that is taken already, is a mistake
// in the program: registering it panics.
type Registry struct {
	mu       sync.Mutex
	families []*family // by name
}

// family is one metric and all its series.
type family struct {
	name, help, kind string
	collect          func(sample)
}

// sample takes one value. Its name is that of its family and a suffix, and its
// labels are written already.
type sample func(suffix, labels string, value float64)

// A Counter counts, for each set of labels apart.
type Counter struct{ *vector }

// Counter registers a counter.
func (r *Registry) Counter(name, help string, labels ...string) *Counter {
	return r.counter(name, help, "counter", labels)
}

// Inc adds one to the series that has these values of the labels.
func (c *Counter) Inc(values ...string) { c.at(values).counts[0].Add(1) }

func (r *Registry) counter(name, help, kind string, labels []string) *Counter {
	c := &Counter{newVector(name, labels, 1)}
	r.add(name, help, kind, func(put sample) {
		for _, s := range c.all() {
			put("", s.labels, float64(s.counts[0].Load()))
		}
	})
	return c
}

// Info registers a gauge that is always 1: what it tells is in its labels.
func (r *Registry) Info(name, help string, labels map[string]string) {
	names := slices.Sorted(maps.Keys(labels))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = labels[name]
	}
	r.counter(name, help, "gauge", names).Inc(values...)
}

// Facts registers a gauge with a series for each of the values of its labels,
// all of them 1.
func (r *Registry) Facts(name, help string, labels []string, values [][]string) {
	facts := r.counter(name, help, "gauge", labels)
	for _, v := range values {
		facts.Inc(v...)
	}
}

// A Histogram counts observations by size, for each set of labels apart.
type Histogram struct {
	*vector
	bounds []float64
}

// Histogram registers a histogram. Its buckets end at bounds, which ascend; one
// more takes what is above them.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) *Histogram {
	for i, bound := range bounds {
		if math.IsNaN(bound) || math.IsInf(bound, 0) || i > 0 && bound <= bounds[i-1] {
			panic(fmt.Sprintf("metrics: %s: the bounds %v do not ascend", name, bounds))
		}
	}
	if slices.Contains(labels, "le") {
		panic(fmt.Sprintf("metrics: %s: a histogram has its own label le", name))
	}
	h := &Histogram{newVector(name, labels, len(bounds)+1), slices.Clone(bounds)}
	r.add(name, help, "histogram", h.collect)
	return h
}

// Observe counts a value in the series that has these values of the labels.
func (h *Histogram) Observe(value float64, values ...string) {
	s := h.at(values)
	s.counts[sort.SearchFloat64s(h.bounds, value)].Add(1)
	for {
		sum := s.sum.Load()
		if s.sum.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+value)) {
			return
		}
	}
}

// collect sums the buckets up as it reads them, so that they agree with the
// count. The sum may be ahead of both, or behind, by what is observed meanwhile.
func (h *Histogram) collect(put sample) {
	for _, s := range h.all() {
		labels := s.labels
		if labels != "" {
			labels += ","
		}
		var count uint64
		for i := range s.counts {
			bound := math.Inf(1)
			if i < len(h.bounds) {
				bound = h.bounds[i]
			}
			count += s.counts[i].Load()
			put("_bucket", labels+`le="`+strconv.FormatFloat(bound, 'g', -1, 64)+`"`, float64(count))
		}
		put("_sum", s.labels, math.Float64frombits(s.sum.Load()))
		put("_count", s.labels, float64(count))
	}
}

// GaugeFunc registers a gauge that is asked for when it is told. It is left out
// where it is NaN.
func (r *Registry) GaugeFunc(name, help string, value func() float64) {
	r.function(name, help, "gauge", value)
}

// CounterFunc is GaugeFunc for what only grows.
func (r *Registry) CounterFunc(name, help string, value func() float64) {
	r.function(name, help, "counter", value)
}

func (r *Registry) function(name, help, kind string, value func() float64) {
	r.add(name, help, kind, func(put sample) {
		if v := value(); !math.IsNaN(v) {
			put("", "", v)
		}
	})
}

func (r *Registry) add(name, help, kind string, collect func(sample)) {
	if !isName(strings.ReplaceAll(name, ":", "_")) {
		panic(fmt.Sprintf("metrics: %q is no name of a metric", name))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, taken := slices.BinarySearchFunc(r.families, name, func(f *family, name string) int { return cmp.Compare(f.name, name) })
	if taken {
		panic(fmt.Sprintf("metrics: %s is registered already", name))
	}
	r.families = slices.Insert(r.families, at, &family{name, help, kind, collect})
}

// ServeHTTP answers every request with the metrics as they are.
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(r.Text())
}

// Text returns the metrics as they are, sorted by name and labels. Those that
// have no series yet are left out.
func (r *Registry) Text() []byte {
	r.mu.Lock()
	families := slices.Clone(r.families)
	r.mu.Unlock()
	var text []byte
	for _, f := range families {
		text = f.append(text)
	}
	return text
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (f *family) append(text []byte) []byte {
	head := "# HELP " + f.name + " " + escapeHelp.Replace(f.help) + "\n# TYPE " + f.name + " " + f.kind + "\n"
	f.collect(func(suffix, labels string, value float64) {
		text = append(text, head...)
		head = "" // only above the first
		text = append(text, f.name...)
		text = append(text, suffix...)
		if labels != "" {
			text = append(text, '{')
			text = append(text, labels...)
			text = append(text, '}')
		}
		text = append(text, ' ')
		text = strconv.AppendFloat(text, value, 'g', -1, 64)
		text = append(text, '\n')
	})
	return text
}
