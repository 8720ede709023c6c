// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Registry holds the tools of a server, by source. Readers never wait: they
// see one consistent set, the old or the new one.
type Registry struct {
	// Capabilities is what the machine offers. Set it before the first Replace.
	Capabilities []string

	mu      sync.Mutex // serialises Replace
	current atomic.Pointer[catalog]
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
	byName   map[string]*Entry   // by the full name
	byOther  map[string][]*Entry // by what else a tool answers to: strongest first
	sorted   []*Entry
	replaced chan struct{} // closed when another follows
}

// NamespaceMark is between the name of a source and that of a tool which is not
// built in: two servers may both have a tool named search.
const NamespaceMark = "__"

// Replace makes tools the whole of what source offers. A tool that is not built in is
// known by a name in the namespace of its source, such as github__search, and answers
// to its own name where that is nobody else's. The error joins the reasons why some
// tools were refused: their specs are wrong, or their names are taken. The others are
// offered.
func (r *Registry) Replace(source string, tools ...Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	next := newCatalog()
	next.revision = 1
	old := r.current.Load()
	if old != nil {
		next.revision = old.revision + 1
		for _, entry := range old.sorted {
			if entry.source != source {
				next.add(entry)
			}
		}
	}
	var errs []error
	for _, tool := range tools {
		spec := tool.Spec()
		entry := &Entry{Tool: tool, Spec: spec, own: spec.Name, source: source, Unavailable: r.missing(spec)}
		if spec.Kind != Builtin {
			entry.Spec.Name = source + NamespaceMark + spec.Name
			entry.Spec.Server = cmp.Or(spec.Server, source)
		}
		err := checkSpec(entry.Spec)
		if other, taken := next.byName[entry.Spec.Name]; err == nil && taken {
			err = fmt.Errorf("tool %s of %s is refused: %s has a tool of that name", entry.Spec.Name, source, other.source)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		next.add(entry)
	}
	slices.SortFunc(next.sorted, func(a, b *Entry) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
	next.nameOthers()
	r.current.Store(next)
	if old != nil {
		close(old.replaced)
	}
	return errors.Join(errs...)
}

func (c *catalog) add(entry *Entry) {
	c.byName[entry.Spec.Name] = entry
	c.sorted = append(c.sorted, entry)
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
		note(entry.own, entry)
	}
	aliases(false)
}

func newCatalog() *catalog {
	return &catalog{byName: make(map[string]*Entry), byOther: make(map[string][]*Entry), replaced: make(chan struct{})}
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
	case !isToolName(spec.Name):
		return fmt.Errorf("tool name %q: want a-z, 0-9 and _, beginning with a letter, at most 64", spec.Name)
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
	if entry, ok := catalog.byName[name]; ok && (has == nil || has(&entry.Spec)) {
		return entry, true
	}
	for _, entry := range catalog.byOther[name] {
		if has == nil || has(&entry.Spec) {
			return entry, true
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
		if err := CheckPattern(pattern); err != nil {
			return err
		}
	}
	return nil
}

// CheckPattern reports a pattern of a [Selection] that can never match or that
// is too long.
func CheckPattern(pattern string) error {
	if len(pattern) > 128 {
		return fmt.Errorf("tool pattern %.32q has %d bytes: at most 128", pattern, len(pattern))
	}
	glob := pattern
	if origin, ok := strings.CutPrefix(pattern, "@"); ok {
		server, tool, both := strings.Cut(origin, "/")
		if !both {
			tool = "*"
		}
		if !isServerName(server) {
			return fmt.Errorf("tool pattern %q: want @ and one of %s, or the name of a server", pattern, strings.Join(kindNames[:], ", "))
		}
		glob = tool
	}
	if _, err := path.Match(glob, ""); err != nil || glob == "" || glob != pattern && strings.Contains(glob, "/") {
		return fmt.Errorf("tool pattern %q is not a name or glob", pattern)
	}
	return nil
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

// Matches reports whether one pattern of a [Selection] matches the tool. What
// follows @ is a kind or a server.
func Matches(pattern string, spec *Spec) bool {
	if origin, ok := strings.CutPrefix(pattern, "@"); ok {
		server, tool, both := strings.Cut(origin, "/")
		from := server != "" && (server == spec.Kind.String() || server == spec.Server)
		return from && (!both || Matches(tool, spec) || inNamespace(tool, spec))
	}
	if ok, err := path.Match(pattern, spec.Name); ok && err == nil {
		return true
	}
	return slices.Contains(spec.Aliases, pattern)
}

// inNamespace reports whether a pattern matches the name that a tool has within the
// namespace of its source.
func inNamespace(pattern string, spec *Spec) bool {
	if spec.Kind == Builtin {
		return false
	}
	_, own, _ := strings.Cut(spec.Name, NamespaceMark)
	ok, err := path.Match(pattern, own)
	return ok && err == nil
}
