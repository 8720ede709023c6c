// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

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
	case programs.GitTrusts(key):
		return "git runs or trusts what " + clip(key) + " names"
	case address && (!value.known() && !value.made || strings.Contains(value.text+key, "::")):
		return "the address in " + clip(key) + " may name a program"
	}
	return ""
}

// gitSets follows the word of git -c.
func (c *invocation) gitSets(w word) {
	key, value, assigned := strings.Cut(w.text, "=")
	if !assigned && !w.known() {
		c.doubt("which key git is given is not known")
		return
	}
	if why := gitKey(key, word{text: value, unknown: w.unknown, glob: w.glob, made: w.made}); why != "" {
		c.doubt(why)
	}
	c.configured = c.configured || !programs.GitHarmless(strings.ToLower(key))
}

// gitKeys follows the words of git config that name a key and its value, or a
// section.
func (c *invocation) gitKeys(out parsed) {
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
