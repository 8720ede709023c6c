// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package source joins tools from elsewhere with those that are built in. A source is
// whatever offers them: an MCP server, an API, a folder of programs. A [Keeper] keeps
// each connected, and its tools in the registry; one that is down holds up nobody.
//
// Locks: that of a [Keeper] comes before those of the registry and of a source.
//
// Goroutines: each source has one that keeps it connected. Close ends them, and waits.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Source offers tools that are not built in.
type Source interface {
	// Name is the namespace of its tools, and what policies say after @. See
	// [CheckName].
	Name() string

	// Kind is that of its tools.
	Kind() tools.Kind

	// Serve connects, calls offer with all its tools, again whenever they have
	// changed, and returns when ctx is done or with the reason why it can offer
	// nothing more for now. Calls of what it offered fail from then on.
	Serve(ctx context.Context, offer func([]tools.Tool)) error
}

// A Source may be more than that.
type (
	// A Detailed source tells more of itself than its status.
	Detailed interface{ Detail() Detail }

	// An Approver withholds tools that are not what they were when somebody last
	// looked at them. Approve has those of these names, or all without names, offered
	// again as they are now, and returns which.
	Approver interface {
		Approve(names []string) (approved []string, err error)
	}

	// A Logged source keeps the last lines of what its server said.
	Logged interface{ Log() []string }

	// A SignsIn is a source for which an operator has to sign in. SignIn takes the
	// address that a browser was sent to in the end.
	SignsIn interface {
		SignIn(ctx context.Context, redirected string) error
	}
)

// Detail is what a source tells of itself.
type Detail struct {
	At      string   // what it is connected to: a command or an address
	Refused []string // tools that it did not even offer, and why
	Changed []Change // tools that wait for an approval
	SignIn  string   // where an operator signs in for it; empty: nobody has to
}

// Change is a tool that is not what it was when it was approved.
type Change struct {
	Tool string // by the name that it has within its source

	// What it says now, and said then. What of a schema is another is not told.
	Description, Before string
	Schema              bool // its schema is another
}

// CheckName returns what is wrong with the name of a source. It has no two underscores in
// a row, so that the name of a tool can be taken apart in one way.
func CheckName(name string) error {
	kinds := []string{tools.Builtin.String(), tools.MCP.String(), tools.OpenAPI.String(), tools.Dynamic.String(), tools.Script.String()}
	letters := strings.TrimFunc(name, func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	})
	switch {
	case name == "" || len(name) > 32 || letters != "" || name[0] < 'a' || name[0] > 'z':
		return fmt.Errorf("%.40q is no name of a source: want a-z, 0-9, _ and -, beginning with a letter, at most 32", name)
	case strings.Contains(name, tools.NamespaceMark) || strings.HasSuffix(name, "_"):
		return fmt.Errorf("%q is no name of a source: two underscores in a row, or one at the end, would make the names of its tools unclear", name)
	case slices.Contains(kinds, name):
		return fmt.Errorf("%q is no name of a source: it stands for a kind of tools", name)
	}
	return nil
}

// OwnName returns the name that a tool has within its source, in letters that every model
// provider takes, or an error for one with others than a dot, a slash or a colon in it.
func OwnName(name string) (string, error) {
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		case c == '.', c == '/', c == ':', c == ' ':
			return '_'
		}
		return -1
	}, name)
	if clean == "" || len([]rune(name)) != len(clean) {
		return "", fmt.Errorf("tool name %.60q: want letters of English, digits, dots, _ and -", name)
	}
	return clean, nil
}

// State is how a source is.
type State int

const (
	Connecting  State = 1 + iota // for the first time
	Available                    // it offers tools
	Unavailable                  // it is tried again later
)

// Status tells how a source is.
type Status struct {
	Name  string
	Kind  tools.Kind
	State State

	// Reason says why it is unavailable.
	Reason string

	// Tools is how many it offers; Refused tells which were not taken, and why.
	Tools   int
	Refused []string

	// Since is when it came to be so, Next when it is tried again.
	Since, Next time.Time

	// Failures counts since it was last available; Restarts all attempts to connect but
	// the first.
	Failures, Restarts int

	Detail
}

// Pauses between attempts: each twice the last, with a third of chance.
const (
	firstPause = time.Second
	maxPause   = 5 * time.Minute
	// steady is how long a source must last to begin again with the first pause.
	steady = time.Minute
)

// maxTools is how many tools one source may have.
const maxTools = 5000

// A Keeper keeps sources connected, until it is closed.
type Keeper struct {
	registry *tools.Registry
	changed  func(Status) // nil: nobody is told

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	begin func() // closes begun
	begun chan struct{}

	mu      sync.Mutex
	sources map[string]*keptSource
	settled chan struct{} // closed, and made anew, when a status changes
}

// keptSource is a source that is kept connected.
type keptSource struct {
	Source
	status Status
	retry  chan struct{}
}

// NewKeeper returns a keeper that offers the tools of its sources in registry, and tells
// changed whenever the status of one changes. It must be closed.
func NewKeeper(registry *tools.Registry, changed func(Status)) *Keeper {
	k := &Keeper{
		registry: registry, changed: changed, sources: make(map[string]*keptSource),
		settled: make(chan struct{}), begun: make(chan struct{}),
	}
	k.begin = sync.OnceFunc(func() { close(k.begun) })
	k.ctx, k.cancel = context.WithCancel(context.Background()) // for what keeps sources connected: Close ends it
	return k
}

// Add begins to keep a source connected. It does not wait for it.
func (k *Keeper) Add(s Source) error { return k.add(s, func(context.Context) {}) }

// AddLater is Add of a source that is not connected to before [Keeper.Begin] is called.
func (k *Keeper) AddLater(s Source) error {
	return k.add(s, func(ctx context.Context) {
		select {
		case <-k.begun:
		case <-ctx.Done():
		}
	})
}

// Begin begins to connect to the sources that were to come later.
func (k *Keeper) Begin() { k.begin() }

func (k *Keeper) add(s Source, wait func(context.Context)) error {
	if err := CheckName(s.Name()); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, taken := k.sources[s.Name()]; taken {
		return fmt.Errorf("there are two sources named %s: one of kind %s, one of kind %s", s.Name(), other.Kind(), s.Kind())
	}
	one := &keptSource{
		Source: s, retry: make(chan struct{}, 1),
		status: Status{Name: s.Name(), Kind: s.Kind(), State: Connecting, Since: time.Now()},
	}
	k.sources[s.Name()] = one
	k.registry.Suspend(s.Name(), s.Kind(), fmt.Sprintf("comes from %s, which is being connected", s.Name()))
	k.done.Go(func() {
		if wait(k.ctx); k.ctx.Err() == nil {
			k.keep(k.ctx, one)
		}
	})
	return nil
}

// Retry has a source that is unavailable tried at once.
func (k *Keeper) Retry(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	one, ok := k.sources[name]
	if !ok {
		return fmt.Errorf("%w named %.60q", ErrNone, name)
	}
	select {
	case one.retry <- struct{}{}:
	default: // it is about to be
	}
	return nil
}

// Statuses tells how the sources are, by name.
func (k *Keeper) Statuses() []Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]Status, 0, len(k.sources))
	for _, one := range k.sources {
		list = append(list, one.now())
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Settle begins, and waits until each source has offered tools or failed once.
func (k *Keeper) Settle(ctx context.Context) error {
	k.Begin()
	for {
		k.mu.Lock()
		changed := k.settled
		connecting := false
		for _, one := range k.sources {
			connecting = connecting || one.status.State == Connecting
		}
		k.mu.Unlock()
		if !connecting {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Find returns the source of a name.
func (k *Keeper) Find(name string) (Source, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one, ok := k.sources[name]; ok {
		return one.Source, nil
	}
	return nil, fmt.Errorf("%w named %.60q", ErrNone, name)
}

// ErrNone says that there is no such source.
var ErrNone = errors.New("there is no source")

// now returns how the source is, with what it tells of itself.
func (one *keptSource) now() Status {
	s := one.status
	if d, ok := one.Source.(Detailed); ok {
		s.Detail = d.Detail()
		s.Refused = slices.Clone(s.Refused)
		for _, reason := range s.Detail.Refused {
			s.Refused = append(s.Refused, briefly(reason))
		}
	}
	return s
}

// Close ends all sources, and returns when they have ended.
func (k *Keeper) Close() error {
	k.cancel()
	k.done.Wait()
	return nil
}

// keep serves one source again and again until ctx is done.
func (k *Keeper) keep(ctx context.Context, one *keptSource) {
	pause := firstPause
	for {
		began := time.Now()
		err := serve(ctx, one.Source, func(list []tools.Tool) { k.offer(one, list) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steady {
			pause = firstPause
		}
		wait := pause + rand.N(pause/3)
		pause = min(2*pause, maxPause)
		reason := "ended"
		if err != nil {
			reason = briefly(err.Error())
		}
		next := time.Now().Add(wait)
		k.registry.Suspend(one.Name(), one.Kind(), fmt.Sprintf("comes from %s, which is not available: %s. It is tried again at %s", one.Name(), strings.TrimSuffix(reason, "."), next.UTC().Format("15:04:05 UTC")))
		k.tell(one, func(s *Status) {
			*s = Status{Name: s.Name, Kind: s.Kind, State: Unavailable, Reason: reason, Tools: s.Tools, Refused: s.Refused,
				Since: time.Now(), Next: next, Failures: s.Failures + 1, Restarts: s.Restarts + 1}
		})
		select {
		case <-time.After(wait):
		case <-one.retry:
			pause = firstPause
		case <-ctx.Done():
			return
		}
	}
}

// serve is Serve of a source, whose panic is its own failure.
func serve(ctx context.Context, s Source, offer func([]tools.Tool)) (err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("it panicked: %v", failed)
		}
	}()
	return s.Serve(ctx, offer)
}

// offer makes list the tools of a source.
func (k *Keeper) offer(one *keptSource, list []tools.Tool) {
	var refused []string
	if len(list) > maxTools {
		refused = append(refused, fmt.Sprintf("%d tools: at most %d of one source are taken", len(list), maxTools))
		list = list[:maxTools]
	}
	taken := len(list)
	if joined, ok := k.registry.Replace(one.Name(), list...).(interface{ Unwrap() []error }); ok {
		errs := joined.Unwrap()
		taken -= len(errs)
		for _, err := range errs[:min(len(errs), 20)] {
			refused = append(refused, briefly(err.Error()))
		}
	}
	k.tell(one, func(s *Status) {
		since := time.Now()
		if s.State == Available {
			since = s.Since
		}
		*s = Status{Name: s.Name, Kind: s.Kind, State: Available, Tools: taken, Refused: refused, Since: since, Restarts: s.Restarts}
	})
}

func (k *Keeper) tell(one *keptSource, change func(*Status)) {
	k.mu.Lock()
	change(&one.status)
	now := one.now()
	close(k.settled)
	k.settled = make(chan struct{})
	k.mu.Unlock()
	if k.changed != nil {
		k.changed(now)
	}
}

// briefly returns one line of a text.
func briefly(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return output.Short(line, 300)
}

// ErrGone is why a call failed whose source was lost while it ran, or before.
var ErrGone = errors.New("the connection to the source of this tool was lost")
