// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/charmbracelet/x/ansi"

	"github.com/toolserver/toolserver/internal/cli"
)

// A terminal is a pseudo-terminal with a process that thinks it is real.
type terminal struct {
	cmd  *exec.Cmd
	user *os.File // the side of the person

	mu    sync.Mutex
	shown []byte
	past  int        // how much of it was expected
	more  *sync.Cond // signalled when there is more, or no more to come
	ended bool
}

// onTerminal runs the command on a terminal of a given width.
func onTerminal(t *testing.T, width uint16, args ...string) *terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	var number, unlocked int32
	ioctl(t, user, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	ioctl(t, user, syscall.TIOCGPTN, unsafe.Pointer(&number))
	ioctl(t, user, syscall.TIOCSWINSZ, unsafe.Pointer(&[4]uint16{24, width, 0, 0}))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()

	x := &terminal{user: user, cmd: exec.Command("toolserver", args...)}
	x.more = sync.NewCond(&x.mu)
	x.cmd.Dir = t.TempDir()
	x.cmd.Env = append(os.Environ(), "TERM=xterm")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.cmd.Process.Kill() })
	go x.read()
	return x
}

func ioctl(t *testing.T, f *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	})
	if err != nil || errno != 0 {
		t.Fatalf("ioctl %#x: %v %v", request, err, errno)
	}
}

// read keeps what the process writes, to the end, which is an error here.
func (x *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := x.user.Read(buffer)
		x.mu.Lock()
		x.shown = append(x.shown, buffer[:n]...)
		x.ended = err != nil
		x.more.Broadcast()
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// until waits until the terminal has shown text.
func (x *terminal) until(t *testing.T, text string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !strings.Contains(string(x.shown), text) {
		if x.ended {
			t.Fatalf("it ended without %q: %q", text, x.shown)
		}
		x.more.Wait()
	}
}

// expect waits until the terminal has shown text after what was expected before.
func (x *terminal) expect(t *testing.T, text string) {
	t.Helper()
	guard := time.AfterFunc(time.Minute, func() { x.cmd.Process.Kill() })
	defer guard.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		if i := strings.Index(string(x.shown[x.past:]), text); i >= 0 {
			x.past += i + len(text)
			return
		}
		if x.ended {
			t.Fatalf("it ended without %q: %q", text, x.shown[x.past:])
		}
		x.more.Wait()
	}
}

// settings returns how the terminal treats what is typed and written.
func (x *terminal) settings(t *testing.T) syscall.Termios {
	t.Helper()
	var settings syscall.Termios
	ioctl(t, x.user, syscall.TCGETS, unsafe.Pointer(&settings))
	return settings
}

// typeIn types keys.
func (x *terminal) typeIn(t *testing.T, keys string) {
	t.Helper()
	if _, err := x.user.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process and returns its exit code and all it has shown.
func (x *terminal) end(t *testing.T) (int, string) {
	t.Helper()
	code := wait(t, x.cmd)
	x.mu.Lock()
	defer x.mu.Unlock()
	for !x.ended {
		x.more.Wait()
	}
	return code, strings.ReplaceAll(string(x.shown), "\r\n", "\n")
}

var drawnBar = regexp.MustCompile(`\r([^\r\n\x1b]*\[([^\]]*)\] +(\d+)%[^\r\x1b]*)\x1b\[K`)

func TestBarMoves(t *testing.T) {
	t.Parallel()
	code, shown := onTerminal(t, 70, "call", "sleep", "duration_ms=1200").end(t)
	if code != 0 {
		t.Fatalf("exit code %d: %q", code, shown)
	}
	var percents []int
	var gauges []string
	for _, match := range drawnBar.FindAllStringSubmatch(shown, -1) {
		if ansi.StringWidth(match[1]) >= 70 {
			t.Errorf("too wide for the terminal: %q", match[1])
		}
		percent, err := strconv.Atoi(match[3])
		if err != nil {
			t.Fatal(err)
		}
		percents, gauges = append(percents, percent), append(gauges, match[2])
	}
	if !slices.IsSorted(percents) || len(slices.Compact(percents)) < 4 || len(slices.Compact(gauges)) < 4 {
		t.Errorf("the bar does not move: %v in %q", percents, shown)
	}
	if !strings.HasSuffix(shown, "\r\x1b[KWaited 1.2s.\n") {
		t.Errorf("the bar is not cleaned up: %q", shown)
	}
}

func TestKeyboardInterrupt(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, 80, "call", "sleep", "duration_ms=600000")
	x.until(t, "waiting [")
	if _, err := x.user.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	code, shown := x.end(t)
	if code != cli.ExitCancelled || !strings.Contains(shown, "interrupted by the user") {
		t.Errorf("exit code %d, want %d: %q", code, cli.ExitCancelled, shown)
	}
}

func TestTerminalIsSafeFromTools(t *testing.T) {
	t.Parallel()
	evil := "\x1b]0;owned\x07\x9b2J\u009b2Jone\rtwo\n\tthree"
	code, shown := onTerminal(t, 80, "call", "send_user_message", "message="+strings.ToValidUTF8(evil, "")).end(t)
	if code != 0 || strings.ContainsAny(shown, "\x07\u009b") || strings.Contains(shown, "\x1b]") {
		t.Errorf("exit code %d: %q", code, shown)
	}
	if !strings.Contains(shown, "^[]0;owned^G") || !strings.Contains(shown, "one\ntwo\n") {
		t.Errorf("what was said is not shown: %q", shown)
	}
	code, shown = onTerminal(t, 80, "call", "no\x1b[2Jtool").end(t)
	if code != cli.ExitNoSuchTool || strings.Contains(shown, "\x1b[2J") {
		t.Errorf("exit code %d: %q", code, shown)
	}
}

func TestServeHintsOnATerminal(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, 200, "serve", "--listen", "127.0.0.1:0", "--admin", "off")
	x.until(t, "ExecuteTool")
	if err := x.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	code, shown := x.end(t)
	if code != 0 {
		t.Errorf("exit code %d: %q", code, shown)
	}
	for _, want := range []string{"INFO\tserving", "toolserver call --address 127.0.0.1:", "grpcurl -plaintext -d"} {
		if !strings.Contains(strings.ReplaceAll(shown, "    ", "\t"), want) {
			t.Errorf("it does not show %q: %q", want, shown)
		}
	}
}
