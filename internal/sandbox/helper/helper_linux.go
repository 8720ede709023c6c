// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"encoding/binary"
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

// Socket is the file by which the helper hears from the server.
const Socket = 3

// Execute is what the program does with its arguments: without any it is the
// helper, and ends when the server does.
func Execute(args []string) error {
	if len(args) > 0 && args[0] == "probe" {
		return Probe(args[1:])
	}
	return serve()
}

func serve() error {
	runtime.LockOSThread()         // the thread whose filter commands inherit
	signal.Ignore(syscall.SIGCHLD) // guards report to the server, not to us
	// What a terminal or an operator sends to the group of the server is for the
	// server, which then hangs up.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	unix.CloseOnExec(Socket)
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
	h := &helper{scope: int32(scopeRuleset()), pid: unix.Getpid(), oob: make([]byte, unix.CmsgSpace(4*maxFiles))}
	for resource := range h.limits {
		if err := unix.Getrlimit(resource, &h.limits[resource]); err != nil {
			return err
		}
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
	head      [headSize]byte
	oob       []byte
	noFilter  syscall.Errno // why there is no filter
	listening bool          // to what the filter hands over

	mu     sync.Mutex
	guards []*guarded
}

// guarded is a slot and what the helper knows of who uses it.
type guarded struct {
	*slot
	memory []byte // the slot, room for a request, two stacks
	large  []byte // a request that does not fit there
	pid    int    // of the guard
	id     uint64
	roots  []string
}

const (
	slotSize  = 48 << 10
	stackSize = 8 << 10
)

func (g *guarded) running() bool { return atomic.LoadUint32(&g.alive) != 0 }

// room returns memory for n bytes that the guard and its command can use.
func (g *guarded) room(n int) ([]byte, error) {
	const start = (int(unsafe.Sizeof(slot{})) + 15) &^ 15
	if inside := g.memory[start : slotSize-2*stackSize]; n <= len(inside) {
		return inside[:n], nil
	}
	large, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	g.large = large
	return large, err
}

// free returns a slot that nobody uses.
func (h *helper) free() (*guarded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.guards {
		if g.running() {
			continue
		}
		if g.large != nil {
			unix.Munmap(g.large)
		}
		*g.slot = slot{}
		*g = guarded{slot: g.slot, memory: g.memory}
		return g, nil
	}
	memory, err := unix.Mmap(-1, 0, slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	g := &guarded{slot: (*slot)(unsafe.Pointer(unsafe.SliceData(memory))), memory: memory}
	h.guards = append(h.guards, g)
	return g, nil
}

var errMalformed = errors.New("a malformed request")

// next carries out one request. Its error is one after which requests cannot be
// told from each other any more.
func (h *helper) next() error {
	files, err := h.receive()
	defer func() {
		for _, fd := range files {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	head := readHead(h.head[:])
	if head.size < headSize || head.size > maxRequest || head.count() > maxStrings {
		return errMalformed
	}
	g, err := h.free()
	if err != nil {
		return err
	}
	body, err := g.room(head.size - headSize + 8*(head.count()+4))
	if err != nil {
		return err
	}
	request, pointers := body[:head.size-headSize], body[(head.size-headSize+7)&^7:]
	if err := readFull(request); err != nil {
		return err
	}
	switch head.kind {
	case Run:
		step, errno := h.run(g, head, request, pointers, files)
		if errno != 0 && len(files) > 0 {
			report(g.slot, uintptr(files[fileControl]), Failed, step, uintptr(errno))
		}
	case Restrict:
		h.noFilter = h.restrict(head, request)
	case Abandon:
		h.abandon(head.id)
	default:
		return errMalformed
	}
	return nil
}

// run makes the guard of a command.
func (h *helper) run(g *guarded, head head, request, pointers []byte, files []int) (Step, syscall.Errno) {
	if h.noFilter != 0 {
		return StepSeccomp, h.noFilter
	}
	if !h.prepare(g, head, request, pointers, files) {
		return StepRequest, syscall.EINVAL
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g.alive = 1
	// The words above a stack are what the first function on it is called with.
	stack := uintptr(unsafe.Pointer(unsafe.SliceData(g.memory))) + slotSize - 64
	g.stack = stack - stackSize
	pid := forkGuard(g.slot, stack)
	if pid < 0 {
		g.alive = 0
		return StepFork, syscall.Errno(-pid)
	}
	g.pid, g.id = pid, head.id
	return 0, 0
}

// receive reads the head of the next request, and returns the files that came
// with it.
func (h *helper) receive() (files []int, err error) {
	n, oobn, err := recvmsg(h.head[:], h.oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(h.oob[:oobn])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		received, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		files = append(files, received...)
	}
	return files, readFull(h.head[n:])
}

func recvmsg(p, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(Socket, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, err
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

// head is what a request begins with.
type head struct {
	size                                  int
	kind                                  RequestKind
	id                                    uint64
	flags                                 Flags
	nlimits, nfilter, nargs, nenv, nroots int
}

func readHead(b []byte) head {
	le := binary.LittleEndian
	return head{
		size: int(le.Uint32(b)), kind: RequestKind(le.Uint32(b[4:])), id: le.Uint64(b[8:]), flags: Flags(le.Uint32(b[16:])),
		nlimits: int(le.Uint32(b[20:])), nfilter: int(le.Uint32(b[24:])),
		nargs: int(le.Uint32(b[28:])), nenv: int(le.Uint32(b[32:])), nroots: int(le.Uint32(b[36:])),
	}
}

func (h head) count() int { return h.nargs + h.nenv + h.nroots }

// prepare lays out a request for the kernel. It returns false if the request is
// malformed.
func (h *helper) prepare(g *guarded, head head, request, pointers []byte, files []int) bool {
	le := binary.LittleEndian
	want := fileRuleset
	if head.flags&Restricted != 0 {
		want = maxFiles
	}
	if len(files) != want || head.nlimits > maxLimits || head.nfilter != 0 || len(request) < limitSize*head.nlimits {
		return false
	}
	g.flags, g.scope, g.helper = head.flags, h.scope, uintptr(h.pid)
	for i, fd := range files {
		g.files[i] = int32(fd)
	}
	g.nlimits = uintptr(head.nlimits)
	for i := range head.nlimits {
		resource, value := le.Uint64(request), le.Uint64(request[8:])
		if resource >= maxLimits {
			return false
		}
		hard := value
		if resource == unix.RLIMIT_CPU {
			hard++ // at the hard limit it would be killed without a word
		}
		hard = min(hard, h.limits[resource].Max)
		g.limits[i] = rlimit{uintptr(resource), unix.Rlimit{Cur: min(value, hard), Max: hard}}
		request = request[limitSize:]
	}

	// next returns the string at hand, with its end.
	next := func() []byte {
		end := bytes.IndexByte(request, 0)
		if end < 0 {
			return nil
		}
		s := request[:end+1]
		request = request[end+1:]
		return s
	}
	address := func(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
	path := next()
	if path == nil {
		return false
	}
	g.path = address(path)
	list := func(n int) (uintptr, bool) {
		start := address(pointers)
		for range n {
			s := next()
			if s == nil {
				return 0, false
			}
			le.PutUint64(pointers, uint64(address(s)))
			pointers = pointers[8:]
		}
		le.PutUint64(pointers, 0)
		pointers = pointers[8:]
		return start, true
	}
	var ok bool
	if g.args, ok = list(head.nargs); !ok {
		return false
	}
	if g.env, ok = list(head.nenv); !ok {
		return false
	}
	for range head.nroots {
		root := next()
		if root == nil {
			return false
		}
		g.roots = append(g.roots, string(root[:len(root)-1]))
	}
	return len(request) == 0
}
