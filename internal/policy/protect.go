// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// protectedNames are names that nothing may be written at or below, wherever
// they are: what is there is run by other programs later. git~1 is what some
// file systems call .git.
var protectedNames = [...]string{".git", ".husky", "node_modules", "git~1"}

// isRepository reports whether the protected name at this place is that of the
// directory in which git keeps a repository.
func isRepository(i int) bool { return protectedNames[i] == ".git" || protectedNames[i] == "git~1" }

// isProtectedName reports whether a place that protects is one of the names.
func isProtectedName(place string) bool {
	return slices.Contains(protectedNames[:], strings.TrimSuffix(place, "/"))
}

// Protected reports whether nothing may be written at path, which is clean and
// relative to the workspace, or absolute outside it.
func (p *Policy) Protected(path string) bool {
	at := place{}.targetAt(path, nil)
	return p.protects(&at) != ""
}

// protects returns what protects a path, or "".
func (p *Policy) protects(at *target) string {
	if place := at.protectedName(); place != "" {
		return place
	}
	if !at.same {
		if place := at.folded().protectedName(); place != "" {
			return place
		}
	}
	if p == nil {
		return ""
	}
	return p.protectedBy(at)
}

// protectedBy returns the pattern of the operator that protects a path, or "".
func (p *Policy) protectedBy(at *target) string {
	for i := range p.protected {
		if p.protected[i].catches(at) {
			return p.protected[i].text
		}
	}
	return ""
}

// protectedName returns the first name on the way to the location that is protected,
// as verdicts call it, or "".
func (s *location) protectedName() string {
	for _, name := range s.names[max(s.inner, 0):] {
		if i := protectedName(name); i >= 0 {
			return protectedNames[i] + "/"
		}
	}
	return ""
}

// protectedName returns the place of a folded name in protectedNames, or -1.
// What other systems take for the end of a name or a separator ends one here.
func protectedName(name string) int {
	if i := slices.Index(protectedNames[:], name); i >= 0 {
		return i
	}
	if strings.IndexByte(name, '\\') < 0 && strings.IndexByte(name, ':') < 0 {
		return -1
	}
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		if i := slices.Index(protectedNames[:], part); i >= 0 {
			return i
		}
	}
	return -1
}

// guards returns what protects something that an effect writes, and whether
// that is certain.
func (p *Policy) guards(s *subject) (place string, certain bool) {
	at := s.target()
	if s.effect.Path == "" && s.effect.Unclear != "" && s.holds() {
		return protectedNames[0] + "/", false // it may be anything
	}
	if s.effect.Removes && !s.effect.Rooted && (!s.effect.Glob || s.effect.Examined) {
		return p.guardsRemoval(s)
	}
	if s.effect.Glob {
		return p.guardsGlob(s)
	}
	if s.call.Uploads && (isRepositoryData(s.effect.Path) || s.call.MakesConfig && IsRepositoryConfig(s.effect.Path) ||
		s.call.JudgedIndex && IsRepositoryIndex(s.effect.Path)) {
		return p.protectedBy(at), true
	}
	if place := p.protects(at); place != "" {
		return place, true
	}
	if s.effect.Named != "" {
		if place := p.protects(s.namedTarget()); place != "" {
			return place, true
		}
	}
	if s.effect.Rooted && s.call.Monitored != nil && at.inside() {
		if place := s.call.Monitored(restrictions{policy: p, call: s.call}.Protection())(at.path, s.effect.Tree); place != "" {
			return place, true
		}
	}
	if !s.effect.Tree {
		return "", false
	}
	all := at.path == "." || !at.inside() && at.above(at.workspace)
	if all && (s.effect.Rooted || !s.holds()) {
		return protectedNames[0] + "/", true
	}
	if place := p.ownsBelow(at); place != "" {
		return place, true
	}
	if all { // a command that goes through a whole tree does not put something there
		return protectedNames[0] + "/", false
	}
	return "", false
}

// repositoryData matches what git keeps in a repository, inside of its directory, and
// never runs because of it, nor looks for anything elsewhere: not the index, from which
// git writes files at whatever paths it has, nor a directory that could be taken for
// a repository, as one with a HEAD and a config could.
var repositoryData = regexp.MustCompile(`^(HEAD|ORIG_HEAD|packed-refs|shallow|description|refs|logs|objects|logs/HEAD|` +
	`(refs|logs/refs)(/[^/]+)*|` +
	`objects/([0-9a-f]{2}(/[0-9a-f]{38,62})?|pack(/pack-[0-9a-f]+\.(pack|idx|rev|bitmap|mtimes))?))$`)

// IsRepositoryConfig reports whether a path of the workspace is that of the
// configuration of a repository, by its exact name, and protected for nothing else.
func IsRepositoryConfig(path string) bool { return isInRepository(path, "config") }

// IsRepositoryIndex is [IsRepositoryConfig] for the index.
func IsRepositoryIndex(path string) bool { return isInRepository(path, "index") }

func isInRepository(path, name string) bool {
	above, found := strings.CutSuffix("/"+path, "/.git/"+name)
	var nobody *Policy
	return found && !nobody.Protected(strings.TrimPrefix(above+"/x", "/"))
}

// NeverUploaded reports whether a path of the workspace is taken from no upload,
// whatever the policy says: what is there is run by other programs later, and is not
// the data of a repository.
func NeverUploaded(path string) bool {
	var nobody *Policy
	return nobody.Protected(path) && !isRepositoryData(path)
}

// RunByGit reports whether a path is that of a repository or of the hooks of husky, or
// lies in one, and is not the data of a repository: git runs what is there, or is led
// elsewhere by it. The path is clean.
func RunByGit(path string) bool {
	at := place{}.targetAt(path, nil)
	return (at.inRepository() || !at.same && at.folded().inRepository()) && !isRepositoryData(path)
}

// inRepository reports whether a name on the way to the location is that of a repository,
// or of the hooks of husky.
func (s *location) inRepository() bool {
	return slices.ContainsFunc(s.names, func(name string) bool {
		i := protectedName(name)
		return i >= 0 && (isRepository(i) || protectedNames[i] == ".husky")
	})
}

// isRepositoryData reports whether a path of the workspace is one of a repository's
// data, by its exact name, and protected for nothing else.
func isRepositoryData(path string) bool {
	above, inside, ok := strings.Cut("/"+path, "/.git/")
	if !ok || !repositoryData.MatchString(inside) {
		return false
	}
	if strings.HasPrefix(inside, "refs/") || strings.HasPrefix(inside, "logs/refs/") {
		for name := range strings.SplitSeq(inside, "/") {
			switch name {
			case "HEAD": // of a remote alone, where there is nothing beside it but refs
				if !strings.HasPrefix(inside, "refs/remotes/") && !strings.HasPrefix(inside, "logs/refs/remotes/") {
					return false
				}
			case "config", "config.worktree", "commondir", "hooks", "objects", "gitdir":
				return false
			}
		}
	}
	var nobody *Policy
	return !nobody.Protected(strings.TrimPrefix(above+"/", "/") + inside)
}

// ownsBelow returns the pattern of the operator that protects something below a
// path wherever that is, or "".
func (p *Policy) ownsBelow(at *target) string {
	for i := range p.protected {
		if !p.protected[i].open && p.protected[i].catchesBelow(at) {
			return p.protected[i].text
		}
	}
	return ""
}

// guardsRemoval is guards for what a command takes away. It plants nothing, so only
// what destroys is refused: the repository of the workspace, hooks, a part of any
// repository, and what the operator protects. Of a pattern, each of these is an
// effect by itself.
func (p *Policy) guardsRemoval(s *subject) (place string, certain bool) {
	if s.effect.Glob {
		return "", false
	}
	place = p.keeps(s.target(), s.effect.Tree)
	if place == "" && s.effect.Named != "" {
		place = p.keeps(s.namedTarget(), s.effect.Tree)
	}
	return place, place != ""
}

// keeps returns what keeps a path, or with tree something below it, from being
// removed, or "".
func (p *Policy) keeps(at *target, tree bool) string {
	if place := p.protectedBy(at); place != "" {
		return place
	}
	if place := at.keptName(); place != "" {
		return place
	}
	if !at.same {
		if place := at.folded().keptName(); place != "" {
			return place
		}
	}
	switch {
	case !tree:
		return ""
	case at.path == "." || !at.inside() && at.above(at.workspace):
		return protectedNames[0] + "/"
	}
	return p.ownsBelow(at)
}

// keptName returns the name on the way to the location that must not be removed, or "".
func (s *location) keptName() string {
	from := max(s.inner, 0)
	for i, name := range s.names[from:] {
		n := protectedName(name)
		if n < 0 || protectedNames[n] == "node_modules" {
			continue
		}
		whole := isRepository(n) && from+i == len(s.names)-1
		own := s.inside() && i == 0
		if !whole || own {
			return protectedNames[n] + "/"
		}
	}
	return ""
}

// guardsGlob is guards for a path that a shell will expand. A name that is a
// pattern counts as what it could be, unless it could be anything.
func (p *Policy) guardsGlob(s *subject) (place string, certain bool) {
	at := s.target()
	fixed := at.targetAt(staticPart(at.path), nil)
	if place := p.protects(&fixed); place != "" {
		return place, true
	}
	pattern := s.shellGlob()
	if pattern.unknown {
		return protectedNames[0] + "/", false
	}
	for _, steps := range pattern.alternatives {
		for _, step := range steps[min(len(literalSteps(at.workspace)), len(steps)):] {
			if step.deep || step.name.Vague() {
				continue
			}
			for _, name := range protectedNames {
				if protected := glob.Text(name); s.shared.steps.meetsShell(&protected, &step.name) {
					_, certain := step.name.Literal()
					return name + "/", certain || !s.holds()
				}
			}
		}
	}
	if s.effect.Examined {
		return "", false // what is protected of it is judged by itself
	}
	for i := range p.protected {
		if !(s.effect.NamesExamined && p.protected[i].isName()) && s.globCaughtBy(&p.protected[i], s.effect.Tree) {
			return p.protected[i].text, false
		}
	}
	if fixed.path == "." || !fixed.inside() && fixed.above(at.workspace) {
		return "node_modules/", false // * may be it
	}
	return "", false
}

// protectedVerdict refuses to write what is protected.
func protectedVerdict(e *tools.Effect, place string, certain bool) Verdict {
	if !certain {
		return Verdict{Ask, "protected " + place, "The pattern " + e.Path + " could name something protected (" + place +
			"): name the files themselves instead."}
	}
	if e.Tree && !strings.Contains(e.Path+"\n"+e.Named, strings.TrimSuffix(place, "/")) {
		return Verdict{Deny, "protected " + place, e.Path + " and everything below covers " + place +
			", which is protected, and no approval changes that. Name the files and directories themselves that are meant."}
	}
	return Verdict{Deny, "protected " + place, "Nothing may be written at or below " + place +
		": it is protected, and no approval changes that. Work on other files, or run the program it belongs to, such as git or npm."}
}
