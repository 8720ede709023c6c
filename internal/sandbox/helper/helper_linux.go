// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Files of the helper, beside the standard ones.
const (
	Orders   = 3 // what the server says to the helper itself
	Requests = 4 // what to run: guards take it from here
)

// Execute is what the program does with its arguments: without any it is the
// helper, and ends when the server does.
func Execute(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "probe":
		return Probe(args[1:])
	case len(args) == 1 && args[0] == Namespaced:
		return serve(true)
	}
	return serve(false)
}

// serve is the helper, with namespaces of its own or without.
func serve(namespaced bool) error {
	runtime.LockOSThread()         // the thread whose filter commands inherit
	signal.Ignore(syscall.SIGCHLD) // guards report to the server, not to us
	// What a terminal or an operator sends to the group of the server is for the
	// server, which then hangs up.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	unix.CloseOnExec(Orders)
	unix.CloseOnExec(Requests)
	// Its memory has what sessions pass to their commands.
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}) // 0 would not hold for pipes
	// Where memory runs out, commands go before the server does: they have this
	// from here. The helper has it too, but is small.
	os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
	// Whatever loses its guard comes here.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if namespaced {
		if err := settle(); err != nil {
			unix.Write(Orders, append([]byte{Unsettled}, err.Error()...))
			return nil
		}
	}
	h := &helper{scope: int32(scopeRuleset()), pid: unix.Getpid()}
	for resource := range h.limits {
		if err := unix.Getrlimit(resource, &h.limits[resource]); err != nil {
			return err
		}
	}
	if _, err := unix.Write(Orders, []byte{Ready}); err != nil {
		return err
	}
	for {
		if err := h.next(); err != nil {
			h.sweep()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// scopeRuleset returns a Landlock ruleset that confines signals and nothing
// else, or -1 where the kernel has none. To link and rename across directories
// is denied by any ruleset that does not allow it, so this one does, everywhere.
func scopeRuleset() int {
	attr := [3]uint64{unix.LANDLOCK_ACCESS_FS_REFER, 0, signalScope}
	fd, _, errno := syscall.Syscall(landlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return -1
	}
	unix.CloseOnExec(int(fd))
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(int(fd))
		return -1
	}
	defer unix.Close(root)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_REFER, Parent_fd: int32(root)}
	_, _, errno = syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		unix.Close(int(fd))
		return -1
	}
	return int(fd)
}

type helper struct {
	pid       int
	scope     int32
	limits    [maxLimits]unix.Rlimit // those of the helper itself
	noFilter  syscall.Errno          // why there is no filter
	listening bool                   // to what the filter hands over
	memory    int                    // a file with that of the helper, for who listens
	sockets   sockets                // that the helper made for commands

	mu     sync.Mutex
	guards []*guarded
}

// guarded is a slot and what the helper knows of who uses it.
type guarded struct {
	*slot
	memory []byte // the slot, room for a request, two stacks
	pid    int    // of the guard
}

const (
	slotSize  = 48 << 10
	stackSize = 8 << 10
	roomStart = (unsafe.Sizeof(slot{}) + 15) &^ 15
	// The compiler refuses a negative size: the room holds a packet.
	_ = slotSize - 2*stackSize - roomStart - MaxPacket
)

func (g *guarded) running() bool { return atomic.LoadUint32(&g.alive) != 0 }

// free returns a slot that nobody uses. The helper is locked.
func (h *helper) free() (*guarded, error) {
	for _, g := range h.guards {
		if !g.running() {
			*g.slot = slot{}
			return g, nil
		}
	}
	memory, err := unix.Mmap(-1, 0, slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	g := &guarded{slot: (*slot)(unsafe.Pointer(unsafe.SliceData(memory))), memory: memory}
	h.guards = append(h.guards, g)
	return g, nil
}

var errMalformed = errors.New("a malformed order")

// next carries out one order. Its error is one after which the helper cannot go
// on.
func (h *helper) next() error {
	var b [headSize]byte
	if err := readFull(b[:]); err != nil {
		return err
	}
	order := *(*head)(unsafe.Pointer(&b))
	if order.size < headSize || order.size > maxRequest {
		return errMalformed
	}
	rest := make([]byte, order.size-headSize)
	if err := readFull(rest); err != nil {
		return err
	}
	switch order.kind {
	case Post:
		return h.post(order.flags)
	case Restrict:
		h.noFilter = h.restrict(int(order.nfilter), rest)
	case Abandon:
		h.abandon(order.id)
	case Show, Hide:
		return h.arrange(order.kind, string(rest))
	case Listen:
		return lend(listening())
	case Socket:
		// One for IPv6 reaches addresses of IPv4, too.
		return lend(unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))
	default:
		return errMalformed
	}
	return nil
}

// arrange makes or removes a view, and answers: with nothing, or what failed.
func (h *helper) arrange(kind RequestKind, view string) error {
	done := make(chan error)
	go func() { // not on this thread
		if kind == Show {
			done <- h.show(view)
		} else {
			done <- h.hide(view)
		}
	}()
	answer := make([]byte, AnswerSize)
	if err := <-done; err != nil {
		copy(answer[:AnswerSize-1], err.Error())
	}
	_, err := unix.Write(Orders, answer)
	return err
}

// listening returns a socket that listens on loopback.
func listening() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// lend sends a socket, which it closes, or why there is none.
func lend(fd int, err error) error {
	answer := make([]byte, AnswerSize)
	if err != nil {
		copy(answer[:AnswerSize-1], err.Error())
		_, err = unix.Write(Orders, answer)
		return err
	}
	defer unix.Close(fd)
	return unix.Sendmsg(Orders, answer, unix.UnixRights(fd), nil, 0)
}

// post makes one more guard.
func (h *helper) post(flags Flags) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, err := h.free()
	if err != nil {
		return err
	}
	g.flags, g.scope, g.helper = flags, h.scope, uintptr(h.pid)
	g.noFilter, g.own = uintptr(h.noFilter), h.limits
	memory := uintptr(unsafe.Pointer(unsafe.SliceData(g.memory)))
	g.room = memory + roomStart
	// The words above a stack are what the first function on it is called with.
	stack := memory + slotSize - 64
	g.stack = stack - stackSize
	g.alive = 1
	g.pid = forkGuard(g.slot, stack)
	if g.pid < 0 {
		g.alive = 0
		return h.apologise(syscall.Errno(-g.pid))
	}
	return nil
}

// apologise takes the request for which there is no guard, and refuses it.
func (h *helper) apologise(errno syscall.Errno) error {
	var b [headSize]byte
	rights := make([]byte, unix.CmsgSpace(4*(maxFiles+1)))
	_, n, _, _, err := unix.Recvmsg(Requests, b[:], rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil // a guard has taken it meanwhile
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return err
	}
	for _, m := range messages {
		files, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		report(new(slot), uintptr(files[fileControl]), Failed, StepFork, uintptr(errno))
		for _, file := range files {
			unix.Close(file)
		}
	}
	return nil
}

func readFull(p []byte) error {
	for len(p) > 0 {
		n, err := unix.Read(Orders, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		default:
			p = p[n:]
		}
	}
	return nil
}
