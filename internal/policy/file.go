// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/strictyaml"
	"github.com/toolserver/toolserver/internal/tools"
)

// policyFile is a policy as it is written. default.yaml explains every key.
type policyFile struct {
	Version      int             `yaml:"version"`
	Unclear      Unclear         `yaml:"unclear"`
	Protected    []string        `yaml:"protected"`
	Rules        []ruleFile      `yaml:"rules"`
	ExplicitOnly []string        `yaml:"explicit_only"`
	Limits       []limitFile     `yaml:"limits"`
	LoopGuard    limit.LoopLimit `yaml:"loop_guard"`
	Approvals    Approvals       `yaml:"approvals"`
}

type ruleFile struct {
	Name       string            `yaml:"name"`
	Action     Action            `yaml:"action"`
	Tools      []string          `yaml:"tools"`
	Principals []string          `yaml:"principals"`
	Tenants    []string          `yaml:"tenants"`
	Labels     map[string]string `yaml:"labels"`
	Reads      []string          `yaml:"reads"`
	Writes     []string          `yaml:"writes"`
	Paths      []string          `yaml:"paths"`
	Commands   []string          `yaml:"commands"`
	Hosts      []string          `yaml:"hosts"`
	Uses       []string          `yaml:"uses"`
	Network    []string          `yaml:"network"`
	When       string            `yaml:"when"`
	Unclear    Unclear           `yaml:"unclear"`
	Reason     string            `yaml:"reason"`
	Examples   examplesFile      `yaml:"examples"`
}

type examplesFile struct {
	Match    []exampleFile `yaml:"match"`
	NotMatch []exampleFile `yaml:"not_match"`
}

type limitFile struct {
	Name       string      `yaml:"name"`
	Tools      []string    `yaml:"tools"`
	Rate       rate        `yaml:"rate"`
	Burst      int         `yaml:"burst"`
	Concurrent int         `yaml:"concurrent"`
	Per        limit.Scope `yaml:"per"`
	Shadow     bool        `yaml:"shadow"`
}

// A rate is a number of calls in a second, a minute or an hour.
type rate struct {
	calls     float64
	perSecond float64
}

// UnmarshalText reads a rate such as 100/m.
func (r *rate) UnmarshalText(text []byte) error {
	number, unit, _ := strings.Cut(string(text), "/")
	seconds := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || seconds == 0 || !(n > 0 && n <= 1e9) {
		return fmt.Errorf("%q is not a rate: want calls in a second, minute or hour, such as 10/s, 100/m or 5/h", text)
	}
	r.calls, r.perSecond = n, n/seconds
	return nil
}

//go:embed default.yaml
var defaultText []byte

// BuiltinName is what the built-in policy calls itself in errors.
const BuiltinName = "default.yaml"

// BuiltinText is the text of the built-in policy: an example that explains
// every key.
func BuiltinText() string { return string(defaultText) }

// Builtin returns the policy that is part of the server.
func Builtin() *Policy { return builtin() }

var builtin = sync.OnceValue(func() *Policy {
	p, err := Parse(BuiltinName, defaultText)
	if err != nil {
		panic(err) // a mistake in the program: a test reads it too
	}
	return p
})

const (
	maxRules    = 10_000
	maxFileSize = 4 << 20
)

// Parse returns the policy that data, the text of the named file, describes. An
// error lists everything that is wrong, with the lines.
func Parse(file string, data []byte) (*Policy, error) {
	c := &compiler{Reader: strictyaml.NewReader(file, "policy")}
	f := policyFile{Approvals: Approvals{Expire: 2 * time.Minute}}
	if len(data) > maxFileSize {
		c.Fault("", "it has %d bytes: at most %d", len(data), maxFileSize)
		return nil, c.Err()
	}
	c.Read(data, &f)
	p := c.compile(&f)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return p.of(file, data), nil
}

// of notes which file, with which text, the policy was read from.
func (p *Policy) of(file string, data []byte) *Policy {
	hash := sha256.Sum256(data)
	p.file, p.version = file, hex.EncodeToString(hash[:6])
	return p
}

// A compiler turns a file into a policy and notes what is wrong.
type compiler struct {
	*strictyaml.Reader
	names []namedTool
}

func (c *compiler) compile(f *policyFile) *Policy {
	p := &Policy{loopGuard: f.LoopGuard, approvals: f.Approvals, unclear: f.Unclear}
	if f.Version != 1 {
		c.Fault("version", "want version: 1, the only one there is")
	}
	p.protected = c.paths("protected", f.Protected, true)
	p.explicitOnly = c.tools("explicit_only", f.ExplicitOnly)
	if len(f.Rules) > maxRules {
		c.Fault("rules", "%d rules: at most %d", len(f.Rules), maxRules)
		return p
	}
	first := make(map[string]int)
	for i := range f.Rules {
		key := fmt.Sprintf("rules[%d]", i)
		name := f.Rules[i].Name
		switch line, again := first[name]; {
		case name == "":
			c.Fault(key+".name", "a rule needs a name: every verdict names the rule behind it")
		case again:
			c.Fault(key+".name", "another rule is called %s, on line %d", name, line)
		default:
			first[name] = c.Line(key + ".name")
		}
		p.rules = append(p.rules, c.rule(key, &f.Rules[i]))
	}
	excepted := false
	for i := range p.rules {
		r := &p.rules[i]
		r.excepted = excepted
		excepted = excepted || r.action == Allow && r.could(tools.WritesPath)
	}
	for _, kind := range kinds {
		for i := range p.rules {
			if r := &p.rules[i]; r.could(kind) {
				p.byKind[kind] = append(p.byKind[kind], r)
			}
		}
	}
	p.conditional = slices.ContainsFunc(p.rules, func(r rule) bool { return r.when != nil })
	p.deniesReading = slices.ContainsFunc(p.rules, func(r rule) bool { return r.deniesReading() })
	for i := range f.Limits {
		p.limits = append(p.limits, c.limit(fmt.Sprintf("limits[%d]", i), i, &f.Limits[i]))
	}
	if g := f.LoopGuard; g.Repeat < 0 || g.Alternate < 0 {
		c.Fault("loop_guard", "want counts, or 0 for never")
	}
	if expire := f.Approvals.Expire; expire < time.Second || expire > 24*time.Hour {
		c.Fault("approvals.expire", "%s is out of bounds: want 1s to 24h", expire)
	}
	p.names = c.names
	return p
}

func (c *compiler) rule(key string, f *ruleFile) rule {
	r := rule{
		name: f.Name, label: "rule " + f.Name, action: f.Action, reason: f.Reason, line: c.Line(key + ".name"), about: f.about(),
		tools:      c.tools(key+".tools", f.Tools),
		uses:       c.tools(key+".uses", f.Uses),
		principals: c.globs(key+".principals", f.Principals),
		tenants:    c.globs(key+".tenants", f.Tenants),
	}
	if !c.Has(key + ".action") {
		c.Fault(key+".action", "a rule needs an action: allow, ask or deny")
	}
	forbids := r.action != Allow
	r.reads = c.paths(key+".reads", f.Reads, forbids)
	r.writes = c.paths(key+".writes", f.Writes, forbids)
	both := c.paths(key+".paths", f.Paths, forbids)
	r.reads, r.writes = append(r.reads, both...), append(r.writes, both...)
	c.each(key+".commands", f.Commands, func(text string) error {
		command, err := compileCommand(text)
		r.commands = append(r.commands, command)
		return err
	})
	c.each(key+".hosts", f.Hosts, func(text string) error {
		host, err := compileHost(text)
		r.hosts = append(r.hosts, host)
		return err
	})
	c.each(key+".network", f.Network, func(text string) error {
		var network tools.Network
		err := network.UnmarshalText([]byte(text))
		if err != nil || network == 0 {
			return errors.New("is no network: want none, loopback, hosts or open")
		}
		r.networks = append(r.networks, network)
		return nil
	})
	for _, label := range slices.Sorted(maps.Keys(f.Labels)) {
		value, err := glob.CompileWord(f.Labels[label])
		if err != nil {
			c.Fault(key+".labels."+label, "%q %v", f.Labels[label], err)
		}
		r.labels = append(r.labels, labelPattern{label, value})
	}
	if c.Has(key+".labels") && len(f.Labels) == 0 {
		c.Fault(key+".labels", "is empty: leave the key out")
	}
	if c.Has(key + ".when") {
		var err error
		if r.when, err = compileCondition(f.When); err != nil {
			c.Fault(key+".when", "the condition does not compile: %v", err)
		}
	}
	r.selective = len(r.reads)+len(r.writes)+len(r.commands)+len(r.hosts)+len(r.uses) > 0
	if r.unclear = f.Unclear; r.unclear != 0 && (r.action != Allow || r.selective && len(r.commands) == 0) {
		c.Fault(key+".unclear", "is for a rule that allows commands: of what others match, the mode and the key at the top decide")
	}
	if !r.selective && len(r.tools)+len(r.principals)+len(r.tenants)+len(r.labels)+len(r.networks) == 0 && !c.Has(key+".when") {
		c.Fault(key, `the rule says of nothing what it is about, so it would match every call: write tools: ["*"] if that is meant`)
	}
	if r.reason == "" {
		r.reason = map[Action]string{
			Allow: "Rule " + f.Name + " of the policy allows it.",
			Ask:   "Rule " + f.Name + " of the policy wants a person to approve it.",
			Deny:  "Rule " + f.Name + " of the policy forbids it: find another way, or tell the user.",
		}[r.action]
	}
	c.examples(key+".examples", f, &r)
	return r
}

// each compiles the entries of a list and notes those that are wrong. A list
// that is there and empty would mean the opposite of what it looks like.
func (c *compiler) each(key string, texts []string, compile func(string) error) {
	if c.Has(key) && len(texts) == 0 {
		c.Fault(key, "is empty: leave the key out")
	}
	for i, text := range texts {
		if err := compile(text); err != nil {
			c.Fault(fmt.Sprintf("%s[%d]", key, i), "%q %v", text, err)
		}
	}
}

func (c *compiler) tools(key string, texts []string) []tools.Pattern {
	var patterns []tools.Pattern
	if c.Has(key) && len(texts) == 0 && key != "explicit_only" {
		c.Fault(key, "is empty: leave the key out")
	}
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", key, i)
		pattern, err := tools.CompilePattern(text)
		if err != nil {
			c.Fault(at, "%v", err)
			continue
		}
		patterns = append(patterns, pattern)
		c.names = append(c.names, namedTool{pattern, at, c.Line(at)})
	}
	return patterns
}

func (c *compiler) globs(key string, texts []string) []glob.Word {
	var globs []glob.Word
	c.each(key, texts, func(text string) error {
		g, err := glob.CompileWord(text)
		globs = append(globs, g)
		return err
	})
	return globs
}

func (c *compiler) paths(key string, texts []string, forbids bool) []pathPattern {
	var patterns []pathPattern
	if key == "protected" && len(texts) == 0 {
		return nil
	}
	c.each(key, texts, func(text string) error {
		compiled, err := compilePath(text, forbids)
		patterns = append(patterns, compiled...)
		return err
	})
	return patterns
}

func (c *compiler) limit(key string, i int, f *limitFile) limit.Limit {
	l := limit.Limit{
		Name: cmp.Or(f.Name, fmt.Sprintf("limit %d", i+1)), Rate: f.Rate.perSecond, Burst: f.Burst, Concurrent: f.Concurrent, Per: f.Per, Shadow: f.Shadow,
	}
	for _, pattern := range c.tools(key+".tools", f.Tools) {
		l.Tools = append(l.Tools, pattern.String())
	}
	if len(l.Tools) == 0 {
		l.Tools = []string{"*"}
	}
	switch {
	case l.Rate == 0 && l.Concurrent == 0:
		c.Fault(key, "a limit needs a rate such as 10/s, or concurrent")
	case l.Burst < 0 || l.Concurrent < 0:
		c.Fault(key, "burst and concurrent are counts")
	case l.Burst > 0 && l.Rate == 0:
		c.Fault(key+".burst", "a burst needs a rate")
	case l.Burst == 0 && l.Rate > 0:
		l.Burst = int(math.Ceil(f.Rate.calls))
	}
	return l
}
