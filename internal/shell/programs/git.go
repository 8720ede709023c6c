// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package programs

import "strings"

// executing are the keys of git's configuration whose value, or what it leads to,
// is run by git: in lower case, and a star is whatever is between dots.
var executing = wordsOf(`
	core.hookspath core.fsmonitor core.sshcommand core.pager core.editor core.askpass core.gitproxy core.alternaterefscommand
	core.attributesfile core.worktree core.gitdir sequence.editor pager.* alias.* interactive.difffilter
	filter.*.clean filter.*.smudge filter.*.process diff.external diff.*.textconv diff.*.command diff.*.cachetextconv
	merge.*.driver merge.*.recursive mergetool.*.cmd mergetool.*.path difftool.*.cmd difftool.*.path guitool.*.cmd
	gpg.program gpg.*.program gpg.ssh.defaultkeycommand credential.helper credential.*.helper
	include.path includeif.*.path remote.*.uploadpack remote.*.receivepack remote.*.vcs protocol.*.allow protocol.allow
	submodule.*.update init.templatedir trailer.*.command trailer.*.cmd browser.*.cmd browser.*.path web.browser help.browser man.*.cmd man.*.path
	sendemail.* uploadpack.packobjectshook imap.tunnel instaweb.* ssh.variant hook.*.command hook.*.event
	tar.*.command lfs.customtransfer.* lfs.extension.* lfs.standalonetransferagent svn* maintenance.* safe.* extensions.*
`)

// harmlessKeys are those with which git only shows what it shows in another form.
var harmlessKeys = wordsOf(`
	user.name user.email user.usename author.name author.email committer.name committer.email color.* color.*.* column.* advice.* log.* status.*
	core.quotepath core.abbrev core.autocrlf core.eol core.safecrlf core.ignorecase core.filemode core.longpaths core.precomposeunicode
	diff.renames diff.renamelimit diff.algorithm diff.noprefix diff.mnemonicprefix diff.context diff.colormoved diff.wserrorhighlight
	i18n.* init.defaultbranch commit.gpgsign tag.gpgsign tag.sort branch.sort grep.* format.pretty pull.rebase pull.ff push.default
	core.pager pager.*
`)

// keyIn reports whether a key of git is one of a list. The part in the middle, if
// there is one, may have dots itself.
func keyIn(list []string, key string) bool {
	first, rest, ok := strings.Cut(key, ".")
	if !ok {
		return false
	}
	last := rest[strings.LastIndexByte(rest, '.')+1:]
	middle := strings.Contains(rest, ".")
	for _, pattern := range list {
		section, name, _ := strings.Cut(pattern, ".")
		wide := strings.HasSuffix(section, "*") && strings.HasPrefix(first, strings.TrimSuffix(section, "*"))
		if section != first && !wide {
			continue
		}
		between, name2, three := strings.Cut(name, ".")
		switch {
		case wide, name == rest:
			return true
		case three && middle && (between == "*" || strings.HasPrefix(rest, between+".")) && (name2 == "*" || name2 == last):
			return true
		case !three && strings.HasSuffix(name, "*") && strings.HasPrefix(rest, strings.TrimSuffix(name, "*")):
			return true
		}
	}
	return false
}

// GitTrusts reports whether git runs or trusts the value of a key, which is in lower case.
func GitTrusts(key string) bool { return keyIn(executing(), key) }

// GitHarmless reports whether git only shows what it shows in another form with a
// key, which is in lower case.
func GitHarmless(key string) bool { return keyIn(harmlessKeys(), key) }
