// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openBelow opens path below dir, which stays open, and follows no link: in one
// call, where the kernel has it and lets us.
func openBelow(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOSYS, unix.EPERM, unix.ENAMETOOLONG, unix.ELOOP, unix.EAGAIN: // step by step it may do, or tell better why not
			return descend(dir, path, flags)
		}
		return fd, err
	}
}

// Offsets in what getdents64 returns.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// List calls yield for every name in the directory, in no order, until it
// returns false. The name is only good until yield returns. buffer is what the
// kernel writes to; the larger it is, the fewer calls it takes. A directory is
// listed once after it was opened.
func (d *Dir) List(buffer []byte, yield func(name []byte, kind FileType) bool) error {
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Getdents(d.fd, buffer)
			return err
		})
		if err != nil || n <= 0 {
			return err
		}
		for entries := buffer[:n]; len(entries) > direntName; {
			length := int(binary.NativeEndian.Uint16(entries[direntLength:]))
			name, kind := entries[direntName:length], entries[direntType]
			entries = entries[length:]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			if string(name) == "." || string(name) == ".." {
				continue
			}
			if !yield(name, d.kindOfEntry(name, kind)) {
				return nil
			}
		}
	}
}

func (d *Dir) kindOfEntry(name []byte, kind byte) FileType {
	switch kind {
	case unix.DT_REG:
		return Regular
	case unix.DT_DIR:
		return Directory
	case unix.DT_LNK:
		return Link
	case unix.DT_UNKNOWN: // the file system does not tell
		s, err := d.Lstat(string(name))
		if err == nil {
			return s.Kind
		}
	}
	return Special
}

// localSystems are file systems on which nobody but this kernel changes files.
var localSystems = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	0x2FC12FC1: true, // ZFS
}

// Local reports whether the directory is on a file system where every change is
// made by this kernel.
func (d *Dir) Local() bool { return localSystems[d.system()] }

// Watchable reports whether a [Watch] and [Reader.Unwritten] know of everything
// that can change a file there. In an overlay they do not: a mapping is one of the
// file below, and nobody has that of the overlay open.
func (d *Dir) Watchable() bool {
	system := d.system()
	return localSystems[system] && system != unix.OVERLAYFS_SUPER_MAGIC
}

func (d *Dir) system() int64 {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &s) }); err != nil {
		return 0
	}
	return int64(s.Type)
}

// Unwritten reports whether nobody has the file open for writing. Where that
// cannot be told, it says false.
func (r Reader) Unwritten() bool {
	// The kernel grants a lease for reading to nobody while there is a writer.
	if _, err := unix.FcntlInt(uintptr(r.fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(uintptr(r.fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}

// CloseUnwritten closes the file, and reports what Unwritten would.
func (r Reader) CloseUnwritten() bool {
	_, err := unix.FcntlInt(uintptr(r.fd), unix.F_SETLEASE, unix.F_RDLCK)
	r.Close() // which ends the lease
	return err == nil
}

// A Watch is told by the kernel what changes in directories, and what happens to
// files. Its methods are not safe for concurrent use.
type Watch struct {
	fd     int
	buffer []byte
}

// NewWatch returns a watch on nothing yet. Close it after use.
func NewWatch() (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &Watch{fd: fd, buffer: make([]byte, 16<<10)}, nil
}

// Add watches a directory and returns the number by which its changes are told.
// A directory that is watched already has its number.
func (w *Watch) Add(d *Dir) (int32, error) {
	const mask = unix.IN_ATTRIB | unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_DELETE_SELF |
		unix.IN_MODIFY | unix.IN_MOVE_SELF | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	return w.add(d.fd, mask)
}

// AddFile watches a file, by whatever name it is reached, and returns the number
// by which is told that it was opened, written to, closed by a writer, or that
// its attributes have changed, such as how many names it has.
func (w *Watch) AddFile(r Reader) (int32, error) {
	return w.add(r.fd, unix.IN_OPEN|unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_ATTRIB)
}

func (w *Watch) add(fd int, mask uint32) (int32, error) {
	var number int
	err := retry(func() (err error) {
		number, err = unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(fd), mask)
		return err
	})
	return int32(number), err
}

// Remove ends the watch on a directory or file.
func (w *Watch) Remove(number int32) { _, _ = unix.InotifyRmWatch(w.fd, uint32(number)) }

// Close ends the watch.
func (w *Watch) Close() { unix.Close(w.fd) }

// maxEvent is how long an event can be.
const maxEvent = unix.SizeofInotifyEvent + unix.NAME_MAX + 1

// Changes calls yield for everything that has changed until now.
func (w *Watch) Changes(yield func(Notice)) error {
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Read(w.fd, w.buffer)
			return err
		})
		if err == unix.EAGAIN {
			return nil
		}
		if err != nil {
			return err
		}
		whole := max(n, 0) < len(w.buffer)-maxEvent // there was room for more
		for events := w.buffer[:max(n, 0)]; len(events) >= unix.SizeofInotifyEvent; {
			var event unix.InotifyEvent
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&event)), unix.SizeofInotifyEvent), events)
			name := events[unix.SizeofInotifyEvent:][:event.Len]
			events = events[unix.SizeofInotifyEvent+int(event.Len):]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			const came = unix.IN_CREATE | unix.IN_MOVED_TO
			const went = unix.IN_DELETE | unix.IN_MOVED_FROM
			const gone = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT
			yield(Notice{
				Dir: event.Wd, Name: string(name), Opened: event.Mask&unix.IN_OPEN != 0, Came: event.Mask&came != 0, Went: event.Mask&went != 0, Move: event.Cookie,
				IsDir: event.Mask&unix.IN_ISDIR != 0, Gone: event.Mask&gone != 0, Missed: event.Mask&unix.IN_Q_OVERFLOW != 0,
			})
		}
		if whole {
			return nil
		}
	}
}
