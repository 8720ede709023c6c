// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

// A Check is one thing that was tried through the real helper, in a real jail.
type Check struct {
	Name     string
	What     string // holds where it does: "commands do not …"
	Tried    bool   // false where something else was in the way: nothing is known then
	Holds    bool
	Required bool   // without it, commands of one session are not kept from others
	Detail   string // what the attempt was answered with, or what was in the way
}

// Capabilities are what the machine has for a sandbox.
type Capabilities struct {
	Off      bool // commands are not restricted
	Landlock int  // its version; 0 is none
	Scope    bool // the kernel confines signals; otherwise guards look for whom to kill
	User     int  // that commands run as

	Namespaces bool   // spaces have their own
	Why        string // they have none, where they do not
}

// checks are what [Sandbox.Probe] tries, in this order.
var checks = [...]struct {
	name, what string
	required   bool
}{
	{"write_inside", "commands write in their workspace", true},
	{"chmod_inside", "commands change modes and times of files in their workspace", true},
	{"setuid", "commands make no programs with the rights of their owner", true},
	{"read_outside", "commands do not read files outside", true},
	{"write_outside", "commands do not write files outside", true},
	{"create_outside", "commands do not create files outside", true},
	{"list_outside", "commands do not list directories outside", true},
	{"truncate_outside", "commands do not truncate files outside", true},
	{"rename_outside", "commands do not rename files outside", true},
	{"remove_outside", "commands do not remove files outside", true},
	{"link_from_outside", "commands do not link files from outside", true},
	{"chmod_outside", "commands do not change modes of files outside", false},
	{"times_outside", "commands do not change times of files outside", false},
	{"chown_outside", "commands do not touch who owns files outside", false},
	{"attribute_outside", "commands do not change attributes of files outside", true},
	{"watch_outside", "commands without network do not watch directories outside", false},
	{"signal_server", "commands do not signal the server", true},
	{"signal_guard", "commands do not signal what guards them", true},
	{"server_environment", "commands do not read the environment of the server", true},
	{"server_memory", "commands do not read the memory of the server", true},
	{"server_command_line", "commands do not read the command line of the server", true},
	{"server_files", "commands do not see the open files of the server", true},
	{"server_limits", "commands do not change limits of the server", true},
	{"server_priority", "commands do not change the priority of the server", true},
	{"descriptors", "commands get no files but the standard ones", true},
	{"capabilities", "commands have no capabilities but to pass file modes", true},
	{"no_new_privileges", "commands gain no privileges by executing", true},
	{"seccomp", "system calls of commands are filtered", true},
	{"user_namespace", "commands do not make user namespaces", true},
	{"ptrace", "commands do not trace processes", true},
	{"io_uring", "commands do not use io_uring", true},
	{"bpf", "commands do not load programs into the kernel", true},
	{"keyring", "commands do not use the kernel's keys", true},
	{"x32_calls", "commands do not make system calls of x32", true},
	{"i386_calls", "commands do not make system calls of i386", true},
	{"tcp_connect", "commands without network do not connect by TCP", true},
	{"tcp_bind", "commands without network do not bind TCP ports", true},
	{"udp", "commands without network do not send UDP", true},
	{"mptcp", "commands without network do not connect by MPTCP", true},
	{"netlink", "commands without network do not open netlink sockets", true},
	{"path_socket", "commands do not connect to sockets in the file system", true},
	{"abstract_socket", "commands do not connect to abstract sockets", true},
	{"datagram_socket", "commands do not send datagrams to sockets in the file system", true},
	{"loopback_own", "commands with a loopback reach what their session serves", false},
	{"loopback_other", "commands with a loopback reach nothing that others serve", true},
	{"leftover", "what a command leaves running is killed", true},
}
