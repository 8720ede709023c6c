// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import "strings"

var (
	escapePart   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescapePart = strings.NewReplacer("%25", "%", "%2F", "/")
)

// Key joins parts to a key whose parts a watch can select: Key("acme", "s1") is below
// the prefix "acme/". Parts may be any text; different parts make different keys.
func Key(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escapePart.Replace(part)
	}
	return strings.Join(escaped, "/")
}

// Parts is the inverse of Key.
func Parts(key string) []string {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		parts[i] = unescapePart.Replace(part)
	}
	return parts
}

// LastPart returns the last of the parts of a key.
func LastPart(key string) string {
	return unescapePart.Replace(key[strings.LastIndexByte(key, '/')+1:])
}
