// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"encoding/binary"
	"errors"
	"io"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is the file by which the helper hears from the server.
const Socket = 3

// order is the request a guard carries out, and all it knows. It lies outside of
// the heap and holds addresses, not pointers: after the fork there is no runtime
// that would care for them.
type order struct {
	flags   Flags
	path    uintptr
	args    uintptr
	env     uintptr
	limits  uintptr
	nlimits uintptr
	filter  uintptr
	nfilter uintptr
	files   [maxFiles]int32
	scope   int32  // a ruleset that confines signals alone
	helper  uint64 // the process id that the guard must not reach
}

// Main is the helper. It ends when the server does.
func Main() error {
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGCHLD) // guards report to the server, not to us
	// What a terminal or an operator sends to the group of the server is for the
	// server, which then hangs up.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	unix.CloseOnExec(Socket)
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)

	memory, err := unix.Mmap(-1, 0, MaxRequest+1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	h := &helper{request: memory[:MaxRequest], pointers: memory[MaxRequest:], oob: make([]byte, unix.CmsgSpace(4*maxFiles))}
	h.order.scope = int32(scopeRuleset())
	h.order.helper = uint64(unix.Getpid())
	for {
		if err := h.next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// helper is what the helper needs for the request at hand, used again for the
// next one.
type helper struct {
	request  []byte
	pointers []byte
	oob      []byte
	order    order
}

var errMalformed = errors.New("a malformed request")

// next carries out one request.
func (h *helper) next() error {
	request, files, err := h.receive()
	defer func() {
		for _, fd := range files {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	if err := h.prepare(request, files); err != nil {
		return err
	}
	if errno := forkGuard(&h.order); errno != 0 {
		report(uintptr(h.order.files[fileControl]), Failed, StepFork, uintptr(errno))
	}
	return nil
}

// receive returns the next request and the files that came with its first byte.
func (h *helper) receive() (request []byte, files []int, err error) {
	n, oobn, _, _, err := recvmsg(h.request[:headSize], h.oob)
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(h.oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		received, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, files, err
		}
		files = append(files, received...)
	}
	if err := readFull(h.request[n:headSize]); err != nil {
		return nil, files, err
	}
	size := int(binary.LittleEndian.Uint32(h.request))
	if size < headSize || size > len(h.request) {
		return nil, files, errMalformed
	}
	return h.request[:size], files, readFull(h.request[headSize:size])
}

func recvmsg(p, oob []byte) (n, oobn, flags int, from unix.Sockaddr, err error) {
	for {
		n, oobn, flags, from, err = unix.Recvmsg(Socket, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return
		}
	}
}

func readFull(p []byte) error {
	for len(p) > 0 {
		n, err := unix.Read(Socket, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			p = p[n:]
		}
	}
	return nil
}

// prepare lays out a request for the kernel.
func (h *helper) prepare(request []byte, files []int) error {
	le := binary.LittleEndian
	o := &h.order
	o.flags = Flags(le.Uint32(request[4:]))
	nlimits, nfilter := int(le.Uint32(request[8:])), int(le.Uint32(request[12:]))
	nargs, nenv := int(le.Uint32(request[16:])), int(le.Uint32(request[20:]))

	want := fileRuleset
	if o.flags&Restricted != 0 {
		want = maxFiles
	}
	at := headSize + 4
	if len(files) != want || 8*(nargs+nenv+2) > len(h.pointers) || at+limitSize*nlimits+instrSize*nfilter > len(request) {
		return errMalformed
	}
	for i, fd := range files {
		o.files[i] = int32(fd)
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(request)))
	o.limits, o.nlimits = base+uintptr(at), uintptr(nlimits)
	at += limitSize * nlimits
	o.filter, o.nfilter = base+uintptr(at), uintptr(nfilter)
	at += instrSize * nfilter

	// next returns the address of the string at hand.
	next := func() (uintptr, bool) {
		for start := at; at < len(request); {
			at++
			if request[at-1] == 0 {
				return base + uintptr(start), true
			}
		}
		return 0, false
	}
	var ok bool
	if o.path, ok = next(); !ok {
		return errMalformed
	}
	pointers := h.pointers
	list := func(n int) (uintptr, bool) {
		start := uintptr(unsafe.Pointer(unsafe.SliceData(pointers)))
		for range n {
			s, ok := next()
			if !ok {
				return 0, false
			}
			le.PutUint64(pointers, uint64(s))
			pointers = pointers[8:]
		}
		le.PutUint64(pointers, 0)
		pointers = pointers[8:]
		return start, true
	}
	if o.args, ok = list(nargs); !ok {
		return errMalformed
	}
	if o.env, ok = list(nenv); !ok {
		return errMalformed
	}
	return nil
}
