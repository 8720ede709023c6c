// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package hook runs the operator's own checks around calls: programs in the sandbox of
// the session, or HTTP endpoints. A hook is told what happens as JSON. It can block a
// call, have a person asked, change the input, add text for the model, or keep an update
// back; it can never allow what the policy does not. What a hook cannot say clearly, by
// failing, hanging or writing something else, counts as a failure.
//
// The package runs hooks and reads their answers. What becomes of an answer is decided
// by admission, before a call, and by the service, after it.
//
// Goroutines: [Hooks.Notify] starts one for each notification, at most maxNotices;
// [Hooks.Close] ends them and waits.
//
// Locks: that of [Hooks] comes before that of the turns. Neither is held while a hook runs.
package hook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is the section "hooks" of the configuration: hooks in the order in which they
// are asked.
type Config []Spec

// Spec is one hook.
type Spec struct {
	// Name names the hook in verdicts, events and metrics. Without one, it has that
	// of its program or host.
	Name string `yaml:"name"`

	// On is when it is called, one point or several.
	On Points `yaml:"on"`

	// Tools are patterns of the tools it is about; empty: all. Effects are what the
	// call must touch, of which one is enough; empty: anything. See [Effect].
	Tools   []string `yaml:"tools"`
	Effects []string `yaml:"effects"`

	// Run is the command, or URL the endpoint with the key in SecretFile.
	Run        Command `yaml:"run"`
	URL        string  `yaml:"url"`
	SecretFile string  `yaml:"secret_file"`

	// Timeout is how long the hook may take, waiting for its turn included; 30 seconds, or
	// 2 minutes for one that is about nothing but changed files, which may have to build.
	Timeout time.Duration `yaml:"timeout"`

	// Advisory has a hook that failed pass.
	Advisory bool `yaml:"advisory"`

	// MaxOutput is how much it may write; 64 KiB. Concurrency is how many of it run at
	// once; 16. Of these one tenant has three quarters at most, where there are several.
	MaxOutput   size.Bytes `yaml:"max_output"`
	Concurrency int        `yaml:"concurrency"`

	// Network is how far its command reaches; none.
	Network tools.Network `yaml:"network"`
}

// Defaults and bounds of a hook.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxOutput   = size.Bytes(64 << 10)
	DefaultConcurrency = 16

	changedTimeout = 2 * time.Minute

	maxHooks  = 100
	maxSecret = 64 << 10
)

// withDefaults returns s with its zero fields filled in.
func (s Spec) withDefaults() Spec {
	s.Name = cmp.Or(s.Name, s.Run.name(), hostOf(s.URL))
	if len(s.On) == 1 && s.On[0] == FileChanged {
		s.Timeout = cmp.Or(s.Timeout, changedTimeout)
	}
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.MaxOutput = cmp.Or(s.MaxOutput, DefaultMaxOutput)
	s.Concurrency = cmp.Or(s.Concurrency, DefaultConcurrency)
	s.Network = cmp.Or(s.Network, tools.NetworkNone)
	return s
}

// A Point is when hooks are called.
type Point string

const (
	BeforeCall        Point = "before_call"   // a call is about to be admitted
	AfterCall         Point = "after_call"    // a tool has returned
	FileChanged       Point = "file_changed"  // a call has changed files of the workspace
	BeforeUpdate      Point = "before_update" // a tool reports something while it runs
	AfterUpdate       Point = "after_update"
	ApprovalRequested Point = "approval_requested"
	Denied            Point = "denied" // a call was denied, by whomever
	SessionStart      Point = "session_start"
	SessionEnd        Point = "session_end"
)

var points = []Point{BeforeCall, AfterCall, FileChanged, BeforeUpdate, AfterUpdate, ApprovalRequested, Denied, SessionStart, SessionEnd}

// UnmarshalText reads the name of a point.
func (p *Point) UnmarshalText(text []byte) error {
	if *p = Point(text); slices.Contains(points, *p) {
		return nil
	}
	var names []string
	for _, point := range points {
		names = append(names, string(point))
	}
	hint := cmp.Or(nearest.Hint(nearest.Names(string(text), names)), ": want one of "+strings.Join(names, ", "))
	return fmt.Errorf("%q is no point%s", text, hint)
}

// Points is one point or a list of them.
type Points []Point

// One reads a single point.
func (p *Points) One(text string) error {
	*p = make(Points, 1)
	return (*p)[0].UnmarshalText([]byte(text))
}

// Command is a program and its arguments; written as one text, a script for /bin/sh.
type Command []string

// shellPath runs scripts, whose $0 is scriptName.
const (
	shellPath  = "/bin/sh"
	scriptName = "hook"
)

// One reads a script.
func (c *Command) One(text string) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("is empty: want a command")
	}
	*c = Command{shellPath, "-c", text, scriptName}
	return nil
}

// script reports whether the command is a script, which gets paths as arguments.
func (c Command) script() bool {
	return len(c) == 4 && c[0] == shellPath && c[1] == "-c" && c[3] == scriptName
}

// name returns what a command is called: its program, or the script that this runs.
func (c Command) name() string {
	words := []string(c)
	if c.script() {
		words = strings.Fields(c[2])
	}
	for len(words) > 1 && interpreters.MatchString(base(words[0])) && !strings.HasPrefix(words[1], "-") {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Trim(base(words[0]), "\"';&|()")
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Options are what hooks need beside their configuration.
type Options struct {
	Runners *command.Runners // runs commands; nil where no hook has one

	// Client, if set, is what endpoints are reached with.
	Client *http.Client
}

// Hooks are the hooks of a server. The methods of a nil *Hooks know of none. They are
// safe for concurrent use.
type Hooks struct {
	options Options
	ran     func(Run)
	at      map[Point][]*Hook

	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex // held over adding to notices and closing
	notices sync.WaitGroup
	pending *turns
}

// A Hook is one hook at one point.
type Hook struct {
	Spec
	Point   Point
	effects []matcher
	secret  []byte
	turns   *turns // of all points of the hook
}

// maxNotices is how many notifications may be on their way, of all tenants.
const maxNotices = 1000

// New returns the hooks of a configuration without faults; nil where there are none.
func New(config Config, options Options) (*Hooks, error) {
	if len(config) == 0 {
		return nil, nil
	}
	if options.Client == nil {
		options.Client = newClient(config)
	}
	h := &Hooks{options: options, at: make(map[Point][]*Hook), pending: newTurns(maxNotices), ran: func(Run) {}}
	names := make(map[string]int)
	for _, spec := range config {
		spec = spec.withDefaults()
		if names[spec.Name]++; names[spec.Name] > 1 {
			spec.Name = fmt.Sprintf("%s-%d", spec.Name, names[spec.Name])
		}
		effects, err := compile(spec.Effects)
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", spec.Name, err)
		}
		secret, err := spec.secret()
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", spec.Name, err)
		}
		turns := newTurns(spec.Concurrency)
		for _, point := range spec.On {
			h.at[point] = append(h.at[point], &Hook{spec, point, effects, secret, turns})
		}
	}
	h.closing, h.close = context.WithCancel(context.Background())
	return h, nil
}

// Watch has ran called with each run that is reported. It comes before the first.
func (h *Hooks) Watch(ran func(Run)) {
	if h != nil {
		h.ran = ran
	}
}

// Has reports whether there are hooks at a point.
func (h *Hooks) Has(point Point) bool { return h != nil && len(h.at[point]) > 0 }

// At returns the hooks at a point, in their order.
func (h *Hooks) At(point Point) []*Hook {
	if h == nil {
		return nil
	}
	return h.at[point]
}

// About returns the hooks at a point that are about a call of a tool with these effects,
// in their order. A nil spec stands for what is no call.
func (h *Hooks) About(point Point, spec *tools.Spec, effects []tools.Effect) []*Hook {
	var list []*Hook
	for _, hook := range h.At(point) {
		if hook.IsAbout(spec, effects) {
			list = append(list, hook)
		}
	}
	return list
}

// IsAbout reports whether the hook is about a call.
func (h *Hook) IsAbout(spec *tools.Spec, effects []tools.Effect) bool {
	if spec == nil {
		return true
	}
	selected := tools.Selection{Include: h.Tools}
	return selected.Has(spec) && (len(h.effects) == 0 || slices.ContainsFunc(effects, func(e tools.Effect) bool {
		return slices.ContainsFunc(h.effects, func(m matcher) bool { return m.matches(&e) })
	}))
}

// Close ends the notifications that are on their way.
func (h *Hooks) Close() error {
	if h != nil {
		h.mu.Lock()
		h.close()
		h.mu.Unlock()
		h.notices.Wait()
	}
	return nil
}
