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
}

// An Entry is a tool as a registry knows it.
type Entry struct {
	Tool Tool
	Spec Spec

	// Unavailable says why the tool cannot be called; empty when it can.
	Unavailable string

	source string
}

// catalog is one immutable set of tools.
type catalog struct {
	revision uint64
	byName   map[string]*Entry // names and aliases
	sorted   []*Entry
	replaced chan struct{} // closed when another follows
}

// Replace makes tools the whole of what source offers. On an error nothing
// changes.
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
				next.sorted = append(next.sorted, entry)
			}
		}
	}
	for _, tool := range tools {
		spec := tool.Spec()
		next.sorted = append(next.sorted, &Entry{
			Tool: tool, Spec: spec, source: source, Unavailable: r.missing(spec),
		})
	}
	slices.SortFunc(next.sorted, func(a, b *Entry) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })

	var errs []error
	for _, entry := range next.sorted {
		if entry.source == source {
			errs = append(errs, checkSpec(entry.Spec))
		}
		for _, name := range append([]string{entry.Spec.Name}, entry.Spec.Aliases...) {
			if other, taken := next.byName[name]; taken {
				errs = append(errs, fmt.Errorf("tools %s and %s both answer to %q", other.Spec.Name, entry.Spec.Name, name))
			}
			next.byName[name] = entry
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.current.Store(next)
	if old != nil {
		close(old.replaced)
	}
	return nil
}

func newCatalog() *catalog {
	return &catalog{byName: make(map[string]*Entry), replaced: make(chan struct{})}
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

// Lookup returns the tool with this name or alias.
func (r *Registry) Lookup(name string) (*Entry, bool) {
	catalog := r.current.Load()
	if catalog == nil {
		return nil, false
	}
	entry, ok := catalog.byName[name]
	return entry, ok
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
	name := pattern
	if origin, ok := strings.CutPrefix(pattern, "@"); ok {
		server, tool, both := strings.Cut(origin, "/")
		if !both {
			tool = "*"
		}
		if !isServerName(server) {
			return fmt.Errorf("tool pattern %q: want @ and one of %s, or the name of a server", pattern, strings.Join(kindNames[:], ", "))
		}
		name = tool
	}
	if name == "" || name != pattern && strings.Contains(name, "/") {
		return fmt.Errorf("tool pattern %q is not a name or glob", pattern)
	}
	if _, err := glob.CompileWord(name); err != nil {
		return fmt.Errorf("tool pattern %q %w", pattern, err)
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
		return from && (!both || Matches(tool, spec))
	}
	if pattern == spec.Name || slices.Contains(spec.Aliases, pattern) {
		return true
	}
	if !strings.ContainsAny(pattern, `*?[{\`) {
		return false
	}
	word, err := glob.CompileWord(pattern)
	return err == nil && word.Match(spec.Name)
}
