// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Config is how commands are run.
type Config struct {
	Sandbox *sandbox.Sandbox
	Masker  func() *output.Masker // asked for when the first command runs

	// View is what all commands may read, and write, besides the workspace and the
	// private directory of their session.
	View sandbox.View

	// Apart are directories of the server and of other sessions, Sockets what it
	// serves on, Files what it writes; of these, one that ends in ".*" stands for all
	// that have its name, a dot and more. Where a workspace is above them, they are
	// not shown.
	Apart, Sockets, Files []string

	// Network is the most that commands reach, SessionNetwork what those of a
	// session do that chooses no other; 0: the same.
	Network, SessionNetwork tools.Network

	// Hosts is how the proxy of commands reaches hosts.
	Hosts egress.Config

	// Grace is how long what is to end has to do so by itself.
	Grace time.Duration

	// Path is where programs are looked for. Env is what commands have in their
	// environment beside what they always have, which it may replace.
	Path []string
	Env  []string

	// Trace has commands find in their environment which trace they are part of,
	// where they are part of one.
	Trace bool

	Limits Limits

	// Violation, if set, is told what was taken back while no call ran: what
	// commands that are part of none planted, and what a sweep found. See package
	// integrity.
	Violation func(sessionID, what string)

	// State is a directory for notes of what was trusted before the commands that
	// run, for the case of a crash; empty: there are none.
	State string
}

// Runners has a runner for every session that runs commands. Its methods are safe
// for concurrent use.
type Runners struct {
	config Config
	group  *sandbox.Group // of all commands

	disk  disk
	offer func() *tools.Offer

	keepers integrity.Keepers

	mu      sync.Mutex
	runners map[tools.Session]*Runner
	running int
	started uint64 // ever
	ready   int    // shells that wait for a script
}

// New returns the runners of a server.
func New(config Config) *Runners {
	if len(config.Path) == 0 {
		config.Path = DefaultPath
	}
	if config.Masker == nil {
		config.Masker = sync.OnceValue(func() *output.Masker { return output.NewMasker(nil) })
	}
	r := &Runners{config: config, group: sandbox.NewGroup(config.Limits.server(), nil), disk: disk{limits: config.Limits}, runners: make(map[tools.Session]*Runner), keepers: integrity.Keepers{State: config.State}}
	r.offer = sync.OnceValue(r.makeOffer)
	return r
}

// A Runner runs the commands of one session.
type Runner struct {
	all       *Runners
	group     *sandbox.Group // of the commands of the session
	workspace *workspace.Workspace
	sessionID string
	keeper    *integrity.Keeper
	files     *workspace.Workspace // the workspace, for the runner itself
	undone    atomic.Int64         // files that were kept
	made      fileCount
	private   string
	home      string
	caches    string // outlives the session, where the server keeps one
	prepared  func() error

	// Guarded by all.mu.
	running     int
	lasting     int         // of them, those that are part of no call
	scripts     bool        // it has run one
	restUntil   time.Time   // before which no shell is made ready
	refilling   *time.Timer // when one may be; nil before the first script has ended
	startedThen uint64      // what all had started when that was set

	protection atomic.Pointer[tools.Protection] // as the last call was told

	view    sandbox.View // what all its commands see
	spacing sync.Mutex
	spaces  [2]*sandbox.Space // with the network of their own, and with that of the machine
	spaced  bool              // there are no more
	jailing sync.Mutex
	jails   []*keptJail           // the oldest first
	unused  []unusedJail          // the oldest first; guarded by jailing
	noJails bool                  // none is kept any more; guarded by jailing
	covered map[fileIdentity]bool // what files are that were kept from commands; guarded by jailing

	proxy *egress.Proxy // to hosts; nil before the first; guarded by mu

	mu     sync.Mutex
	dir    string // the working directory that calls keep
	closed bool

	ready     map[tools.Confinement]*readyShell
	readyNext tools.Confinement // which of them to make ready

	closing []func() // what is done before it is closed
}

// Of returns the runner of a session, which is made when it is first used and
// goes with the session.
func (r *Runners) Of(env tools.Env) (*Runner, error) {
	runner := r.of(env)
	if err := runner.prepared(); err != nil {
		return nil, err
	}
	protection := env.Protection()
	runner.protection.Store(&protection)
	return runner, nil
}

func (r *Runners) of(env tools.Env) *Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	runner := r.runners[env.Session]
	if runner == nil {
		runner = &Runner{all: r, sessionID: env.SessionID, workspace: env.Workspace, dir: ".", ready: make(map[tools.Confinement]*readyShell)}
		runner.group = sandbox.NewGroup(r.config.Limits.session(), r.group)
		runner.prepared = sync.OnceValue(func() error { return runner.prepare(env.Session) })
		r.runners[env.Session] = runner
	}
	return runner
}

// prepare makes the jail and the directories of the session.
func (r *Runner) prepare(session tools.Session) error {
	if !session.AfterClose(func() { r.close(session) }) {
		r.close(session)
		return errors.New("the session is closed")
	}
	private, err := session.Private()
	if err != nil {
		return err
	}
	r.private, r.home = private, session.Home()
	if r.caches, err = session.Cache(); err != nil {
		return err
	}
	if r.caches == "" {
		r.caches = filepath.Join(r.Home(), ".cache")
	}
	// go wants a place for modules, also where it may not make one.
	for _, dir := range []string{r.Home(), r.temp(), r.calls(), r.caches, filepath.Join(r.caches, "go-mod")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// What a repository says of its author goes before this.
	err = os.WriteFile(filepath.Join(r.Home(), ".gitconfig"), []byte("[user]\n\tname = agent\n\temail = agent@localhost\n"), 0o600)
	if err != nil {
		return err
	}
	if err := r.join(); err != nil {
		return err
	}
	// What has to be kept from commands is looked for without being an effect of a call.
	if r.files, err = (workspace.Config{}).Open(r.workspace.Dir()); err != nil {
		return err
	}
	r.view = sandbox.View{
		Read:  r.all.config.View.Read,
		Write: append(slices.Clip(r.all.config.View.Write), r.workspace.Dir(), r.Home(), r.temp(), r.calls(), r.caches),
		Temp:  r.temp(), Calls: r.calls(),
		Empty: topmost(within(r.all.config.Apart, r.workspace.Dir())),
		Cover: within(r.all.config.Sockets, r.workspace.Dir()),
	}
	r.all.disk.enters(&r.made, []string{r.workspace.Dir(), r.Home(), r.temp()}, append([]string{r.caches}, r.all.config.View.Write...))
	return nil
}

func (r *Runner) close(session tools.Session) {
	r.all.mu.Lock()
	delete(r.all.runners, session)
	r.all.mu.Unlock()
	r.mu.Lock()
	r.closed = true
	closing := r.closing
	r.mu.Unlock()
	r.dropReady(tools.Reading)
	r.dropReady(tools.SessionWide)
	for _, end := range closing {
		end()
	}
	if r.keeper != nil {
		r.keeper.Leave()
	}
	if r.files != nil {
		r.files.Close()
	}
	r.closeJails()
	r.mu.Lock()
	proxy := r.proxy
	r.mu.Unlock()
	if proxy != nil {
		proxy.Close()
	}
}

// BeforeClose has f called when the session has ended and before the runner is closed: f
// ends what runs there. It reports false, and does nothing, where it is closed already.
func (r *Runner) BeforeClose(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.closing = append(r.closing, f)
	return true
}

// Home returns the home directory of the session's commands.
func (r *Runner) Home() string { return r.home }

// Caches returns where the session's commands keep what they have fetched and built.
func (r *Runner) Caches() string { return r.caches }

func (r *Runner) temp() string { return filepath.Join(r.private, "tmp") }

// calls is where calls that only read have their temporary directories: no command
// can write there, so none can put another in the place of one.
func (r *Runner) calls() string { return filepath.Join(r.private, "calls") }

// within returns the paths that lie in dir.
func within(paths []string, dir string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") })
}

// topmost returns the paths that lie in no other of them.
func topmost(paths []string) []string {
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(slices.Clone(paths)), func(path string) bool {
		return slices.ContainsFunc(paths, func(top string) bool { return strings.HasPrefix(path, top+"/") })
	})
}

// Masker returns what masks secrets in output.
func (r *Runners) Masker() *output.Masker { return r.config.Masker() }

// MaxOutput returns how many bytes a command may write; 0 means no limit.
func (r *Runners) MaxOutput() int64 { return int64(r.config.Limits.Output) }

// Offer returns what commands can be given here, and kept from.
func (r *Runners) Offer() *tools.Offer { return r.offer() }

func (r *Runners) makeOffer() *tools.Offer {
	if r.config.Sandbox == nil { // nothing is run
		return new(tools.Offer)
	}
	c := r.config.Sandbox.Capabilities()
	offer := &tools.Offer{
		Holds: !c.Off && c.Landlock > 0, Covers: c.Namespaces, Network: r.config.Network,
		Readable: tools.ReadableTrees(r.config.View.Read...), Facts: sandbox.Facts(c.Namespaces),
	}
	if c.Namespaces {
		offer.Temporary, offer.Shared = []string{"/tmp", "/var/tmp"}, []string{"/dev/shm"}
	}
	return offer
}

// ReplacesHome reports whether commands have another home than that of their
// session.
func (r *Runners) ReplacesHome() bool {
	return slices.ContainsFunc(r.config.Env, func(pair string) bool { return strings.HasPrefix(pair, "HOME=") })
}

// Dir returns the working directory that calls of a session keep, relative to
// the workspace.
func (r *Runners) Dir(session tools.Session) string {
	runner := r.existing(session)
	if runner == nil {
		return "."
	}
	runner.mu.Lock()
	defer runner.mu.Unlock()
	return runner.dir
}

// existing returns the runner of a session; nil where there is none yet.
func (r *Runners) existing(session tools.Session) *Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runners[session]
}

// Running returns how many commands run, background processes and interpreters among
// them.
func (r *Runners) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// enter counts a command that begins, and refuses it if it is one too many.
func (r *Runner) enter(c Command) (leave func(), err error) {
	runners := r.all
	if r.group.Spent() {
		return nil, tools.Failf("cpu_limit", "Nothing was started: %s", spent(runners.config.Limits.SessionCPU))
	}
	if err := runners.disk.admit(r, c); err != nil {
		return nil, err
	}
	runners.mu.Lock()
	defer runners.mu.Unlock()
	if limit := runners.config.Limits.PerServer; limit > 0 && runners.running >= limit {
		return nil, &tools.Failure{Code: "too_many_commands", Retryable: true, Message: fmt.Sprintf(
			"The server runs %d commands already, which is all it may. Nothing was started: try again in a while.", limit)}
	}
	if limit := runners.config.Limits.PerSession; limit > 0 && r.running >= limit {
		return nil, &tools.Failure{Code: "too_many_commands", Retryable: true, Message: fmt.Sprintf(
			"This session runs %d commands already, which is all it may. Nothing was started: wait for one to end, or end a background process that is no longer needed.", limit)}
	}
	runners.started++
	runners.running++
	r.running++
	if c.Lasting {
		r.lasting++
	}
	return sync.OnceFunc(func() {
		runners.mu.Lock()
		defer runners.mu.Unlock()
		runners.running--
		r.running--
		if c.Lasting {
			r.lasting--
		}
		if r.running == r.lasting && r.scripts {
			r.rested()
		}
	}), nil
}

// narrower returns limits of which each is the smaller of two that are set.
func narrower(a, b sandbox.Limits) sandbox.Limits {
	return sandbox.Limits{
		Memory: smaller(a.Memory, b.Memory), Processes: smaller(a.Processes, b.Processes), CPU: smaller(a.CPU, b.CPU),
		OpenFiles: smaller(a.OpenFiles, b.OpenFiles), FileSize: smaller(a.FileSize, b.FileSize), Addressing: smaller(a.Addressing, b.Addressing),
	}
}

func smaller[T cmp.Ordered](a, b T) T {
	var none T
	if a == none || b != none && b < a {
		return b
	}
	return a
}
