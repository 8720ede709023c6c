// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/glob"
)

// A Registry holds the tools of a server, by source. Readers never wait: they
// see one consistent set, the old or the new one.
type Registry struct {
	// Capabilities is what the machine offers. Set it before the first Replace.
	Capabilities []string

	mu      sync.Mutex // serialises Replace
	current atomic.Pointer[catalog]
	absent  map[string]absence // by sources that offer nothing for now
}

// absence is why a source offers nothing.
type absence struct {
	kind   Kind
	reason string
}

// An Entry is a tool as a registry knows it.
type Entry struct {
	Tool Tool
	Spec Spec

	// Unavailable says why the tool cannot be called; empty when it can.
	Unavailable string

	source string
	own    string // the name of the tool without its namespace
}

// catalog is one immutable set of tools.
type catalog struct {
	revision uint64
	byName   map[string][]*Entry // by the full name: of everybody, or each of somebody else
	byOther  map[string][]*Entry // by what else a tool answers to: strongest first
	byFolded map[string]*Entry   // by the full name as it looks; tools of everybody
	sorted   []*Entry
	replaced chan struct{} // closed when another follows
}

// NamespaceMark is between the name of a source and that of a tool which is not
// built in: two servers may both have a tool named search.
const NamespaceMark = "__"

// Replace makes tools the whole of what source offers. A tool that is not built in is
// known by a name in the namespace of its source, such as github__search, and answers
// to its own name where that is nobody else's. The error joins the reasons why some
// tools were refused: their specs are wrong, or their names are taken or look like
// those of others. The others are offered.
func (r *Registry) Replace(source string, tools ...Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.absent, source)
	next := r.current.Load().without(source)
	var errs []error
	for _, tool := range tools {
		if err := next.take(source, tool, r.missing(tool.Spec())); err != nil {
			errs = append(errs, err)
		}
	}
	r.publish(next)
	return errors.Join(errs...)
}

// Suspend says why no tool of source, which has tools of a kind, can be called for now. They
// stay in the list.
func (r *Registry) Suspend(source string, kind Kind, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.absent == nil {
		r.absent = make(map[string]absence)
	}
	r.absent[source] = absence{kind, reason}
	old := r.current.Load()
	next := old.without(source)
	if old == nil || len(next.sorted) == len(old.sorted) {
		return
	}
	for _, entry := range old.sorted {
		if entry.source == source {
			suspended := *entry
			suspended.Unavailable = reason
			next.add(&suspended)
		}
	}
	r.publish(next)
}

// Absent returns what can be told of a tool by its full name that is not in the list, since
// its source offers nothing for now, and the reason of that.
func (r *Registry) Absent(name string) (spec *Spec, reason string, ok bool) {
	source, _, _ := strings.Cut(name, NamespaceMark)
	r.mu.Lock()
	defer r.mu.Unlock()
	why, ok := r.absent[source]
	if !ok || !isForeignName(name) || source == name {
		return nil, "", false
	}
	return &Spec{Name: name, Server: source, Kind: why.kind}, why.reason, true
}

// publish makes next the catalog of the registry.
func (r *Registry) publish(next *catalog) {
	slices.SortStableFunc(next.sorted, func(a, b *Entry) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
	next.nameOthers()
	if old := r.current.Swap(next); old != nil {
		close(old.replaced)
	}
}

// without returns the catalog that follows c, with everything but what source offers.
func (c *catalog) without(source string) *catalog {
	next := newCatalog()
	next.revision = 1
	if c != nil {
		next.revision = c.revision + 1
		for _, entry := range c.sorted {
			if entry.source != source {
				next.add(entry)
			}
		}
	}
	return next
}

// take adds a tool of source, or returns why it is refused.
func (c *catalog) take(source string, tool Tool, unavailable string) error {
	spec := tool.Spec()
	entry := &Entry{Tool: tool, Spec: spec, own: spec.Name, source: source, Unavailable: unavailable}
	if t, ok := tool.(shaped); ok && t.whyUnavailable() != "" {
		entry.Unavailable = t.whyUnavailable()
	}
	if spec.Kind != Builtin {
		entry.Spec.Name = source + NamespaceMark + spec.Name
		entry.Spec.Server = cmp.Or(spec.Server, source)
	}
	if err := checkSpec(entry.Spec); err != nil {
		return err
	}
	if other, taken := c.byFolded[folded(entry.Spec.Name)]; taken && spec.Private == (Private{}) {
		if other.Spec.Name == entry.Spec.Name {
			return fmt.Errorf("tool %s of %s is refused: %s has a tool of that name", entry.Spec.Name, source, other.source)
		}
		return fmt.Errorf("tool %s of %s is refused: it looks like %s of %s", entry.Spec.Name, source, other.Spec.Name, other.source)
	}
	if slices.ContainsFunc(c.byName[entry.Spec.Name], func(other *Entry) bool { return other.Spec.Private == spec.Private }) {
		return fmt.Errorf("tool %s of %s is refused: it is there twice", entry.Spec.Name, source)
	}
	c.add(entry)
	return nil
}

func (c *catalog) add(entry *Entry) {
	c.byName[entry.Spec.Name] = append(c.byName[entry.Spec.Name], entry)
	c.sorted = append(c.sorted, entry)
	if entry.Spec.Private == (Private{}) {
		c.byFolded[folded(entry.Spec.Name)] = entry
	}
}

// folded returns a name as it looks at a glance: without case, and with one sign between
// words.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// Resembles returns the tool of everybody that a name means, or looks like: by its name
// with its namespace or without, or by an alias.
func (r *Registry) Resembles(name string) (tool string, ok bool) {
	entries, _ := r.All()
	wanted := folded(name)
	for _, entry := range entries {
		if entry.Spec.Private != (Private{}) {
			continue
		}
		for _, other := range append([]string{entry.Spec.Name, entry.own}, entry.Spec.Aliases...) {
			if folded(other) == wanted {
				return entry.Spec.Name, true
			}
		}
	}
	return "", false
}

// nameOthers notes what else tools answer to, in the order of strength: aliases of
// tools that are built in, which nobody else takes over; the own names of tools in
// namespaces; their aliases. Among equals the tools come by name.
func (c *catalog) nameOthers() {
	note := func(name string, entry *Entry) {
		if name != entry.Spec.Name && !slices.Contains(c.byOther[name], entry) {
			c.byOther[name] = append(c.byOther[name], entry)
		}
	}
	aliases := func(builtin bool) {
		for _, entry := range c.sorted {
			if builtin == (entry.Spec.Kind == Builtin) {
				for _, alias := range entry.Spec.Aliases {
					note(alias, entry)
				}
			}
		}
	}
	aliases(true)
	for _, entry := range c.sorted {
		// What only looks like another tool is called by its full name.
		if other, taken := c.byFolded[folded(entry.own)]; !taken || other.Spec.Name == entry.own {
			note(entry.own, entry)
		}
	}
	aliases(false)
}

func newCatalog() *catalog {
	return &catalog{
		byName: make(map[string][]*Entry), byOther: make(map[string][]*Entry), byFolded: make(map[string]*Entry),
		replaced: make(chan struct{}),
	}
}

// Changed returns what is closed when the registry has another set of tools than
// now.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.Load() == nil {
		r.current.Store(newCatalog())
	}
	return r.current.Load().replaced
}

func checkSpec(spec Spec) error {
	switch {
	case spec.Kind == Builtin && !isToolName(spec.Name):
		return fmt.Errorf("tool name %q: want a-z, 0-9 and _, beginning with a letter, at most 64", spec.Name)
	case spec.Kind != Builtin && !isForeignName(spec.Name):
		return fmt.Errorf("tool name %q: want letters, digits, _ and -, beginning with a letter, at most 64", spec.Name)
	case spec.Level < ReadOnly || spec.Level > DangerFullAccess:
		return fmt.Errorf("tool %s has no level", spec.Name)
	case spec.LeastLevel > spec.Level:
		return fmt.Errorf("tool %s: every call needs level %s, which is above %s, the highest that a call can need", spec.Name, spec.LeastLevel, spec.Level)
	case spec.Summary == "" || strings.Contains(spec.Summary, "\n"):
		return fmt.Errorf("tool %s needs a summary of one line", spec.Name)
	}
	return nil
}

func isToolName(name string) bool {
	for i, c := range name {
		if letter := c >= 'a' && c <= 'z'; !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// isForeignName reports whether every model provider takes a name.
func isForeignName(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func (r *Registry) missing(spec Spec) string {
	for _, need := range spec.RequiredCapabilities {
		if !slices.Contains(r.Capabilities, need) {
			return fmt.Sprintf("needs %q, which this server does not offer", need)
		}
	}
	return ""
}

// Lookup returns the tool that a caller means by a name, among those for which has
// reports true; nil stands for all. The full name of a tool comes before everything
// else that tools answer to: an alias never hides a name, and a tool that the caller
// does not have hides nothing.
func (r *Registry) Lookup(name string, has func(*Spec) bool) (*Entry, bool) {
	catalog := r.current.Load()
	if catalog == nil {
		return nil, false
	}
	for _, entries := range [...][]*Entry{catalog.byName[name], catalog.byOther[name]} {
		for _, entry := range entries {
			if has == nil || has(&entry.Spec) {
				return entry, true
			}
		}
	}
	return nil, false
}

// All returns every tool, sorted by name, and a number that changes whenever
// the set does. The slice must not be changed.
func (r *Registry) All() ([]*Entry, uint64) {
	catalog := r.current.Load()
	if catalog == nil {
		return nil, 0
	}
	return catalog.sorted, catalog.revision
}

// A Selection chooses tools by pattern: a name or alias, a glob over names, a
// kind such as "@mcp", a server such as "@github", or the tools of a server,
// such as "@github/get_*". The zero value chooses everything.
type Selection struct {
	Include []string // empty means everything
	Exclude []string // wins over Include
}

// All reports whether the selection chooses every tool there may be.
func (s Selection) All() bool { return len(s.Include) == 0 && len(s.Exclude) == 0 }

// Has reports whether the selection chooses the tool.
func (s Selection) Has(spec *Spec) bool {
	if len(s.Include) > 0 && !matchesAny(s.Include, spec) {
		return false
	}
	return !matchesAny(s.Exclude, spec)
}

// Names reports whether the selection includes the tool by its name or alias,
// not by a pattern that fits others as well.
func (s Selection) Names(spec *Spec) bool {
	return !matchesAny(s.Exclude, spec) && slices.ContainsFunc(s.Include, func(pattern string) bool {
		return pattern == spec.Name || slices.Contains(spec.Aliases, pattern)
	})
}

// Check reports patterns that can never match, or that are too many or too long.
func (s Selection) Check() error {
	patterns := slices.Concat(s.Include, s.Exclude)
	if len(patterns) > 256 {
		return fmt.Errorf("%d tool patterns: at most 256", len(patterns))
	}
	for _, pattern := range patterns {
		if _, err := CompilePattern(pattern); err != nil {
			return err
		}
	}
	return nil
}

// A Pattern is one of a [Selection]: a name or a glob, and what stands before it after @: a kind or a
// server.
type Pattern struct {
	text, origin, name string
	whole              bool // everything of its origin
	plain              bool // the name is no glob
	glob               glob.Word
}

// CompilePattern compiles a pattern. One that can never match or is too long is an error.
func CompilePattern(text string) (Pattern, error) {
	if len(text) > 128 {
		return Pattern{}, fmt.Errorf("tool pattern %.32q has %d bytes: at most 128", text, len(text))
	}
	p := Pattern{text: text, name: text}
	if origin, ok := strings.CutPrefix(text, "@"); ok {
		server, tool, both := strings.Cut(origin, "/")
		if !both {
			tool = "*"
		}
		if !isServerName(server) {
			return Pattern{}, fmt.Errorf("tool pattern %q: want @ and one of %s, or the name of a server", text, strings.Join(kindNames[:], ", "))
		}
		p.origin, p.name, p.whole = server, tool, !both
	}
	if p.name == "" || p.origin != "" && strings.Contains(p.name, "/") {
		return Pattern{}, fmt.Errorf("tool pattern %q is not a name or glob", text)
	}
	p.plain = !isGlob(p.name)
	var err error
	if p.glob, err = glob.CompileWord(p.name); err != nil {
		return Pattern{}, fmt.Errorf("tool pattern %q %w", text, err)
	}
	return p, nil
}

func isGlob(name string) bool { return strings.ContainsAny(name, `*?[{\`) }

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Match reports whether the pattern matches the tool.
func (p *Pattern) Match(spec *Spec) bool {
	if p.origin != "" {
		if p.origin != spec.Kind.String() && p.origin != spec.Server {
			return false
		}
		if p.whole {
			return true
		}
		if spec.Kind != Builtin { // by the name within the namespace of its source, too
			if _, own, _ := strings.Cut(spec.Name, NamespaceMark); p.glob.Match(own) {
				return true
			}
		}
	}
	return isNamed(p.name, spec) || !p.plain && p.glob.Match(spec.Name)
}

func isNamed(name string, spec *Spec) bool {
	return name == spec.Name || len(spec.Aliases) > 0 && slices.Contains(spec.Aliases, name)
}

func isServerName(name string) bool {
	for _, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return name != ""
}

func matchesAny(patterns []string, spec *Spec) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Matches(pattern, spec) })
}

// Matches reports whether one pattern of a [Selection] matches the tool. Most are names.
func Matches(pattern string, spec *Spec) bool {
	if !isGlob(pattern) && !strings.HasPrefix(pattern, "@") {
		return isNamed(pattern, spec)
	}
	p, err := CompilePattern(pattern)
	return err == nil && p.Match(spec)
}
