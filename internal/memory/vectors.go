// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"math/bits"
)

// vectors are those of the items of an index. They are scanned: up to some hundred thousand
// that is faster than any structure over them.
type vectors struct {
	items []*item
	signs []uint64 // a bit for each number, in as many words as one vector takes
}

// scanned is how many vectors are compared whole. Of more, those are that have most signs in
// common with the query.
const scanned = 4096

func (v *vectors) add(it *item) {
	if it.vector == nil || len(v.items) > 0 && len(it.vector) != len(v.items[0].vector) {
		return
	}
	v.items = append(v.items, it)
	v.signs = append(v.signs, signs(it.vector)...)
}

func signs(vector []int8) []uint64 {
	list := make([]uint64, (len(vector)+63)/64)
	for i, n := range vector {
		if n < 0 {
			list[i/64] |= 1 << (i % 64)
		}
	}
	return list
}

// nearest returns the items whose vectors are most like the query.
func (v *vectors) nearest(query []int8, alive func(*item) bool, weigh func(*item) float64, limit int) (hits []hit) {
	if len(v.items) == 0 || len(query) != len(v.items[0].vector) {
		return nil
	}
	furthest := v.furthest(query)
	asked, each := signs(query), (len(query)+63)/64
	for i, it := range v.items {
		if furthest < len(query) && distance(asked, v.signs[i*each:]) > furthest || !alive(it) {
			continue
		}
		if weight := weigh(it); weight > 0 {
			if likeness := dot(query, it.vector); likeness > 0 {
				hits = insert(hits, hit{it, likeness * weight}, limit)
			}
		}
	}
	return hits
}

// furthest returns in how many signs a vector may differ that is to be compared whole.
func (v *vectors) furthest(query []int8) int {
	if len(v.items) <= scanned {
		return len(query)
	}
	asked, each := signs(query), (len(query)+63)/64
	counts := make([]int, len(query)+1)
	for i := range v.items {
		counts[distance(asked, v.signs[i*each:])]++
	}
	sum := 0
	for far, n := range counts {
		if sum += n; sum >= scanned {
			return far
		}
	}
	return len(query)
}

func distance(a, b []uint64) (n int) {
	for i := range a {
		n += bits.OnesCount64(a[i] ^ b[i])
	}
	return n
}

func dot(a, b []int8) float64 {
	sum := 0
	for i, n := range a {
		sum += int(n) * int(b[i])
	}
	return float64(sum)
}

// quantize returns a vector of length 1 in bytes: of a number there are 127 steps up to the
// largest, which changes no order that anybody relies on.
func quantize(vector []float32) []int8 {
	length := 0.0
	for _, n := range vector {
		length += float64(n) * float64(n)
	}
	if length = math.Sqrt(length); length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil
	}
	// Numbers of a vector of n are about 1/√n: six times that has room for nearly all.
	scale := 127 * math.Sqrt(float64(len(vector))) / 6
	list := make([]int8, len(vector))
	for i, n := range vector {
		list[i] = int8(min(max(math.Round(float64(n)/length*scale), -127), 127))
	}
	return list
}
