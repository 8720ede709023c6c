// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canaries are what no command of a session may touch: files, listeners and
// processes of the machine, of the server and of another session. They see who
// touches them.
type canaries struct {
	token     string // in every file, and said by every listener
	trees     []canaryTree
	tcp, udp  []string // addresses
	sockets   []string // paths, or @ and the name of an abstract one
	processes []*exec.Cmd
	marker    string // among the arguments of the processes

	mu      sync.Mutex
	touched []string // by the network, since the last look

	fanotify int // -1: opening files is not seen
	server   int // its process
	judged   int // how often the server listed a directory, as it does to judge a command
	last     map[string]string
}

// A canaryTree is a directory of files that anybody may read and write, but for
// the sandbox.
type canaryTree struct {
	root string

	// servers says that the server works there too.
	servers bool
}

// newCanaries opens canaries in directories, which are made.
func newCanaries(t *testing.T, server *server, trees []canaryTree) *canaries {
	t.Helper()
	id := fmt.Sprintf("%d-%x", os.Getpid(), os.Getpid()*7919)
	c := &canaries{token: "canary-token-" + id, marker: "trial-canary-" + id, trees: trees, fanotify: -1, server: server.cmd.Process.Pid}
	for _, tree := range trees {
		c.plant(t, tree.root)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // there is no IPv6
		}
		c.serve(t, l)
		c.tcp = append(c.tcp, l.Addr().String())
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	c.udp = append(c.udp, packets.LocalAddr().String())
	go func() {
		for buffer := make([]byte, 100); ; {
			if _, _, err := packets.ReadFrom(buffer); err != nil {
				return
			}
			c.touch("a datagram came to " + packets.LocalAddr().String())
		}
	}()
	for range 2 {
		cmd := exec.Command("/bin/sh", "-c", "while :; do sleep 1000; done", c.marker)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		c.processes = append(c.processes, cmd)
	}
	c.watch(t)
	c.last = c.state()
	return c
}

// plant makes the files and the socket of a tree.
func (c *canaries) plant(t *testing.T, root string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "dir", "deep"), 0o777))
	for name, text := range map[string]string{
		"secret.txt": c.token + "\n", "dir/data.json": `{"a": "` + c.token + `"}`, "dir/deep/file": c.token, "run.sh": "echo " + c.token + "\n",
	} {
		must(os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		must(os.Chmod(filepath.Join(root, name), 0o777))
	}
	for _, dir := range []string{"", "dir", "dir/deep"} {
		must(os.Chmod(filepath.Join(root, dir), 0o777))
	}
	for _, path := range []string{filepath.Join(root, "s"), "@" + c.marker + strconv.Itoa(len(c.sockets))} {
		l, err := net.Listen("unix", path)
		if err != nil {
			continue // the path is too long
		}
		c.serve(t, l)
		c.sockets = append(c.sockets, path)
	}
}

// serve sees who connects.
func (c *canaries) serve(t *testing.T, l net.Listener) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.touch("somebody connected to " + l.Addr().String())
			conn.Close()
		}
	}()
}

func (c *canaries) touch(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = append(c.touched, what)
}

// paths returns what is in the trees.
func (c *canaries) paths() []string {
	var paths []string
	for _, tree := range c.trees {
		for _, name := range []string{"", "secret.txt", "dir", "dir/data.json", "dir/deep/file", "run.sh", "new"} {
			paths = append(paths, filepath.Join(tree.root, name))
		}
	}
	return paths
}

// watch marks every file and directory of the trees, so that opening them is
// seen, whichever mount namespace it comes from.
func (c *canaries) watch(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root sees who opens files: what they hold is looked for in what commands say")
		return
	}
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_UNLIMITED_QUEUE, unix.O_RDONLY|unix.O_LARGEFILE|unix.O_NONBLOCK)
	if err != nil {
		t.Logf("nobody sees who opens files: %v", err)
		return
	}
	t.Cleanup(func() { unix.Close(fd) })
	for _, tree := range c.trees {
		err := filepath.WalkDir(tree.root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&(fs.ModeSocket|fs.ModeSymlink) != 0 {
				return err
			}
			mask := uint64(unix.FAN_OPEN | unix.FAN_ACCESS | unix.FAN_MODIFY | unix.FAN_CLOSE_WRITE)
			if d.IsDir() {
				mask |= unix.FAN_ONDIR | unix.FAN_EVENT_ON_CHILD
			}
			return unix.FanotifyMark(fd, unix.FAN_MARK_ADD, mask, unix.AT_FDCWD, path)
		})
		if err != nil {
			t.Logf("nobody sees who opens files: %v", err)
			return
		}
	}
	c.fanotify = fd
}

// touches returns what was touched since the last look, apart from what rights allow.
func (c *canaries) touches(allowed func(path string) bool) []string {
	seen := c.opened(allowed)
	c.mu.Lock()
	seen, c.touched = append(seen, c.touched...), nil
	c.mu.Unlock()
	state := c.state()
	for _, path := range slices.Sorted(maps.Keys(c.last)) {
		if state[path] != c.last[path] && !allowed(path) {
			seen = append(seen, fmt.Sprintf("%s changed: %s, was %s", path, state[path], c.last[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(state)) {
		if _, ok := c.last[path]; !ok && !allowed(path) {
			seen = append(seen, path+" was made")
		}
	}
	c.last = state
	return seen
}

// opened reads the events of fanotify.
func (c *canaries) opened(allowed func(string) bool) []string {
	if c.fanotify < 0 {
		return nil
	}
	var seen []string
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(c.fanotify, buffer)
		if err != nil || n <= 0 {
			return slices.Compact(seen)
		}
		for rest := buffer[:n]; len(rest) >= int(unsafe.Sizeof(unix.FanotifyEventMetadata{})); {
			var event unix.FanotifyEventMetadata
			binary.Read(bytes.NewReader(rest), binary.NativeEndian, &event)
			rest = rest[min(int(event.Event_len), len(rest)):]
			path, dir := "?", false
			if event.Fd >= 0 {
				var st unix.Stat_t
				dir = unix.Fstat(int(event.Fd), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
				path, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", event.Fd))
				unix.Close(int(event.Fd))
			}
			if int(event.Pid) == os.Getpid() || allowed(path) || int(event.Pid) == c.server && c.isServers(path) {
				continue
			}
			if int(event.Pid) == c.server && dir {
				c.judged++
				continue
			}
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", event.Pid))
			seen = append(seen, fmt.Sprintf("process %d (%s) did %s to %s", event.Pid, strings.TrimSpace(string(name)), maskText(event.Mask), path))
		}
	}
}

func (c *canaries) isServers(path string) bool {
	return slices.ContainsFunc(c.trees, func(tree canaryTree) bool { return tree.servers && strings.HasPrefix(path, tree.root) })
}

func maskText(mask uint64) string {
	var words []string
	for _, m := range []struct {
		bit  uint64
		word string
	}{{unix.FAN_OPEN, "open"}, {unix.FAN_ACCESS, "read"}, {unix.FAN_MODIFY, "write"}, {unix.FAN_CLOSE_WRITE, "close after writing"}} {
		if mask&m.bit != 0 {
			words = append(words, m.word)
		}
	}
	return strings.Join(words, ", ")
}

// state tells what the trees and the processes are now: the time of the last
// change of a file is of anything about it.
func (c *canaries) state() map[string]string {
	state := make(map[string]string)
	for _, tree := range c.trees {
		filepath.WalkDir(tree.root, func(path string, _ fs.DirEntry, _ error) error {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err == nil {
				state[path] = fmt.Sprintf("mode %o owner %d:%d size %d links %d changed %d.%09d", st.Mode, st.Uid, st.Gid, st.Size, st.Nlink, st.Ctim.Sec, st.Ctim.Nsec)
			}
			return nil
		})
	}
	pids := []int{c.server}
	for _, cmd := range c.processes {
		pids = append(pids, cmd.Process.Pid)
	}
	for _, pid := range pids {
		state[fmt.Sprintf("process %d", pid)] = processState(pid)
	}
	return state
}

// processState tells whether a process lives, goes on, and how it is treated.
func processState(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	state := "alive"
	if strings.ContainsAny(fields[0], "TtZX") {
		state = fields[0]
	}
	adjusted, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	return fmt.Sprintf("%s nice %s oom %s", state, fields[16], bytes.TrimSpace(adjusted))
}
