// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

// refused are system calls no command needs: they change the machine, look into
// other processes, or are a way around Landlock.
func refused() []uint32 {
	return append([]uint32{
		// namespaces and mounts
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		// other processes
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
		// what runs outside of the process that asked
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_FANOTIFY_INIT,
		// files by handle, not by path
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
		// keys and memory that outlive a process
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
		// the machine
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
		unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_PERSONALITY,
	}, refusedHere()...)
}

// ofAnyProcess are system calls whose first argument is a process: a command may
// use them on itself, which is 0.
func ofAnyProcess() []uint32 {
	return []uint32{
		unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
	}
}

// moded is a system call that says what mode a file gets: which of its arguments
// has that, and which one the flags that tell whether there is a mode at all.
type moded struct{ number, mode, flags uint32 }

const noFlags = ^uint32(0)

// modes are system calls that change the mode of a file.
func modes() []moded {
	return append([]moded{{unix.SYS_FCHMOD, 1, noFlags}, {unix.SYS_FCHMODAT, 2, noFlags}, {unix.SYS_FCHMODAT2, 2, noFlags}}, modesHere()...)
}

// creating are system calls that make a file with a mode. Of directories the
// kernel ignores the bits that matter.
func creating() []moded {
	return append([]moded{{unix.SYS_OPENAT, 3, 2}, {unix.SYS_MKNODAT, 2, noFlags}}, creatingHere()...)
}

// attributes are system calls that change extended attributes, which have access
// control lists among them.
func attributes() []uint32 {
	return []uint32{
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
		unix.SYS_FILE_SETATTR,
	}
}

// owner is a system call that changes who owns a file, and which of its
// arguments has the user. The group is behind it.
type owner struct{ number, user uint32 }

func owners() []owner {
	return append([]owner{{unix.SYS_FCHOWN, 1}, {unix.SYS_FCHOWNAT, 2}}, ownersHere()...)
}
