// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Skill is what is found beside tools: instructions that a tool loads.
type Skill struct{ Name, Description string }

// An item is what is found: a tool, or a skill.
type item struct {
	*tools.Entry
	skill *Skill // nil: a tool
}

func (it *item) name() string {
	if it.skill != nil {
		return it.skill.Name
	}
	return it.Spec.Name
}

// An index finds tools and skills by words, ranked by BM25. It never changes.
type index struct {
	revision revision
	items    []*item          // tools, then skills
	byName   map[string]*item // by name or alias, in lower case
	terms    []string         // sorted
	postings map[string][]posting
	lengths  []float64 // of the items, in words
	average  float64
}

// revision is that of the tools and of the skills.
type revision struct{ tools, skills uint64 }

// A posting is how much one word weighs in one item.
type posting struct {
	item   int
	weight float64
}

// How much a word counts by where it is, and the constants of BM25, which are those for
// short texts.
const (
	inName, inAlias, inSummary, inText = 4, 3, 2, 1

	k1 = 0.9
	b  = 0.4
)

func newIndex(entries []*tools.Entry, skills []Skill, now revision) *index {
	ix := &index{revision: now, byName: make(map[string]*item), postings: make(map[string][]posting)}
	var loads *tools.Entry
	for _, entry := range entries {
		ix.items = append(ix.items, &item{Entry: entry})
		if entry.Spec.Name == skillTool {
			loads = entry
		}
	}
	for i := range skills {
		if loads != nil {
			ix.items = append(ix.items, &item{loads, &skills[i]})
		}
	}
	for _, it := range slices.Backward(ix.items) { // a name hides aliases, and a tool a skill
		if it.skill == nil {
			for _, alias := range it.Spec.Aliases {
				ix.byName[strings.ToLower(alias)] = it
			}
		}
	}
	for _, it := range slices.Backward(ix.items) {
		if name := strings.ToLower(it.name()); it.skill == nil || ix.byName[name] == nil {
			ix.byName[name] = it
		}
	}
	ix.lengths = make([]float64, len(ix.items))
	total := 0.0
	for i, it := range ix.items {
		weights := map[string]float64{}
		it.texts(func(text string, weight float64) {
			for _, word := range words(text) {
				weights[word] += weight
				ix.lengths[i]++
			}
		})
		for word, weight := range weights {
			ix.postings[word] = append(ix.postings[word], posting{i, weight})
		}
		total += ix.lengths[i]
	}
	ix.terms = slices.Sorted(maps.Keys(ix.postings))
	ix.average = total / float64(max(1, len(ix.items)))
	return ix
}

// texts tells what is said of an item, and how much a word of it counts.
func (it *item) texts(add func(text string, weight float64)) {
	if it.skill != nil {
		add(it.skill.Name, inName)
		add("skill", inSummary)
		add(it.skill.Description, inSummary)
		return
	}
	spec := &it.Spec
	add(spec.Name, inName)
	for _, alias := range spec.Aliases {
		add(alias, inAlias)
	}
	add(spec.Label+" "+spec.Category+" "+spec.Server, inSummary)
	add(spec.Summary, inSummary)
	add(spec.Description, inText)
	add(parameters(it.Tool.InputSchema()), inText)
}

// parameters returns the names and descriptions of the keys of a schema.
func parameters(schema json.RawMessage) string {
	var s struct {
		Properties map[string]struct{ Description string }
	}
	if json.Unmarshal(schema, &s) != nil {
		return ""
	}
	var text strings.Builder
	for name, property := range s.Properties {
		text.WriteString(name + " " + property.Description + " ")
	}
	return text.String()
}

// words returns the words of a text in one form: in lower case, names taken apart, and
// without the ends of plurals.
func words(text string) []string {
	var list []string
	start := -1
	end := func(to int) {
		if start >= 0 && to-start > 1 {
			word := strings.ToLower(text[start:to])
			if n := len(word); n > 3 && word[n-1] == 's' && word[n-2] != 's' {
				word = word[:n-1]
			}
			list = append(list, word)
		}
		start = -1
	}
	for i := range len(text) {
		c := text[i]
		upper := c >= 'A' && c <= 'Z'
		switch {
		case !upper && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c < 0x80:
			end(i)
			continue
		case upper && i > 0 && text[i-1] >= 'a' && text[i-1] <= 'z':
			end(i)
		}
		if start < 0 {
			start = i
		}
	}
	end(len(text))
	return list
}

// search returns what matches best, at most limit, and how many match at all. Without words
// all that fit match.
func (ix *index) search(query string, fits func(*item) bool, limit int) ([]*item, int) {
	asked := words(query)
	exact := ix.byName[strings.ToLower(strings.TrimSpace(query))]
	scores := make([]float64, len(ix.items))
	for _, word := range asked {
		ix.score(scores, word)
	}
	matched := 0
	var best []int // the best so far, in order
	for i, it := range ix.items {
		if it == exact {
			scores[i] = math.Inf(1)
		}
		if scores[i] == 0 && len(asked) > 0 || !fits(it) {
			continue
		}
		matched++
		place := sort.Search(len(best), func(j int) bool { return scores[best[j]] < scores[i] })
		if place < limit {
			best = slices.Insert(best, place, i)
			best = best[:min(limit, len(best))]
		}
	}
	found := make([]*item, len(best))
	for n, i := range best {
		found[n] = ix.items[i]
	}
	return found, matched
}

// score adds what a word says of each item. A word that none has counts as those that
// begin with it, half.
func (ix *index) score(scores []float64, word string) {
	terms, share := []string{word}, 1.0
	if ix.postings[word] == nil {
		terms, share = nil, 0.5
		for i := sort.SearchStrings(ix.terms, word); i < len(ix.terms) && len(word) > 2 && strings.HasPrefix(ix.terms[i], word); i++ {
			terms = append(terms, ix.terms[i])
		}
	}
	for _, term := range terms {
		list := ix.postings[term]
		rare := math.Log(1 + (float64(len(ix.items))-float64(len(list))+0.5)/(float64(len(list))+0.5))
		for _, p := range list {
			scores[p.item] += share * rare * p.weight * (k1 + 1) / (p.weight + k1*(1-b+b*ix.lengths[p.item]/ix.average))
		}
	}
}
