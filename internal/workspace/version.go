// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrChanged is wrapped by errors about files that are not as they were when
	// they were read.
	ErrChanged = errors.New("file changed meanwhile")

	// ErrTooLarge is wrapped by errors about files that are larger than was
	// asked for.
	ErrTooLarge = errors.New("file is too large")
)

// A Version tells one state of an entry from another without reading it. The
// zero Version is that of what is not there.
type Version struct {
	exists       bool
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// String stands for the version, as 32 hexadecimal digits; it is empty for what is
// not there.
func (v Version) String() string {
	if !v.exists {
		return ""
	}
	var b [7 * 8]byte
	for i, n := range [...]uint64{
		v.dev, v.ino, uint64(v.size), uint64(v.mtime.Sec), uint64(v.mtime.Nsec), uint64(v.ctime.Sec), uint64(v.ctime.Nsec),
	} {
		binary.LittleEndian.PutUint64(b[i*8:], n)
	}
	sum := sha256.Sum256(b[:])
	return hex.EncodeToString(sum[:16])
}

// SameFile reports whether two versions are of the same file, changed or not.
func (v Version) SameFile(other Version) bool { return v.dev == other.dev && v.ino == other.ino }

func versionOf(st *unix.Stat_t) Version {
	return Version{
		exists: true, dev: uint64(st.Dev), ino: st.Ino, //nolint:unconvert // the type differs between systems
		size: st.Size, mtime: st.Mtim, ctime: st.Ctim,
	}
}

// Info is what is known of an entry without following or reading it.
type Info struct {
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time
	Version Version

	uid, gid uint32
}

// Exists reports whether there is an entry.
func (i Info) Exists() bool { return i.Version.exists }

// Changed returns when the entry was last written, or came to its name or to its
// permissions. Unlike ModTime, no program can make that earlier than it was.
func (i Info) Changed() time.Time {
	if changed := time.Unix(i.Version.ctime.Unix()); changed.After(i.ModTime) {
		return changed
	}
	return i.ModTime
}

func infoOf(st *unix.Stat_t) Info {
	return Info{
		Mode: fileMode(uint32(st.Mode)), //nolint:unconvert // the type differs between systems
		Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()),
		Version: versionOf(st), uid: st.Uid, gid: st.Gid,
	}
}

// FileType is what an entry is.
type FileType uint8

const (
	Absent FileType = iota
	Regular
	Directory
	Link
	Special // a pipe, a socket or a device
)

var kindNames = [...]string{"nothing", "file", "directory", "link", "special file"}

func (k FileType) String() string { return kindNames[k] }

// Type returns what the entry is.
func (i Info) Type() FileType {
	switch {
	case !i.Exists():
		return Absent
	case i.Mode.IsRegular():
		return Regular
	case i.Mode.IsDir():
		return Directory
	case i.Mode&fs.ModeSymlink != 0:
		return Link
	}
	return Special
}

// fileMode returns what the kernel tells of a file in the words of Go.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	}
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// Hash stands for the bytes of a file.
type Hash [sha256.Size]byte

// HashOf returns the hash of bytes.
func HashOf(data []byte) Hash { return sha256.Sum256(data) }

// String returns the hash in full, as sha256sum prints it.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short returns enough of the hash to tell versions of one file apart, and
// little enough to be copied by a model.
func (h Hash) Short() string { return hex.EncodeToString(h[:6]) }

// Matches reports whether text is the hash in full or a beginning of it, not
// shorter than Short.
func (h Hash) Matches(text string) bool {
	full := h.String()
	return len(text) >= len(h.Short()) && len(text) <= len(full) && full[:len(text)] == text
}

// A File is a regular file that was read, or one that is not there: its Info
// tells.
type File struct {
	Info
	Data []byte
}

// Hash stands for the content of the file. It is computed anew each time.
func (f File) Hash() Hash { return HashOf(f.Data) }

// ReadFile reads a regular file of at most limit bytes, by a path that
// [Workspace.Resolve] returned. One that is being written meanwhile is
// [ErrChanged].
func (w *Workspace) ReadFile(path string, limit int64) (File, error) {
	f, err := w.OpenFile(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	before := f.Info()
	if before.Size > limit {
		return File{}, fmt.Errorf("%s: %w: it has %d bytes, at most %d are possible", path, ErrTooLarge, before.Size, limit)
	}
	data := make([]byte, before.Size)
	if _, err := io.ReadFull(f, data); err != nil && err != io.EOF {
		if err == io.ErrUnexpectedEOF {
			err = ErrChanged
		}
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	after, err := f.Now()
	if err != nil {
		return File{}, err
	}
	if after.Version != before.Version {
		return File{}, fmt.Errorf("%s: %w: somebody else is writing it", path, ErrChanged)
	}
	return File{Info: before, Data: data}, nil
}

// retry calls f until no signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
