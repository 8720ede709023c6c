// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package quota is what each tenant may have at once, and the error of one that has it
// all. Who counts what is told by the fields of [Tenant].
package quota

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Tenant is an entry of the section "tenants" of the configuration. 0 means no bound.
type Tenant struct {
	// Name is that of the tenant, or [auth.AllTenants] for every tenant that has no
	// entry.
	Name string `yaml:"name"`

	MaxSessions    int        `yaml:"max_sessions"`     // open at once; counted by the session store
	MaxRunning     int        `yaml:"max_running"`      // unfinished executions; counted by the executor
	MaxStorage     size.Bytes `yaml:"max_storage"`      // what the server keeps for it; counted by session store and artifacts
	CallsPerMinute int        `yaml:"calls_per_minute"` // calls and transfers; counted by Rates

	// AllowedWorkspaces are the directories at or below which its callers may choose a
	// workspace; none: they cannot. Those of the default tenant are another key.
	AllowedWorkspaces []string `yaml:"allowed_workspaces"`
}

// Tenants are all entries. None: nothing is bounded.
type Tenants []Tenant

// Of returns what a tenant may have.
func (t Tenants) Of(tenant string) Tenant {
	if len(t) == 0 {
		return Tenant{}
	}
	tenant = cmp.Or(tenant, auth.DefaultTenant)
	for _, name := range []string{tenant, auth.AllTenants} {
		if i := slices.IndexFunc(t, func(entry Tenant) bool { return entry.Name == name }); i >= 0 {
			return t[i]
		}
	}
	return Tenant{}
}

// maxCount is more than any number that a quota has.
const maxCount = 1_000_000

// Check calls fault for everything that is wrong with the entries. Keys are as in
// "[0].name".
func (t Tenants) Check(fault func(key, format string, args ...any)) {
	for i, entry := range t {
		at := func(key string) string { return fmt.Sprintf("[%d].%s", i, key) }
		if entry.Name == "" {
			fault(at("name"), "an entry needs the name of its tenant: %q for the default tenant, %q for every tenant without an entry", auth.DefaultTenant, auth.AllTenants)
		} else if err := auth.CheckTenantOrAll(entry.Name); err != nil {
			fault(at("name"), "%v", err)
		}
		if slices.ContainsFunc(t[:i], func(other Tenant) bool { return other.Name == entry.Name }) {
			fault(at("name"), "there is an entry for %q already", entry.Name)
		}
		for key, n := range map[string]int{"max_sessions": entry.MaxSessions, "max_running": entry.MaxRunning, "calls_per_minute": entry.CallsPerMinute} {
			if n < 0 || n > maxCount {
				fault(at(key), "%d is out of bounds: want 1 to %d, or 0 for no bound", n, maxCount)
			}
		}
		if entry.MaxStorage < 0 {
			fault(at("max_storage"), "%d is negative: want a size such as 10GiB, or 0 for no bound", entry.MaxStorage)
		}
		t.checkWorkspaces(i, fault)
	}
}

// checkWorkspaces sees to it that no two tenants may choose the same directory.
func (t Tenants) checkWorkspaces(i int, fault func(key, format string, args ...any)) {
	entry := t[i]
	for j, dir := range entry.AllowedWorkspaces {
		key := fmt.Sprintf("[%d].allowed_workspaces[%d]", i, j)
		switch {
		case entry.Name == auth.AllTenants:
			fault(key, "several tenants would share it: give each tenant an entry of its own")
		case entry.Name == auth.DefaultTenant:
			fault(key, "those of the default tenant are sessions.allowed_workspaces")
		case !filepath.IsAbs(dir):
			fault(key, "%q: want an absolute path", dir)
		}
		for _, other := range t[:i] {
			if slices.ContainsFunc(other.AllowedWorkspaces, func(theirs string) bool { return Overlap(dir, theirs) }) {
				fault(key, "%s is, lies in or contains a workspace of tenant %s", dir, other.Name)
			}
		}
	}
}

// Overlap reports whether one of two absolute paths is at or below the other.
func Overlap(a, b string) bool {
	for _, pair := range [2][2]string{{a, b}, {b, a}} {
		if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// An Error says that a tenant has all that it may have.
type Error struct {
	// Tenant is whose quota it is, and Quota which, by its key in the configuration.
	Tenant, Quota string

	// Limit is the value of the quota, and Help what the caller can do, in words.
	Limit, Help string

	// RetryAfter is when to try again; 0 where waiting alone does not help.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	return fmt.Sprintf("tenant %s has reached its quota %s, which is %s: %s, or ask the operator for more (tenants.%s of the server's configuration)",
		cmp.Or(e.Tenant, auth.DefaultTenant), e.Quota, e.Limit, e.Help, e.Quota)
}

// Rates count the calls of each tenant. Make them with [NewRates].
type Rates struct {
	tenants Tenants
	spec    tools.Spec
	byEntry map[string]*limit.Limiter
}

// NewRates returns rates that count nothing yet.
func NewRates(tenants Tenants) (*Rates, error) {
	r := &Rates{tenants: tenants, spec: tools.Spec{Name: "call"}, byEntry: make(map[string]*limit.Limiter)}
	for _, entry := range tenants {
		if entry.CallsPerMinute == 0 {
			continue
		}
		limiter, err := limit.New(limit.Config{Limits: []limit.Limit{{
			Name: "calls_per_minute", Tools: []string{"*"}, Per: limit.Principal,
			Rate: float64(entry.CallsPerMinute) / 60, Burst: max(1, entry.CallsPerMinute/6), // those of ten seconds
		}}})
		if err != nil {
			return nil, err
		}
		r.byEntry[entry.Name] = limiter
	}
	return r, nil
}

// Share has the rates be those of several servers together. It comes before the first call.
func (r *Rates) Share(with *limit.Shared) {
	for entry, limiter := range r.byEntry {
		limiter.Share(with, "quota "+entry)
	}
}

// Take counts a call of a tenant, or returns an [*Error].
func (r *Rates) Take(tenant string) error {
	if len(r.byEntry) == 0 {
		return nil
	}
	entry := r.tenants.Of(tenant)
	limiter := r.byEntry[entry.Name]
	if limiter == nil {
		return nil
	}
	_, refusal := limiter.Take(limit.Key{Spec: &r.spec, Principal: cmp.Or(tenant, auth.DefaultTenant)})
	if refusal == nil {
		return nil
	}
	return &Error{
		Tenant: tenant, Quota: "calls_per_minute", Limit: fmt.Sprint(entry.CallsPerMinute),
		Help: fmt.Sprintf("call again in %s", refusal.RetryAfter.Round(time.Millisecond)), RetryAfter: refusal.RetryAfter,
	}
}
