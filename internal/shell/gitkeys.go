// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

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

// gitKey tells why giving a key of git a value may run something; "" where it may
// not.
func gitKey(key string, value word) string {
	key = strings.ToLower(key)
	address := strings.HasPrefix(key, "url.") || strings.HasPrefix(key, "remote.") || strings.HasPrefix(key, "submodule.") || strings.HasPrefix(key, "branch.")
	switch {
	case (key == "core.pager" || strings.HasPrefix(key, "pager.")) && (value.is("") || value.is("cat") || value.is("false")):
	case strings.HasPrefix(key, "alias.") && value.known() && !strings.Contains(value.text, "!") && !strings.Contains(value.text, "-c"):
	case strings.HasPrefix(key, "submodule.") && strings.HasSuffix(key, ".update") && value.known() && !strings.HasPrefix(value.text, "!"):
	case key == "credential.helper" && value.is(""), key == "submodule.recurse", key == "safe.directory" && value.known() && value.text != "*":
	case key == "core.fsmonitor" && (value.is("false") || value.is("0")):
	case keyIn(executing(), key):
		return "git runs or trusts what " + clip(key) + " names"
	case address && (!value.known() && !value.made || strings.Contains(value.text+key, "::")):
		return "the address in " + clip(key) + " may name a program"
	}
	return ""
}

// gitSets follows the word of git -c.
func (c *call) gitSets(w word) {
	key, value, assigned := strings.Cut(w.text, "=")
	if !assigned && !w.known() {
		c.doubt("which key git is given is not known")
		return
	}
	if why := gitKey(key, word{text: value, unknown: w.unknown, glob: w.glob, made: w.made}); why != "" {
		c.doubt(why)
	}
	c.configured = c.configured || !keyIn(harmlessKeys(), strings.ToLower(key))
}

// gitKeys follows the words of git config that name a key and its value, or a
// section.
func (c *call) gitKeys(out parsed) {
	operands := out.operands
	if len(operands) > 0 && (operands[0].is("set") || operands[0].is("unset") || operands[0].is("remove-section")) {
		operands = operands[1:]
	}
	if len(operands) == 0 {
		return
	}
	if out.flag("section") || operands[0].is("rename-section") {
		c.doubt("renaming a section makes other keys of those in it")
	}
	key, value := operands[0], word{unknown: true}
	if len(operands) > 1 {
		value = operands[1]
	}
	switch {
	case !key.known():
		c.doubt("which key of git is set is not known")
	case value.many || key.many:
		c.doubt("what is set is not known")
	case len(operands) == 1 || out.flag("unset"): // it is taken away
	default:
		if why := gitKey(key.text, value); why != "" {
			c.doubt(why)
		}
	}
}
