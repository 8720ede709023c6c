// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// Says is what an operator says of tools that come from elsewhere: which of their
// arguments name what they touch. What nobody says, a person is asked about.
type Says struct {
	// Tools are globs over the names that tools have within their source.
	Tools []string `yaml:"tools"`

	// Reads, Writes and Reaches are arguments that name files, and addresses: keys of
	// the input, with dots between those of objects in it. A list stands for each of
	// its entries.
	Reads   []string `yaml:"reads"`
	Writes  []string `yaml:"writes"`
	Reaches []string `yaml:"reaches"`

	// ReadOnly says that the tools change nothing. Complete says that they touch
	// nothing but what these arguments name, so that calls are judged by that alone.
	ReadOnly bool `yaml:"read_only"`
	Complete bool `yaml:"complete"`
}

// About returns what is said of a tool: the first that names it, or nothing.
func About(list []Says, tool string) Says {
	for _, says := range list {
		for _, pattern := range says.Tools {
			if word, err := glob.CompileWord(pattern); err == nil && word.Match(tool) {
				return says
			}
		}
	}
	return Says{}
}

// Check returns what is wrong with it.
func (s *Says) Check() error {
	if len(s.Tools) == 0 {
		return errors.New(`tools is missing: want globs over names of tools, such as ["get_*"]`)
	}
	for _, pattern := range s.Tools {
		if _, err := glob.CompileWord(pattern); err != nil {
			return fmt.Errorf("tools: %q %w", pattern, err)
		}
	}
	if s.ReadOnly && len(s.Writes) > 0 {
		return errors.New("read_only is beside writes: tools that change nothing write nothing")
	}
	return nil
}

// Level sets what calls of a tool need, by what is said of it.
func (s *Says) Level(spec *tools.Spec) {
	spec.Level, spec.LeastLevel = tools.WorkspaceWrite, 0
	switch {
	case s.ReadOnly && len(s.Writes) == 0:
		spec.Level = tools.ReadOnly
	case s.Complete && len(s.Writes) == 0:
		spec.LeastLevel = tools.ReadOnly
	}
}

// Effects returns what a call of the tool with this full name would touch.
func (s *Says) Effects(env tools.Env, name string, input json.RawMessage) (effects []tools.Effect) {
	var value any
	if json.Unmarshal(input, &value) != nil {
		value = nil // it was checked before
	}
	for _, key := range s.Reads {
		effects = append(effects, env.Reads(textsAt(value, key)...)...)
	}
	for _, key := range s.Writes {
		effects = append(effects, env.Writes(textsAt(value, key)...)...)
	}
	for i := range effects {
		// Whoever serves the tool opens the path: it is not bound to the workspace.
		effects[i].Rooted = !filepath.IsAbs(effects[i].Path)
	}
	for _, key := range s.Reaches {
		for _, address := range textsAt(value, key) {
			effects = append(effects, Reaches(key, address))
		}
	}
	unclear := slices.ContainsFunc(slices.Concat(s.Reads, s.Writes, s.Reaches), func(key string) bool { return otherThanText(value, key) })
	if !s.ReadOnly && !s.Complete || unclear {
		effects = append(effects, tools.Effect{Kind: tools.UsesTool, Tool: name})
	}
	return effects
}

// otherThanText reports whether an argument is there and is neither a text nor a list of
// them, so that it cannot be told what it names.
func otherThanText(value any, key string) bool {
	first, rest, _ := strings.Cut(key, ".")
	switch v := value.(type) {
	case nil, string:
		return v != nil && key != ""
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return otherThanText(item, key) })
	case map[string]any:
		return key == "" || otherThanText(v[first], rest)
	}
	return true
}

// textsAt returns the texts that an argument has: file:// addresses of paths as paths.
func textsAt(value any, key string) (texts []string) {
	first, rest, inner := strings.Cut(key, ".")
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			texts = append(texts, textsAt(item, key)...)
		}
	case map[string]any:
		switch {
		case inner:
			return textsAt(v[first], rest)
		case first != "":
			return textsAt(v[first], "")
		}
	case string:
		if key == "" && v != "" {
			texts = append(texts, pathsOf(v)...)
		}
	}
	return texts
}

// pathsOf returns the paths that a text may stand for: a file:// address is that of a file
// here, whatever host it names, with what it escapes or as it is written.
func pathsOf(text string) []string {
	const scheme = "file:"
	if len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return []string{text}
	}
	path := text[len(scheme):]
	if after, ok := strings.CutPrefix(path, "//"); ok {
		path = after
		if i := strings.IndexByte(after, '/'); i > 0 { // behind a host
			path = after[i:]
		}
	}
	paths := []string{path}
	plain, _, _ := strings.Cut(path, "#")
	plain, _, _ = strings.Cut(plain, "?")
	if unescaped, err := url.PathUnescape(plain); err == nil && unescaped != path {
		paths = append(paths, unescaped)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// Reaches returns the effect of reaching an address, or a host by its name, which key
// gives. One that cannot be read is any host.
func Reaches(key, address string) tools.Effect {
	effect := tools.Effect{Kind: tools.ReachesHost}
	text := address
	if !strings.Contains(text, "://") {
		text = "//" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		effect.Unclear = fmt.Sprintf("%s names no host that can be told: %.60q", key, address)
		return effect
	}
	effect.Host = u.Hostname()
	switch port := u.Port(); {
	case port != "":
		effect.Port, _ = strconv.Atoi(port)
	case u.Scheme == "https" || u.Scheme == "wss":
		effect.Port = 443
	case u.Scheme == "http" || u.Scheme == "ws":
		effect.Port = 80
	}
	return effect
}
