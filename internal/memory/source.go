// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	sourceVersion = 1
	// packVersion is that of packs. It changes with split, for vectors are of the parts that
	// it makes.
	packVersion = 1

	packBytes    = 5 << 19 // of text in a pack, about: 2.5 MiB
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
	Broken   bool  `json:"-"` // some of it cannot be read
	revision state.Revision
}

// packName names a pack by what is in it.
type packName struct {
	ID    string `json:"id"`
	Model string `json:"model,omitempty"` // of its vectors
}

// A pack is documents that are stored together. It is written as the length of this in JSON,
// this, and the texts, compressed.
type pack struct {
	Version int         `json:"v"`
	Docs    []*document `json:"docs"`
}

// A document is a text, or a piece of a large one, and where it was found.
type document struct {
	Digest string  `json:"digest"`
	Places []place `json:"places"`
	Size   int     `json:"size"` // of the text, in bytes
	Text   string  `json:"-"`

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
	broken   error     // why some packs are not among these
	retry    time.Time // when those are looked for again
}

type loadedPack struct {
	docs  []*document
	items []*item
}

func (sp *space) packKey(source, id string, more ...string) string {
	return sp.prefix + state.Key(append([]string{source, id}, more...)...)
}

// retryBroken is how long a source is left alone of which something is damaged or missing:
// the state may have been old, or is repaired.
const retryBroken = time.Minute

// load brings the index of parts up to date with the manifests, until the space is closed.
func (sp *space) load() {
	for {
		name, source := sp.behind()
		if name == "" {
			select {
			case <-sp.wake:
				continue
			case <-time.After(retryBroken):
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
		have := sp.loaded[name]
		if have == nil || have.revision < source.revision || have.broken != nil && time.Now().After(have.retry) {
			return name, source
		}
	}
	return "", nil
}

// loadSource brings the index up to date with a source. What is damaged or missing of it is
// noted, and the rest is searched.
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
			loaded, counts, err := sp.loadPack(name, id)
			missing := errors.Is(err, state.ErrNotFound)
			if missing && sp.isOld(name, source) {
				return nil // a newer manifest does not have it
			}
			if missing || errors.Is(err, errPack) {
				now.broken, now.retry = err, time.Now().Add(retryBroken)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fresh[id] = counts
			now.packs[id] = loaded
		}
	}
	if now.broken != nil && (old == nil || old.broken == nil) {
		sp.store.options.Logger.Error("a source of knowledge is damaged: the rest of it is searched, and who ingests it again repairs it", zap.String("source", name), zap.Error(now.broken))
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

func (sp *space) loadPack(source string, name packName) (loaded *loadedPack, counts []counted, err error) {
	p, err := sp.readPack(source, name)
	if err != nil {
		return nil, nil, err
	}
	loaded = &loadedPack{docs: p.Docs}
	for _, doc := range p.Docs {
		for _, part := range split(doc.Places[0].Path, doc.Text, doc.Places[0].Line) {
			loaded.items = append(loaded.items, &item{doc: doc, part: part})
			counts = append(counts, count(part.text, part.heading, doc.Places[0].Path))
		}
	}
	return loaded, counts, sp.readVectors(source, name, loaded.items)
}

// isOld reports whether a manifest was replaced meanwhile.
func (sp *space) isOld(name string, source *Source) bool {
	sp.mu.RLock()
	defer sp.mu.RUnlock()
	return sp.sources[name] != source
}

// packed is a pack that is to be stored.
type packed struct {
	name packName
	head []byte
	docs []*document
}

// newPacked returns documents as a pack, with its name.
func newPacked(docs []*document) (*packed, error) {
	for _, doc := range docs {
		doc.Size = len(doc.Text)
	}
	head, err := json.Marshal(pack{packVersion, docs})
	sum := sha256.Sum256(head)
	return &packed{packName{ID: hex.EncodeToString(sum[:16])}, head, docs}, err
}

// packBuffers are what packs are made in: each takes some MiB, and all are of about one size.
var packBuffers = sync.Pool{New: func() any { return new(packBuffer) }}

type packBuffer struct{ raw, value []byte }

// encode calls use with the pack as it is stored, which is there only so long.
func (p *packed) encode(use func(value []byte) error) error {
	buffer := packBuffers.Get().(*packBuffer)
	defer packBuffers.Put(buffer)
	raw := append(binary.AppendUvarint(buffer.raw[:0], uint64(len(p.head))), p.head...)
	for _, doc := range p.docs {
		raw = append(raw, doc.Text...)
	}
	buffer.raw = raw
	if most := s2.MaxEncodedLen(len(raw)); most > cap(buffer.value) {
		buffer.value = make([]byte, most)
	}
	return use(s2.Encode(buffer.value[:cap(buffer.value)], raw))
}

var errPack = errors.New("a pack is damaged")

func decodePack(value []byte) (p pack, err error) {
	if n, err := s2.DecodedLen(value); err != nil || n > maxUnpacked {
		return p, errPack
	}
	raw, err := s2.Decode(nil, value)
	if err != nil {
		return p, errPack
	}
	size, n := binary.Uvarint(raw)
	if n <= 0 || size > uint64(len(raw)-n) {
		return p, errPack
	}
	if err := decode(raw[n:n+int(size)], &p, &p.Version, packVersion); err != nil {
		return p, fmt.Errorf("%w: %w", errPack, err)
	}
	text := string(raw[n+int(size):])
	for _, doc := range p.Docs {
		if doc == nil || len(doc.Places) == 0 || doc.Size < 0 || doc.Size > len(text) {
			return p, errPack
		}
		doc.Text, text = text[:doc.Size], text[doc.Size:]
	}
	return p, nil
}

func (sp *space) readPack(source string, name packName) (p pack, err error) {
	entry, err := sp.store.packs.Get(sp.ctx, sp.packKey(source, name.ID))
	if err != nil {
		return p, err
	}
	return decodePack(entry.Value)
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
			have := sp.loaded[one.Name]
			one.Broken = have != nil && have.broken != nil
			of = append(of, one)
		}
		sp.mu.RUnlock()
		slices.SortFunc(of, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
		list = append(list, of...)
	}
	return list, partial, nil
}

// Remove removes a source and reports whether it was there. First its manifest says that all
// packs are unused, and goes when they are gone: who calls it again, or ingests something by
// that name, goes on where it was interrupted.
func (s *Store) Remove(ctx context.Context, who Who, scope Scope, name string) (bool, error) {
	sp, err := s.whole(ctx, who, scope, false)
	if err != nil {
		return false, err
	}
	sp.mu.RLock()
	source := sp.sources[name]
	sp.mu.RUnlock()
	if source == nil {
		return false, nil
	}
	rest := *source
	rest.Files, rest.Bytes, rest.Packs, rest.Unused = 0, 0, nil, slices.Clone(source.Unused)
	for _, p := range source.Packs {
		rest.Unused = append(rest.Unused, p.unused())
	}
	revision, err := sp.storeManifest(ctx, rest, source.revision)
	if err != nil {
		return false, err
	}
	behind := context.WithoutCancel(ctx)
	for _, text := range rest.Unused {
		sp.mu.RLock()
		now := sp.sources[name]
		sp.mu.RUnlock()
		if now == nil || now.revision != revision { // somebody ingests it
			return false, changedMeanwhile(name)
		}
		if err := sp.deletePack(behind, name, text); err != nil {
			return false, unavailable(err)
		}
	}
	err = s.entries.Delete(behind, sp.key(sourceKind, name), revision)
	if errors.Is(err, state.ErrConflict) {
		return false, changedMeanwhile(name)
	}
	if err != nil {
		return false, unavailable(err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if now := sp.sources[name]; now != nil && now.revision == revision {
		delete(sp.sources, name)
		sp.tell()
		sp.awaken()
	}
	return true, nil
}

// unused is how a manifest names a pack that is to be removed.
func (p packName) unused() string {
	if p.Model == "" {
		return p.ID
	}
	return p.ID + "/" + p.Model
}

// deletePack removes a pack that a manifest names as unused, with its vectors. What is left
// where it fails is removed by the next change of the source.
func (sp *space) deletePack(ctx context.Context, source, unused string) error {
	id, model, _ := strings.Cut(unused, "/")
	name := packName{id, cmp.Or(model, sp.store.options.Model)}
	groups := 0
	for ; name.Model != ""; groups++ {
		_, err := sp.store.packs.Get(ctx, sp.vectorsKey(source, name, groups))
		if errors.Is(err, state.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
	}
	for group := groups - 1; group >= 0; group-- { // so that those that are left begin with the first
		if err := sp.store.packs.Delete(ctx, sp.vectorsKey(source, name, group), 0); err != nil {
			return err
		}
	}
	return sp.store.packs.Delete(ctx, sp.packKey(source, id), 0)
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
		for _, name := range slices.Sorted(maps.Keys(sp.loaded)) {
			if sp.loaded[name].broken != nil && (q.Source == "" || q.Source == name) {
				found.Notes = append(found.Notes, fmt.Sprintf("source %q of scope %s is damaged, and some of it is not found: ingest it again", name, scope))
			}
		}
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
