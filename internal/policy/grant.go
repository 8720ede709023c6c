// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// granted returns the first grant with this action that matches the effect, of
// those that reach far enough and answer the rule that asks, if one does.
func (s *subject) granted(action Action, most reach, asks *rule, grants []Grant) *Grant {
	if most == noGrant {
		return nil
	}
	for i := range grants {
		g := &grants[i]
		if g.Action != action || !most.has(&g.Tier) {
			continue
		}
		if s.matchedBy(g) && (asks == nil || asks.answeredBy(g, s)) {
			return g
		}
	}
	return nil
}

// has reports whether a grant of a tier may allow what this far may be granted.
func (r reach) has(tier *Tier) bool {
	switch r {
	case noGrant:
		return false
	case exactCall:
		return tier.Kind == TierCall
	case anyCode:
		return tier.Kind == TierCall || tier.Kind == TierTool || tier.Kind == TierCommand && isCode(strings.Fields(tier.Pattern))
	}
	return true
}

// answeredBy reports whether a grant says something about what the rule asks. One
// that is wider than the rule was given for something else: who trusts git has
// not been asked about git push. Only what the rule would ask about as a whole
// answers it, and this exact call, and this file.
func (r *rule) answeredBy(g *Grant, s *subject) bool {
	tier := &g.Tier
	switch {
	case tier.Kind == TierCall || tier.Kind == TierFile:
		return true
	case r.when != nil:
		return false // it is about some of what it matches
	case !r.selective:
		return true
	}
	switch tier.Kind {
	case TierDirectory:
		patterns := r.reads
		if s.effect.Kind == tools.WritesPath {
			patterns = r.writes
		}
		dir := s.place().targetAt(tier.Pattern, nil)
		return slices.ContainsFunc(patterns, func(p pathPattern) bool { return p.catches(&dir) })
	case TierCommand, TierProgram:
		granted, err := compileCommand(tier.Pattern)
		return err == nil && len(granted.words) > 0 &&
			slices.ContainsFunc(r.commands, func(c command) bool { return c.catches(granted.words, granted.name) })
	case TierTool:
		return anyTool(r.uses, s.call.Spec)
	}
	return false
}

// matchedBy reports whether the effect is what a grant is about. What allows
// must cover all of it, and holds for the tool it was given for; what denies, any
// part, and another tool is no way around it.
func (s *subject) matchedBy(g *Grant) bool {
	e, tier := s.effect, &g.Tier
	if g.Tool != s.call.Spec.Name && (g.Action == Allow || tier.Kind == TierCall || tier.Kind == TierTool) {
		return false
	}
	switch tier.Kind {
	case TierCall:
		return isDigest(tier.Pattern, &s.call.Digest)
	case TierTool:
		return g.Action == Deny || (s.call.Spec.Kind == tools.Builtin || s.ofTool()) && (s.call.Spec.Version == "" || tier.Pattern == s.call.Spec.Identity())
	case TierFile, TierDirectory:
		if e.Kind != tools.ReadsPath && e.Kind != tools.WritesPath {
			return false
		}
		if g.Action == Allow {
			return (tier.Effect == e.Kind || tier.Effect == tools.WritesPath) && s.coveredBy(tier)
		}
		return tier.Effect == e.Kind && s.caughtBy(tier)
	case TierCommand, TierProgram:
		if e.Kind != tools.RunsProgram {
			return false
		}
		granted, err := compileCommand(tier.Pattern)
		if err != nil || len(granted.words) == 0 {
			return false
		}
		if g.Action == Allow {
			return granted.covers(argv(e))
		}
		return granted.catches(argv(e), s.program())
	}
	return false
}

// isDigest reports whether text is a digest in hex. No digest is the same as
// none.
func isDigest(text string, digest *[32]byte) bool {
	return *digest != [32]byte{} && text == hex.EncodeToString(digest[:])
}

// coveredBy reports whether everything the effect touches is in the tier.
func (s *subject) coveredBy(tier *Tier) bool {
	at := s.target().path
	if strings.HasPrefix(tier.Pattern, "/") && s.call.Workspace != "" {
		at = absolute(at, s.call.Workspace) // a grant of the session above, for what is around this workspace
	}
	switch {
	case tier.Kind == TierFile:
		return at == tier.Pattern && !s.effect.Tree && !s.effect.Glob
	case s.effect.Glob:
		if s.shellGlob().unknown {
			return false
		}
		at = staticPart(at)
	}
	return below(tier.Pattern, at)
}

// caughtBy reports whether something the effect touches could be in the tier.
func (s *subject) caughtBy(tier *Tier) bool {
	if s.effect.Glob {
		forbidden := pathPattern{runs: [][]glob.Name{nil}}
		for _, step := range literalSteps(tier.Pattern) {
			forbidden.runs[0] = append(forbidden.runs[0], step.name)
		}
		if strings.HasPrefix(tier.Pattern, "/") {
			forbidden.from = fromSlash
		}
		return s.shellGlob().caughtBy(&forbidden, &s.target().location, s.effect.Tree, &s.shared.steps)
	}
	forbidden := fold(tier.Pattern)
	caught := func(at string) bool {
		return at == forbidden || tier.Kind == TierDirectory && below(forbidden, at) || s.effect.Tree && below(at, forbidden)
	}
	return caught(s.target().folded().path) || s.effect.Named != "" && caught(s.namedTarget().folded().path)
}

// below reports whether a clean path is dir or below it.
func below(dir, p string) bool {
	if dir == "." {
		return !outside(p)
	}
	rest, ok := strings.CutPrefix(p, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}

// ofTool reports whether the effect is one that every call of a tool from elsewhere has, and
// no choice of this call: that it is called, the code or the program of a manifest that it
// runs, the host of an API.
func (s *subject) ofTool() bool {
	spec, e := s.call.Spec, s.effect
	switch e.Kind {
	case tools.UsesTool:
		return s.own || spec.RunsCode || e.Tool == spec.Name
	case tools.ReachesHost:
		return spec.RunsCode || e.Configured
	case tools.RunsProgram:
		return spec.RunsCode || spec.Kind == tools.Script
	}
	return spec.RunsCode
}

// Tiers returns what "always" could mean for a call that has to be asked about,
// the narrowest first. A grant of each would have allowed this call.
func (p *Policy) Tiers(call *Subject, d Decision) []Tier {
	if p == nil || d.Action != Ask {
		return nil
	}
	var asked []subject
	var places []int
	for i := range d.Effects {
		if d.Effects[i].Verdict.Action == Ask {
			places = append(places, i)
			asked = append(asked, subject{policy: p, call: call, effect: &d.Effects[i].Effect, own: i == len(call.Effects), shared: new(shared)})
		}
	}
	candidates := []Tier{{Kind: TierCall, Pattern: hex.EncodeToString(call.Digest[:]), Label: "this exact call"}}
	candidates = append(candidates, fileTiers(asked)...)
	candidates = append(candidates, commandTiers(asked)...)
	whole := call.Spec.RunsCode || len(asked) == 1 && asked[0].own && asked[0].alone()
	if call.Spec.Kind != tools.Builtin {
		whole = !slices.ContainsFunc(asked, func(s subject) bool { return !s.ofTool() })
	}
	if whole {
		candidates = append(candidates, Tier{Kind: TierTool, Pattern: call.Spec.Identity(), Label: "every call of " + call.Spec.Name})
	}
	return slices.DeleteFunc(candidates, func(tier Tier) bool {
		return !p.allows(call, places, Grant{Action: Allow, Tool: call.Spec.Name, Tier: tier})
	})
}

// minDepth is how many names lead to a directory outside the workspace that a
// tier may be for: all of /home/alice, /etc/ssl or /var/log is more than anybody
// means.
const minDepth = 3

// fileTiers are tiers for what is asked about files.
func fileTiers(asked []subject) []Tier {
	var file, dir string
	verb, word := tools.ReadsPath, "reading "
	var at *location
	for i := range asked {
		s := &asked[i]
		if s.effect.Kind != tools.ReadsPath && s.effect.Kind != tools.WritesPath {
			continue
		}
		if s.effect.Kind == tools.WritesPath {
			verb, word = tools.WritesPath, "writing "
		}
		at = &s.target().location
		home := path.Dir(at.path)
		switch {
		case s.effect.Glob:
			home = staticPart(at.path)
		case s.effect.Tree:
			home = at.path
		case file == "":
			file = at.path
		}
		if dir == "" {
			dir = home
		}
		for !below(dir, home) && dir != "." && dir != "/" {
			dir = path.Dir(dir)
		}
	}
	if at == nil {
		return nil
	}
	var tiers []Tier
	if file != "" {
		tiers = append(tiers, Tier{Kind: TierFile, Pattern: file, Effect: verb, Label: word + file})
	}
	where := at.locate(dir, nil)
	shallow := dir == "." || !where.inside() && (len(where.names) < minDepth || where.above(where.workspace) || where.above(where.home))
	if !shallow {
		tiers = append(tiers, Tier{Kind: TierDirectory, Pattern: dir, Effect: verb, Label: word + "everything below " + dir + "/"})
	}
	return tiers
}

// commandTiers are tiers for the one command that is asked about.
func commandTiers(asked []subject) []Tier {
	var words []string
	for i := range asked {
		if asked[i].effect.Kind == tools.RunsProgram {
			if words != nil {
				return nil
			}
			words = argv(asked[i].effect)
		}
	}
	if isCode(words) {
		pattern := words[0] + " " + words[1]
		return []Tier{{Kind: TierCommand, Pattern: pattern, Label: pattern + " *"}}
	}
	if len(words) == 0 || !plainWord(words[0]) || strings.Contains(words[0], "/") || runsAnything(words[0]) {
		return nil
	}
	program := words[0]
	var tiers []Tier
	if n := subcommand(words); n > 0 {
		pattern := strings.Join(words[:n], " ")
		tiers = append(tiers, Tier{Kind: TierCommand, Pattern: pattern, Label: pattern + " *"})
	}
	if !slices.Contains(launchers, program) {
		tiers = append(tiers, Tier{Kind: TierProgram, Pattern: program, Label: program + " *"})
	}
	return tiers
}

// isCode reports whether words begin a command that gives an interpreter its code:
// who trusts it trusts any code, in the jail that such a command has.
func isCode(words []string) bool {
	return len(words) > 1 && slices.Contains(interpreters, strings.TrimRight(words[0], "0123456789.-")) && slices.Contains(codeOptions, words[1])
}

var (
	interpreters = []string{"python", "pypy", "node", "nodejs", "perl", "ruby", "php", "lua", "luajit", "julia", "Rscript"}
	codeOptions  = []string{"-c", "-e", "-p", "-r", "-"} // the last reads it from standard input
)

// runsAnything reports whether to trust a program is to trust every program:
// shells, interpreters, and programs that run others.
func runsAnything(program string) bool {
	return slices.Contains(anything(), strings.TrimRight(program, "0123456789.-"))
}

var anything = sync.OnceValue(func() []string {
	return strings.Fields(`
	sh bash zsh dash ash ksh mksh csh tcsh fish nu pwsh powershell cmd busybox toybox
	python pypy node nodejs deno tsx perl ruby irb php lua luajit julia tclsh wish expect osascript Rscript R
	awk gawk mawk nawk jshell scala groovy clojure erl elixir iex ghci runghc
	sudo doas su runuser pkexec env nohup nice ionice timeout time stdbuf setsid setpriv xargs parallel exec eval command
	builtin source . trap ssh sshpass mosh watch entr strace ltrace gdb lldb script unshare chroot nsenter flock
	npx bunx uvx pipx pnpx at batch crontab tmux screen systemd-run docker-compose vim vi ex nvim emacs ed less man`)
})

// launchers have commands of their own that run whatever they are given: to
// trust one command is possible, to trust all is not.
var launchers = []string{"npm", "pnpm", "yarn", "bun", "docker", "podman", "kubectl", "cargo", "go", "uv", "poetry", "gh", "make", "mvn", "gradle"}

var haveSubcommands = append([]string{"git", "pip", "helm", "terraform", "brew", "apt", "apt-get", "dnf", "systemctl", "rustup", "jj", "hg", "svn"}, launchers...)

// subcommand returns how many words name the command of a program that has
// several, such as 2 for git pull; 0 where that is not known.
func subcommand(words []string) int {
	if len(words) < 2 || !slices.Contains(haveSubcommands, words[0]) || !simpleWord(words[1]) {
		return 0
	}
	switch words[1] {
	case "exec", "x", "dlx", "attach", "alias":
		return 0
	case "run", "run-script":
		switch words[0] {
		case "npm", "pnpm", "yarn", "bun":
			if len(words) > 2 && simpleWord(words[2]) {
				return 3
			}
		}
		return 0
	}
	return 2
}

// simpleWord reports whether a word looks like the name of a command.
func simpleWord(word string) bool {
	for i := range len(word) {
		c := word[i]
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '_' || c == ':')) {
			return false
		}
	}
	return word != ""
}
