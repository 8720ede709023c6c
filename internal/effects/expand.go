// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects

import (
	"cmp"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/tools"
)

// expand adds to the effect of a pattern those of what a shell would put in its
// place and has to be judged by itself: what leads elsewhere, and what somebody
// cares about.
func (x *examination) expand(effect tools.Effect, by *command) []tools.Effect {
	if effect.Unclear != "" {
		return []tools.Effect{effect}
	}
	pattern := cmp.Or(effect.Named, effect.Path)
	var led []tools.Effect // where the directory is a link
	if dir, ok := everythingBelow(pattern); ok && effect.Kind == tools.WritesPath {
		to := effect
		to.Path, to.Named, to.Glob, to.Tree = dir, "", false, true
		if x.follow(&to); to.Path != dir {
			led = x.within(to, by)
		}
		if by.copies && filepath.IsLocal(dir) {
			return append(x.addFound(effect, dir, x.tree(dir, dir, false), by), led...)
		}
	}
	names, all := x.match(pattern, effect.Tree)
	if x.matches -= len(names); x.matches < 0 {
		names, all = nil, false
	}
	if effect.Kind == tools.WritesPath {
		names = append(names, unquoted(pattern)) // what matches nothing is a name
	}
	vague := slices.Contains(strings.Split(pattern, "/"), "**")
	effects := []tools.Effect{effect}
	cared := false
	for _, name := range names {
		if effect.Cut && !uncut(name) {
			effects[0].Unclear = "a name such as " + strconv.Quote(name) + " is other names once it is cut at blanks and quotes"
		}
		one := effect
		one.Glob, one.Named, one.Path = false, "", path.Clean(name)
		if name != one.Path {
			one.Named = name
		}
		x.follow(&one)
		elsewhere := one.Named != "" && one.Path != path.Clean(one.Named)
		if vague {
			// It is anything below, of which the program may take some: what it
			// could be is no effect, but a reason to ask.
			switch {
			case elsewhere && !filepath.IsLocal(one.Path), effect.Kind == tools.WritesPath && x.env.Protected(one.Path):
				effects[0].Unclear = cmp.Or(effects[0].Unclear, one.Unclear, "it may be "+one.Path)
			case x.cares(one.Kind, one.Path):
				cared = true
			}
			continue
		}
		within := x.within(one, by)
		if one = within[0]; elsewhere || one.Unclear != "" || x.cares(one.Kind, one.Path) {
			effects = append(effects, one)
		}
		effects = append(effects, within[1:]...)
	}
	if !all {
		effects[0].Unclear = "it cannot be told what the pattern " + effect.Path + " stands for"
	}
	// What is made by a pattern need not be there yet.
	effects[0].Examined = effects[0].Unclear == "" && !cared && x.env.Restrictions != nil &&
		(effect.Kind == tools.ReadsPath || by.keeps)
	return append(effects, led...)
}

// uncut reports whether a name stays as it is wherever a shell or xargs would cut
// or expand it.
func uncut(name string) bool {
	return strings.IndexFunc(name, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("/._-+,:@%=", c)
	}) < 0
}

// cares reports whether a path has to be judged by itself: it is protected, or
// named.
func (x *examination) cares(kind tools.EffectKind, path string) bool {
	return kind == tools.WritesPath && x.env.Protected(path) || x.named(kind, path)
}

// named reports whether a rule is about a path.
func (x *examination) named(kind tools.EffectKind, path string) bool {
	return x.env.Restrictions != nil && x.env.Restrictions.Cares(kind, path)
}

// everythingBelow returns the directory of a pattern that is everything below
// it.
func everythingBelow(pattern string) (dir string, ok bool) {
	dir, ok = strings.CutSuffix(pattern, "/**")
	return dir, ok && !strings.ContainsAny(dir, `*?[\`)
}

// maxPattern is how many bytes a pattern may have: as many as a name.
const maxPattern = 4096

// match returns what is there that a pattern matches, and whether that is all.
// It matches what a shell might: ** stands for any number of directories, which
// only some shells take it for, and a wildcard is not the dot that hides a name.
func (x *examination) match(pattern string, tree bool) (names []string, all bool) {
	if len(pattern) > maxPattern {
		return nil, false
	}
	at := []string{""} // with a slash at the end
	if strings.HasPrefix(pattern, "/") {
		at[0] = "/"
	}
	parts := strings.FieldsFunc(pattern, func(c rune) bool { return c == '/' })
	wild := false
	for i, part := range parts {
		last := i == len(parts)-1
		text, plain := plainPart(part)
		if wild && text == ".." || !plain && matchPart(part, "..") && (!last || tree) {
			return nil, false // which directory that is depends on what matches, and on the shell
		}
		wild = wild || !plain
		var next []string
		for _, dir := range at {
			if !plain {
				found, ok := x.matchIn(dir, part, last)
				if !ok {
					return nil, false
				}
				next = append(next, found...)
				continue
			}
			if wild {
				if x.entries--; x.entries < 0 {
					return nil, false
				}
			}
			if !wild || !last || x.env.Workspace.Has(dir+text) {
				next = append(next, dir+text)
			}
		}
		at = next
		for i := range at {
			if !last && at[i] != "" && !strings.HasSuffix(at[i], "/") {
				at[i] += "/"
			}
		}
	}
	return at, true
}

// matchIn returns what a part of a pattern matches in a directory: its names,
// with that of the directory before them.
func (x *examination) matchIn(dir, part string, last bool) (names []string, ok bool) {
	deep := part == "**"
	if deep && !last {
		names = append(names, dir) // none is a number too
	}
	todo := []string{dir}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, all := x.env.Workspace.Names(cmp.Or(at, "."), x.entries)
		x.entries -= 1 + len(entries) + strings.Count(at, "/")/8
		if !all || x.entries < 0 {
			return nil, false
		}
		for _, entry := range entries {
			if !deep && !matchPart(part, entry.Name()) {
				continue
			}
			if isDir := entry.IsDir() || entry.Type()&fs.ModeSymlink != 0; !isDir && !last {
				continue
			}
			name := at + entry.Name()
			names = append(names, name)
			if deep && entry.IsDir() {
				todo = append(todo, name+"/")
			}
		}
	}
	return names, true
}

// unquoted returns a pattern as it is taken where nothing matches.
func unquoted(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// plainPart returns the text of a part that is no pattern.
func plainPart(part string) (text string, plain bool) {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '*', '?', '[':
			return "", false
		case '\\':
			i++
		}
	}
	return unquoted(part), true
}

// matchPart reports whether a name might match one part of a pattern. Where
// shells differ, or the language decides, it does.
func matchPart(part, name string) bool {
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(strings.TrimPrefix(part, `\`), ".") {
		return false
	}
	retryPart, retryName := "", ""
	starred := false
	for part != "" || name != "" {
		if strings.HasPrefix(part, "*") {
			part = part[1:]
			starred, retryPart, retryName = true, part, name
			continue
		}
		if part != "" && name != "" {
			if rest, ok, size := matchOne(part, name); ok {
				part, name = rest, name[size:]
				continue
			}
		}
		if !starred || retryName == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(retryName)
		retryName = retryName[size:]
		part, name = retryPart, retryName
	}
	return true
}

// matchOne matches what part begins with, which is no *, with a character, and
// returns what follows it and the size of the character.
func matchOne(part, name string) (rest string, ok bool, size int) {
	c, size := utf8.DecodeRuneInString(name)
	switch part[0] {
	case '?':
		return part[1:], true, size
	case '[':
		if end := setEnd(part); end > 0 {
			return part[end+1:], inSet(part[1:end], c), size
		}
	case '\\':
		if len(part) > 1 {
			part = part[1:]
		}
	}
	want, n := utf8.DecodeRuneInString(part)
	return part[n:], want == c && (c != utf8.RuneError || part[0] == name[0]), size
}

// setEnd returns where the bracket that a part begins with is closed, or 0.
func setEnd(part string) int {
	i := 1
	if i < len(part) && (part[i] == '!' || part[i] == '^') {
		i++
	}
	for first := i; i < len(part); i++ {
		switch {
		case part[i] == '\\':
			i++
		case part[i] == '[' && i+1 < len(part) && strings.IndexByte(":.=", part[i+1]) >= 0:
			if end := strings.Index(part[i+2:], part[i+1:i+2]+"]"); end >= 0 {
				i += end + 3
			}
		case part[i] == ']' && i > first:
			return i
		}
	}
	return 0
}

// inSet reports whether a character might be in a set. What is between letters
// depends on the language, so there either case counts.
func inSet(set string, c rune) bool {
	if strings.ContainsAny(set, `[\`) {
		return true // a class, or a quoted character
	}
	not := set != "" && (set[0] == '!' || set[0] == '^')
	if not {
		set = set[1:]
	}
	chars := []rune(set)
	has, maybe := false, false
	for i := 0; i < len(chars); i++ {
		if i+2 < len(chars) && chars[i+1] == '-' {
			for _, either := range []rune{c, unicode.ToLower(c), unicode.ToUpper(c)} {
				in := chars[i] <= either && either <= chars[i+2]
				has, maybe = has || in && either == c, maybe || in || c > unicode.MaxASCII
			}
			i += 2
		} else {
			has = has || chars[i] == c
		}
	}
	if not {
		return !has || maybe
	}
	return has || maybe
}
