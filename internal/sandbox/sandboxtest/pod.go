// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Pod runs tests of the package, chosen by regular expressions, in a container as
// Kubernetes makes one by its "restricted" standard: a user without a name, no
// capabilities, nothing to gain by executing, a root that cannot be written to, and
// the system calls that container runtimes let through by default.
func Pod(t *testing.T, tests, skip string) {
	t.Helper()
	if os.Getenv("TOOLSERVER_POD") == "" {
		t.Skip("this takes minutes, root and runc: see make pod")
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bundle := t.TempDir()
	for _, dir := range []string{"rootfs/usr", "rootfs/etc", "rootfs/proc", "rootfs/sys", "rootfs/dev", "rootfs/tmp", "rootfs/test", "tmp", "test"} {
		if err := os.MkdirAll(filepath.Join(bundle, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(bundle, "rootfs", link)); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]string{"package.test": "/proc/self/exe"}
	beside, err := os.ReadDir(filepath.Dir(helper))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range beside { // the helper, and what else was built for the tests
		programs[file.Name()] = filepath.Join(filepath.Dir(helper), file.Name())
	}
	for name, path := range programs {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bundle, "test", name), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(bundle, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(podSpec(bundle, compiler, "-test.run="+tests, "-test.skip="+skip))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), spec, 0o644); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("toolserver-pod-%d", os.Getpid())
	runTests(t, exec.Command(runc, "--root", filepath.Join(bundle, "runc"), "run", "--bundle", bundle, name))
}

type object = map[string]any

// podSpec is the configuration of the container of tests.
func podSpec(bundle, compiler string, arguments ...string) object {
	return ContainerSpec(Container{
		User: 61234,
		Args: append([]string{"/test/package.test", "-test.v"}, arguments...),
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:" + filepath.Dir(compiler), "HOME=/tmp", "TMPDIR=/tmp",
			HelperVariable + "=/test/toolserver-exec",
		},
		Dir:      "/tmp",
		Readable: map[string]string{"/usr": "/usr", "/etc": "/etc", "/test": filepath.Join(bundle, "test")},
		Writable: map[string]string{"/tmp": filepath.Join(bundle, "tmp")},
	})
}

// A Container is what a container runs, as whom, and which directories of the machine
// it has, by the path in the container.
type Container struct {
	User               int
	Args, Env          []string
	Dir                string
	Readable, Writable map[string]string
}

// ContainerSpec is the configuration for runc of a container as Pod says, whose root is
// the directory rootfs of its bundle. Its control group lies in ours.
func ContainerSpec(c Container) map[string]any {
	mount := func(kind, source, at string, options ...string) object {
		return object{"destination": at, "type": kind, "source": source, "options": options}
	}
	var namespaces []object
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	mounts := []object{
		mount("proc", "proc", "/proc"),
		mount("tmpfs", "tmpfs", "/dev", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("devpts", "devpts", "/dev/pts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("tmpfs", "shm", "/dev/shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
		mount("sysfs", "sysfs", "/sys", "nosuid", "noexec", "nodev", "ro"),
	}
	for at, source := range c.Readable {
		mounts = append(mounts, mount("bind", source, at, "rbind", "ro"))
	}
	for at, source := range c.Writable {
		mounts = append(mounts, mount("bind", source, at, "rbind", "rw", "nosuid", "nodev"))
	}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   "pod",
		"root":       object{"path": "rootfs", "readonly": true},
		"process": object{
			"user":            object{"uid": c.User, "gid": c.User},
			"args":            c.Args,
			"cwd":             c.Dir,
			"env":             c.Env,
			"noNewPrivileges": true,
			"capabilities":    object{},
		},
		"mounts": mounts,
		"linux": object{
			"cgroupsPath": fmt.Sprintf("toolserver-pod-%d-%d", os.Getpid(), containers.Add(1)),
			"namespaces":  namespaces,
			"maskedPaths": []string{
				"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
				"/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
			},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			"resources": object{
				"devices": []object{{"allow": false, "access": "rwm"}},
				"pids":    object{"limit": 4000},
			},
			"seccomp": runtimeDefault(),
		},
	}
}

// containers counts those of this process, for each needs a control group of its own.
var containers atomic.Int64

// runtimeDefault refuses what the default profiles of container runtimes do to
// containers without capabilities.
func runtimeDefault() object {
	refuse := func(errno int, args []object, names ...string) object {
		return object{"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": args}
	}
	const eperm, enosys = 1, 38
	argument := func(index int, value uint64, op string, two uint64) []object {
		return []object{{"index": index, "value": value, "valueTwo": two, "op": op}}
	}
	calls := []object{
		refuse(enosys, nil, "clone3"),
		refuse(eperm, nil,
			"acct", "add_key", "bpf", "chroot", "clock_adjtime", "clock_settime", "create_module", "delete_module", "fanotify_init",
			"finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_mempolicy", "init_module", "io_uring_enter",
			"io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
			"lookup_dcookie", "mbind", "mount", "mount_setattr", "move_mount", "move_pages", "nfsservctl", "open_by_handle_at",
			"open_tree", "perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "process_vm_readv",
			"process_vm_writev", "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy", "setdomainname",
			"sethostname", "setns", "settimeofday", "swapoff", "swapon", "sysfs", "syslog", "umount2", "unshare", "uselib",
			"userfaultfd", "ustat", "vhangup"),
		refuse(eperm, argument(0, 40, "SCMP_CMP_EQ", 0), "socket"), // AF_VSOCK
		refuse(eperm, argument(0, 38, "SCMP_CMP_EQ", 0), "socket"), // AF_ALG
	}
	for flag := uint64(1 << 17); flag <= 1<<30; flag <<= 1 {
		const namespaces = 0x7e020000
		if flag&namespaces != 0 {
			calls = append(calls, refuse(eperm, argument(0, flag, "SCMP_CMP_MASKED_EQ", flag), "clone"))
		}
	}
	return object{
		"defaultAction": "SCMP_ACT_ALLOW",
		"architectures": []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32", "SCMP_ARCH_AARCH64"},
		"syscalls":      calls,
	}
}
