// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// This file makes jails of rights: what a verdict gave to a call is what its
// commands get.

// A jailed is where a command runs: a jail, and its temporary directory.
type jailed struct {
	*sandbox.Jail
	view  sandbox.View
	temp  string
	hosts *hostProxy // nil where none can be reached

	release func()      // when the command is gone
	left    atomic.Bool // something of the command is not
	closing sync.Once
	refused []string
}

// close lets go of all of it, once, when the command is gone, and returns the hosts
// that were refused.
func (j *jailed) close() []string {
	j.closing.Do(func() {
		if j.hosts != nil {
			j.refused = j.hosts.close()
		}
		j.release()
	})
	return j.refused
}

// maxJails is how many jails of a session are kept for the next call with the same
// rights.
const maxJails = 8

// keptJail is a jail that is kept, by what it is for.
type keptJail struct {
	confinement tools.Confinement
	network     tools.Network
	write       []string
	view        sandbox.View

	jail *sandbox.Jail
	uses int
	old  bool // it goes when nobody uses it
}

func (k *keptJail) isFor(rights *tools.Rights, view *sandbox.View) bool {
	return k.confinement == rights.Confinement && k.network == rights.Network && slices.Equal(k.write, rights.Write) && k.view.Equal(view)
}

// jailFor returns where a command runs. Release it after use.
func (r *Runner) jailFor(ctx context.Context, c *Command) (*jailed, error) {
	rights := c.Rights
	view, err := r.viewFor(ctx, &rights)
	if err != nil {
		return nil, err
	}
	var hosts *hostProxy
	switch {
	case c.Proxied != nil:
		rights.Network = tools.NetworkHosts
		hosts, err = r.openProxy(r.withLoopback(*c.Proxied))
	case needsHosts(&rights) && rights.Network != 0:
		rights.Network = max(rights.Network, tools.NetworkHosts)
		hosts, err = r.openProxy(judgeOf(&rights, c.Restrictions))
	}
	if err != nil {
		return nil, err
	}
	var jail *jailed
	switch {
	case rights.Confinement == tools.Reading:
		jail, err = r.readingJail(&rights, view, hosts)
	case rights.Confinement == tools.Named, hosts != nil && !r.all.config.Sandbox.Namespaces():
		jail, err = r.namedJail(&rights, view, hosts)
	default:
		jail, err = r.keptJail(&rights, view)
	}
	if err != nil {
		if hosts != nil {
			hosts.close()
		}
		return nil, err
	}
	jail.view, jail.hosts = view, hosts
	return jail, nil
}

// readingJail returns a jail with a temporary directory of its own, which is new, or as
// good as that.
func (r *Runner) readingJail(rights *tools.Rights, view sandbox.View, hosts *hostProxy) (*jailed, error) {
	if !rights.Aside || hosts != nil {
		return r.newReadingJail(rights, view, hosts)
	}
	made, err := r.unusedJail(rights.Network, &view), error(nil)
	if made == nil {
		if made, err = r.newReadingJail(rights, view, nil); err != nil {
			return nil, err
		}
	}
	j := &jailed{Jail: made.Jail, temp: made.temp}
	j.release = func() {
		if j.left.Load() || !pristine(made.temp) || !r.keepUnused(unusedJail{rights.Network, view, made}) {
			made.release()
		}
	}
	return j, nil
}

// unusedJail is a jail for what runs beside calls, which nobody uses.
type unusedJail struct {
	network tools.Network
	view    sandbox.View
	*jailed
}

// maxUnused is how many of them are kept.
const maxUnused = 8

// unusedJail returns one that is kept with a network and a view; nil where none is.
func (r *Runner) unusedJail(network tools.Network, view *sandbox.View) *jailed {
	r.jailing.Lock()
	defer r.jailing.Unlock()
	for i, unused := range slices.Backward(r.unused) {
		if unused.network == network && unused.view.Equal(view) {
			r.unused = slices.Delete(r.unused, i, i+1)
			return unused.jailed
		}
	}
	return nil
}

// keepUnused keeps a jail for what comes next. It is as it was made: whatever ran in it
// is gone, and has left nothing in its temporary directory. It reports false when
// the session ends.
func (r *Runner) keepUnused(j unusedJail) bool {
	r.jailing.Lock()
	defer r.jailing.Unlock()
	if r.noJails {
		return false
	}
	if len(r.unused) == maxUnused {
		defer r.unused[0].release()
		r.unused = slices.Delete(r.unused, 0, 1)
	}
	r.unused = append(r.unused, j)
	return true
}

// newReadingJail returns a jail with a temporary directory that goes with it.
func (r *Runner) newReadingJail(rights *tools.Rights, view sandbox.View, hosts *hostProxy) (*jailed, error) {
	temp, err := os.MkdirTemp(r.calls(), "call-")
	if err != nil {
		return nil, noSpace(err)
	}
	jail, err := r.makeJail(rights, view, []string{temp}, hosts)
	if err != nil {
		os.Remove(temp)
		return nil, err
	}
	return &jailed{Jail: jail, temp: temp, release: func() {
		jail.Close()
		lease.RemoveAll(temp)
	}}, nil
}

// namedJail returns a jail for the paths that rights name, which may lead elsewhere
// the next time.
func (r *Runner) namedJail(rights *tools.Rights, view sandbox.View, hosts *hostProxy) (*jailed, error) {
	write, files, err := r.writable(rights)
	if err != nil {
		return nil, err
	}
	jail, err := r.makeJail(rights, view, write, hosts)
	for _, file := range files {
		file.Close()
	}
	if err != nil {
		return nil, err
	}
	return &jailed{Jail: jail, temp: r.temp(), release: func() { jail.Close() }}, nil
}

// keptJail returns a jail that may have been made for an earlier call.
func (r *Runner) keptJail(rights *tools.Rights, view sandbox.View) (*jailed, error) {
	r.jailing.Lock()
	defer r.jailing.Unlock()
	at := slices.IndexFunc(r.jails, func(k *keptJail) bool { return k.isFor(rights, &view) })
	if at < 0 {
		made, err := r.namedJail(rights, view, nil)
		if err != nil {
			return nil, err
		}
		r.jails = append(r.jails, &keptJail{confinement: rights.Confinement, network: rights.Network, write: rights.Write, view: view, jail: made.Jail})
		if len(r.jails) > maxJails {
			r.forget(r.jails[0])
			r.jails = slices.Delete(r.jails, 0, 1)
		}
		at = len(r.jails) - 1
	}
	k := r.jails[at]
	k.uses++
	return &jailed{Jail: k.jail, temp: r.temp(), release: func() {
		r.jailing.Lock()
		defer r.jailing.Unlock()
		if k.uses--; k.uses == 0 && k.old {
			k.jail.Close()
		}
	}}, nil
}

// forget lets go of a jail that is not kept any more. The jails are locked.
func (r *Runner) forget(k *keptJail) {
	if k.old = true; k.uses == 0 {
		k.jail.Close()
	}
}

func (r *Runner) makeJail(rights *tools.Rights, view sandbox.View, write []string, hosts *hostProxy) (*sandbox.Jail, error) {
	profile := sandbox.Profile{View: view, Write: write, Unconfined: rights.Confinement == tools.Unconfined, Signals: rights.Confinement != tools.Reading}
	switch rights.Network {
	case tools.NetworkLoopback, tools.NetworkHosts:
		profile.Network = sandbox.NetworkLoopback
	case tools.NetworkOpen:
		profile.Network = sandbox.NetworkOpen
	}
	if hosts != nil {
		profile.ProxyPort = hosts.port()
	}
	space, err := r.space(rights.Network == tools.NetworkOpen)
	if err != nil {
		return nil, err
	}
	return space.Jail(profile)
}

// space returns the space of the session: that which has the network of the
// machine, or the one that has its own.
func (r *Runner) space(open bool) (*sandbox.Space, error) {
	i := 0
	if open {
		i = 1
	}
	r.spacing.Lock()
	defer r.spacing.Unlock()
	if r.spaced {
		return nil, ErrSessionEnds
	}
	if r.spaces[i] == nil {
		r.spaces[i] = r.all.config.Sandbox.Space(sandbox.SpaceConfig{Open: open})
	}
	return r.spaces[i], nil
}

// closeJails lets go of all jails, and kills what runs in them.
func (r *Runner) closeJails() {
	r.jailing.Lock()
	defer r.jailing.Unlock()
	for _, k := range r.jails {
		r.forget(k)
	}
	r.jails = nil
	for _, unused := range r.unused {
		unused.release()
	}
	r.unused, r.noJails = nil, true
	r.spacing.Lock()
	defer r.spacing.Unlock()
	r.spaced = true
	for i, space := range r.spaces {
		if space != nil {
			space.Close()
			r.spaces[i] = nil
		}
	}
}

// viewFor returns what commands with these rights see.
func (r *Runner) viewFor(ctx context.Context, rights *tools.Rights) (view sandbox.View, err error) {
	view = r.view
	own := r.ownFiles()
	view.Cover = append(slices.Clip(view.Cover), own...)
	if rights.Confinement == tools.Unconfined || !r.all.config.Sandbox.Namespaces() {
		if rights.Confinement != tools.Unconfined && len(own)+len(view.Empty) > 0 && !r.all.config.Sandbox.Capabilities().Off {
			return view, tools.Failf("workspace_not_closed", "Nothing was run: the workspace has the server's own files in it (%s), and without namespaces no command can be kept from them. "+
				"Use the tools for files, which are, or have the operator give sessions another workspace, or the server another place for its files.", slices.Concat(view.Empty, own)[0])
		}
		view.Read = append(slices.Clip(view.Read), r.others(rights, rights.Read)...)
		view.Write = append(slices.Clip(view.Write), r.others(rights, rights.Write)...)
		return view, nil
	}
	view.Read = append(slices.Clip(view.Read), r.notOurs(rights.Read)...)
	view.Write = append(slices.Clip(view.Write), r.notOurs(rights.Write)...)
	if hooks := filepath.Join(r.workspace.Dir(), ".git", "hooks"); isDir(filepath.Dir(hooks)) && isDir(hooks) {
		view.Fixed = append(view.Fixed, hooks)
	}
	view.Held = between(r.workspace.Dir(), slices.Concat(view.Empty, view.Cover))
	defer func() { view.Version = versionOf(view.Cover, view.Fixed, view.Held, rights.Read) }()
	protection := *r.protection.Load()
	if rights.Aside && rights.Confinement == tools.Reading && r.all.Offer().Holds {
		protection = nil // nothing of the workspace can be written anyway
	}
	if rights.Deny == nil && protection == nil {
		return view, nil
	}
	all, err := r.files.Walk(ctx, ".", maxCovered, func(entry workspace.Entry) error {
		at := filepath.Join(r.workspace.Dir(), entry.Path)
		switch {
		case rights.Deny != nil && (rights.Deny.Denies(entry.Path) || r.wasCovered(at)):
			if !rights.Aside {
				r.remember(at)
			}
			view.Cover = append(view.Cover, at)
		case protection != nil && protection.Protects(entry.Path):
			view.Fixed = append(view.Fixed, at)
		default:
			return nil
		}
		if len(view.Cover)+len(view.Fixed) > maxCovers {
			return errTooMuch
		}
		return workspace.SkipDir
	})
	if ctx.Err() != nil {
		return view, context.Cause(ctx)
	}
	if (err != nil || !all) && rights.Deny != nil {
		return view, tools.Failf("too_many_files", "Nothing was run: a rule of the policy denies reading some files, and there are more than can be kept from commands, or the workspace has more files than can be looked at.")
	}
	return view, nil
}

// ownFiles returns the files of the server that are in the workspace now.
func (r *Runner) ownFiles() (files []string) {
	for _, path := range within(r.all.config.Files, r.workspace.Dir()) {
		path, beside := strings.CutSuffix(path, ".*")
		entries, _ := os.ReadDir(filepath.Dir(path))
		for _, entry := range entries {
			if name := entry.Name(); name == filepath.Base(path) || beside && strings.HasPrefix(name, filepath.Base(path)+".") {
				files = append(files, filepath.Join(filepath.Dir(path), name))
			}
		}
	}
	return files
}

// between returns the directories between dir and paths below it. A command that renames
// one of them gives the closed paths below it other names, which are not closed. Without
// namespaces nothing prevents the renaming, and no command is run: see viewFor.
func between(dir string, paths []string) (dirs []string) {
	for _, path := range paths {
		for at := filepath.Dir(path); strings.HasPrefix(at, dir+"/"); at = filepath.Dir(at) {
			dirs = append(dirs, at)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

var errTooMuch = errors.New("too much to be covered")

// remember has what a file is stay covered, whatever it is called later.
func (r *Runner) remember(path string) {
	if isDir(path) {
		return // what is in it is looked at
	}
	if file, err := identity(path); err == nil {
		r.jailing.Lock()
		defer r.jailing.Unlock()
		if r.covered == nil {
			r.covered = make(map[fileIdentity]bool)
		}
		r.covered[file] = true
	}
}

// wasCovered reports whether a file was covered under another name.
func (r *Runner) wasCovered(path string) bool {
	r.jailing.Lock()
	defer r.jailing.Unlock()
	if len(r.covered) == 0 {
		return false
	}
	file, err := identity(path)
	return err == nil && r.covered[file]
}

// versionOf tells files from those that take their names: what replaces a file, from
// outside, is not covered by what covered that.
func versionOf(lists ...[]string) string {
	var b strings.Builder
	for _, list := range lists {
		for _, path := range list {
			if file, err := identity(path); err == nil {
				fmt.Fprintf(&b, "%v ", file)
			}
		}
	}
	return b.String()
}

// maxCovered is how many entries of a directory are looked at for what a rule denies
// or protects, maxCovers how many of these there may be.
const (
	maxCovered = 1 << 20
	maxCovers  = 2000
)

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// outside returns the absolute ones of paths.
func outside(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !filepath.IsAbs(path) })
}

// others returns those that are outside and not the server's own, unless nothing is kept
// from the call.
func (r *Runner) others(rights *tools.Rights, paths []string) []string {
	paths = outside(paths)
	if rights.Confinement != tools.Unconfined {
		paths = slices.DeleteFunc(paths, r.servers)
	}
	return paths
}

// servers reports whether a path is the server's own, or has something of it below: keys,
// tokens, logs, workspaces of others. Whatever a rule allows, commands do not get it.
func (r *Runner) servers(path string) bool {
	c := &r.all.config
	for _, own := range slices.Concat(c.Apart, c.Files, c.Sockets) {
		own, beside := strings.CutSuffix(own, ".*")
		if path == own || strings.HasPrefix(path, own+"/") || beside && strings.HasPrefix(path, own+".") ||
			path == "/" || strings.HasPrefix(own, path+"/") {
			return true
		}
	}
	return false
}

// notOurs returns those that are outside of everything the session has anyway, and not
// the server's own.
func (r *Runner) notOurs(paths []string) []string { return r.beyond(r.view.Write, paths) }

// beyond is notOurs for who has these directories anyway.
func (r *Runner) beyond(ours, paths []string) []string {
	ours = append([]string{"/tmp", "/var/tmp", "/proc", "/dev"}, ours...)
	return slices.DeleteFunc(outside(paths), func(path string) bool {
		return r.servers(path) || slices.ContainsFunc(ours, func(dir string) bool { return isBelow(path, dir) })
	})
}

// writable returns what rights let be written. The files are what named paths lead
// to: keep them open until the jail is made.
func (r *Runner) writable(rights *tools.Rights) (paths []string, files []*os.File, err error) {
	ours := r.view.Write
	switch rights.Confinement {
	case tools.SessionWide:
		paths = slices.DeleteFunc(slices.Clone(r.view.Write), func(dir string) bool { return dir == r.calls() })
	case tools.Named:
		paths = []string{r.Home(), r.temp()}
		ours = append(slices.Clip(paths), r.calls())
	}
	for _, path := range rights.Write {
		var file *os.File
		if filepath.IsAbs(path) {
			if len(r.beyond(ours, []string{path})) == 0 {
				continue
			}
			file, err = openNoLinks(path)
		} else {
			file, err = r.nearest(path)
		}
		if err != nil {
			for _, file := range files {
				file.Close()
			}
			return nil, nil, tools.Failf("moved", "Nothing was run: %s, which the command was to write, is not what it was when the call was judged: %v.", path, err)
		}
		// By its number: whatever takes its place meanwhile gets no rights.
		files = append(files, file)
		paths = append(paths, fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	}
	return paths, files, nil
}

// nearest opens a path of the workspace, or the directory above it that is there.
func (r *Runner) nearest(path string) (*os.File, error) {
	for {
		file, err := r.workspace.OpenPath(path)
		if err == nil || path == "." {
			return file, err
		}
		path = filepath.Dir(path)
	}
}
