// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the only way to processes. A command is started in a jail,
// which bounds what it and everything it starts can reach; when it ends, nothing
// of it is left. No privileges are needed: Landlock and seccomp restrict, and
// package helper tells how everything is found and killed.
//
// The commands of a session share a [Space]. Where the machine lets the server
// make namespaces, a space has its own: commands see a [View] of the files there
// are, their own processes, and a network that is loopback alone. Where it does
// not, Landlock and seccomp hold without them.
//
// Locks: that of a [Jail] comes before that of its [Space], and that before the one of the link
// to the helper, which the [Sandbox] takes with its own held, too. That of the control group of all
// helpers comes last. That of the monitor is taken alone.
//
// Goroutines: each helper has one that waits for its end. The probe at start has some, and waits for them.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// ErrUnavailable says that commands cannot be run here at all.
var ErrUnavailable = errors.New("commands cannot be run on this machine")

// Config is how a sandbox is made.
type Config struct {
	// Helper is the path of toolserver-exec; Image is the program itself, for
	// where there is none to be found in the file system.
	Helper string
	Image  []byte

	// Stderr is where the helper writes why it failed; nil means that of this
	// process.
	Stderr *os.File

	// Off runs commands without restrictions. They are still killed whole.
	Off bool

	// NoNamespaces makes none, as where the machine does not let the server.
	NoNamespaces bool

	// MaxProcesses is how many processes all commands may have together, where
	// control groups can be made; 0 means half of what the machine can have.
	MaxProcesses int

	// landlockAtMost makes the kernel look older, if it is not 0.
	landlockAtMost int
}

// Network is how far commands reach.
type Network int

const (
	// NetworkNone lets commands open no socket.
	NetworkNone Network = iota
	// NetworkLoopback lets commands reach what those of their space serve.
	NetworkLoopback
	// NetworkOpen lets commands reach what the machine does. Only a space that is
	// open has it.
	NetworkOpen

	networks = iota
)

// SpaceConfig is how a space is made.
type SpaceConfig struct {
	// Open has the space use the network of the machine.
	Open bool

	// Background has what runs in the space wait for everything else that wants a
	// processor. Priorities alone do not where the kernel shares processors out among
	// sessions of processes, for a space is one.
	Background bool
}

// A View is the files there are for the commands of a jail. All of them can be
// read. Paths are absolute and lead through no link but those of Read, which may.
type View struct {
	// Read are files and trees that nobody writes, Write trees that some jails
	// may. Of Read, what is not there is left out.
	Read, Write []string

	// Temp is the directory that commands find at /tmp, and Calls the one at
	// [CallsPath], and not where they are. They need a namespace, and so do the others
	// below. What is shown below a directory that can be written can be written, too.
	Temp, Calls string

	// Cover are files and directories that are hidden, Fixed those that stay as
	// they are. Empty are trees of which nothing is shown but what else is named.
	Cover, Fixed, Empty []string

	// Held are directories that keep their names: what lies below one that is hidden
	// by its name would be seen by another. What is renamed into or out of them is
	// renamed across file systems.
	Held []string

	// Version differs where the same paths are other files: what hides a file does
	// not hide another that has taken its name.
	Version string
}

// Equal reports whether two views show the same.
func (v *View) Equal(other *View) bool {
	return v.Temp == other.Temp && v.Calls == other.Calls && v.Version == other.Version &&
		slices.Equal(v.Read, other.Read) && slices.Equal(v.Write, other.Write) && slices.Equal(v.Cover, other.Cover) &&
		slices.Equal(v.Fixed, other.Fixed) && slices.Equal(v.Empty, other.Empty) && slices.Equal(v.Held, other.Held)
}

// CallsPath is where commands find the directories of calls: below nothing that
// they could write.
const CallsPath = "/run/calls"

// A Profile is what the commands of a jail may reach.
type Profile struct {
	View View

	// Write is what can be written: files and trees at or below those of the
	// view's Write.
	Write []string

	// Unconfined lets commands read and write whatever the server's user may.
	// There is no view then.
	Unconfined bool

	Network Network

	// Signals lets commands signal those of other jails of the space.
	Signals bool

	// ProxyPort is a port of the machine's loopback that NetworkLoopback reaches
	// too where spaces have no network of their own; 0 is none.
	ProxyPort uint16
}

// Limits bound one command and everything it starts. 0 means no limit.
type Limits struct {
	Memory     uint64        // bytes that all its processes have for themselves
	Processes  int           // at a time
	CPU        time.Duration // of one process
	OpenFiles  uint64        // of one process
	FileSize   uint64        // of one file
	Addressing uint64        // address space of one process
}

// A Command is what to run.
type Command struct {
	Path string   // of the program, absolute
	Args []string // with its name first
	Env  []string

	Dir                   *os.File // the working directory
	Stdin, Stdout, Stderr *os.File // nil: /dev/null
	Terminal              bool     // Stdin is a terminal, to be the controlling one

	Limits Limits
	Group  *Group // what it has limits together with; nil: none

	// Grace is how long what the command leaves running when it ends has to end
	// by itself, once it was asked to, before it is killed; 0: it is killed at once.
	Grace time.Duration
}

// An End tells how a command ended. It is complete: nothing runs any more.
type End struct {
	Reason Reason
	Code   int            // for Exited
	Signal syscall.Signal // for Signaled
	Group  *Group         // whose limit was exceeded; nil: its own

	User, System time.Duration // of all processes
	MaxRSS       uint64        // bytes, of the largest process
	Processes    int           // the most at a time that were seen; those that are gone within moments are not
	Left         bool          // something could not be killed: the kernel holds it

	// Leftover is what was still running when the command ended, and was ended
	// then: some of it if there was much.
	Leftover []Leftover
}

// Leftover are processes of one command line.
type Leftover struct {
	Line  string // with blanks between the arguments
	Count int
}

// Reason is why a command ended.
type Reason int

const (
	// Exited is an end by itself.
	Exited Reason = 1 + iota
	// Signaled is an end by a signal that nobody here sent.
	Signaled
	// Killed is an end by [Process.Kill].
	Killed
	// OutOfMemory is an end for using more memory than it may.
	OutOfMemory
	// TooManyProcesses is an end for starting more processes than it may.
	TooManyProcesses
	// OutOfTime is an end for using more CPU time than it, or its group, may.
	OutOfTime
	// FileTooLarge is an end for writing a larger file than it may.
	FileTooLarge
	// Violation is an end for a system call that no command may make.
	Violation
	// Lost is an end nobody saw: the guard was killed.
	Lost
)

// A StartError says that a command could not be started.
type StartError struct {
	Doing string // what failed
	Errno syscall.Errno

	inExec bool
}

func (e *StartError) Error() string {
	if e.inExec {
		switch e.Errno {
		case syscall.ENOENT:
			return e.Doing + ": there is no such program, or the interpreter that its first line names is missing"
		case syscall.EACCES:
			return e.Doing + ": it is not executable, or lies where commands may not read"
		case syscall.ENOEXEC:
			return e.Doing + ": it is not in a format that can be executed; a script begins with #! and its interpreter"
		case syscall.E2BIG:
			return e.Doing + ": arguments and environment are too long; one may have 128 KiB, all together about 2 MiB"
		case syscall.ETXTBSY:
			return e.Doing + ": it is being written to"
		}
	}
	return fmt.Sprintf("%s: %v", e.Doing, e.Errno)
}

func (e *StartError) Unwrap() error { return e.Errno }

// SystemPaths are what commands read of the system: programs, libraries and
// what these need to know. Of /etc it is the harmless part.
func SystemPaths() []string { return slices.Clone(systemPaths[:]) }

var systemPaths = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store",
	"/etc/alternatives", "/etc/bash.bashrc", "/etc/ca-certificates", "/etc/ca-certificates.conf",
	"/etc/debian_version", "/etc/fonts", "/etc/gai.conf", "/etc/group", "/etc/host.conf",
	"/etc/hostname", "/etc/hosts", "/etc/inputrc", "/etc/java", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d", "/etc/localtime", "/etc/locale.conf", "/etc/magic", "/etc/mime.types",
	"/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/perl", "/etc/pki", "/etc/protocols",
	"/etc/python3", "/etc/python3.11", "/etc/resolv.conf", "/etc/services", "/etc/shells", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
	"/etc/terminfo", "/etc/timezone", "/etc/ethers", "/etc/networks", "/etc/rpc", "/etc/login.defs", "/etc/skel", "/etc/profile", "/etc/profile.d",
	"/etc/mailcap", "/etc/wgetrc", "/etc/vim", "/etc/gdb", "/etc/ghostscript",
	"/etc/ImageMagick-6", "/etc/lsb-release", "/etc/issue", "/etc/machine-info", "/etc/nanorc", "/etc/papersize", "/etc/xdg",
	"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage", "/sys/fs/cgroup",
}

// facts are files of /proc that tell of the machine and of no process.
var facts = [...]string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version", "/proc/filesystems",
	"/proc/cgroups", "/proc/devices", "/proc/diskstats", "/proc/partitions", "/proc/swaps", "/proc/vmstat",
	"/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/fs", "/proc/sys/net/core/somaxconn",
}

// Facts are what commands read of /proc and /dev: all there is of a view, where
// there are namespaces.
func Facts(namespaces bool) []string {
	if namespaces {
		return []string{"/proc", "/dev"}
	}
	return slices.Concat(facts[:], devices[:])
}

// devices are for reading and writing.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
