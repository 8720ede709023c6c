// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// A link is the way to one helper, which is started when it is needed and when
// it has died, and to its guards. All its commands have the same filter and the
// same namespaces.
//
// What to run goes to whichever guard has nothing to do. The link knows how many
// there are, and has the helper make one when there is none. They outlive the
// helper, and so do requests: a helper that comes after it makes guards for them.
type link struct {
	sandbox    *Sandbox
	open       bool // its commands may use the network of the machine
	background bool // they come after everything else
	namespaced func() bool

	mu       sync.Mutex // held while something is sent
	orders   int        // to the helper; -1 while there is none
	requests [2]int     // to guards, and the end that they have; -1 before the first
	process  *os.Process
	closed   bool

	idle    atomic.Int32 // guards that have nothing to do
	started atomic.Int64 // commands, ever
	running atomic.Int64 // commands
	tending atomic.Bool
	retire  *time.Timer // ends a helper that has nothing to do
}

// answerTime is how long a helper may take to read an order, and a guard to
// kill everything, before something is wrong with it.
const answerTime = 10 * time.Second

// maxTries is how many more helpers are tried after one that died.
const maxTries = 5

func newLink(s *Sandbox, config SpaceConfig) *link {
	return &link{
		sandbox: s, open: config.Open, background: config.Background, namespaced: s.Namespaces,
		orders: -1, requests: [2]int{-1, -1},
	}
}

// ready returns the helper, which is started if there is none.
func (l *link) ready() (*os.Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, os.ErrClosed
	}
	if l.orders < 0 {
		if err := l.startOrTryAgain(); err != nil {
			return nil, err
		}
	}
	l.rested()
	return l.process, nil
}

// current reports whether a helper is the one there is.
func (l *link) current(process *os.Process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.orders >= 0 && l.process == process
}

// arrange has a helper make or remove a view.
func (l *link) arrange(process *os.Process, kind helper.RequestKind, view string) error {
	_, err := l.order(process, helper.Request{Kind: kind, View: view})
	return err
}

// lend returns a socket of the helper's network: with Listen one that listens on its
// loopback, with Socket one that is not connected.
func (l *link) lend(kind helper.RequestKind) (*os.File, error) {
	process, err := l.ready()
	if err != nil {
		return nil, err
	}
	rights, err := l.order(process, helper.Request{Kind: kind})
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, syscall.EPROTO
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		return nil, syscall.EPROTO
	}
	return os.NewFile(uintptr(files[0]), "socket"), nil
}

// order has a helper do something, and returns the rights that come with its
// answer: to one file at most.
func (l *link) order(process *os.Process, request helper.Request) (rights []byte, err error) {
	message, err := request.Encode()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orders < 0 || l.process != process {
		return nil, syscall.EPIPE
	}
	var answer [helper.AnswerSize]byte
	rights = make([]byte, unix.CmsgSpace(4))
	var n, size int
	if err = sendAll(l.orders, message, nil); err == nil {
		for {
			if n, size, _, _, err = unix.Recvmsg(l.orders, answer[:], rights, unix.MSG_CMSG_CLOEXEC); err != unix.EINTR {
				break
			}
		}
	}
	if err == nil {
		err = readFull(l.orders, answer[n:])
	}
	if err != nil {
		l.hangUp()
		return nil, err
	}
	if text, _, _ := bytes.Cut(answer[:], []byte{0}); len(text) > 0 {
		return nil, errors.New(string(text))
	}
	return rights[:size], nil
}

func readFull(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Read(fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return syscall.EPIPE
		default:
			p = p[n:]
		}
	}
	return nil
}

// rested sees to it that the helper ends when it has nothing to do for a while. The
// link is locked.
func (l *link) rested() {
	if l.retire == nil {
		l.retire = time.AfterFunc(idleHelper, l.retireIdle)
		return
	}
	l.retire.Reset(idleHelper)
}

func (l *link) retireIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.orders < 0:
	case l.running.Load() > 0:
		l.rested()
	default:
		l.dismiss()
		unix.Close(l.orders) // it ends by itself
		l.orders = -1
	}
}

// run gives a request to a guard.
func (l *link) run(request []byte, files []int) error {
	if len(request) > helper.MaxPacket {
		file, err := memoryFile("request", 0, bytes.NewReader(request))
		if err != nil {
			return err
		}
		defer file.Close()
		request, files = helper.Head(request), append(files, int(file.Fd()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	if l.orders < 0 || !l.engage() {
		if err := l.post(); err != nil {
			return err
		}
	}
	if err := sendAll(l.requests[0], request, files); err != nil {
		l.idle.Add(1)
		return fmt.Errorf("passing files to toolserver-exec: %w", err)
	}
	l.started.Add(1)
	l.running.Add(1)
	l.rested()
	l.tend()
	return nil
}

// engage takes one of the guards that have nothing to do, if there is one.
func (l *link) engage() bool {
	for {
		n := l.idle.Load()
		if n == 0 {
			return false
		}
		if l.idle.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// post has the helper make a guard; a new helper if the old one has died. The
// link is locked.
func (l *link) post() error {
	order := helper.Request{Kind: helper.Post}
	if l.sandbox.landlock >= landlockScopes {
		order.Flags = helper.Scoped
	}
	message, err := order.Encode()
	for try := 0; err == nil; try++ {
		if l.orders < 0 {
			if err := l.startOrTryAgain(); err != nil {
				return err
			}
		}
		failed := sendAll(l.orders, message, nil)
		if failed == nil {
			return nil
		}
		l.hangUp()
		if try == maxTries {
			err = fmt.Errorf("%w: toolserver-exec does not answer: %w", ErrUnavailable, failed)
		}
	}
	return err
}

// startOrTryAgain starts a helper, and another if it dies at once. The link is
// locked.
func (l *link) startOrTryAgain() error {
	for try := 0; ; try++ {
		err := l.start()
		if err == nil {
			return nil
		}
		if try == maxTries || !l.gone(err) {
			return fmt.Errorf("%w: starting toolserver-exec: %w", ErrUnavailable, err)
		}
	}
}

// rest says that a guard has nothing to do any more.
func (l *link) rest() { l.idle.Add(1) }

// How often a link is looked at after something was started; after how many quiet
// pauses a request is taken for forgotten, and guards without work are dismissed.
const (
	tendPause = 100 * time.Millisecond
	forgotten = 5
	keepIdle  = 10
)

// tend looks after the guards for as long as something is started.
func (l *link) tend() {
	if l.tending.CompareAndSwap(false, true) {
		l.tendAfter(l.started.Load(), 0)
	}
}

func (l *link) tendAfter(started int64, quiet int) {
	time.AfterFunc(tendPause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			return
		}
		waiting, _ := unix.IoctlGetInt(l.requests[0], unix.SIOCOUTQ)
		now := l.started.Load()
		quiet++
		if now != started {
			quiet = 0
		}
		if waiting > 0 && quiet >= forgotten && l.post() != nil { // who should have taken it was killed
			l.forget()
		}
		if waiting == 0 && quiet >= keepIdle {
			l.dismiss()
			l.tending.Store(false)
			return
		}
		l.tendAfter(now, quiet)
	})
}

// forget takes back requests that nobody will take. Who waits for their end learns
// that they are lost. The link is locked.
func (l *link) forget() {
	rights := make([]byte, 256)
	for {
		_, n, _, _, err := unix.Recvmsg(l.requests[1], make([]byte, 1), rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return
		}
		messages, _ := unix.ParseSocketControlMessage(rights[:n])
		for _, m := range messages {
			files, _ := unix.ParseUnixRights(&m)
			for _, file := range files {
				unix.Close(file)
			}
		}
	}
}

// dismiss sends away the guards that have nothing to do. The link is locked.
func (l *link) dismiss() {
	order := helper.Request{Kind: helper.Dismiss}
	message, err := order.Encode()
	for err == nil && l.engage() {
		err = sendAll(l.requests[0], message, nil)
	}
}

// gone reports whether an error says that the helper has died.
func (l *link) gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// tell sends an order to the helper if there is one.
func (l *link) tell(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orders >= 0 {
		sendAll(l.orders, message, nil)
	}
}

func sendAll(socket int, message []byte, files []int) error {
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
			return err
		default:
			message, rights = message[n:], nil
		}
	}
	return nil
}

// close ends the helper and its guards, and lets no others begin.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.retire != nil {
		l.retire.Stop()
	}
	for _, socket := range [...]int{l.orders, l.requests[0], l.requests[1]} {
		if socket >= 0 {
			unix.Close(socket) // they end by themselves, when they have swept
		}
	}
}

// hangUp gives up a helper that does not do its work.
func (l *link) hangUp() {
	unix.Close(l.orders)
	l.orders = -1
	l.process.Kill()
}

// lost takes note that a helper has ended.
func (l *link) lost(process *os.Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.process == process && l.orders >= 0 {
		unix.Close(l.orders)
		l.orders = -1
	}
	l.dismiss() // nobody would take over from them
}

// start starts the helper. It ends by itself when its orders do.
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
	if l.requests[0] < 0 {
		pair, err := socketPair(unix.SOCK_SEQPACKET)
		if err != nil {
			return err
		}
		l.requests = pair
	}
	pair, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "orders")
	defer theirs.Close()
	requests, err := unix.FcntlInt(uintptr(l.requests[1]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	taken := os.NewFile(uintptr(requests), "requests")
	defer taken.Close()
	args, sys := l.own()
	stderr := cmp.Or(l.sandbox.config.Stderr, os.Stderr)
	process, err := os.StartProcess(path, args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{l.sandbox.null, l.sandbox.null, stderr, theirs, taken}, Sys: sys,
	})
	theirs.Close() // so that its end is seen
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	l.orders, l.process = pair[0], process
	l.sandbox.helpers.enclose(process.Pid)
	if l.background {
		// Where there are no groups of sessions, this is not there, and the other counts.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", process.Pid), []byte("19"), 0)
		_ = unix.Setpriority(unix.PRIO_PROCESS, process.Pid, 19)
	}
	go func() {
		process.Wait()
		l.lost(process)
		l.sandbox.left()
	}()
	if err := awaitReady(l.orders); err != nil || l.sandbox.config.Off {
		if err != nil {
			l.hangUp()
		}
		return err
	}
	restrict := helper.Request{Kind: helper.Restrict, Filter: l.filter()}
	message, err := restrict.Encode()
	if err == nil {
		err = sendAll(l.orders, message, nil)
	}
	if err != nil {
		l.hangUp()
	}
	return err
}

// own returns how a helper is called, and what is its own from the start.
func (l *link) own() (args []string, sys *syscall.SysProcAttr) {
	args, sys = []string{"toolserver-exec"}, &syscall.SysProcAttr{Setsid: true}
	if !l.namespaced() {
		return args, sys
	}
	sys.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	if !l.open {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	if user, group := os.Geteuid(), os.Getegid(); user != 0 {
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: user, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: group, HostID: group, Size: 1}}
		// To mount, to raise loopback, to change roots; to read the memory of
		// commands, and to look past their modes.
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SETPCAP}
	}
	return append(args, helper.Namespaced), sys
}

// filter returns the filter that all commands have.
func (l *link) filter() []helper.Instr {
	return commonFilter(l.sandbox.landlock, !l.open && !l.namespaced())
}

// awaitReady returns when a helper waits for orders.
func awaitReady(orders int) error {
	var b [helper.AnswerSize]byte
	for {
		switch n, err := unix.Read(orders, b[:]); {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return syscall.EPIPE
		case b[0] == helper.Unsettled:
			return errors.New(string(b[1:n]))
		case b[0] != helper.Ready:
			return syscall.EPROTO
		default:
			return nil
		}
	}
}

// socketPair returns sockets of which the first does not wait for ever.
func socketPair(kind int) (pair [2]int, err error) {
	if pair, err = unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0); err != nil {
		return pair, err
	}
	timeout := unix.NsecToTimeval(int64(answerTime))
	for _, option := range [...]int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, option, &timeout); err != nil {
			unix.Close(pair[0])
			unix.Close(pair[1])
			return pair, err
		}
	}
	return pair, nil
}

// image returns the program as a file that has no name.
func (s *Sandbox) image() (*os.File, error) {
	if len(s.config.Image) == 0 {
		return nil, errors.New("this server was built without it: put toolserver-exec beside the server, or build with make")
	}
	return memoryFile("toolserver-exec", unix.MFD_EXEC, bytes.NewReader(s.config.Image))
}

// memoryFile returns a file without a path.
func memoryFile(name string, flags int, content io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if err == unix.EINVAL { // before Linux 6.3 all are executable
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := io.Copy(file, content); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
