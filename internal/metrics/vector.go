// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// vector is the series of a metric. They are never forgotten: whoever takes
// values of labels from outside must see to it that they are few.
type vector struct {
	name    string
	labels  []string
	buckets int

	mu     sync.RWMutex
	series map[values]*series
}

// values are those of the labels. An array is looked up without taking memory.
type values [maxLabels]string

// maxLabels is how many labels a metric may have. No metric has more, and all
// pay for it.
const maxLabels = 2

type series struct {
	labels string          // as they are written
	counts []atomic.Uint64 // by bucket
	sum    atomic.Uint64   // the bits of a float64
}

func newVector(name string, labels []string, buckets int) *vector {
	if len(labels) > maxLabels {
		panic(fmt.Sprintf("metrics: %s has more than %d labels", name, maxLabels))
	}
	for i, label := range labels {
		if !isName(label) || strings.HasPrefix(label, "__") || slices.Contains(labels[:i], label) {
			panic(fmt.Sprintf("metrics: %s: %q is no name of a label, or there twice", name, label))
		}
	}
	v := &vector{name: name, labels: slices.Clone(labels), buckets: buckets, series: make(map[values]*series)}
	if len(labels) == 0 {
		v.at(nil) // its only series is known, and 0
	}
	return v
}

// isName reports whether Prometheus takes a text for the name of a label.
func isName(text string) bool {
	for i, c := range []byte(text) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return text != ""
}

// at returns the series that has these values of the labels, and makes it if
// there is none.
func (v *vector) at(list []string) *series {
	if len(list) != len(v.labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", v.name, len(v.labels), len(list)))
	}
	var key values
	copy(key[:], list)
	v.mu.RLock()
	s := v.series[key]
	v.mu.RUnlock()
	if s == nil {
		s = v.add(key)
	}
	return s
}

// add is at for values that may be new. What is no UTF-8 in them is replaced
// before they are told apart, since it cannot be written.
func (v *vector) add(key values) *series {
	pairs := make([]string, len(v.labels))
	for i, label := range v.labels {
		key[i] = strings.Clone(strings.ToValidUTF8(key[i], "\uFFFD")) // a copy: it may be part of a request
		pairs[i] = label + `="` + escapeValue.Replace(key[i]) + `"`
	}
	slices.Sort(pairs)
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.series[key]
	if s == nil {
		s = &series{labels: strings.Join(pairs, ","), counts: make([]atomic.Uint64, v.buckets)}
		v.series[key] = s
	}
	return s
}

// all returns the series there are, sorted.
func (v *vector) all() []*series {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Values(v.series), func(a, b *series) int { return cmp.Compare(a.labels, b.labels) })
}
