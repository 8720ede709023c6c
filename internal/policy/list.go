// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
)

// A ListedRule is a rule as people read it.
type ListedRule struct {
	Name   string
	Label  string // what verdicts call it
	Action Action
	Reason string
	Line   int // of its file
	About  []About
}

// About is one thing that a rule says of what it is about: the key of the file, and the texts
// of it.
type About struct {
	Key    string
	Values []string
}

// Rules lists the rules in their order, which is the order in which they are tried.
func (p *Policy) Rules() []ListedRule {
	if p == nil {
		return nil
	}
	list := make([]ListedRule, len(p.rules))
	for i := range p.rules {
		r := &p.rules[i]
		list[i] = ListedRule{r.name, r.label, r.action, r.reason, r.line, r.about}
	}
	return list
}

// File returns the name of the file that the policy was read from.
func (p *Policy) File() string {
	if p == nil {
		return ""
	}
	return p.file
}

// about returns what a rule of a file says of what it is about.
func (f *ruleFile) about() (all []About) {
	add := func(key string, values ...string) {
		if len(values) > 0 && values[0] != "" {
			all = append(all, About{key, values})
		}
	}
	add("tools", f.Tools...)
	add("principals", f.Principals...)
	add("tenants", f.Tenants...)
	for _, label := range slices.Sorted(maps.Keys(f.Labels)) {
		add("label "+label, f.Labels[label])
	}
	add("reads", f.Reads...)
	add("writes", f.Writes...)
	add("paths", f.Paths...)
	add("commands", f.Commands...)
	add("hosts", f.Hosts...)
	add("uses", f.Uses...)
	add("network", f.Network...)
	add("when", f.When)
	if f.Unclear != 0 {
		add("unclear", unclearNames[f.Unclear])
	}
	return all
}
