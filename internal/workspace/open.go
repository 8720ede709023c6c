// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// An Opened is a regular file that is open for reading. It is not an [os.File]
// because that asks the kernel more than a small file is worth: what is regular
// never has to be waited for.
type Opened struct {
	fd   int
	path string
	info Info
	at   int64
}

// OpenFile opens a regular file for reading, by a path that [Workspace.Resolve]
// returned: a link that has appeared in it since is [ErrMoved]. It never
// blocks: a pipe or a device is refused, not waited for. Close it after use.
func (w *Workspace) OpenFile(path string) (*Opened, error) {
	w.touched(path, false)
	fd, err := w.openExactly(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, explain(path, err)
	}
	f := &Opened{fd: fd, path: path}
	f.info, err = f.Now()
	if err == nil && !f.info.Mode.IsRegular() {
		err = fmt.Errorf("%s: %w but a %s", path, ErrNotRegular, TypeName(f.info.Mode))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Path is where the file was opened.
func (f *Opened) Path() string { return f.path }

// Info tells of the file as it was opened.
func (f *Opened) Info() Info { return f.info }

// Now tells of the file as it is.
func (f *Opened) Now() (Info, error) {
	info, err := fstat(f.fd)
	if err != nil {
		return Info{}, explain(f.path, err)
	}
	return info, nil
}

// Unchanged reports whether what was read since the file was opened is of one
// version: nobody has written to it. Another file may have taken its name.
func (f *Opened) Unchanged() (bool, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return false, explain(f.path, err)
	}
	now, was := versionOf(&st), f.info.Version
	if st.Nlink == 0 {
		now.ctime = was.ctime // to lose its name is a change, of its last one
	}
	return now == was, nil
}

// Read is [io.Reader].
func (f *Opened) Read(p []byte) (int, error) {
	n, err := f.pread(p, f.at)
	f.at += int64(n)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// ReadAt is [io.ReaderAt].
func (f *Opened) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		more, err := f.pread(p[n:], offset+int64(n))
		n += more
		if err != nil {
			return n, err
		}
		if more == 0 {
			return n, io.EOF
		}
	}
	return n, nil
}

func (f *Opened) pread(p []byte, offset int64) (n int, err error) {
	err = retry(func() error {
		n, err = unix.Pread(f.fd, p, offset)
		return err
	})
	if err != nil {
		return 0, explain(f.path, err)
	}
	return n, nil
}

// Close closes the file.
func (f *Opened) Close() error { return unix.Close(f.fd) }

// Share returns the file for a process to read. Close it after use.
func (f *Opened) Share() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, explain(f.path, err)
	}
	return os.NewFile(uintptr(fd), f.path), nil
}
