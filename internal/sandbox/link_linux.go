// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// A link is the way to one helper, which is started when it is needed and when
// it has died. All its commands have the same filter.
type link struct {
	sandbox *Sandbox
	network Network // of its commands

	mu      sync.Mutex // held while a request is sent
	socket  int        // -1 while there is no helper
	process *os.Process
	closed  bool
}

// answerTime is how long a helper may take to read a request, and a guard to
// kill everything, before something is wrong with it.
const answerTime = 10 * time.Second

// maxTries is how many more helpers are tried after one that died.
const maxTries = 5

// send gives a request to the helper; to a new one if the old one has died.
func (l *link) send(message []byte, files []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for try := 0; ; try++ {
		if l.closed {
			return os.ErrClosed
		}
		if l.socket < 0 {
			if err := l.start(); err != nil && try < maxTries && l.gone(err) {
				continue
			} else if err != nil {
				return fmt.Errorf("%w: starting toolserver-exec: %w", ErrUnavailable, err)
			}
		}
		sent, err := sendAll(l.socket, message, files)
		if err == nil {
			return nil
		}
		if !sent && !l.gone(err) && !errors.Is(err, syscall.EAGAIN) {
			return fmt.Errorf("passing files to toolserver-exec: %w", err) // not its fault
		}
		l.hangUp()
		if try == maxTries {
			return fmt.Errorf("%w: toolserver-exec does not answer: %w", ErrUnavailable, err)
		}
	}
}

// gone reports whether an error says that the helper has died.
func (l *link) gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// tell sends a request to the helper if there is one.
func (l *link) tell(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket >= 0 {
		sendAll(l.socket, message, nil)
	}
}

// sendAll sends a message. Sent says whether any of it was.
func sendAll(socket int, message []byte, files []int) (sent bool, err error) {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	for deadline := time.Now().Add(answerTime); len(message) > 0; {
		n, err := unix.SendmsgN(socket, message, rights, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
		case err == unix.ETOOMANYREFS && time.Now().Before(deadline):
			time.Sleep(time.Millisecond) // files on their way count against the limit of open files
		case err != nil:
			return sent, err
		default:
			message, rights, sent = message[n:], nil, true
		}
	}
	return true, nil
}

// close ends the helper and lets no other one begin.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.socket >= 0 {
		unix.Close(l.socket) // it ends by itself, when it has swept
		l.socket = -1
	}
}

// hangUp gives up a helper that does not do its work.
func (l *link) hangUp() {
	unix.Close(l.socket)
	l.socket = -1
	l.process.Kill()
}

// start starts the helper. It ends by itself when its socket does.
func (l *link) start() error {
	path := l.sandbox.config.Helper
	if path == "" {
		image, err := l.sandbox.image()
		if err != nil {
			return err
		}
		defer image.Close()
		path = fmt.Sprintf("/proc/self/fd/%d", image.Fd())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "helper")
	defer theirs.Close()
	timeout := unix.NsecToTimeval(int64(answerTime))
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		unix.Close(pair[0])
		return err
	}
	process, err := os.StartProcess(path, []string{"toolserver-exec"}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{l.sandbox.null, l.sandbox.null, os.Stderr, theirs},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	l.socket, l.process = pair[0], process
	group := enclose(process.Pid, cmp.Or(l.sandbox.config.MaxProcesses, maxTogether()))
	go func() {
		process.Wait()
		leaveGroup(group)
	}()
	if l.sandbox.config.Off {
		return nil
	}
	restrict := helper.Request{Kind: helper.Restrict, Filter: newFilter(l.network, l.sandbox.landlock)}
	message, err := restrict.Encode()
	if err == nil {
		_, err = sendAll(l.socket, message, nil)
	}
	if err != nil {
		l.hangUp()
	}
	return err
}

// image returns the program as a file that has no name.
func (s *Sandbox) image() (*os.File, error) {
	if len(s.config.Image) == 0 {
		return nil, errors.New("this server was built without it: put toolserver-exec beside the server, or build with make")
	}
	fd, err := unix.MemfdCreate("toolserver-exec", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all are executable
		fd, err = unix.MemfdCreate("toolserver-exec", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "toolserver-exec")
	if _, err := file.Write(s.config.Image); err != nil {
		file.Close()
		return nil, err
	}
	forget(s.config.Image)
	return file, nil
}

// forget gives the pages back that an image lies on: it is part of the program's
// file, and is read once in its life.
func forget(image []byte) {
	page := os.Getpagesize()
	start := uintptr(unsafe.Pointer(unsafe.SliceData(image)))
	skip := int(-start & uintptr(page-1))
	if whole := (len(image) - skip) &^ (page - 1); whole > 0 {
		unix.Madvise(image[skip:skip+whole], unix.MADV_PAGEOUT)
	}
}
