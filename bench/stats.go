// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"slices"
)

// spread tells where the middle half of some values lies.
type spread struct {
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
}

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	return spread{quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)}
}

// quantile returns the value below which the share q of sorted lies, between
// two of them where it must; 0 if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := q * float64(len(sorted)-1)
	low := int(place)
	if low+1 == len(sorted) {
		return sorted[low]
	}
	part := place - float64(low)
	return sorted[low]*(1-part) + sorted[low+1]*part
}

// ratios divides what was measured in the same round.
func ratios(a, b []float64) []float64 {
	list := make([]float64, min(len(a), len(b)))
	for i := range list {
		list[i] = a[i] / b[i]
	}
	return list
}

// sides are the samples of a comparison, one of each side for each round. The
// control is a second yardstick: how far its ratio to the first strays from 1
// is how much the machine disturbs.
type sides[S any] struct{ subject, bare, control []S }

// entrants returns the three ways to take a sample; order gives none of them an
// advantage.
func (s *sides[S]) entrants(subject, bare, control func(context.Context) (S, error)) group {
	into := func(list *[]S, measure func(context.Context) (S, error)) step {
		return func(ctx context.Context) error {
			sample, err := measure(ctx)
			*list = append(*list, sample)
			return err
		}
	}
	return group{into(&s.subject, subject), into(&s.bare, bare), into(&s.control, control)}
}

// forget drops the samples that were taken to warm up.
func (s *sides[S]) forget() { *s = sides[S]{} }

// column returns one number of each sample.
func column[S any](samples []S, pick func(S) float64) []float64 {
	values := make([]float64, len(samples))
	for i, sample := range samples {
		values[i] = pick(sample)
	}
	return values
}

// A step takes one sample. A group is steps whose samples are compared with
// each other, and which therefore run one right after another.
type (
	step  func(context.Context) error
	group []step
)

// interleave runs every step once in each round: the groups in random order,
// and the steps of each group in random order. So whatever changes on the
// machine meanwhile, from seconds to minutes, meets all alike.
func interleave(ctx context.Context, rounds int, groups ...group) error {
	for range rounds {
		for _, g := range rand.Perm(len(groups)) {
			for _, s := range rand.Perm(len(groups[g])) {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := groups[g][s](ctx); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
