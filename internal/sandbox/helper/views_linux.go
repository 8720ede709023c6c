// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A helper that has namespaces of its own makes views: directories in which
// nothing is but what the commands of a session may see, each mounted where it is
// on the machine. A command changes its root to one before it gives up the
// capabilities that this takes. The helper itself sees the whole machine.

// A Mount is one step of making a view.
type Mount struct {
	Kind   MountKind
	Source string // on the machine; of a link, what it says
	Target string // in the view, absolute
}

// MountKind tells what a mount does. It is one byte on the wire.
type MountKind byte

const (
	// BindRead shows a file or tree that cannot be written. One that is not there
	// is left out.
	BindRead MountKind = 'r'
	// BindWrite shows a file or tree that can be written.
	BindWrite MountKind = 'w'
	// BindDevice shows a device. One that is not there is left out.
	BindDevice MountKind = 'd'
	// MakeLink makes a symbolic link.
	MakeLink MountKind = 'l'
	// MakeDir makes a directory.
	MakeDir MountKind = 'm'
	// MountProc shows the processes of the namespace.
	MountProc MountKind = 'p'
	// MountShared is memory that processes share as files.
	MountShared MountKind = 's'
	// MountTerminals has terminals that programs make.
	MountTerminals MountKind = 't'
	// Cover hides a file or directory that is in the view. One that is not there
	// is left out.
	Cover MountKind = 'c'
	// Empty hides a tree behind an empty directory, in which more may be mounted.
	Empty MountKind = 'e'
	// Hold has a directory of the view keep its name, with what is mounted in it. One
	// that is not there is left out.
	Hold MountKind = 'h'
	// Fix has a file or tree of the view stay as it is. One that is not there is
	// left out.
	Fix MountKind = 'f'
)

// Mounts encodes the steps of making a view, for [Request.View]. Hide takes the
// name alone.
func Mounts(name string, steps []Mount) (string, error) {
	var b strings.Builder
	b.WriteString(name)
	b.WriteByte(0)
	for _, m := range steps {
		if strings.IndexByte(m.Source, 0) >= 0 || strings.IndexByte(m.Target, 0) >= 0 {
			return "", ErrNUL
		}
		b.WriteByte(byte(m.Kind))
		b.WriteString(m.Source)
		b.WriteByte(0)
		b.WriteString(m.Target)
		b.WriteByte(0)
	}
	return b.String(), nil
}

// Namespaced is how a helper with namespaces is called.
const Namespaced = "namespaced"

// Views is where a helper has its views. Landlock looks at what is above a file on
// the way to the root of the machine, not to that of the view: nothing above this is
// a directory that a command may write.
const Views = "/proc/fs"

// settle makes the namespaces that the process was started with usable.
func settle() error {
	// What is mounted on the machine later comes here too; nothing goes back.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separating mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", Views, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=16m"); err != nil {
		return fmt.Errorf("mounting views: %w", err)
	}
	if err := unix.Mknod(filepath.Join(Views, coverName), unix.S_IFSOCK, 0); err != nil {
		return fmt.Errorf("making a cover: %w", err)
	}
	return raiseLoopback()
}

// raiseLoopback has the network namespace, if it is new, reach itself.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raising loopback: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request); err != nil {
		return fmt.Errorf("raising loopback: %w", err)
	}
	if request.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("raising loopback: %w", err)
	}
	return nil
}

var errView = errors.New("a malformed view")

// show makes a view. It is not called by the thread that commands inherit their
// filter from, which may mount nothing.
func (h *helper) show(text string) error {
	name, steps, ok := strings.Cut(text, "\x00")
	if !ok || name == "" || filepath.Base(name) != name {
		return errView
	}
	dir := filepath.Join(Views, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	v := view{root: root, cover: filepath.Join(Views, coverName)}
	for steps != "" {
		source, rest, ok := strings.Cut(steps[1:], "\x00")
		target, rest, more := strings.Cut(rest, "\x00")
		if !ok || !more {
			return errView
		}
		if err := v.step(Mount{Kind: MountKind(steps[0]), Source: source, Target: target}); err != nil {
			h.hide(name)
			return fmt.Errorf("showing %s: %w", target, err)
		}
		steps = rest
	}
	return nil
}

// hide removes a view. Commands that are in it keep it.
func (h *helper) hide(name string) error {
	dir := filepath.Join(Views, filepath.Base(name))
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Remove(dir)
}

// A view is one that is being made. What is in it may be the work of commands, so
// no link in it is followed.
type view struct {
	root  int
	cover string // the socket that files are hidden behind
}

func (v view) step(m Mount) error {
	switch m.Kind {
	case MakeDir:
		return closed(v.makeDir(m.Target))
	case MakeLink:
		dir, err := v.makeDir(filepath.Dir(m.Target))
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		if err := unix.Symlinkat(m.Source, dir, filepath.Base(m.Target)); err != unix.EEXIST {
			return err
		}
		return nil
	case MountProc:
		return v.mount(m.Target, "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	case MountShared:
		return v.mount(m.Target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=64m")
	case MountTerminals:
		return v.mount(m.Target, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
	case Empty:
		return v.mount(m.Target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m")
	case BindRead:
		return ignoreMissing(v.bind(m, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	case BindWrite:
		return v.bind(m, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	case BindDevice:
		return ignoreMissing(v.bind(m, unix.MOUNT_ATTR_NOSUID))
	case Hold:
		return ignoreMissing(v.onItself(m.Target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	case Fix:
		return ignoreMissing(v.onItself(m.Target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	case Cover:
		return ignoreMissing(v.hide(m.Target))
	}
	return errView
}

// ignoreMissing is for what need not be there, or has become a link.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

func closed(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// open opens what is at a path of the view, with what is mounted there.
func (v view) open(path string) (int, error) {
	return unix.Openat2(v.root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
}

// makeDir opens a directory of the view, which is made if it is not there.
func (v view) makeDir(path string) (int, error) {
	dir, err := unix.Dup(v.root)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(dir)
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean("/"+path), "/"), "/") {
		if name == "" {
			break
		}
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
		next, err := unix.Openat2(dir, name, &how)
		if err == unix.ENOENT {
			if err = unix.Mkdirat(dir, name, 0o755); err == nil || err == unix.EEXIST {
				next, err = unix.Openat2(dir, name, &how)
			}
		}
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = next
	}
	return dir, nil
}

// makeFile opens a file of the view, which is made if it is not there.
func (v view) makeFile(path string) (int, error) {
	dir, err := v.makeDir(filepath.Dir(path))
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	made, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Close(made)
	} else if err != unix.EEXIST {
		return -1, err
	}
	return unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

func (v view) mount(path, kind string, flags uintptr, options string) error {
	at, err := v.makeDir(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.Mount(kind, fdPath(at), kind, flags, options)
}

// bind mounts a file or tree, with whatever is mounted in it, and sets attributes
// of all of that.
func (v view) bind(m Mount, attributes uint64) error {
	// Who made the plan has followed links. One that is there now was put there.
	source, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(source)
	var stat unix.Stat_t
	if err := unix.Fstat(source, &stat); err != nil {
		return err
	}
	open := v.makeFile
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		open = v.makeDir
	}
	at, err := open(m.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return v.mountAt(fdPath(source), m.Target, at, attributes)
}

func (v view) mountAt(source, target string, at int, attributes uint64) error {
	if err := unix.Mount(source, fdPath(at), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	mounted, err := v.open(target)
	if err != nil {
		return err
	}
	defer unix.Close(mounted)
	return unix.MountSetattr(mounted, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
}

// onItself mounts a file or directory on itself: where something is mounted, nothing is
// renamed.
func (v view) onItself(path string, attributes uint64) error {
	at, err := v.open(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return v.mountAt(fdPath(at), path, at, attributes)
}

// hide hides a file behind a socket that nobody listens on, which cannot be opened
// whoever tries, and a directory behind an empty one.
func (v view) hide(path string) error {
	at, err := v.open(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var stat unix.Stat_t
	if err := unix.Fstat(at, &stat); err != nil {
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.Mount("tmpfs", fdPath(at), "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=000,size=4k")
	case unix.S_IFREG, unix.S_IFSOCK:
		return unix.Mount(v.cover, fdPath(at), "", unix.MS_BIND, "")
	}
	return nil
}

// coverName is the socket that files are hidden behind, beside the views.
const coverName = "cover"
