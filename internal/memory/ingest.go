// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// pieceBytes is the most that is one document; a larger text becomes several.
const pieceBytes = 512 << 10

// An Ingestion brings the documents of a source up to date: all that it has are added, then
// it is committed. Until then nothing has changed, whatever ends it.
type Ingestion struct {
	store *Store
	space *space
	next  Source
	last  *Source       // as it is stored; nil: it is new
	had   *loadedSource // of it

	mu       sync.Mutex
	docs     map[string]*document // by digest
	order    []*document
	masked   int
	replaced map[string]bool // digests that the source has already
}

// A Report tells what an ingestion did.
type Report struct {
	Source                         Source
	Added, Kept, Removed, Repeated int // documents
	Masked                         int // documents that had secrets in them
	Notes                          []string
}

// Ingest begins to bring a source up to date, or to make it.
func (s *Store) Ingest(ctx context.Context, who Who, scope Scope, source Source) (*Ingestion, error) {
	sp, err := s.whole(ctx, who, scope, true)
	if err != nil {
		return nil, err
	}
	in := &Ingestion{store: s, space: sp, next: source, docs: make(map[string]*document), replaced: make(map[string]bool)}
	in.next.Version, in.next.By, in.next.Scope = sourceVersion, who.Principal, scope
	sp.mu.RLock()
	defer sp.mu.RUnlock()
	in.last = sp.sources[source.Name]
	if n := len(sp.sources); in.last == nil && n >= s.options.MaxSources {
		return nil, tools.Failf("knowledge_full", "Nothing was ingested: there are %d sources of scope %s, and at most %d are kept. Remove one that is not needed: %s.",
			n, scope, s.options.MaxSources, sp.largest())
	}
	if in.had = sp.loaded[source.Name]; in.had != nil {
		for _, p := range in.had.packs {
			for _, doc := range p.docs {
				in.replaced[doc.Digest] = true
			}
		}
	}
	return in, nil
}

// largest names the sources that take most. The caller holds mu.
func (sp *space) largest() string {
	all := slices.SortedFunc(maps.Values(sp.sources), func(a, b *Source) int { return int(b.Bytes - a.Bytes) })
	var names []string
	for _, source := range all[:min(5, len(all))] {
		names = append(names, fmt.Sprintf("%.200q (%d bytes)", source.Name, source.Bytes))
	}
	return strings.Join(names, ", ")
}

// Add adds a file or a page by its path. It may be called by many at once.
func (in *Ingestion) Add(path, text string) error {
	in.mu.Lock()
	in.next.Files++
	files := in.next.Files
	in.mu.Unlock()
	if limit := in.store.options.MaxFiles; files > limit {
		return TooManyFiles(files, limit)
	}
	for line := 1; text != ""; {
		piece := text
		if len(piece) > pieceBytes {
			piece = piece[:pieceBytes]
			if end := strings.LastIndexByte(piece, '\n'); end > 0 {
				piece = piece[:end+1]
			}
		}
		if err := in.add(place{path, line}, piece); err != nil {
			return err
		}
		if text = text[len(piece):]; text != "" {
			line += strings.Count(piece, "\n")
		}
	}
	return nil
}

// TooManyFiles refuses a source that is too large.
func TooManyFiles(files, limit int) error {
	return tools.Failf("too_many_files", "Nothing was ingested: there are %d files or more, and a source may have %d. Ingest the folders that matter as sources of their own, or choose files with include, such as **/*.md.", files, limit)
}

func (in *Ingestion) add(at place, text string) error {
	sum := sha256.Sum256([]byte(text))
	digest := hex.EncodeToString(sum[:16])
	masked := text
	if !in.replaced[digest] { // else it is there already
		if masked = in.store.options.Mask(text); !utf8.ValidString(masked) {
			masked = strings.ToValidUTF8(masked, "\ufffd")
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if doc := in.docs[digest]; doc != nil {
		doc.Places = append(doc.Places, at)
		return nil
	}
	doc := &document{Digest: digest, Places: []place{at}, Text: masked}
	in.docs[digest] = doc
	in.order = append(in.order, doc)
	if masked != text {
		in.masked++
	}
	if in.next.Bytes += int64(len(masked)); in.next.Bytes > int64(in.store.options.MaxKnowledge) {
		return tools.Failf("knowledge_full", "Nothing was ingested: the source has more than %s of text, which is all that may be kept. Ingest the folders that matter, or choose files with include.", in.store.options.MaxKnowledge)
	}
	return nil
}

// Commit stores what was added, in place of what the source was.
func (in *Ingestion) Commit(ctx context.Context, progress func(done, total int)) (report Report, err error) {
	sp := in.space
	for _, doc := range in.order { // files are read in any order
		slices.SortFunc(doc.Places, func(a, b place) int { return strings.Compare(a.Path, b.Path) })
	}
	slices.SortFunc(in.order, func(a, b *document) int {
		if a.Places[0].Path != b.Places[0].Path {
			return strings.Compare(a.Places[0].Path, b.Places[0].Path)
		}
		return a.Places[0].Line - b.Places[0].Line
	})
	sp.mu.RLock()
	used := in.next.Bytes
	for name, source := range sp.sources {
		if name != in.next.Name {
			used += source.Bytes
		}
	}
	largest := sp.largest()
	sp.mu.RUnlock()
	if most := in.store.options.MaxKnowledge; used > int64(most) {
		return report, tools.Failf("knowledge_full", "Nothing was ingested: all sources of scope %s would have %d bytes, and at most %s are kept. Remove what is not needed: %s.", in.next.Scope, used, most, largest)
	}
	report.Masked = in.masked
	for _, doc := range in.order {
		report.Repeated += len(doc.Places) - 1
	}
	if err := in.write(ctx, in.keep(&report), &report, progress); err != nil {
		return report, err
	}
	report.Source = in.next
	return report, nil
}

// keep takes over the packs of which every document is still there as it was, and returns
// the documents that are in none of them.
func (in *Ingestion) keep(report *Report) (fresh []*document) {
	kept := make(map[string]bool)
	old := make(map[string]*document)
	if in.had != nil {
		for name, p := range in.had.packs {
			whole := true
			for _, doc := range p.docs {
				now := in.docs[doc.Digest]
				if now == nil {
					report.Removed++
				}
				whole = whole && now != nil && slices.Equal(now.Places, doc.Places)
				old[doc.Digest] = doc
			}
			if whole && !slices.ContainsFunc(p.docs, func(d *document) bool { return kept[d.Digest] }) {
				in.next.Packs = append(in.next.Packs, name)
				for _, doc := range p.docs {
					kept[doc.Digest] = true
				}
			}
		}
	}
	slices.SortFunc(in.next.Packs, func(a, b packName) int { return strings.Compare(a.ID, b.ID) })
	for _, doc := range in.order {
		was := old[doc.Digest]
		if was == nil {
			report.Added++
		} else {
			report.Kept++
			in.next.Bytes += int64(len(was.Text) - len(doc.Text))
			doc.Text = was.Text // masked
		}
		if !kept[doc.Digest] {
			fresh = append(fresh, doc)
		}
	}
	return fresh
}

// groups parts documents by how much goes into a pack.
func groups(docs []*document) (list [][]*document) {
	size := packBytes
	for _, doc := range docs {
		takes := len(doc.Text) + 100
		for _, at := range doc.Places {
			takes += len(at.Path) + 20
		}
		if size += takes; size > packBytes {
			list, size = append(list, nil), takes
		}
		list[len(list)-1] = append(list[len(list)-1], doc)
	}
	return list
}

// write stores packs of documents and then the manifest that names them. Before packs are
// stored it is noted that they may be there, so that what a crash leaves is removed by the next
// change.
func (in *Ingestion) write(ctx context.Context, fresh []*document, report *Report, progress func(done, total int)) error {
	sp, s, name := in.space, in.store, in.next.Name
	note := Source{Version: sourceVersion, Name: name, Kind: in.next.Kind, Origin: in.next.Origin, By: in.next.By, Updated: time.Now().UTC()}
	revision := state.Revision(0)
	unused := make(map[string]bool)
	if in.last != nil {
		note, revision = *in.last, in.last.revision
		for _, p := range in.last.Packs {
			unused[p.unused()] = true
		}
		for _, id := range in.last.Unused {
			unused[id] = true
		}
	}
	var stored []*packed
	for lists := groups(fresh); len(lists) > 0; {
		packs := make([]*packed, len(lists))
		for i, docs := range lists {
			var err error
			if packs[i], err = newPacked(docs); err != nil {
				return err
			}
			unused[packName{packs[i].name.ID, s.options.Model}.unused()] = true
		}
		note.Unused = slices.DeleteFunc(slices.Collect(maps.Keys(unused)), isOneOf(note.Packs)) // those are in force until the end
		var err error
		if revision, err = sp.storeManifest(ctx, note, revision); err != nil {
			return err
		}
		if lists, err = sp.storePacks(ctx, name, packs, progress); err != nil {
			return err
		}
		for _, p := range packs {
			if p.docs != nil {
				stored = append(stored, p)
			}
		}
	}
	kept := make(map[string]bool)
	for _, p := range in.next.Packs {
		kept[p.ID] = true
	}
	for _, p := range stored {
		if s.options.Embed != nil && len(report.Notes) == 0 {
			with := packName{p.name.ID, s.options.Model}
			if err := sp.writeVectors(ctx, name, with, p.docs); ctx.Err() != nil {
				return context.Cause(ctx)
			} else if err != nil {
				report.Notes = append(report.Notes, "no more vectors could be made, so some is found by its words alone; to try again, remove the source and ingest it anew: "+err.Error())
			} else {
				p.name = with
			}
		}
		if !kept[p.name.ID] {
			in.next.Packs = append(in.next.Packs, p.name)
		}
	}
	in.next.Unused = slices.DeleteFunc(slices.Collect(maps.Keys(unused)), isOneOf(in.next.Packs))
	in.next.Updated = time.Now().UTC().Truncate(time.Second)
	if _, err := sp.storeManifest(ctx, in.next, revision); err != nil {
		return err
	}
	behind := context.WithoutCancel(ctx)
	for _, text := range in.next.Unused {
		_ = sp.deletePack(behind, name, text) // or at the next change
	}
	return nil
}

// storePacks stores packs, one of them while the next is made small. Those that are too large
// it takes apart, and returns what is to be packed instead: they have no documents then.
func (sp *space) storePacks(ctx context.Context, source string, packs []*packed, progress func(done, total int)) (again [][]*document, err error) {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(4)
	var mu sync.Mutex
	done := 0
	for _, p := range packs {
		work.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tooLarge := false
			err := p.encode(func(value []byte) error {
				if tooLarge = len(value) > state.MaxValue; tooLarge {
					return nil
				}
				_, err := sp.store.packs.Put(ctx, sp.packKey(source, p.name.ID), value, 0)
				return err
			})
			if err != nil {
				return unavailable(err)
			}
			if half := len(p.docs) / 2; tooLarge && half == 0 {
				return fmt.Errorf("%.200q is found at too many places to be stored", p.docs[0].Places[0].Path)
			} else if tooLarge {
				mu.Lock()
				defer mu.Unlock()
				again = append(again, p.docs[:half], p.docs[half:])
				p.docs = nil
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress(done, len(packs))
			return nil
		})
	}
	err = work.Wait()
	return again, err
}

// isOneOf returns what tells whether an unused pack is one of some packs.
func isOneOf(packs []packName) func(unused string) bool {
	return func(unused string) bool {
		id, _, _ := strings.Cut(unused, "/")
		return slices.ContainsFunc(packs, func(p packName) bool { return p.ID == id })
	}
}

// storeManifest stores a manifest in place of that of a revision.
func (sp *space) storeManifest(ctx context.Context, source Source, last state.Revision) (state.Revision, error) {
	value, err := json.Marshal(source)
	if err != nil {
		return 0, err
	}
	key := sp.key(sourceKind, source.Name)
	revision, err := sp.store.entries.Update(ctx, key, value, last, 0)
	if errors.Is(err, state.ErrConflict) {
		return 0, changedMeanwhile(source.Name)
	}
	if err != nil {
		return 0, unavailable(err)
	}
	sp.take(state.Entry{Key: key, Value: value, Revision: revision})
	return revision, nil
}
