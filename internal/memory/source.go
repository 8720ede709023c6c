// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	sourceVersion = 1
	// packVersion is that of packs. It changes with split, for vectors are of the parts that
	// it makes.
	packVersion = 1

	packBytes    = 768 << 10 // of text in a pack, about
	maxUnpacked  = 16 << 20
	vectorsGroup = 256 // parts whose vectors are stored together
)

// A Source is something that was ingested: a manifest of packs, which have its documents.
// What a manifest does not name is not there: a change of a source is the change of its
// manifest.
type Source struct {
	Version int        `json:"v"`
	Name    string     `json:"name"`
	Kind    string     `json:"kind"` // path, url or text
	Origin  string     `json:"origin,omitempty"`
	By      string     `json:"by"`
	Updated time.Time  `json:"updated"`
	Files   int        `json:"files"`
	Bytes   int64      `json:"bytes"` // of text
	Packs   []packName `json:"packs"`
	Unused  []string   `json:"unused,omitempty"` // packs that may be there and are to be removed

	Scope    Scope `json:"-"`
	revision state.Revision
}

// packName names a pack by what is in it.
type packName struct {
	ID    string `json:"id"`
	Model string `json:"model,omitempty"` // of its vectors
}

// A pack is documents that are stored together. It never changes.
type pack struct {
	Version int         `json:"v"`
	Docs    []*document `json:"docs"`
}

// A document is a text, or a piece of a large one, and where it was found.
type document struct {
	Digest string  `json:"digest"`
	Places []place `json:"places"`
	Text   string  `json:"text"`

	source *Source
}

// A place is a file or page, and the line at which the text begins.
type place struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

// loadedSource is what the index has of a source.
type loadedSource struct {
	revision state.Revision
	packs    map[packName]*loadedPack
}

type loadedPack struct {
	docs  []*document
	items []*item
}

func (sp *space) packKey(source, id string, more ...string) string {
	return sp.prefix + state.Key(append([]string{source, id}, more...)...)
}

// load brings the index of parts up to date with the manifests, until the space is closed.
func (sp *space) load() {
	for {
		name, source := sp.behind()
		if name == "" {
			select {
			case <-sp.wake:
				continue
			case <-sp.ctx.Done():
				return
			}
		}
		err := sp.loadSource(name, source)
		if sp.ctx.Err() != nil {
			return
		}
		if err != nil {
			sp.store.options.Logger.Warn("a source of knowledge is not searched yet", zap.Error(err))
			select {
			case <-time.After(time.Second):
			case <-sp.wake:
			case <-sp.ctx.Done():
			}
		}
	}
}

// behind returns a source that the index has not, or not as it is; nil: it is gone.
func (sp *space) behind() (name string, source *Source) {
	sp.mu.RLock()
	defer sp.mu.RUnlock()
	if !sp.snapshot {
		return "", nil
	}
	for name := range sp.loaded {
		if sp.sources[name] == nil {
			return name, nil
		}
	}
	for name, source := range sp.sources {
		if have := sp.loaded[name]; have == nil || have.revision < source.revision {
			return name, source
		}
	}
	return "", nil
}

func (sp *space) loadSource(name string, source *Source) error {
	sp.mu.RLock()
	old := sp.loaded[name]
	sp.mu.RUnlock()
	now := &loadedSource{packs: make(map[packName]*loadedPack)}
	fresh := make(map[packName][]counted)
	if source != nil {
		now.revision = source.revision
		for _, id := range source.Packs {
			if old != nil && old.packs[id] != nil {
				now.packs[id] = old.packs[id]
				continue
			}
			p, err := sp.readPack(name, id)
			if errors.Is(err, state.ErrNotFound) && sp.isOld(name, source) {
				return nil // a newer manifest does not have it
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			loaded := &loadedPack{docs: p.Docs}
			for _, doc := range p.Docs {
				for _, part := range split(doc.Places[0].Path, doc.Text, doc.Places[0].Line) {
					loaded.items = append(loaded.items, &item{doc: doc, part: part})
					fresh[id] = append(fresh[id], count(part.text, part.heading, doc.Places[0].Path))
				}
			}
			if err := sp.readVectors(name, id, loaded.items); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			now.packs[id] = loaded
		}
	}
	for id, counts := range fresh {
		items := now.packs[id].items
		for i := range items {
			items[i].doc.source = source
		}
		const step = 64 // at a time, so that nobody waits for long
		for first := 0; first < len(items); first += step {
			sp.mu.Lock()
			for i := first; i < min(first+step, len(items)); i++ {
				sp.byPart.add(items[i], counts[i])
			}
			sp.mu.Unlock()
		}
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if old != nil {
		for id, p := range old.packs {
			if now.packs[id] == nil {
				for _, it := range p.items {
					sp.byPart.remove(it)
				}
			}
		}
	}
	if sp.loaded[name] = now; source == nil {
		delete(sp.loaded, name)
	}
	sp.tell()
	return nil
}

// isOld reports whether a manifest was replaced meanwhile.
func (sp *space) isOld(name string, source *Source) bool {
	sp.mu.RLock()
	defer sp.mu.RUnlock()
	return sp.sources[name] != source
}

var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxUnpacked))
)

func (sp *space) readPack(source string, name packName) (p pack, err error) {
	entry, err := sp.store.packs.Get(sp.ctx, sp.packKey(source, name.ID))
	if err != nil {
		return p, err
	}
	data, err := unpacker.DecodeAll(entry.Value, nil)
	if err == nil {
		err = decode(data, &p, &p.Version, packVersion)
	}
	if err == nil && slices.ContainsFunc(p.Docs, func(d *document) bool { return len(d.Places) == 0 }) {
		err = errors.New("a document has no place")
	}
	return p, err
}

// readVectors gives items the vectors that are stored of them.
func (sp *space) readVectors(source string, name packName, items []*item) error {
	if name.Model == "" || name.Model != sp.store.options.Model {
		return nil
	}
	for group := 0; group*vectorsGroup < len(items); group++ {
		entry, err := sp.store.packs.Get(sp.ctx, sp.vectorsKey(source, name, group))
		if err != nil {
			return err
		}
		of := items[group*vectorsGroup : min((group+1)*vectorsGroup, len(items))]
		each := len(entry.Value) / len(of)
		for i, it := range of {
			it.vector = signed(entry.Value[i*each : (i+1)*each])
		}
	}
	return nil
}

func (sp *space) vectorsKey(source string, name packName, group int) string {
	return sp.packKey(source, name.ID, name.Model, strconv.Itoa(group))
}

// writeVectors stores vectors of all parts of a pack.
func (sp *space) writeVectors(ctx context.Context, source string, name packName, docs []*document) error {
	var texts []string
	for _, doc := range docs {
		for _, part := range split(doc.Places[0].Path, doc.Text, doc.Places[0].Line) {
			texts = append(texts, strings.TrimSpace(part.heading+"\n"+part.text))
		}
	}
	const batch = 64
	for group := 0; group*vectorsGroup < len(texts); group++ {
		of := texts[group*vectorsGroup : min((group+1)*vectorsGroup, len(texts))]
		var value []byte
		for some := range slices.Chunk(of, batch) {
			vectors, err := sp.store.embed(ctx, some)
			if err != nil {
				return err
			}
			for _, v := range vectors {
				if len(v) != len(vectors[0]) {
					return errors.New("vectors have different lengths")
				}
				value = append(value, unsigned(v)...)
			}
		}
		if len(value)%len(of) != 0 {
			return errors.New("vectors have different lengths")
		}
		if _, err := sp.store.packs.Put(ctx, sp.vectorsKey(source, name, group), value, 0); err != nil {
			return err
		}
	}
	return nil
}

// Sources returns what was ingested, by scope and name.
func (s *Store) Sources(ctx context.Context, who Who, scopes []Scope) (list []Source, partial bool, err error) {
	for _, scope := range scopes {
		sp, complete, err := s.ready(ctx, who, scope, true, catchUp)
		if err != nil {
			return nil, false, err
		}
		partial = partial || !complete
		sp.mu.RLock()
		of := make([]Source, 0, len(sp.sources))
		for _, source := range sp.sources {
			if source.Files == 0 { // it was never completed
				continue
			}
			one := *source
			one.Scope = scope
			of = append(of, one)
		}
		sp.mu.RUnlock()
		slices.SortFunc(of, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
		list = append(list, of...)
	}
	return list, partial, nil
}

// Remove removes a source and reports whether it was there.
func (s *Store) Remove(ctx context.Context, who Who, scope Scope, name string) (bool, error) {
	sp, err := s.whole(ctx, who, scope, true)
	if err != nil {
		return false, err
	}
	sp.mu.RLock()
	source := sp.sources[name]
	sp.mu.RUnlock()
	if source == nil {
		return false, nil
	}
	err = s.entries.Delete(ctx, sp.key(sourceKind, name), source.revision)
	if errors.Is(err, state.ErrConflict) {
		return false, changedMeanwhile(name)
	}
	if err != nil {
		return false, unavailable(err)
	}
	for _, p := range source.Packs {
		sp.deletePack(ctx, name, p.ID)
	}
	for _, id := range source.Unused {
		sp.deletePack(ctx, name, id)
	}
	sp.mu.Lock()
	if sp.sources[name] == source {
		delete(sp.sources, name)
		sp.tell()
		sp.awaken()
	}
	sp.mu.Unlock()
	return true, nil
}

// deletePack removes a pack that no manifest names. What fails here leaves something behind
// that nobody sees, and that the next change of the source removes.
func (sp *space) deletePack(ctx context.Context, source, id string) {
	sp.store.packs.Delete(ctx, sp.packKey(source, id), 0)
	if model := sp.store.options.Model; model != "" {
		for group := range packBytes / partBytes / vectorsGroup * 8 {
			key := sp.vectorsKey(source, packName{id, model}, group)
			if _, err := sp.store.packs.Get(ctx, key); err != nil {
				return
			}
			sp.store.packs.Delete(ctx, key, 0)
		}
	}
}

func changedMeanwhile(name string) error {
	return &tools.Failure{Code: "changed_meanwhile", Retryable: true, Message: fmt.Sprintf("%.200q was changed by another call meanwhile: nothing was done. Make the call again.", name)}
}

// A Part is a part of a document that was found.
type Part struct {
	Source, Kind string
	Scope        Scope
	Path         string
	Also         []string // where else the same text is
	Line, Last   int
	Heading      string
	Text         string
}

// Search finds parts of documents of some scopes.
func (s *Store) Search(ctx context.Context, who Who, scopes []Scope, q Query) (found Found, err error) {
	weigh := func(it *item) float64 {
		if q.Source != "" && it.doc.source.Name != q.Source {
			return 0
		}
		if q.Path != "" && !slices.ContainsFunc(it.doc.Places, func(p place) bool { return isBelow(p.Path, q.Path) }) {
			return 0
		}
		return 1
	}
	search := s.newSearch(ctx, q, weigh)
	scopeOf := make(map[*item]Scope)
	for _, scope := range scopes {
		sp, complete, err := s.ready(ctx, who, scope, true, catchUp)
		if err != nil {
			return Found{}, err
		}
		found.Partial = found.Partial || !complete
		sp.mu.RLock()
		search.among(sp.byPart, scopeOf, scope)
		sp.mu.RUnlock()
	}
	seen := make(map[string]int) // texts, and where they are among the parts
	for _, h := range search.best(&found) {
		doc := h.doc
		p := Part{
			Source: doc.source.Name, Kind: doc.source.Kind, Scope: scopeOf[h.item], Path: doc.Places[0].Path,
			Line: h.part.line, Last: h.part.last, Heading: h.part.heading, Text: h.part.text,
		}
		for _, other := range doc.Places[1:] {
			p.Also = append(p.Also, other.Path)
		}
		if at, twice := seen[p.Text]; twice {
			found.Parts[at].Also = append(found.Parts[at].Also, p.Path)
			continue
		}
		seen[p.Text] = len(found.Parts)
		found.Parts, found.Scores = append(found.Parts, p), append(found.Scores, h.score)
	}
	return found, nil
}

func isBelow(path, top string) bool {
	top = strings.TrimSuffix(top, "/")
	return path == top || strings.HasPrefix(path, top) && path[len(top)] == '/' || top == "."
}
