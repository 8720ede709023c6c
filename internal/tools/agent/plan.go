// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Crew is several agents that work on the stages of a task.
type Crew struct {
	Task string

	// Stages are there to be worked on, each after those that it depends on.
	Stages []Stage

	// Parallel is how many may be worked on at once; 0: as many as the operator lets.
	Parallel int
}

// A Stage is one task of a crew.
type Stage struct {
	Name, Agent string

	// Prompt has {{name}} where the result of another stage comes, {{task}} where the task of the
	// crew does, and {{item}} where Item does.
	Prompt, Item string

	// DependsOn are the stages that have to succeed before it.
	DependsOn []string
}

// Description is what the stage does, in a few words.
func (s *Stage) Description() string {
	if s.Item != "" {
		return firstWords(s.Item)
	}
	return firstWords(s.Prompt)
}

// Bounds of a crew, and of what a prompt takes from other stages.
const (
	maxStages  = 32
	maxTaken   = 100     // places in a prompt
	maxResult  = 32_000  // bytes of a result
	maxResults = 400_000 // of all
)

// taskName and itemName are what no stage is called: they stand for something else in prompts.
const taskName, itemName = "task", "item"

var (
	stageName = regexp.MustCompile(`^[\p{L}\p{N}](?:[\p{L}\p{N} _.-]{0,62}[\p{L}\p{N}_.-])?$`)
	place     = regexp.MustCompile(`\{\{\s*([\p{L}\p{N}](?:[\p{L}\p{N} _.-]*[\p{L}\p{N}_.-])?)\s*\}\}`)
)

// Filled returns the prompt of a stage with the results of those before it, by name. They were written by
// others, and say so.
func (c *Crew) Filled(s *Stage, results map[string]string) string {
	room := maxResults / max(1, len(place.FindAllString(s.Prompt, -1)))
	return place.ReplaceAllStringFunc(s.Prompt, func(found string) string {
		switch name := place.FindStringSubmatch(found)[1]; name {
		case taskName:
			return c.Task
		case itemName:
			return s.Item
		default:
			return strings.TrimSuffix(tools.Untrusted("stage "+name, cut(results[name], min(room, maxResult))), "\n")
		}
	})
}

// cut returns at most n bytes of a text, and says so where it has more.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return fmt.Sprintf("%s\n(… %d bytes more are left out.)", strings.ToValidUTF8(text[:n], ""), len(text)-n)
}

// problems finds what is wrong with the stages of a crew.
func (c *Crew) problems() (problems []tools.Problem) {
	wrong := func(stage int, key, format string, args ...any) {
		problems = append(problems, tools.Problem{Pointer: "/stages/" + strconv.Itoa(stage) + key, Message: fmt.Sprintf(format, args...)})
	}
	at := make(map[string]int)
	var names []string
	for i, s := range c.Stages {
		first, twice := at[s.Name]
		switch {
		case !stageName.MatchString(s.Name):
			wrong(i, "/name", "%.80q is no name: want letters, digits, spaces, dots, _ and -, at most 64", s.Name)
		case s.Name == taskName || s.Name == itemName:
			wrong(i, "/name", "no stage can be called %s: {{%s}} means something else in prompts", s.Name, s.Name)
		case twice:
			wrong(i, "/name", "stage %d is called %s already: want another name", first, s.Name)
		default:
			at[s.Name] = i
			names = append(names, s.Name)
		}
	}
	unknown := func(name string) string {
		return fmt.Sprintf("there is no stage %.80q%s", name, cmp.Or(nearest.Hint(nearest.Names(name, names)), ": there are "+strings.Join(names, ", ")))
	}
	for i, s := range c.Stages {
		for j, name := range s.DependsOn {
			if _, ok := at[name]; !ok {
				wrong(i, "/depends_on/"+strconv.Itoa(j), "%s", unknown(name))
			}
		}
	}
	if len(problems) > 0 {
		return problems // the rest is about what stages are, and these are none
	}
	if cycle := c.cycle(at); cycle != nil {
		return []tools.Problem{{Pointer: "/stages", Message: "no stage of these can be the first, for they depend on each other: " + strings.Join(cycle, " → ")}}
	}
	for i := range c.Stages {
		s := &c.Stages[i]
		before := c.before(s, at)
		for _, name := range s.takes() {
			_, there := at[name]
			switch {
			case name == taskName && c.Task == "":
				wrong(i, "/prompt", "has {{task}}, but the crew has no task: want it beside stages")
			case name == taskName || before[name]:
			case there:
				wrong(i, "/prompt", "has {{%s}}, but does not come after that stage: want %s in depends_on", name, name)
			default:
				wrong(i, "/prompt", "has {{%.80s}}: %s. To write braces as they are, put a space between them", name, unknown(name))
			}
		}
		if n := len(s.takes()); n > maxTaken {
			wrong(i, "/prompt", "has %d places for results: at most %d", n, maxTaken)
		}
	}
	return problems
}

// takes returns what the prompt of a stage has places for.
func (s *Stage) takes() (names []string) {
	for _, found := range place.FindAllStringSubmatch(s.Prompt, maxTaken+1) {
		names = append(names, found[1])
	}
	return names
}

// cycle returns stages of which each depends on the next, the first and the last the same;
// nil where there are none.
func (c *Crew) cycle(at map[string]int) []string {
	done := make(map[string]bool)
	var path []string
	var visit func(name string) []string
	visit = func(name string) []string {
		if i := slices.Index(path, name); i >= 0 {
			return append(slices.Clone(path[i:]), name)
		}
		if done[name] {
			return nil
		}
		path = append(path, name)
		for _, next := range c.Stages[at[name]].DependsOn {
			if found := visit(next); found != nil {
				return found
			}
		}
		path, done[name] = path[:len(path)-1], true
		return nil
	}
	for _, s := range c.Stages {
		if found := visit(s.Name); found != nil {
			return found
		}
	}
	return nil
}

// before returns the stages that have ended when one begins.
func (c *Crew) before(s *Stage, at map[string]int) map[string]bool {
	all := make(map[string]bool)
	rest := slices.Clone(s.DependsOn)
	for len(rest) > 0 {
		name := rest[0]
		if rest = rest[1:]; !all[name] {
			all[name] = true
			rest = append(rest, c.Stages[at[name]].DependsOn...)
		}
	}
	return all
}

// sort puts every stage behind those that it depends on, and leaves the rest as it is.
func (c *Crew) sort() {
	sorted := make([]Stage, 0, len(c.Stages))
	placed := make(map[string]bool)
	for len(sorted) < len(c.Stages) {
		next := slices.IndexFunc(c.Stages, func(s Stage) bool {
			return !placed[s.Name] && !slices.ContainsFunc(s.DependsOn, func(name string) bool { return !placed[name] })
		})
		sorted = append(sorted, c.Stages[next])
		placed[c.Stages[next].Name] = true
	}
	c.Stages = sorted
}
