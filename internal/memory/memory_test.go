// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

func openEngine(t testing.TB) state.Engine {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return engine
}

func openStore(t testing.TB, engine state.Engine, o Options) *Store {
	t.Helper()
	o.Engine = func(context.Context) (state.Engine, error) { return engine, nil }
	s := New(o)
	t.Cleanup(func() { s.Close() })
	return s
}

var (
	alice = Who{Tenant: "acme", Principal: "alice"}
	bob   = Who{Tenant: "acme", Principal: "bob"}
	eve   = Who{Tenant: "other", Principal: "alice"}
	both  = []Scope{OfPrincipal, OfTenant}
)

func (s *Store) mustRemember(t testing.TB, who Who, scope Scope, key, text string) {
	t.Helper()
	if _, _, err := s.Remember(t.Context(), who, Entry{Key: key, Text: text, Importance: 0.5, Scope: scope}); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) keys(t testing.TB, who Who, query string) (list []string) {
	t.Helper()
	found, err := s.Recall(t.Context(), who, both, Query{Text: query, Limit: 10})
	if err != nil || found.Partial {
		t.Fatalf("%v, partial %t", err, found.Partial)
	}
	for _, e := range found.Entries {
		list = append(list, e.Key)
	}
	return list
}

func (s *Store) mustIngest(t testing.TB, who Who, name string, files map[string]string) Report {
	t.Helper()
	in, err := s.Ingest(t.Context(), who, OfPrincipal, Source{Name: name, Kind: "folder"})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if err := in.Add(path, text); err != nil {
			t.Fatal(err)
		}
	}
	report, err := in.Commit(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func (s *Store) places(t testing.TB, who Who, query string) (list []string) {
	t.Helper()
	found, err := s.Search(t.Context(), who, both, Query{Text: query, Limit: 10})
	for err == nil && found.Partial { // each waits a while
		found, err = s.Search(t.Context(), who, both, Query{Text: query, Limit: 10})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found.Parts {
		list = append(list, fmt.Sprintf("%s:%d-%d", p.Path, p.Line, p.Last))
	}
	return list
}

func codeOf(err error) string {
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure.Code
	}
	return fmt.Sprint(err)
}

// TestNamespaces: what a principal keeps is nobody else's, also not by ranks, and a scope of
// the tenant is of all its principals. Keys may have separators in them.
func TestNamespaces(t *testing.T) {
	engine := openEngine(t)
	s, replica := openStore(t, engine, Options{}), openStore(t, engine, Options{})
	s.mustRemember(t, alice, OfPrincipal, "a/b", "the blue door is locked")
	s.mustRemember(t, alice, OfPrincipal, "a%2Fb", "the blue window is open")
	s.mustRemember(t, alice, OfTenant, "shared", "the blue house belongs to all")
	before, err := s.Recall(t.Context(), alice, both, Query{Text: "blue door", Limit: 10})
	if err != nil || len(before.Entries) != 3 || before.Entries[0].Key != "a/b" {
		t.Fatalf("%+v, %v", before, err)
	}
	for i := range 50 { // others write the same words
		s.mustRemember(t, bob, OfPrincipal, fmt.Sprint(i), "a blue door, number "+fmt.Sprint(i))
	}
	s.mustIngest(t, bob, "doors", map[string]string{"doors.md": "# Doors\n\nBlue doors are bob's."})
	after, err := s.Recall(t.Context(), alice, both, Query{Text: "blue door", Limit: 10})
	if err != nil || fmt.Sprint(after.Scores) != fmt.Sprint(before.Scores) || after.Matched != before.Matched {
		t.Errorf("what bob wrote is seen in %v, was %v: %v", after.Scores, before.Scores, err)
	}
	for who, want := range map[Who]string{
		alice: "[a/b a%2Fb shared]", {"acme", "alice", "user"}: "[shared]", eve: "[]", {"acme", "ali", ""}: "[shared]", {"", "acme/alice", ""}: "[]",
	} {
		if got := fmt.Sprint(replica.keys(t, who, "blue door window house")); got != want && who != alice || who == alice && len(replica.keys(t, who, "blue")) != 3 {
			t.Errorf("%v finds %s, want %s", who, got, want)
		}
		if got := replica.places(t, who, "doors"); len(got) != 0 {
			t.Errorf("%v finds %v", who, got)
		}
	}
	if n, err := replica.Forget(t.Context(), bob, OfPrincipal, "a/b", nil); n != 0 || err != nil {
		t.Errorf("bob forgot %d of alice's: %v", n, err)
	}
	if n, err := replica.Forget(t.Context(), alice, OfPrincipal, "a/b", nil); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	sp, _ := s.open(alice, OfPrincipal)
	for { // the other replica hears of it
		sp.mu.RLock()
		n := len(sp.entries)
		sp.mu.RUnlock()
		if n == 1 {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal("it is still there")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestIngestAgain: what did not change is kept, what is gone is removed, the same text is one
// document, and a call that is cancelled changes nothing.
func TestIngestAgain(t *testing.T) {
	engine := openEngine(t)
	s := openStore(t, engine, Options{})
	files := map[string]string{"guide.md": "# Guide\n\nHow to paint.\n\n## Colours\n\nUse vermilion.\n", "copy.md": "# Guide\n\nHow to paint.\n\n## Colours\n\nUse vermilion.\n", "old.txt": "turpentine"}
	if r := s.mustIngest(t, alice, "docs", files); r.Added != 2 || r.Repeated != 1 || r.Source.Files != 3 {
		t.Fatalf("%+v", r)
	}
	if got := fmt.Sprint(s.places(t, alice, "vermilion")); got != "[copy.md:5-7]" {
		t.Errorf("found at %s", got)
	}
	delete(files, "old.txt")
	files["new.go"] = "package paint\n\n// Ochre is a colour.\nconst Ochre = 1\n"
	if r := s.mustIngest(t, alice, "docs", files); r.Added != 1 || r.Kept != 1 || r.Removed != 1 {
		t.Errorf("%+v", r)
	}
	check := func(s *Store) {
		t.Helper()
		if got := fmt.Sprint(s.places(t, alice, "vermilion"), s.places(t, alice, "ochre"), s.places(t, alice, "turpentine")); got != "[copy.md:5-7] [new.go:1-4] []" {
			t.Errorf("found %s", got)
		}
	}
	check(s)
	if r := s.mustIngest(t, alice, "docs", files); r.Added != 0 || r.Kept != 2 || r.Removed != 0 {
		t.Errorf("%+v", r)
	}
	in, err := s.Ingest(t.Context(), alice, OfPrincipal, Source{Name: "docs", Kind: "folder"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := in.Add(fmt.Sprint(i), strings.Repeat(fmt.Sprintf("gamboge %d\n", i), 40_000)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := in.Commit(ctx, func(int, int) { cancel() }); err == nil {
		t.Error("it was cancelled, and went on")
	}
	check(s)
	check(openStore(t, engine, Options{}))
	if there, err := s.Remove(t.Context(), alice, OfPrincipal, "docs"); !there || err != nil {
		t.Errorf("%t, %v", there, err)
	}
	if got := s.places(t, alice, "vermilion"); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	if left := packsLeft(t, s); left != 0 {
		t.Errorf("%d packs are left", left)
	}
}

// packsLeft counts packs and groups of vectors that are stored, of anybody.
func packsLeft(t testing.TB, s *Store) (left int) {
	t.Helper()
	watching, done := context.WithCancel(t.Context())
	defer done()
	s.packs.Watch(watching, "", func(e state.Entry) {
		if e.Key == "" {
			done()
		} else if !e.Deleted {
			left++
		}
	})
	return left
}

// TestDamagedSource: a source whose packs are damaged or missing is told as that and keeps
// nobody from the others. It can be ingested again, and removed.
func TestDamagedSource(t *testing.T) {
	engine := openEngine(t)
	s := openStore(t, engine, Options{})
	for _, name := range []string{"damaged", "missing", "whole"} {
		s.mustIngest(t, alice, name, map[string]string{name + ".md": "turpentine of " + name})
	}
	sp, err := s.whole(t.Context(), alice, OfPrincipal, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.packs.Put(t.Context(), sp.packKey("damaged", sp.sources["damaged"].Packs[0].ID), []byte("no pack"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.packs.Delete(t.Context(), sp.packKey("missing", sp.sources["missing"].Packs[0].ID), 0); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, engine, Options{})
	found, err := s.Search(t.Context(), alice, both, Query{Text: "turpentine", Limit: 10})
	if err != nil || found.Partial || len(found.Parts) != 1 || len(found.Notes) != 2 || !strings.Contains(found.Notes[0], `"damaged"`) {
		t.Fatalf("%+v, %v", found, err)
	}
	list, partial, err := s.Sources(t.Context(), alice, both)
	if err != nil || partial || len(list) != 3 || !list[0].Broken || !list[1].Broken || list[2].Broken {
		t.Errorf("%+v, %v", list, err)
	}
	s.mustIngest(t, alice, "other", map[string]string{"other.md": "turpentine as well"})
	s.mustIngest(t, alice, "missing", map[string]string{"missing.md": "turpentine of missing"})
	if there, err := s.Remove(t.Context(), alice, OfPrincipal, "damaged"); !there || err != nil {
		t.Errorf("%t, %v", there, err)
	}
	found, err = s.Search(t.Context(), alice, both, Query{Text: "turpentine", Limit: 10})
	if err != nil || found.Partial || len(found.Parts) != 3 || len(found.Notes) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if left := packsLeft(t, s); left != 3 {
		t.Errorf("%d packs are left", left)
	}
}

// hookedEngine calls a hook before something is deleted.
type hookedEngine struct {
	state.Engine
	hook func() error
}

type hookedKV struct {
	state.KV
	hook func() error
}

func (e hookedEngine) KV(ctx context.Context, space state.Space) (state.KV, error) {
	kv, err := e.Engine.KV(ctx, space)
	return hookedKV{kv, e.hook}, err
}

func (kv hookedKV) Delete(ctx context.Context, key string, last state.Revision) error {
	if err := kv.hook(); err != nil {
		return err
	}
	return kv.KV.Delete(ctx, key, last)
}

// TestRemoveInterrupted: a removal whose call is cancelled goes on, and one whose process ends
// is gone on with by the next; no pack is left, also not of vectors of another model.
func TestRemoveInterrupted(t *testing.T) {
	engine := openEngine(t)
	s := openStore(t, engine, Options{Model: "of/before", Embed: func(_ context.Context, texts []string) (list [][]float32, err error) {
		for range texts {
			list = append(list, []float32{1, 2})
		}
		return list, nil
	}})
	for _, name := range []string{"a", "b"} {
		s.mustIngest(t, alice, name, map[string]string{name + ".md": "turpentine of " + name})
	}
	if left := packsLeft(t, s); left != 4 {
		t.Fatalf("%d packs", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s = openStore(t, hookedEngine{engine, func() error { cancel(); return nil }}, Options{})
	if there, err := s.Remove(ctx, alice, OfPrincipal, "a"); !there || err != nil {
		t.Errorf("%t, %v", there, err)
	}
	deleted := 0
	s = openStore(t, hookedEngine{engine, func() error {
		if deleted++; deleted > 1 {
			return state.ErrUnavailable
		}
		return nil
	}}, Options{})
	if _, err := s.Remove(t.Context(), alice, OfPrincipal, "b"); codeOf(err) != "memory_unavailable" {
		t.Errorf("%v", err)
	}
	if list, _, err := s.Sources(t.Context(), alice, both); len(list) != 0 || err != nil {
		t.Errorf("%+v, %v", list, err)
	}
	s = openStore(t, engine, Options{})
	if there, err := s.Remove(t.Context(), alice, OfPrincipal, "b"); !there || err != nil {
		t.Errorf("%t, %v", there, err)
	}
	if left := packsLeft(t, s); left != 0 {
		t.Errorf("%d packs are left", left)
	}
}

// TestBounds: what is too much is refused with what would be right.
func TestBounds(t *testing.T) {
	s := openStore(t, openEngine(t), Options{Config: Config{MaxEntries: 2, MaxBytes: 100, MaxSources: 1, MaxFiles: 3, MaxKnowledge: 1000}})
	s.mustRemember(t, alice, OfPrincipal, "one", "1")
	s.mustRemember(t, alice, OfPrincipal, "two", "2")
	s.mustRemember(t, alice, OfPrincipal, "two", "3") // in its place
	s.mustRemember(t, bob, OfPrincipal, "one", "1")
	remember := func(key, text string) error {
		_, _, err := s.Remember(t.Context(), alice, Entry{Key: key, Text: text, Scope: OfPrincipal})
		return err
	}
	if err := remember("three", "3"); codeOf(err) != "memory_full" || !strings.Contains(err.Error(), `"one"`) {
		t.Error(err)
	}
	if err := remember("two", strings.Repeat("x", 101)); codeOf(err) != "memory_full" {
		t.Error(err)
	}
	ingest := func(name string, files int, text string) (err error) {
		in, err := s.Ingest(t.Context(), alice, OfPrincipal, Source{Name: name, Kind: "folder"})
		for i := 0; i < files && err == nil; i++ {
			err = in.Add(fmt.Sprint(i), text+fmt.Sprint(i))
		}
		if err == nil {
			_, err = in.Commit(t.Context(), func(int, int) {})
		}
		return err
	}
	for _, test := range []struct {
		name  string
		files int
		text  string
		want  string
	}{{"many", 4, "x", "too_many_files"}, {"large", 2, strings.Repeat("x", 600), "knowledge_full"}, {"good", 3, "x", "<nil>"}, {"second", 1, "x", "knowledge_full"}} {
		if err := ingest(test.name, test.files, test.text); codeOf(err) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestIncompressible: documents that cannot be packed small are in several packs.
func TestIncompressible(t *testing.T) {
	s := openStore(t, openEngine(t), Options{})
	files := make(map[string]string)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2 {
		var b strings.Builder
		for b.Len() < 500_000 {
			b.WriteByte(byte(32 + random.IntN(95)))
		}
		files[fmt.Sprint(i)] = fmt.Sprintf("needle%d ", i) + b.String()
	}
	if r := s.mustIngest(t, alice, "noise", files); r.Added != 2 || len(r.Source.Packs) != 2 {
		t.Errorf("%+v", r)
	}
	if got := s.places(t, alice, "needle1"); len(got) != 1 {
		t.Errorf("found %v", got)
	}
}

// TestExpiry: what has expired is not told of.
func TestExpiry(t *testing.T) {
	s := openStore(t, openEngine(t), Options{})
	for key, expires := range map[string]time.Time{"gone": time.Now().Add(-time.Second), "there": time.Now().Add(time.Hour)} {
		if _, _, err := s.Remember(t.Context(), alice, Entry{Key: key, Text: "the password of the week", Expires: expires, Scope: OfPrincipal}); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(s.keys(t, alice, "password")); got != "[there]" {
		t.Error(got)
	}
}

// TestByMeaning: with vectors, what shares no word is found as well, and what shares words is
// not lost. Without an endpoint that answers, it is words alone, and that is told.
func TestByMeaning(t *testing.T) {
	down := false
	meanings := []string{"car automobile vehicle", "cat feline pet", "rain weather storm"}
	embed := func(_ context.Context, texts []string) (list [][]float32, err error) {
		if down {
			return nil, errors.New("it is down")
		}
		for _, text := range texts {
			vector := make([]float32, 8)
			vector[7] = 0.1
			for i, group := range meanings {
				for _, word := range strings.Fields(group) {
					if strings.Contains(text, word) {
						vector[i]++
					}
				}
			}
			list = append(list, vector)
		}
		return list, nil
	}
	engine := openEngine(t)
	s := openStore(t, engine, Options{Embed: embed, Model: "meanings"})
	s.mustRemember(t, alice, OfPrincipal, "car", "her automobile is red")
	s.mustRemember(t, alice, OfPrincipal, "cat", "his feline is grey")
	s.mustIngest(t, alice, "animals", map[string]string{"a.md": "a feline sleeps", "b.md": "a storm comes"})
	for _, s := range []*Store{s, openStore(t, engine, Options{Embed: embed, Model: "meanings"})} {
		if got := s.keys(t, alice, "vehicle"); len(got) == 0 || got[0] != "car" {
			t.Errorf("remembered: %v", got)
		}
		if got := s.places(t, alice, "weather"); len(got) == 0 || got[0] != "b.md:1-1" {
			t.Errorf("found: %v", got)
		}
	}
	down = true
	found, err := s.Search(t.Context(), alice, both, Query{Text: "storm", Limit: 3})
	if err != nil || len(found.Parts) != 1 || len(found.Notes) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, note, err := s.Remember(t.Context(), alice, Entry{Key: "k", Text: "t", Scope: OfPrincipal}); err != nil || note == "" {
		t.Errorf("%q, %v", note, err)
	}
}

// TestRaces: stores, searches and ingestions at once, on two replicas.
func TestRaces(t *testing.T) {
	engine := openEngine(t)
	stores := []*Store{openStore(t, engine, Options{}), openStore(t, engine, Options{})}
	var work sync.WaitGroup
	for i := range 4 {
		s := stores[i%2]
		work.Go(func() {
			for n := range 20 {
				s.mustRemember(t, alice, OfPrincipal, fmt.Sprint(n%5), fmt.Sprintf("fact %d of %d", n, i))
				s.keys(t, alice, "fact")
				if n%7 == 0 {
					s.Forget(t.Context(), alice, OfPrincipal, "3", nil)
				}
				if n%10 == 0 {
					s.mustIngest(t, alice, fmt.Sprint("s", i), map[string]string{"f": fmt.Sprintf("text %d", n), "g": "always"})
				}
				s.Search(t.Context(), alice, both, Query{Text: "text always", Limit: 5})
			}
		})
	}
	work.Wait()
	if got := stores[0].places(t, alice, "always"); len(got) != 1 { // the same text, told once
		t.Errorf("found %v", got)
	}
}

// TestCompact: what was removed is forgotten, and what is left is found as before.
func TestCompact(t *testing.T) {
	x := newIndex()
	var items []*item
	for i := range 5000 {
		it := &item{entry: &Entry{Text: fmt.Sprintf("common word%d", i)}, vector: []int8{int8(i % 100), 1}}
		x.add(it, count(it.entry.Text))
		items = append(items, it)
	}
	for i, it := range items {
		if i%5 != 0 {
			x.remove(it)
		}
	}
	all := func(*item) float64 { return 1 }
	if hits, matched := x.search(asked("common"), all, true, 3); matched != 1000 || len(hits) != 3 {
		t.Errorf("%d match", matched)
	}
	if hits, _ := x.search(asked("word4995"), all, false, 3); len(hits) != 1 || hits[0].item != items[4995] {
		t.Errorf("%v", hits)
	}
	if len(x.items) > 3000 || len(x.vectors.items) > 3000 {
		t.Errorf("%d items are left", len(x.items))
	}
}

func FuzzQuery(f *testing.F) {
	for _, text := range []string{`"a" OR b*`, "NEAR(a b)", "a AND NOT b", "'; DROP TABLE x; --", "\x00\xff", "ß Straße 東京 กข", strings.Repeat("a", 100)} {
		f.Add(text, "the quick "+text)
	}
	f.Fuzz(func(t *testing.T, query, text string) {
		x := newIndex()
		it := &item{entry: &Entry{Text: text}}
		x.add(it, count(text))
		hits, _ := x.search(asked(query), func(*item) float64 { return 1 }, false, 5)
		shares := false
		for _, word := range asked(query) {
			shares = shares || count(text)[word] > 0
		}
		if shares != (len(hits) == 1) {
			t.Errorf("%q among %q: %d hits", query, text, len(hits))
		}
	})
}

func FuzzPrefix(f *testing.F) {
	f.Add("a", "b", "", "a/b", "", "")
	f.Add("", "t/p", "u", "", "t", "p/u")
	f.Fuzz(func(t *testing.T, a, b, c, x, y, z string) {
		one, other := Who{a, b, c}, Who{x, y, z}
		for _, scope := range both {
			for _, with := range both {
				same := scope == with && (one == other || scope == OfTenant && a == x)
				if strings.HasPrefix(one.prefix(scope), other.prefix(with)) != same {
					t.Errorf("%q of %v, %q of %v", one, scope, other, with)
				}
			}
		}
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("a.md", "# A\n\ntext\n\n## B\n```\n# no\n```\n")
	f.Add("a.html", "<h1 id=x>A</h1>\n<p>b &amp; <b\nc>d")
	f.Add("a.go", strings.Repeat("func a() {\n\tb()\n\n}\n\n", 200))
	f.Add("long", strings.Repeat("ä", 5000))
	f.Fuzz(func(t *testing.T, name, text string) {
		lines := strings.Count(text, "\n") + 1
		last := 1
		for _, p := range split(name, text, 1) {
			if len(p.text) > partMost+1 && !strings.Contains(name, ".") || p.line < last || p.last < p.line || p.last > lines || strings.TrimSpace(p.text) == "" || len(p.heading) > maxTitle {
				t.Fatalf("%q: %+v", text, p)
			}
			if utf8.ValidString(text) && !utf8.ValidString(p.text) {
				t.Fatalf("%q is cut", p.text)
			}
			last = p.line
		}
	})
}

func FuzzPack(f *testing.F) {
	packed, err := newPacked([]*document{{Digest: "d", Places: []place{{"a", 1}}, Text: "text"}})
	if err != nil {
		f.Fatal(err)
	}
	var value []byte
	packed.encode(func(stored []byte) error { value = bytes.Clone(stored); return nil })
	if p, err := decodePack(value); err != nil || len(p.Docs) != 1 || p.Docs[0].Text != "text" {
		f.Fatal(p, err)
	}
	f.Add(value)
	f.Fuzz(func(t *testing.T, value []byte) { decodePack(value) })
}
