// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
)

var (
	// ErrForbidden is wrapped where a principal acts on behalf of somebody it may not.
	ErrForbidden = errors.New("not permitted")
	// ErrMalformed is wrapped where whom a principal acts for cannot be read.
	ErrMalformed = errors.New("malformed")
)

// ActsFor is for whom a principal may act: patterns of names, with spaces between them.
// The zero value is nobody.
type ActsFor string

// NewActsFor returns what stands for a list of patterns.
func NewActsFor(patterns []string) (ActsFor, error) {
	for _, pattern := range patterns {
		if pattern == "" || len(pattern) > MaxName || strings.ContainsAny(pattern, " \t\r\n") {
			return "", fmt.Errorf("%.64q is no pattern of names: want one without spaces, such as user:*", pattern)
		}
		if _, err := glob.CompileWord(pattern); err != nil {
			return "", fmt.Errorf("%.64q: %w", pattern, err)
		}
	}
	return ActsFor(strings.Join(patterns, " ")), nil
}

// Patterns returns the list.
func (a ActsFor) Patterns() []string { return strings.Fields(string(a)) }

// and adds what another says.
func (a ActsFor) and(b ActsFor) ActsFor {
	return ActsFor(strings.TrimSpace(string(a) + " " + string(b)))
}

func (a ActsFor) has(name string) bool {
	for _, pattern := range a.Patterns() {
		if word, err := glob.CompileWord(pattern); err == nil && word.Match(name) {
			return true
		}
	}
	return false
}

// For returns the principal as one that acts on behalf of somebody, if it may.
func (p Principal) For(name string) (Principal, error) {
	if err := CheckName(name); err != nil {
		return p, fmt.Errorf("%w: on behalf of whom: %w", ErrMalformed, err)
	}
	switch {
	case p.OnBehalfOf == name:
		return p, nil
	case p.OnBehalfOf != "":
		return p, fmt.Errorf("%w: the credentials say already on whose behalf %q acts, and that is somebody else", ErrForbidden, p.Name)
	case p.ActsFor == "":
		return p, fmt.Errorf("%w: %q acts for itself alone: leave out on whose behalf it calls, or have the operator allow it with on_behalf_of", ErrForbidden, p.Name)
	case !p.ActsFor.has(name):
		return p, fmt.Errorf("%w: %q may not act on behalf of %q: the operator allows %q", ErrForbidden, p.Name, name, p.ActsFor.Patterns())
	}
	p.OnBehalfOf = name
	return p, nil
}

// ForHeader is For with the values of the header of a call that names somebody, if there is
// one. Two are refused: two parties might read different ones.
func (p Principal) ForHeader(header string, values []string) (Principal, error) {
	switch len(values) {
	case 0:
		return p, nil
	case 1:
		return p.For(values[0])
	}
	return p, fmt.Errorf("%w: %d headers %s: send one", ErrMalformed, len(values), header)
}
