// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	store "github.com/toolserver/toolserver/internal/memory"
	masking "github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/state"
)

// memoryFigure is figure 27: recall and search over many entries, and ingesting Go's
// documentation, by the store that the tools use; for that the state is in a directory.
func memoryFigure(ctx context.Context, h *harness) ([]row, error) {
	dir, err := os.MkdirTemp(h.dir, "memory-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var rows []row
	for _, part := range []struct {
		options state.Options
		measure func(context.Context, *harness, *store.Store, store.Who) ([]row, error)
	}{{state.Options{}, rememberMany}, {state.Options{Dir: filepath.Join(dir, "state")}, ingestMany}} {
		engine, err := state.Open(ctx, part.options)
		if err != nil {
			return nil, err
		}
		memories := store.New(store.Options{
			Engine: func(context.Context) (state.Engine, error) { return engine, nil }, Mask: masking.NewMasker(nil).String,
			Config: store.Config{MaxFiles: 1_000_000, MaxKnowledge: 1 << 30},
		})
		more, err := part.measure(ctx, h, memories, store.Who{Principal: "bench"})
		memories.Close()
		engine.Close()
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// prose writes texts whose words are as often as those of a language.
type prose struct{ zipf *rand.Zipf }

func newProse() *prose {
	return &prose{rand.NewZipf(rand.New(rand.NewSource(1)), 1.1, 1, 20_000)}
}

func (p *prose) text(words int) string {
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "word%d ", p.zipf.Uint64())
	}
	return b.String()
}

// rememberMany stores entries, and measures what it takes to find some.
func rememberMany(ctx context.Context, h *harness, memories *store.Store, who store.Who) ([]row, error) {
	entries := 100_000
	if h.plan.startupRounds == 1 {
		entries = 1000
	}
	text := newProse()
	texts := make([]string, entries)
	for i := range texts {
		texts[i] = text.text(40)
	}
	var writers errgroup.Group
	writers.SetLimit(16)
	for i, text := range texts {
		writers.Go(func() error {
			_, _, err := memories.Remember(ctx, who, store.Entry{Key: fmt.Sprint(i), Text: text, Importance: 0.5, Scope: store.OfPrincipal})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		return nil, err
	}
	in, err := memories.Ingest(ctx, who, store.OfPrincipal, store.Source{Name: "prose", Kind: "folder"})
	if err != nil {
		return nil, err
	}
	for first := 0; first < entries; first += 100 { // a document has about as many parts
		var document strings.Builder
		for i := first; i < min(first+100, entries); i++ {
			fmt.Fprintf(&document, "# Part %d\n\n%s\n\n", i, texts[i])
		}
		if err := in.Add(fmt.Sprintf("%d.md", first), document.String()); err != nil {
			return nil, err
		}
	}
	if _, err := in.Commit(ctx, func(int, int) {}); err != nil {
		return nil, err
	}
	scopes := []store.Scope{store.OfPrincipal, store.OfTenant}
	recall := func(q store.Query) (store.Found, error) { return memories.Recall(ctx, who, scopes, q) }
	search := func(q store.Query) (store.Found, error) { return memories.Search(ctx, who, scopes, q) }
	var rows []row
	for _, one := range []struct {
		name string
		find func(store.Query) (store.Found, error)
	}{{"memory_recall", recall}, {"knowledge_search", search}} {
		for { // until the index has all
			found, err := one.find(store.Query{Text: "word1", Limit: 1})
			if err != nil {
				return nil, err
			}
			if !found.Partial {
				break
			}
		}
		var times []float64
		for range 500 {
			query := store.Query{Text: text.text(4), Limit: 10}
			begin := time.Now()
			found, err := one.find(query)
			if err != nil || len(found.Scores) == 0 {
				return nil, fmt.Errorf("%s found nothing: %v", one.name, err)
			}
			times = append(times, float64(time.Since(begin).Microseconds())/1000)
		}
		slices.Sort(times)
		rows = append(rows,
			single(fmt.Sprintf("%s of 4 words among %d, p50", one.name, entries), "ms", times[len(times)/2], target{}),
			single(fmt.Sprintf("%s of 4 words among %d, p99", one.name, entries), "ms", times[len(times)*99/100], valueAtMost(20)))
	}
	return rows, nil
}

// ingestMany ingests Go's documentation: GOROOT/doc, and the sources of the standard library
// with their comments. It is measured against reading the files and hashing them.
func ingestMany(ctx context.Context, h *harness, memories *store.Store, who store.Who) ([]row, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's source: %w", err)
	}
	root := string(bytes.TrimSpace(out))
	var files []string
	for _, top := range []string{"doc", "src"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && (top == "doc" || strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if h.plan.startupRounds == 1 {
		files = files[:min(100, len(files))]
	}
	read := func(use func(path string, text []byte) error) (time.Duration, error) {
		begin := time.Now()
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err == nil {
				err = use(path, text)
			}
			if err != nil {
				return 0, err
			}
		}
		return time.Since(begin), nil
	}
	hash := func(_ string, text []byte) error { sha256.Sum256(text); return nil }
	if _, err := read(hash); err != nil { // the files come into memory
		return nil, err
	}
	var ratios, first, again, found []float64
	for round := range max(h.plan.searchRounds/3, 1) {
		bare, err := read(hash)
		if err != nil {
			return nil, err
		}
		ingest := func() (time.Duration, error) {
			begin := time.Now()
			in, err := memories.Ingest(ctx, who, store.OfPrincipal, store.Source{Name: fmt.Sprint("go ", round), Kind: "folder"})
			if err != nil {
				return 0, err
			}
			var work errgroup.Group
			work.SetLimit(4) // as the tool does
			for _, path := range files {
				work.Go(func() error {
					text, err := os.ReadFile(path)
					if err == nil {
						err = in.Add(path, unsafe.String(unsafe.SliceData(text), len(text))) // as the tool does
					}
					return err
				})
			}
			if err := work.Wait(); err != nil {
				return 0, err
			}
			_, err = in.Commit(ctx, func(int, int) {})
			return time.Since(begin), err
		}
		begin := time.Now()
		took, err := ingest()
		if err != nil {
			return nil, err
		}
		ratios, first = append(ratios, took.Seconds()/bare.Seconds()), append(first, took.Seconds()*1000)
		for partial := true; partial; {
			if _, partial, err = memories.Sources(ctx, who, []store.Scope{store.OfPrincipal}); err != nil {
				return nil, err
			}
		}
		found = append(found, time.Since(begin).Seconds()*1000)
		if took, err = ingest(); err != nil {
			return nil, err
		}
		again = append(again, took.Seconds()/bare.Seconds())
		if _, err := memories.Remove(ctx, who, store.OfPrincipal, fmt.Sprint("go ", round)); err != nil {
			return nil, err
		}
	}
	return []row{
		single(fmt.Sprintf("ingest of %d files of Go's documentation", len(files)), "ms", spreadOf(first).Median, target{}),
		single("the same until searches find all of it", "ms", spreadOf(found).Median, target{}),
		single("ingest of Go's documentation, times reading and hashing it", "x", spreadOf(ratios).Median, valueAtMost(3)),
		single("the same once more, nothing changed", "x", spreadOf(again).Median, valueAtMost(3)),
	}, nil
}
