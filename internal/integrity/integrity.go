// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package integrity takes back what commands plant: what would run later, outside
// of their jail, when a person or a program of theirs uses the repository. Git has
// to write beside its hooks and its configuration, so no Landlock ruleset can keep a command
// from them; what is there is known before a command that may write, and compared
// after it.
//
// What is planted is taken back alone: a key of a configuration that makes git run
// something, a hook, a line "exec" of a rebase that nobody began, a pointer to a
// repository elsewhere. Whatever else the command did stays, and so does its
// outcome; what was taken back is told. What an operator protects is put back as
// it was.
//
// The repositories of a workspace are found by a walk before the first command that
// may write. From then on a look takes a few calls of the system per repository and
// reads what has changed, however large the tree is; around what the command made
// near a repository it looks for new ones at once. A sweep beside the calls finds
// the rest: it goes through all directories, node_modules too, for a repository is
// the same trap wherever it lies.
//
// What changes while nothing runs that may write is a person's work, and trusted.
// A repository that is found later is judged by when it was written: the clock of
// the kernel tells whether a command could have. One that a command moved keeps what
// was trusted of it only if it was there before the first command: whatever else
// comes to lie where git finds it, the command has put there.
//
// Locks: that of [Keepers] comes first. Of a keeper, sweeping comes before serving, and both before mu.
//
// Goroutines: sweeps run on a timer of their keeper, which the end of its last session stops. What was found
// is told to each session on one of its own, which ends by itself, and so is a lasting command ended.
package integrity

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Keepers has what is known of each workspace, for the sessions that share it. Its
// methods are safe for concurrent use.
type Keepers struct {
	// State is a directory for notes of what was trusted before the commands that
	// run, so that what they planted is found after a crash. Empty: no notes.
	State string

	mu    sync.Mutex
	trees map[string]*keeper // by directory
}

// Member is a session that works in a workspace.
type Member struct {
	// Homes are the home directories of its commands.
	Homes []string

	// Tell, if set, is told at once what was taken back while no call ran. It is
	// told with the next result as well.
	Tell func(found []string)

	// Keep, if set, keeps what a file had become before it was put back, for it may
	// have been the work of a person, and says where.
	Keep func(data []byte) (where string)
}

// A Keeper is what a session has of its workspace. Its methods are safe for
// concurrent use.
type Keeper struct {
	*keeper
	set    *Keepers
	member Member
	homes  []*tree

	// Guarded by what is shared.
	wrote      bool
	protection tools.Protection // as the last call was told
	pending    []string         // found while nothing ran
}

// keeper is what the sessions of one workspace share.
type keeper struct {
	tree *tree
	ctx  context.Context // of the sweeps, until the last session ends
	stop context.CancelFunc

	sweeping sync.Mutex   // held while the tree is walked; taken before mu
	serving  sync.RWMutex // read by what the server itself writes; taken before mu, after sweeping

	mu          sync.Mutex
	members     map[*Keeper]struct{}
	marks       []*Mark // the oldest first
	ready       bool    // the repositories are known
	places      map[string]*place
	most        int             // places there may be
	held        int             // of them, those that are open
	own         map[string]bool // what an operator protects, the topmost entries
	protections []tools.Protection
	root        identity // of the .git of the workspace itself

	base    map[ref]item    // what is trusted
	seen    map[ref]item    // by the last look
	kept    map[string]bool // what the last look was for, of the workspace: not changed any more
	lists   map[ref]listing
	trusted map[version]bool // hooks that were trusted once, such as those of another branch
	noted   notes
	again   bool            // something changed while it was judged
	cut     string          // what the last walk of everything left out
	far     map[string]bool // repositories that nobody can look at, which were told

	writing int               // writes of the server that are under way
	midway  bool              // what is looked at may be half of something
	half    map[ref]time.Time // hooks that may have been half written, since when

	idle  time.Time // since when nothing runs; zero while something does
	gaps  []gap     // in which nothing ran
	owed  bool      // something may have been written since the last sweep began
	timer *time.Timer
	due   time.Time     // when the timer fires; zero: not at all
	rest  time.Time     // before which there is no other sweep
	pause time.Duration // until the next one, if nothing begins or ends
}

// gap is a time in which nothing ran that may write.
type gap struct{ from, to time.Time }

const (
	// clockStep is how far the times of files may be behind the clock that they are
	// taken from, on file systems that have their own.
	clockStep = 20 * time.Millisecond

	// A sweep comes soon after something began or ended, and less and less often
	// while something runs. It takes no more than a part of the time.
	sweepSoon  = time.Second
	sweepLate  = 30 * time.Second
	sweepShare = 50

	// lastSweep is how long the end of the last session may take.
	lastSweep = 5 * time.Second

	maxGaps   = 1000
	maxFound  = 20 // told of one command
	maxRounds = 5  // of looking again because something was wrong
)

// Join has a session share what is known of a workspace.
func (s *Keepers) Join(dir string, m Member) (*Keeper, error) {
	t, err := openTree(dir, "")
	if err != nil {
		return nil, err
	}
	k := &Keeper{set: s, member: m}
	for _, home := range m.Homes {
		h, err := openTree(home, "~/")
		if err != nil {
			continue // nothing can be written there either
		}
		k.homes = append(k.homes, h)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil {
		s.trees = make(map[string]*keeper)
	}
	if k.keeper = s.trees[t.ws.Dir()]; k.keeper != nil {
		t.close()
	} else {
		k.keeper = newKeeper(t, s.State)
		s.trees[t.ws.Dir()] = k.keeper
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.members[k] = struct{}{}
	if k.ready {
		k.trustHomes(k)
	}
	return k, nil
}

func newKeeper(t *tree, state string) *keeper {
	k := &keeper{tree: t, members: make(map[*Keeper]struct{})}
	k.ctx, k.stop = context.WithCancel(context.Background()) // ended by the last session
	k.places, k.own = make(map[string]*place), make(map[string]bool)
	k.base, k.seen = make(map[ref]item), make(map[ref]item)
	k.lists, k.trusted = make(map[ref]listing), make(map[version]bool)
	k.far, k.half = make(map[string]bool), make(map[ref]time.Time)
	k.noted.dir = state
	return k
}

// Leave is for a session that ends; nothing of it runs any more. The last one has
// everything looked at once more.
func (k *Keeper) Leave() {
	k.mu.Lock()
	clean := !k.owed || len(k.members) > 1
	k.mu.Unlock()
	if !clean {
		ctx, cancel := context.WithTimeout(k.ctx, lastSweep)
		clean = k.Sweep(ctx)
		cancel()
	}
	k.set.mu.Lock()
	defer k.set.mu.Unlock()
	k.mu.Lock()
	delete(k.members, k)
	k.protections = k.protectionsNow()
	last := len(k.members) == 0
	if last && k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	if last {
		delete(k.set.trees, k.tree.ws.Dir())
		k.stop()
		k.sweeping.Lock() // one that the timer began ends with its context
		defer k.sweeping.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if last {
		k.noted.close(clean)
		for _, p := range k.places {
			k.hold(p, nil, identity{})
		}
		k.tree.close()
	}
	for _, home := range k.homes {
		for _, items := range []map[ref]item{k.base, k.seen} {
			maps.DeleteFunc(items, func(r ref, _ item) bool { return r.tree == home })
		}
		home.close()
	}
}

// Examine looks whether anything that runs has planted something.
func (k *Keeper) Examine() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.marks) > 0 {
		k.tell(k.examine())
	}
}

// tell reports what was found to the calls that run or, where none does, to every command that runs:
// nobody knows which command did it. If commands outside of calls were reported to before, the youngest
// of them is ended.
func (k *keeper) tell(found []string) {
	if len(found) == 0 {
		return
	}
	planted := slices.ContainsFunc(found, isTaken)
	calls := slices.ContainsFunc(k.marks, func(m *Mark) bool { return !m.writer.Lasting })
	reported := make(map[*Keeper]bool)
	ends := false
	for _, m := range slices.Backward(k.marks) {
		if calls && m.writer.Lasting {
			continue
		}
		m.found = append(m.found, found...)
		m.found = m.found[:min(len(m.found), maxFound)]
		if !m.writer.Lasting {
			continue
		}
		reported[m.keeper] = true
		if !planted {
			continue
		}
		if m.strikes++; m.strikes > 1 && !ends && m.writer.Again != nil {
			ends = true
			go m.writer.Again()
		}
	}
	for member := range k.members {
		if len(k.marks) == 0 && member.wrote {
			reported[member] = true
			for _, what := range found {
				if isTaken(what) {
					what += " (an earlier call did it)"
				}
				member.pending = append(member.pending, what)
			}
			member.pending = member.pending[:min(len(member.pending), maxFound)]
		}
	}
	for member := range reported {
		if member.member.Tell != nil {
			go member.member.Tell(found)
		}
	}
	k.pause = sweepSoon
}

// tree is a directory that is looked at: the workspace, or a home.
type tree struct {
	ws   *workspace.Workspace
	root *workspace.Dir
	name string // what its paths are called by
}

func openTree(dir, name string) (*tree, error) {
	// What is looked at here is no effect of a call: nothing is traced.
	ws, err := workspace.Open(dir)
	if err != nil {
		return nil, err
	}
	root, err := ws.OpenDir(".")
	if err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	return &tree{ws, root, name}, nil
}

func (t *tree) close() {
	t.root.Close()
	t.ws.Close()
}
