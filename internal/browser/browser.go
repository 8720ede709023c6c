// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser drives Chromium over the DevTools protocol: one browser for each
// session that uses one, started when it is first used, in the sandbox of the session, and
// ended with it or when nobody uses it. The proxy of the server is all the network that
// the browser has, and each request of a page is judged there.
//
// Locks: that of a [Set] is held to find a session, and no other is taken meanwhile. A
// browser is used by whoever holds its slot; its own lock guards what events change, and is taken
// before that of the connection.
//
// Goroutines: a browser has one that sends and one that waits for its end or, of a browser elsewhere, one
// that receives; they end with its connection. A request of a page in a browser elsewhere has one while
// its host is judged, and a tab that is one too many has one until it is closed. An operation on a page has
// one that watches whether the page still can do it, and waits for that one.
package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// Capability is what a server offers that has a browser.
const Capability = "chromium"

// Unavailable tells an operator how there would be a browser.
const Unavailable = "has no Chromium: the operator installs it (the package chromium of Debian), or names a program in browser.path of the configuration, " +
	"or one that runs elsewhere in browser.endpoint"

// Config is the section "browser" of the configuration. Zero fields take the defaults
// named.
type Config struct {
	Path     string        `yaml:"path"`     // of Chromium; empty: it is looked for
	Endpoint string        `yaml:"endpoint"` // of a browser that runs elsewhere, ws:// or wss://; empty: one is started
	Evaluate bool          `yaml:"evaluate"` // whether calls may run scripts in pages
	Idle     time.Duration `yaml:"idle"`     // after which a browser that nobody uses is ended; 10 minutes
	Memory   size.Bytes    `yaml:"memory"`   // of all processes of a browser; 2 GiB
	Tabs     int           `yaml:"tabs"`     // at once; 8
	Download size.Bytes    `yaml:"download"` // of one file; 256 MiB
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Idle = cmp.Or(c.Idle, 10*time.Minute)
	c.Memory = cmp.Or(c.Memory, 2<<30)
	c.Tabs = cmp.Or(c.Tabs, 8)
	c.Download = cmp.Or(c.Download, 256<<20)
	return c
}

// A Set has the browsers of all sessions. Its methods are safe for concurrent use.
type Set struct {
	runners *command.Runners
	config  Config

	mu       sync.Mutex
	sessions map[tools.Session]*slot
}

// New returns a set without browsers, which runners run.
func New(runners *command.Runners, config Config) *Set {
	return &Set{runners: runners, config: config.WithDefaults(), sessions: make(map[tools.Session]*slot)}
}

// Config returns how browsers are run.
func (s *Set) Config() Config { return s.config }

// Available reports whether there is a browser to use.
func (s *Set) Available() bool {
	_, ok := s.Program()
	return ok || s.config.Endpoint != ""
}

// programs are where Chromium is looked for. Debian's wrapper reads what commands do not
// see, so the program behind it comes first.
var programs = []string{"/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome-headless-shell", "headless-shell"}

// Program returns the path of Chromium.
func (s *Set) Program() (path string, ok bool) {
	if s.config.Path != "" {
		return s.runners.Find(s.config.Path)
	}
	for _, name := range programs {
		if path, ok := s.runners.Find(name); ok {
			return path, true
		}
	}
	return "", false
}

// slot is where the browser of a session is, or is not yet. Who holds it uses it.
type slot struct {
	held chan struct{}
	lost string // how the last one ended between two calls, until that is reported

	mu sync.Mutex
	b  *Browser // changed by who holds the slot
}

func (s *slot) browser() *Browser {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b
}

func (s *slot) set(b *Browser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = b
}

// stop ends the browser, if there is one, and returns when it is gone.
func (s *slot) stop(cause error) {
	if b := s.browser(); b != nil {
		b.stop(cause)
		s.set(nil)
	}
}

// slotOf returns the slot of the session of a call, which ends with the session.
func (s *Set) slotOf(env tools.Env) (*slot, *command.Runner, error) {
	runner, err := s.runners.Of(env)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sessions[env.Session]
	if at == nil {
		at = &slot{held: make(chan struct{}, 1)}
		if !runner.BeforeClose(func() { s.end(env.Session, at) }) {
			return nil, nil, command.ErrSessionEnds
		}
		s.sessions[env.Session] = at
	}
	return at, runner, nil
}

// end ends what a session has. No call uses it any more.
func (s *Set) end(of tools.Session, at *slot) {
	s.mu.Lock()
	delete(s.sessions, of)
	s.mu.Unlock()
	at.held <- struct{}{}
	at.stop(command.ErrSessionEnds)
	<-at.held
}

// Halt ends the browser of a session, which goes on, and returns how many there were. With
// a user, it ends one that was used for that user.
func (s *Set) Halt(of tools.Session, user string) (n int) {
	s.mu.Lock()
	at := s.sessions[of]
	s.mu.Unlock()
	if at == nil {
		return 0
	}
	at.held <- struct{}{}
	defer func() { <-at.held }()
	if b := at.browser(); b != nil && (user == "" || slices.Contains(b.users, user)) {
		at.stop(errHalted)
		at.lost = "was ended because " + errHalted.Error()
		return 1
	}
	return 0
}

var (
	errHalted = errors.New("an operator stopped it")
	errIdle   = errors.New("not used for a long time")
)

// A Host is what a call may reach.
type Host struct {
	Name string // in small letters
	Port int    // 0: any
}

func (h Host) key() string { return net.JoinHostPort(h.Name, strconv.Itoa(h.Port)) }

// Known returns what is known of the browser of a session without asking it: nil where none
// runs.
func (s *Set) Known(of tools.Session) *Browser {
	s.mu.Lock()
	at := s.sessions[of]
	s.mu.Unlock()
	if at == nil {
		return nil
	}
	return at.browser()
}

// Use has f use the browser of the session of a call, which is started if none runs, and
// may reach these hosts from now on. notes is what the model is to be told besides. One call
// uses a browser at a time.
func (s *Set) Use(ctx context.Context, env tools.Env, reaches []Host, f func(*Browser) error) (notes []string, err error) {
	at, runner, err := s.slotOf(env)
	if err != nil {
		return nil, err
	}
	select {
	case at.held <- struct{}{}:
	default:
		return nil, &tools.Failure{Code: "busy", Retryable: true,
			Message: "Nothing was done: another call uses the browser of this session, and one can at a time. Call again when that has ended."}
	}
	defer func() { <-at.held }()
	b := at.browser()
	if b != nil && b.isGone() {
		at.lost = b.ending()
		at.stop(nil)
		b = nil
	}
	if b == nil {
		if b, err = s.start(ctx, env, runner, reaches); err != nil {
			return nil, err
		}
		at.set(b)
		b.expiry = time.AfterFunc(s.config.Idle, func() { s.expire(at, b) })
	}
	if at.lost != "" {
		notes = append(notes, "This is a new browser, without the pages and cookies of before: the last one "+at.lost+".")
		at.lost = ""
	}
	b.expiry.Stop()
	b.begin(env, reaches)
	err = f(b)
	notes = append(notes, b.end()...)
	switch {
	case b.isGone() && (err != nil || ctx.Err() == nil):
		how := b.ending()
		at.stop(nil)
		if ctx.Err() != nil {
			return notes, context.Cause(ctx)
		}
		return notes, tools.Failf("browser_ended", "The browser %s. Its pages and cookies are gone; the next call begins with a new one.", how)
	default:
		b.expiry.Reset(s.config.Idle)
	}
	return notes, err
}

// expire ends a browser that nobody uses.
func (s *Set) expire(at *slot, b *Browser) {
	select {
	case at.held <- struct{}{}:
		if at.browser() == b {
			at.stop(errIdle)
			at.lost = fmt.Sprintf("was ended because nobody used it for %s", s.config.Idle)
		}
		<-at.held
	default: // it is used
	}
}

// ending says how a browser that is gone has ended, in words that go on after its name.
func (b *Browser) ending() string {
	if b.running == nil {
		return "closed the connection"
	}
	outcome, err := b.running.Wait()
	exit := outcome.Exit
	switch {
	case err != nil:
		return "never ran: " + err.Error()
	case exit.Reason == tools.OutOfMemory:
		return fmt.Sprintf("was ended: its pages used more than the %s of memory they may", output.Size(uint64(b.set.config.Memory)))
	case exit.Reason == tools.Exited:
		return fmt.Sprintf("ended with exit status %d", exit.Code)
	case exit.Signal != "":
		return "was ended by signal " + exit.Signal
	case exit.Reason == tools.Cancelled:
		return "was ended"
	}
	return strings.TrimSuffix(strings.TrimPrefix(exit.Message, "The command "), ".")
}
