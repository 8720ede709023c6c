// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// A Space is what the commands of a session share: a helper and, where they can
// be had, its namespaces. Its methods are safe for concurrent use.
type Space struct {
	sandbox *Sandbox
	link    *link

	mu    sync.Mutex
	views []*view // the one that was used last is the last
	made  int     // views, ever
}

// Space returns a space. Close it after use.
func (s *Sandbox) Space(config SpaceConfig) *Space {
	sp := &Space{sandbox: s}
	sp.link = newLink(s, config)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		sp.link.close()
		return sp
	}
	s.spaces[sp] = struct{}{}
	return sp
}

// Close ends the helper. What runs in the space is killed.
func (sp *Space) Close() {
	sp.sandbox.mu.Lock()
	delete(sp.sandbox.spaces, sp)
	sp.sandbox.mu.Unlock()
	sp.link.close()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, v := range sp.views {
		v.root.Close()
	}
	sp.views = nil
}

// Listen listens on the loopback of the space, or where it has none of its own on
// that of the machine: see [Profile.ProxyPort].
func (sp *Space) Listen() (net.Listener, error) {
	if sp.link.open || !sp.sandbox.Namespaces() {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	file, err := sp.link.lend(helper.Listen)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// Dial connects to a port on the loopback of the space. A space that shares the machine's
// loopback has none of its own, and fails.
func (sp *Space) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if sp.link.open || !sp.sandbox.Namespaces() {
		return nil, ErrUnavailable
	}
	conn, err := sp.dial(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	if errors.Is(err, unix.ECONNREFUSED) {
		conn, err = sp.dial(ctx, netip.AddrPortFrom(netip.IPv6Loopback(), port))
	}
	return conn, err
}

// dial connects to an address of the network that the space has for itself.
func (sp *Space) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	file, err := sp.link.lend(helper.Socket)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := connect(ctx, file, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// connect connects a socket, which is of the network of whoever made it.
func connect(ctx context.Context, file *os.File, to unix.Sockaddr) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { file.SetWriteDeadline(time.Now()) })()
	var result error
	begun := false
	err = raw.Write(func(fd uintptr) (done bool) {
		if !begun {
			begun = true
			result = unix.Connect(int(fd), to)
			return result != unix.EINPROGRESS
		}
		failed, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if result = err; err == nil && failed != 0 {
			result = unix.Errno(failed)
		}
		if result != nil {
			return true
		}
		_, err = unix.Getpeername(int(fd))
		return err == nil // otherwise it was woken too early
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cmp.Or(err, result)
}

// find looks for a process by the id that it has in the space.
func (sp *Space) find(pid int) error {
	process, err := sp.link.ready()
	if err != nil {
		return err
	}
	_, err = os.Stat(fmt.Sprintf("/proc/%d/root/proc/%d", process.Pid, pid))
	return err
}

// A Jail is where commands of a space run that may reach the same things.
type Jail struct {
	space   *Space
	profile Profile
	roots   []string // where modes and times of files may be changed

	mu      sync.Mutex
	view    *view    // nil without
	ruleset *os.File // nil where nothing is restricted
}

// Jail returns a jail. Close it after use; what runs in it goes on.
func (sp *Space) Jail(p Profile) (*Jail, error) {
	s := sp.sandbox
	if p.Network < 0 || p.Network >= networks || p.Network == NetworkOpen && !sp.link.open {
		return nil, fmt.Errorf("there is no network level %d here", p.Network)
	}
	j := &Jail{space: sp, profile: p}
	if s.config.Off {
		return j, nil
	}
	if p.Unconfined {
		j.roots = []string{"/", helper.Signals}
		return j, nil
	}
	var err error
	if j.roots, err = realPaths(p.Write); err != nil {
		return nil, err
	}
	if s.Namespaces() {
		for _, dir := range j.roots {
			if p.View.Temp != "" && below(dir, p.View.Temp) {
				j.roots = append(j.roots, "/tmp"+dir[len(p.View.Temp):])
			}
			if p.View.Calls != "" && below(dir, p.View.Calls) {
				j.roots = append(j.roots, CallsPath+dir[len(p.View.Calls):])
			}
		}
		j.roots = append(j.roots, "/dev/shm")
	} else if p.Network == NetworkLoopback && p.ProxyPort != 0 {
		j.roots = append(j.roots, helper.Port(p.ProxyPort))
	}
	if p.Signals {
		j.roots = append([]string{helper.Signals}, j.roots...)
	}
	if len(j.roots) > helper.MaxRoots {
		return nil, fmt.Errorf("%d places to write at once are too many: at most %d", len(j.roots), helper.MaxRoots)
	}
	_, _, err = j.enter()
	return j, err
}

// below reports whether a clean path is dir or below it.
func below(path, dir string) bool {
	return path == dir || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}

// enter returns the view and the ruleset of the jail. Those of a helper that has
// ended are made anew.
func (j *Jail) enter() (*view, *os.File, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.space.sandbox
	if s.config.Off || j.profile.Unconfined {
		return nil, nil, nil
	}
	stale := false
	if s.Namespaces() && (j.view == nil || !j.space.link.current(j.view.helper) || j.view.hidden.Load()) {
		v, err := j.space.view(&j.profile.View)
		if err != nil {
			return nil, nil, err
		}
		stale = j.view != v
		j.view = v
	}
	if s.landlock > 0 && (j.ruleset == nil || stale) {
		ruleset, err := newRuleset(&j.profile, j.view, s.landlock)
		if err != nil {
			return nil, nil, err
		}
		j.ruleset = ruleset // the old one may be in use, and goes when it is not
	}
	return j.view, j.ruleset, nil
}

// Close lets go of what the jail holds.
func (j *Jail) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ruleset == nil {
		return nil
	}
	return j.ruleset.Close()
}

// flags returns what is done for a command in the jail.
func (j *Jail) flags(ruleset *os.File) helper.Flags {
	var flags helper.Flags
	if ruleset != nil {
		flags |= helper.Restricted
	}
	if j.space.link.background {
		flags |= helper.Background
	}
	if s := j.space.sandbox; !s.config.Off && (os.Geteuid() == 0 || s.Namespaces()) {
		flags |= helper.DropCapabilities
	}
	return flags
}

// view is a view that a helper has made.
type view struct {
	shows  View
	name   string
	path   string      // of its root, to the helper
	helper *os.Process // that made it
	root   *os.File
	hidden atomic.Bool // it is no more
	used   time.Time   // guarded by the space

	commands atomic.Int64 // that run in it
}

// place returns the root of the view and the path of a directory in it.
func (v *view) place(dir *os.File) ([]string, error) {
	if dir == nil {
		return nil, errors.New("a command needs a working directory")
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return nil, err
	}
	return []string{v.path, path}, nil
}

// filter returns what a command of the jail has beside the filter of all: the
// sockets of its network.
func (j *Jail) filter() []helper.Instr {
	if j.space.sandbox.config.Off {
		return nil
	}
	return socketFilter(j.profile.Network, j.space.link.namespaced())
}

// Of the views of a space as many are kept, and those that were used a moment ago.
const (
	maxViews = 8
	moment   = 10 * time.Second
)

// view returns a view, which is made if there is none yet.
func (sp *Space) view(want *View) (*view, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	process, err := sp.link.ready()
	if err != nil {
		return nil, err
	}
	for i, v := range sp.views {
		if v.helper == process && v.shows.Equal(want) {
			sp.views = append(slices.Delete(sp.views, i, i+1), v)
			v.used = time.Now()
			return v, nil
		}
	}
	sp.made++
	v := &view{shows: *want, name: "v" + strconv.Itoa(sp.made), helper: process, used: time.Now()}
	v.path = filepath.Join(helper.Views, v.name)
	steps, err := helper.Mounts(v.name, planOf(want))
	if err != nil {
		return nil, err
	}
	if err := sp.link.arrange(process, helper.Show, steps); err != nil {
		return nil, fmt.Errorf("making the view of a session: %w", err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", process.Pid, v.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the view of a session: %w", err)
	}
	v.root = os.NewFile(uintptr(fd), v.path)
	sp.views = append(sp.views, v)
	sp.trim(process)
	return v, nil
}

// trim forgets views: those of a helper that is gone, and those that were not used
// for longest. The space is locked.
func (sp *Space) trim(process *os.Process) {
	sp.views = slices.DeleteFunc(sp.views, func(v *view) bool {
		if v.helper != process {
			v.root.Close()
		}
		return v.helper != process
	})
	// What runs in a view that is removed would lose what hides files from it.
	unused := func(v *view) bool { return v.commands.Load() == 0 && time.Since(v.used) > moment }
	for len(sp.views) > maxViews {
		i := slices.IndexFunc(sp.views, unused)
		if i < 0 {
			return
		}
		v := sp.views[i]
		sp.views = slices.Delete(sp.views, i, i+1)
		v.hidden.Store(true)
		v.root.Close()
		sp.link.arrange(process, helper.Hide, v.name)
	}
}

// Namespaces reports whether spaces have namespaces of their own. The first time
// it tries.
func (s *Sandbox) Namespaces() bool { return s.namespaces() == nil }

var errNoNamespaces = errors.New("they are switched off")

// tryNamespaces returns why no namespaces can be had; nil if they can.
func (s *Sandbox) tryNamespaces() error {
	if s.config.Off || s.config.NoNamespaces {
		return errNoNamespaces
	}
	l := newLink(s, SpaceConfig{})
	l.namespaced = func() bool { return true }
	defer l.close()
	_, err := l.ready()
	return err
}

// idleHelper is how long a helper is kept that has nothing to do.
const idleHelper = time.Minute
