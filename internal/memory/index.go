// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"
)

// The constants of BM25, as most have them.
const (
	k1 = 1.2
	b  = 0.75
)

// An index finds items by words, ranked by BM25, and by vectors. All that it counts is of
// itself: there is one for each namespace, so that no rank tells of what others keep. The
// caller locks it.
type index struct {
	terms    map[string]uint32
	postings [][]posting // by term, in the order of items
	items    []*item     // nil: removed
	removed  int
	length   int // words of all items, also of removed ones
	vectors  vectors
}

// An item is what is found: an entry, or a part of a document.
type item struct {
	id     uint32 // in the index
	words  uint32
	entry  *Entry
	doc    *document
	part   part
	vector []int8 // nil: none
}

// A posting says how often an item has a word.
type posting struct{ item, count uint32 }

// A hit is an item that was found. The higher its score, the better it fits.
type hit struct {
	*item
	score float64
}

func newIndex() *index { return &index{terms: make(map[string]uint32)} }

// A counted is the words of an item, which can be counted without a lock.
type counted map[string]uint32

func count(texts ...string) counted {
	c := make(counted)
	for _, text := range texts {
		words(text, func(word string) { c[word]++ })
	}
	return c
}

func (x *index) add(it *item, c counted) {
	it.id = uint32(len(x.items))
	x.items = append(x.items, it)
	for word, n := range c {
		term, known := x.terms[word]
		if !known {
			term = uint32(len(x.postings))
			x.terms[word] = term
			x.postings = append(x.postings, nil)
		}
		x.postings[term] = append(x.postings[term], posting{it.id, n})
		it.words += n
	}
	x.length += int(it.words)
	x.vectors.add(it)
}

func (x *index) remove(it *item) {
	if int(it.id) >= len(x.items) || x.items[it.id] != it {
		return
	}
	x.items[it.id] = nil
	if x.removed++; x.removed > 1000+len(x.items)/4 {
		x.compact()
	}
}

// compact forgets what was removed.
func (x *index) compact() {
	moved := make([]uint32, len(x.items))
	var items []*item
	x.length, x.removed, x.vectors = 0, 0, vectors{}
	for i, it := range x.items {
		if it == nil {
			continue
		}
		moved[i] = uint32(len(items))
		items = append(items, it)
		x.length += int(it.words)
	}
	for word, term := range x.terms {
		kept := x.postings[term][:0]
		for _, p := range x.postings[term] {
			if x.items[p.item] != nil {
				kept = append(kept, posting{moved[p.item], p.count})
			}
		}
		if x.postings[term] = slices.Clip(kept); len(kept) == 0 {
			x.postings[term] = nil
			delete(x.terms, word)
		}
	}
	x.items = items
	for i, it := range items {
		it.id = uint32(i)
		x.vectors.add(it)
	}
	// Terms that nobody has any more leave a hole, which the next one of their name does not
	// fill: terms are numbered anew.
	terms, postings := make(map[string]uint32, len(x.terms)), make([][]posting, 0, len(x.terms))
	for word, term := range x.terms {
		terms[word] = uint32(len(postings))
		postings = append(postings, x.postings[term])
	}
	x.terms, x.postings = terms, postings
}

var scoreBuffers = sync.Pool{New: func() any { return new([]float32) }}

// search returns the items that have one of the words, the best first, at most limit, and
// how many there are. weigh says how much an item counts; 0: not at all.
func (x *index) search(query []string, weigh func(*item) float64, limit int) (hits []hit, matched int) {
	buffer := scoreBuffers.Get().(*[]float32)
	defer scoreBuffers.Put(buffer)
	scores := slices.Grow((*buffer)[:0], len(x.items))[:len(x.items)]
	clear(scores)
	*buffer = scores
	average := max(float64(x.length)/float64(max(len(x.items), 1)), 1)
	for _, word := range query {
		term, known := x.terms[word]
		if !known {
			continue
		}
		list := x.postings[term]
		rare := math.Log(1 + (float64(len(x.items)-len(list))+0.5)/(float64(len(list))+0.5))
		base, each := float32(k1*(1-b)), float32(k1*b/average)
		for _, p := range list {
			if it := x.items[p.item]; it != nil {
				n := float32(p.count)
				scores[p.item] += float32(rare) * n * (k1 + 1) / (n + base + each*float32(it.words))
			}
		}
	}
	for i, score := range scores {
		if score == 0 {
			continue
		}
		it := x.items[i]
		weight := weigh(it)
		if weight == 0 {
			continue
		}
		matched++
		hits = insert(hits, hit{it, float64(score) * weight}, limit)
	}
	return hits, matched
}

// insert puts a hit in its place among the best.
func insert(hits []hit, h hit, limit int) []hit {
	if len(hits) == limit && (limit == 0 || hits[limit-1].score >= h.score) {
		return hits
	}
	place := sort.Search(len(hits), func(i int) bool { return hits[i].score < h.score })
	hits = slices.Insert(hits, place, h)
	return hits[:min(limit, len(hits))]
}

// merge joins lists of hits to one, the best first.
func merge(limit int, lists ...[]hit) []hit {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return all[:min(limit, len(all))]
}

// fusion is the constant of reciprocal rank fusion, as its authors have it.
const fusion = 60

// fuse ranks what is in several lists by its places there: reciprocal rank fusion.
func fuse(limit int, lists ...[]hit) []hit {
	scores := make(map[*item]float64)
	var order []*item
	for _, list := range lists {
		for place, h := range list {
			if scores[h.item] == 0 {
				order = append(order, h.item)
			}
			scores[h.item] += 1 / float64(fusion+place+1)
		}
	}
	all := make([]hit, len(order))
	for i, it := range order {
		all[i] = hit{it, scores[it]}
	}
	return merge(limit, all)
}
