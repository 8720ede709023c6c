// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How a guard gets its requests. As in guard_linux.go, there is no Go runtime.

// take waits for a request to run something. It returns false if there will be
// none.
//
//go:norace
//go:nosplit
func take(s *slot) bool {
	for {
		s.outgoing = rawReport{}
		s.status, s.finished, s.ended, s.reported = 0, false, false, false
		s.used[0], s.used[1] = 0, 0
		s.part[0], s.part[1] = s.room, MaxPacket
		s.message.parts, s.message.nparts = uintptr(unsafe.Pointer(&s.part)), 1
		s.message.rights, s.message.sizeOfRights = uintptr(unsafe.Pointer(&s.rights)), unsafe.Sizeof(s.rights)
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, guardRequests, uintptr(unsafe.Pointer(&s.message)), unix.MSG_CMSG_CLOEXEC)
		if errno == syscall.EINTR {
			continue // it was stopped and goes on
		}
		if errno != 0 || n < headSize || headAt(s.room).kind == Dismiss {
			return false
		}
		nfiles := uintptr(0)
		if s.message.sizeOfRights > 0 {
			nfiles = (s.rights.size - unsafe.Offsetof(s.rights.files)) / 4
		}
		if nfiles == 0 || s.rights.files[0] != guardControl {
			return false // it is not from the server
		}
		if step, errno := read(s, n, nfiles); errno != 0 {
			refuse(s, step, errno)
			closeRange(guardControl, 1<<31-1)
			continue
		}
		return true
	}
}

// read makes of a request what the kernel is told. A large one comes in a file,
// which is the last, and only its head in the packet.
//
//go:norace
//go:nosplit
func read(s *slot, size, nfiles uintptr) (Step, uintptr) {
	at := s.room
	if whole := uintptr(headAt(at).size); size == headSize && whole > size && nfiles <= maxFiles+1 {
		nfiles--
		mapped, _, errno := syscall.RawSyscall6(unix.SYS_MMAP, 0, whole, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE, uintptr(s.rights.files[nfiles]), 0)
		if errno != 0 {
			return StepRequest, uintptr(errno)
		}
		s.elsewhere, s.size = mapped, whole
		at, size = mapped, whole
	}
	if nfiles > maxFiles {
		return StepRequest, uintptr(syscall.EINVAL)
	}
	for i := uintptr(0); i < nfiles; i++ {
		s.files[i] = s.rights.files[i]
	}
	if !lay(s, at, size, nfiles) {
		return StepRequest, uintptr(syscall.EINVAL)
	}
	return 0, 0
}

// lay makes pointers of what a request has instead: how far from its beginning a
// string is. It returns false if the request is malformed.
//
//go:norace
//go:nosplit
func lay(s *slot, at, size, nfiles uintptr) bool {
	h := headAt(at)
	want := uintptr(fileRuleset)
	if h.flags&Restricted != 0 {
		want = maxFiles
	}
	nargs, nenv, nroots, nplace := uintptr(h.nargs), uintptr(h.nenv), uintptr(h.nroots), uintptr(h.nplace)
	s.nlimits = uintptr(h.nlimits)
	if h.kind != Run || uintptr(h.size) != size || nfiles != want || s.nlimits > maxLimits || nplace != 0 && nplace != 2 || h.nfilter > maxFilter {
		return false
	}
	limits := at + headSize
	filter := limits + limitSize*s.nlimits
	table := filter + instrSize*uintptr(h.nfilter)
	count := 1 + nargs + 1 + nenv + 1 + nroots + 1 + nplace + 1
	text := table + 8*count
	if text >= at+size || *byteAt(at + size - 1) != 0 {
		return false
	}
	for i := uintptr(0); i < s.nlimits; i++ {
		resource, value := *wordAt(limits + limitSize*i), *wordAt(limits + limitSize*i + 8)
		if resource >= maxLimits {
			return false
		}
		hard := value
		if resource == unix.RLIMIT_CPU {
			hard++ // at the hard limit it would be killed without a word
		}
		hard = min(hard, s.own[resource].Max)
		s.limits[i].resource = uintptr(resource)
		s.limits[i].Cur, s.limits[i].Max = min(value, hard), hard
	}
	args := uintptr(1)
	env := args + nargs + 1
	roots := env + nenv + 1
	place := roots + nroots + 1
	for i := uintptr(0); i < count; i++ {
		word := wordAt(table + 8*i)
		end := i == env-1 || i == roots-1 || i == place-1 || i == count-1
		if end != (*word == 0) || !end && (*word < uint64(text-at) || *word >= uint64(size)) {
			return false
		}
		if !end {
			*word += uint64(at)
		}
	}
	s.id, s.wanted = h.id, h.flags
	s.path, s.args, s.env = uintptr(*wordAt(table)), table+8*args, table+8*env
	s.roots, s.nroots = table+8*roots, nroots
	s.view, s.dir = 0, 0
	if nplace == 2 {
		s.view, s.dir = uintptr(*wordAt(table + 8*place)), uintptr(*wordAt(table + 8*(place+1)))
	}
	s.program[0], s.program[1] = uintptr(h.nfilter), filter
	return true
}

//go:norace
//go:nosplit
func headAt(address uintptr) *head { return *(**head)(unsafe.Pointer(&address)) }

//go:norace
//go:nosplit
func wordAt(address uintptr) *uint64 { return *(**uint64)(unsafe.Pointer(&address)) }

//go:norace
//go:nosplit
func byteAt(address uintptr) *byte { return *(**byte)(unsafe.Pointer(&address)) }

// refuse answers a request whose command was not started.
//
//go:norace
//go:nosplit
func refuse(s *slot, step Step, errno uintptr) {
	report(s, guardControl, Failed, step, errno)
	release(s)
	finish(s, true)
}

// release gives the memory of a large request back.
//
//go:norace
//go:nosplit
func release(s *slot) {
	if s.elsewhere != 0 {
		syscall.RawSyscall(unix.SYS_MUNMAP, s.elsewhere, s.size, 0)
		s.elsewhere = 0
	}
}
