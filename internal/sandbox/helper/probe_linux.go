// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe tries, as a command in a jail, what commands must not be able to do. For
// each attempt it writes a line: its name, whether it was refused, and what was
// said. The first argument chooses what is tried; the others are what it needs.
func Probe(args []string) error {
	if len(args) == 0 {
		return errors.New("nothing to probe")
	}
	switch kind, args := args[0], args[1:]; {
	case kind == ProbeWalls && len(args) == 4:
		inView = args[3] == Namespaced
		server, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		probeInside(args[0])
		probeOutside(args[1])
		probeServer(server)
		probeSystem()
		probeNetwork()
	case kind == ProbeLoopback && len(args) == 2:
		port, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		probeLoopback(port, args[1])
	case kind == ProbeX32 || kind == ProbeI386:
		tell(kind, foreign(kind))
	case kind == ProbeLeftover && len(args) == 0:
		return leaveBehind()
	case kind == probeSleep:
		unix.Pause()
	default:
		return fmt.Errorf("there is no probe %s with %d arguments", kind, len(args))
	}
	return nil
}

// Kinds of probes, as a command line has them.
const (
	ProbeWalls    = "walls"    // the workspace, a directory outside, the server's process, whether it is namespaced
	ProbeLoopback = "loopback" // a port and a socket of the file system that others listen on
	ProbeX32      = "x32_calls"
	ProbeI386     = "i386_calls"
	ProbeLeftover = "leftover"

	probeSleep = "sleep"
)

// inView says that what is outside is not there at all.
var inView bool

// tell writes what came of an attempt. It was refused if err is one of refusals,
// or, where there are none, if it is one that a wall gives.
func tell(name string, err error, refusals ...error) {
	if len(refusals) == 0 {
		refusals = []error{unix.EPERM, unix.EACCES, unix.EAFNOSUPPORT, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT}
	}
	if inView {
		refusals = append(refusals, unix.ENOENT, unix.ESRCH)
	}
	if err == nil {
		tellThat(name, false, "possible")
		return
	}
	tellThat(name, isOneOf(err, refusals), err)
}

// tellThat writes whether something is as it should be, and what was found: the
// error of an attempt, nil for one without.
func tellThat(name string, holds bool, reported any) {
	answer := strconv.FormatBool(holds)
	if reported == nil {
		reported = "done"
	}
	if err, ok := reported.(error); ok && isOneOf(err, exhausted) {
		answer = Untried
	}
	fmt.Printf("%s\t%s\t%v\n", name, answer, reported)
}

// Untried is what a probe writes instead of whether something holds, where that
// could not be found out.
const Untried = "untried"

// exhausted are the errors of a machine that has run out of something: neither a
// refusal nor a way.
var exhausted = []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EROFS}

func isOneOf(err error, list []error) bool {
	return slices.ContainsFunc(list, func(one error) bool { return errors.Is(err, one) })
}

// opened is the error of opening a file, which is closed again.
func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// probeInside tries what a command must be able to do.
func probeInside(workspace string) {
	file := workspace + "/probe"
	err := opened(file, unix.O_CREAT|unix.O_RDWR)
	tellThat("write_inside", err == nil, err)
	err = unix.Chmod(file, 0o640)
	if err == nil {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, file, nil, 0)
	}
	tellThat("chmod_inside", err == nil, err)
	tellThat("setuid", !madeSetUID(workspace+"/setuid"), nil)
}

// madeSetUID tries to make a file that has the rights of its owner when it is
// executed.
func madeSetUID(file string) bool {
	const mode = unix.S_ISUID | 0o700
	has := func() bool {
		var stat unix.Stat_t
		return unix.Stat(file, &stat) == nil && stat.Mode&unix.S_ISUID != 0
	}
	fd, err := unix.Open(file, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, mode)
	if err == nil {
		unix.Close(fd)
	}
	if has() {
		return true
	}
	unix.Mknod(file, unix.S_IFREG|mode, 0)
	opened(file, unix.O_CREAT|unix.O_RDWR)
	unix.Chmod(file, mode)
	return has()
}

// probeOutside tries a directory that is not of the jail, and a file in it.
func probeOutside(dir string) {
	file := dir + "/file"
	tellThat("chown_outside", !chowned(file), nil)
	tell("read_outside", opened(file, unix.O_RDONLY))
	tell("write_outside", opened(file, unix.O_WRONLY))
	tell("create_outside", opened(dir+"/new", unix.O_CREAT|unix.O_WRONLY))
	tell("list_outside", opened(dir, unix.O_RDONLY|unix.O_DIRECTORY))
	tell("truncate_outside", unix.Truncate(file, 0))
	tell("rename_outside", unix.Rename(file, dir+"/renamed"))
	tell("remove_outside", unix.Unlink(dir+"/other"))
	tell("link_from_outside", unix.Link(file, "link"), unix.EACCES, unix.EXDEV)
	tell("chmod_outside", unix.Chmod(file, 0o600))
	tell("times_outside", unix.UtimesNanoAt(unix.AT_FDCWD, file, nil, 0))
	tell("attribute_outside", unix.Setxattr(file, "user.probe", []byte("x"), 0))
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(watch, dir, unix.IN_CREATE)
		unix.Close(watch)
	}
	tell("watch_outside", err)
}

// chowned reports whether giving a file to who has it does something to it.
func chowned(file string) bool {
	var before, after unix.Stat_t
	if unix.Stat(file, &before) != nil {
		return false // it is not even there
	}
	unix.Chown(file, -1, unix.Getgid())
	return unix.Stat(file, &after) != nil || after.Ctim != before.Ctim || after.Mode != before.Mode
}

// probeServer tries what does harm to the server or shows its secrets.
func probeServer(pid int) {
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	tell("signal_server", unix.Kill(pid, 0))
	tell("signal_guard", unix.Kill(unix.Getppid(), 0))
	tell("server_environment", opened(proc+"environ", unix.O_RDONLY))
	tell("server_memory", opened(proc+"mem", unix.O_RDONLY))
	tell("server_command_line", opened(proc+"cmdline", unix.O_RDONLY))
	_, err := os.Readlink(proc + "fd/0")
	tell("server_files", err)
	var limit unix.Rlimit
	tell("server_limits", unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit))
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err == nil { // the system call returns it from 40 down to 1
		err = unix.Setpriority(unix.PRIO_PROCESS, pid, 20-priority)
	}
	tell("server_priority", err)
}

// probeSystem tries system calls that are ways around the walls.
func probeSystem() {
	open := 0
	for fd := 3; fd < 256; fd++ {
		// What came with the execution is not closed by the next; what this program
		// opened itself is.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			open++
		}
	}
	tellThat("descriptors", open == 0, fmt.Sprintf("%d besides the standard ones", open))

	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	held := data[0].Effective | data[0].Permitted
	tellThat("capabilities", err == nil && held&^(1<<unix.CAP_DAC_OVERRIDE) == 0 && data[1].Effective|data[1].Permitted == 0,
		fmt.Sprintf("%x%08x", data[1].Permitted, held))
	fixed, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	tellThat("no_new_privileges", fixed == 1, fixed)
	mode, _ := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	tellThat("seccomp", mode == 2, fmt.Sprintf("mode %d", mode))

	tell("user_namespace", inNamespace())
	const peekData = 2
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, peekData, uintptr(unix.Getpid()), 0, 0, 0, 0)
	tell("ptrace", errno, unix.EPERM)
	var params [30]uint32
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	tell("io_uring", errnoOrNil(errno))
	_, _, errno = unix.Syscall(unix.SYS_BPF, ^uintptr(0), 0, 0)
	tell("bpf", errnoOrNil(errno), unix.EPERM, unix.ENOSYS)
	_, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	tell("keyring", err)
}

func errnoOrNil(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// inNamespace starts a process in a new user namespace.
func inNamespace() error {
	process, err := os.StartProcess(self, []string{"toolserver-exec"}, &os.ProcAttr{
		Files: []*os.File{os.Stdin}, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	if err != nil {
		return err
	}
	process.Kill()
	process.Wait()
	return nil
}

// self is the program: it is standard input.
const self = "/proc/self/fd/0"

var (
	loopback = [4]byte{127, 0, 0, 1}
	nobody   = &unix.SockaddrInet4{Port: 1, Addr: loopback} // where nobody listens
)

// probeNetwork tries to reach somebody where there is no network.
func probeNetwork() {
	tell("tcp_connect", connected(unix.AF_INET, unix.SOCK_STREAM, 0, nobody))
	tell("tcp_bind", bound())
	tell("udp", connected(unix.AF_INET, unix.SOCK_DGRAM, 0, nobody))
	tell("mptcp", connected(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, nobody))
	tell("netlink", connected(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, nil))
	tell("path_socket", connected(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: "socket"}))
	tell("abstract_socket", connected(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: "@toolserver"}))
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		err = unix.Connect(pair[0], &unix.SockaddrUnix{Name: "socket"})
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
	tell("datagram_socket", err, unix.EPERM)
}

// probeLoopback tries to reach what this process serves, and what others do.
func probeLoopback(port int, file string) {
	err := served(unix.AF_INET, &unix.SockaddrInet4{})
	if err == nil {
		err = served(unix.AF_UNIX, &unix.SockaddrUnix{Name: "loopback"})
	}
	tellThat("loopback_own", err == nil, err)
	var reached []string
	for name, err := range map[string]error{
		"TCP":           connected(unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Port: port, Addr: loopback}),
		"IPv6":          connected(unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}),
		"all addresses": connected(unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Port: port}),
		"MPTCP":         connected(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, &unix.SockaddrInet4{Port: port, Addr: loopback}),
		"a file":        connected(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: file}),
	} {
		if err == nil {
			reached = append(reached, name)
		}
	}
	slices.Sort(reached)
	tellThat("loopback_other", len(reached) == 0, "reached: "+strings.Join(append(reached, "nothing")[:max(len(reached), 1)], ", "))
}

// served is the error of connecting to a socket that this process listens on.
func served(family int, at unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, at); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	return connected(family, unix.SOCK_STREAM, 0, name)
}

// connected is the error of connecting a socket; where to nil, of making it.
func connected(family, kind, protocol int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil || to == nil {
		unix.Close(fd)
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

// bound is the error of binding a socket.
func bound() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Port: 20001, Addr: loopback})
}

// leaveBehind starts a process that leaves the session, and tells its id.
func leaveBehind() error {
	process, err := os.StartProcess(self, []string{"toolserver-exec", "probe", probeSleep}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	fmt.Println(process.Pid)
	return nil
}
