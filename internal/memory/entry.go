// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// entryVersion is that of stored entries. A field that is added needs no new one.
const entryVersion = 1

// An Entry is something that is remembered.
type Entry struct {
	Version    int       `json:"v"`
	Key        string    `json:"key"`
	Text       string    `json:"text"`
	Tags       []string  `json:"tags,omitempty"`
	Importance float64   `json:"importance"` // 0 to 1
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"`
	Expires    time.Time `json:"expires,omitzero"`
	By         string    `json:"by"` // the principal who wrote it
	Vector     []byte    `json:"vector,omitempty"`
	Model      string    `json:"model,omitempty"` // of the vector

	Scope Scope `json:"-"`
}

// live reports whether the entry is to be told of.
func (e *Entry) live(now time.Time) bool { return e.Expires.IsZero() || now.Before(e.Expires) }

// KeyOf is the key of a text for which none was given: the same text is one entry.
func KeyOf(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "note-" + hex.EncodeToString(digest[:6])
}

// Mask takes secrets out of a text, and reports whether there were any.
func (s *Store) Mask(text string) (masked string, found bool) {
	masked = s.options.Mask(text)
	return masked, masked != text
}

// Remember stores an entry under its key, in place of the one that is there. Its text was
// masked. The note, if any, says what could not be done.
func (s *Store) Remember(ctx context.Context, who Who, e Entry) (replaced bool, note string, err error) {
	sp, err := s.whole(ctx, who, e.Scope, false)
	if err != nil {
		return false, "", err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	e.Version, e.Created, e.Updated, e.By = entryVersion, now, now, who.Principal
	if s.options.Embed != nil {
		vectors, err := s.embed(ctx, []string{e.Text})
		if err != nil {
			note = "it is found by its words alone, for no vector could be made of it: " + err.Error()
		} else {
			e.Vector, e.Model = unsigned(vectors[0]), s.options.Model
		}
	}
	sp.mu.RLock()
	count, bytes := len(sp.entries), sp.bytes
	old := sp.entries[e.Key]
	if old != nil {
		replaced, e.Created = true, old.entry.Created
		count, bytes = count-1, bytes-int64(len(old.entry.Text))
	}
	full := sp.fullMessage(count, bytes+int64(len(e.Text)), e.Scope)
	sp.mu.RUnlock()
	if full != nil {
		return false, "", full
	}
	value, err := json.Marshal(e)
	if err != nil {
		return false, "", err
	}
	var ttl time.Duration
	if !e.Expires.IsZero() {
		ttl = max(e.Expires.Sub(now), time.Second)
	}
	key := sp.key(entryKind, e.Key)
	revision, err := s.entries.Put(ctx, key, value, ttl)
	if err != nil {
		return false, "", unavailable(err)
	}
	sp.take(state.Entry{Key: key, Value: value, Revision: revision})
	return replaced, note, nil
}

// fullMessage says why there is no room for one more entry, and what to do; nil where there
// is. The caller holds mu.
func (sp *space) fullMessage(count int, bytes int64, scope Scope) error {
	c := sp.store.options.Config
	var what string
	switch {
	case count >= c.MaxEntries:
		what = fmt.Sprintf("there are %d memories of scope %s, and at most %d are kept", count, scope, c.MaxEntries)
	case bytes > int64(c.MaxBytes):
		what = fmt.Sprintf("the memories of scope %s would have %d bytes, and at most %s are kept", scope, bytes, c.MaxBytes)
	default:
		return nil
	}
	all := make([]*Entry, 0, len(sp.entries))
	for _, k := range sp.entries {
		all = append(all, k.entry)
	}
	slices.SortFunc(all, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Importance, b.Importance), a.Updated.Compare(b.Updated))
	})
	var keys []string
	for _, e := range all[:min(5, len(all))] {
		keys = append(keys, fmt.Sprintf("%q", e.Key))
	}
	return tools.Failf("memory_full", "Nothing was stored: %s. Forget what is not needed first; the oldest of least importance are %s.", what, strings.Join(keys, ", "))
}

// A Query says what is looked for. Without words it is all, the newest first.
type Query struct {
	Text   string
	Key    string   // this one alone
	Tags   []string // all of which it has
	Source string   // of knowledge, this one alone
	Path   string   // of knowledge, what is below it alone

	Limit, Offset int

	// Session are the entries of the session, which are kept with it.
	Session []Entry
}

// selects reports whether not all that has the words is looked for.
func (q *Query) selects() bool {
	return q.Key != "" || len(q.Tags) > 0 || q.Source != "" || q.Path != ""
}

// Found is what was found.
type Found struct {
	Entries []Entry
	Parts   []Part
	Scores  []float64
	Matched int      // how many there are; of those that only vectors found, those that are shown
	Partial bool     // the index does not have all yet
	Notes   []string // what could not be done
}

// depth is how many hits of each list are fused.
const depth = 200

// Recall finds entries of some scopes.
func (s *Store) Recall(ctx context.Context, who Who, scopes []Scope, q Query) (found Found, err error) {
	now := time.Now()
	weigh := func(it *item) float64 {
		if !it.entry.live(now) || q.Key != "" && it.entry.Key != q.Key || !HasTags(it.entry.Tags, q.Tags) {
			return 0
		}
		return 0.75 + it.entry.Importance/2
	}
	search := s.newSearch(ctx, q, weigh)
	scopeOf := make(map[*item]Scope)
	for _, scope := range scopes {
		x := newIndex()
		if scope == OfSession {
			for i := range q.Session {
				e := &q.Session[i]
				x.add(&item{entry: e}, count(e.Text, e.Key, fmt.Sprint(e.Tags)))
			}
			search.among(x, scopeOf, scope)
			continue
		}
		sp, complete, err := s.ready(ctx, who, scope, false, catchUp)
		if err != nil {
			return Found{}, err
		}
		found.Partial = found.Partial || !complete
		sp.mu.RLock()
		search.among(sp.byEntry, scopeOf, scope)
		sp.mu.RUnlock()
	}
	for _, h := range search.best(&found) {
		e := *h.entry
		e.Scope = scopeOf[h.item]
		found.Entries, found.Scores = append(found.Entries, e), append(found.Scores, h.score)
	}
	return found, nil
}

// A search gathers hits of several indexes.
type search struct {
	q       Query
	words   []string
	vector  []int8
	note    string
	weigh   func(*item) float64
	limit   int // of each list
	lists   [][]hit
	likes   [][]hit
	matched int
}

func (s *Store) newSearch(ctx context.Context, q Query, weigh func(*item) float64) *search {
	f := &search{q: q, words: asked(q.Text), weigh: weigh, limit: q.Offset + q.Limit}
	if s.options.Embed != nil && strings.TrimSpace(q.Text) != "" {
		f.limit = max(f.limit, depth)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		vectors, err := s.embed(short, []string{q.Text})
		if err != nil {
			f.note = "found by words alone, for no vector could be made of the query: " + err.Error()
		} else {
			f.vector = vectors[0]
		}
	}
	return f
}

// among looks in an index, and notes whose hits it has.
func (f *search) among(x *index, scopes map[*item]Scope, scope Scope) {
	var hits []hit
	if strings.TrimSpace(f.q.Text) == "" {
		hits = f.newest(x)
	} else {
		var matched int
		hits, matched = x.search(f.words, f.weigh, f.q.selects(), f.limit)
		f.matched += matched
	}
	f.lists = append(f.lists, hits)
	for _, h := range hits {
		scopes[h.item] = scope
	}
	if f.vector != nil {
		alive := func(it *item) bool { return int(it.id) < len(x.items) && x.items[it.id] == it }
		likes := x.vectors.nearest(f.vector, alive, f.weigh, f.limit)
		f.likes = append(f.likes, likes)
		for _, h := range likes {
			scopes[h.item] = scope
		}
	}
}

func (f *search) newest(x *index) (hits []hit) {
	for _, it := range x.items {
		if it == nil || f.weigh(it) == 0 {
			continue
		}
		f.matched++
		score := 0.0
		if it.entry != nil {
			score = float64(it.entry.Updated.UnixMilli())
		}
		hits = insert(hits, hit{it, score}, f.limit)
	}
	return hits
}

// best returns the hits of the page that was asked for.
func (f *search) best(found *Found) []hit {
	hits := merge(f.limit, f.lists...)
	if f.vector != nil {
		hits = fuse(f.limit, hits, merge(f.limit, f.likes...))
	}
	if f.note != "" {
		found.Notes = append(found.Notes, f.note)
	}
	found.Matched = max(f.matched, len(hits))
	hits = hits[min(f.q.Offset, len(hits)):]
	return hits[:min(f.q.Limit, len(hits))]
}

// Forget removes the entry of a key or, without one, those that have all tags; all of the
// scope where there are neither. It returns how many.
func (s *Store) Forget(ctx context.Context, who Who, scope Scope, key string, tags []string) (n int, err error) {
	sp, err := s.whole(ctx, who, scope, false)
	if err != nil {
		return 0, err
	}
	type gone struct {
		name     string
		revision state.Revision
	}
	var list []gone
	sp.mu.RLock()
	for name, k := range sp.entries {
		if key != "" && name != key || !HasTags(k.entry.Tags, tags) {
			continue
		}
		list = append(list, gone{name, k.revision})
	}
	sp.mu.RUnlock()
	var forgotten atomic.Int64
	var work errgroup.Group
	work.SetLimit(16)
	for _, g := range list {
		work.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := s.entries.Delete(ctx, sp.key(entryKind, g.name), g.revision)
			if errors.Is(err, state.ErrConflict) {
				return nil // it was written meanwhile: that one was not meant
			}
			if err != nil {
				return unavailable(err)
			}
			sp.forgotten(g.name, g.revision)
			forgotten.Add(1)
			return nil
		})
	}
	err = work.Wait()
	return int(forgotten.Load()), err
}

// HasTags reports whether all that are wanted are among tags.
func HasTags(tags, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(tag string) bool { return !slices.Contains(tags, tag) })
}

// embed makes vectors of texts, one for each.
func (s *Store) embed(ctx context.Context, texts []string) ([][]int8, error) {
	made, err := s.options.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(made) != len(texts) {
		return nil, fmt.Errorf("%d vectors came for %d texts", len(made), len(texts))
	}
	list := make([][]int8, len(made))
	for i, vector := range made {
		if list[i] = quantize(vector); list[i] == nil {
			return nil, errors.New("a vector has no direction")
		}
	}
	return list, nil
}
