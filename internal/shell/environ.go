// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// places are the variables that say where the shell is and was.
var places = []string{"PWD", "OLDPWD", "DIRSTACK"}

// risk is danger, for a variable of the shell at hand.
func (a *analysis) risk(name string, value word, s *state) string {
	if slices.Contains(places, name) {
		s.dirs, s.old, s.stack = nil, nil, nil
		a.moved(s)
	}
	return danger(name, value)
}

// danger tells why giving a variable a value is dangerous; "" where it is not.
func danger(name string, value word) string {
	if programs.EvaluatesValue(name) && !value.number && !(value.known() && isNumber(value.text)) {
		return "it sets " + name + ", which evaluates its value as arithmetic"
	}
	if !programs.Dangerous(name) {
		return ""
	}
	if programs.HarmlessValue(name, value.text, value.known()) {
		return ""
	}
	if name == "PATH" && value.known() && value.text != "" {
		foreign := slices.ContainsFunc(strings.Split(value.text, ":"), func(dir string) bool {
			return !programs.Trusted(dir + "/")
		})
		if !foreign {
			return ""
		}
	}
	return "it sets " + name + ", which changes what other programs do"
}
