// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// Capabilities returns what the machine has.
func (s *Sandbox) Capabilities() Capabilities {
	c := Capabilities{Off: s.config.Off, Landlock: s.landlock, Scope: s.landlock >= landlockScopes, User: os.Geteuid(), Namespaces: true}
	if err := s.namespaces(); err != nil {
		c.Namespaces, c.Why = false, err.Error()
	}
	return c
}

// Probe tries what commands must not be able to do, and tells what holds. It
// takes tens of milliseconds. Its files are in a directory that it makes in dir,
// which should be where workspaces are: file systems differ.
func (s *Sandbox) Probe(ctx context.Context, dir string) []Check {
	answers := make(map[string]Check)
	problem := "it was not tried"
	if err := s.probe(ctx, dir, answers); err != nil {
		problem = err.Error()
	}
	all := make([]Check, len(checks))
	for i, c := range checks {
		answer, ok := answers[c.name]
		if !ok {
			answer.Detail = problem
		}
		all[i] = Check{Name: c.name, What: c.what, Required: c.required, Tried: answer.Tried, Holds: answer.Holds, Detail: answer.Detail}
	}
	return all
}

const (
	probePrefix = ".toolserver-probe-" // no workspace is called that
	oldProbe    = time.Hour            // none takes as long
)

// removeOldProbes removes what probes left that were killed.
func removeOldProbes(within string) {
	entries, _ := os.ReadDir(within)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && strings.HasPrefix(e.Name(), probePrefix) && time.Since(info.ModTime()) > oldProbe {
			os.RemoveAll(filepath.Join(within, e.Name()))
		}
	}
}

// probe puts what was found into answers.
func (s *Sandbox) probe(ctx context.Context, within string, answers map[string]Check) error {
	if err := os.MkdirAll(within, 0o700); err != nil {
		return err
	}
	removeOldProbes(within)
	dir, err := os.MkdirTemp(within, probePrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	workspace, outside := filepath.Join(dir, "workspace"), filepath.Join(dir, "outside")
	for _, d := range []string{workspace, outside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	for _, name := range []string{"file", "other"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("secret"), 0o600); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(outside, "file"), 0o600|os.ModeSetuid); err != nil {
		return err
	}
	// The program is standard input: that is how it is executed.
	program, err := s.program()
	if err != nil {
		return err
	}
	defer program.Close()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	socket, err := listenUnix(filepath.Join(outside, "socket"))
	if err != nil {
		return err
	}
	defer socket.Close()

	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	space := s.Space(SpaceConfig{})
	defer space.Close()
	try := func(network Network, parse func(out []byte, end End), args ...string) {
		wg.Go(func() {
			profile := Profile{View: View{Read: SystemPaths(), Write: []string{workspace}}, Write: []string{workspace}, Network: network}
			out, end, err := space.try(ctx, profile, program, args)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			parse(out, end)
		})
	}
	lines := func(out []byte, _ End) {
		for line := range strings.Lines(string(out)) {
			if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3); len(fields) == 3 {
				answers[fields[0]] = Check{Tried: fields[1] != helper.Untried, Holds: fields[1] == "true", Detail: fields[2]}
			}
		}
	}
	namespaced := ""
	if s.Namespaces() {
		namespaced = helper.Namespaced
	}
	try(NetworkNone, lines, helper.ProbeWalls, workspace, outside, strconv.Itoa(os.Getpid()), namespaced)
	try(NetworkLoopback, lines, helper.ProbeLoopback, strconv.Itoa(port), filepath.Join(outside, "socket"))
	for _, kind := range []string{helper.ProbeX32, helper.ProbeI386} {
		try(NetworkNone, func(out []byte, end End) {
			if end.Reason == Violation {
				answers[kind] = Check{Tried: true, Holds: true, Detail: "killed"}
				return
			}
			lines(out, end)
		}, kind)
	}
	try(NetworkNone, func(out []byte, _ End) {
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			answers[helper.ProbeLeftover] = Check{Detail: fmt.Sprintf("nothing was left: %s", bytes.TrimSpace(out))}
			return
		}
		err = space.find(pid)
		answers[helper.ProbeLeftover] = Check{Tried: true, Holds: errors.Is(err, os.ErrNotExist), Detail: fmt.Sprint(err)}
	}, helper.ProbeLeftover)
	wg.Wait()
	return failed
}

// listenUnix listens on a path that may be longer than the address of a socket.
func listenUnix(path string) (*net.UnixListener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // by then the number is another file's
	return listener, nil
}

// program opens the helper's program, as a file that is in no directory.
func (s *Sandbox) program() (*os.File, error) {
	if s.config.Helper == "" {
		return s.image()
	}
	image, err := os.Open(s.config.Helper)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	return memoryFile("toolserver-exec", unix.MFD_EXEC, image) // past the heap, whose size when it is next collected would count it five times
}

// try runs one probe and returns what it wrote.
func (sp *Space) try(ctx context.Context, profile Profile, program *os.File, args []string) ([]byte, End, error) {
	jail, err := sp.Jail(profile)
	if err != nil {
		return nil, End{}, err
	}
	defer jail.Close()
	dir, err := os.Open(profile.Write[0])
	if err != nil {
		return nil, End{}, err
	}
	defer dir.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, End{}, err
	}
	defer r.Close()
	process, err := jail.Start(Command{
		Path: "/proc/self/fd/0", Args: append([]string{"toolserver-exec", "probe"}, args...),
		Dir: dir, Stdin: program, Stdout: w, Stderr: w,
	})
	w.Close()
	if err != nil {
		return nil, End{}, err
	}
	stop := context.AfterFunc(ctx, process.Kill)
	defer stop()
	var out bytes.Buffer
	copied := make(chan struct{})
	go func() {
		io.Copy(&out, r)
		close(copied)
	}()
	end, err := process.Wait()
	<-copied
	if err == nil && end.Reason != Violation && (end.Reason != Exited || end.Code != 0) {
		err = fmt.Errorf("the probe %s failed: %s", args[0], bytes.TrimSpace(out.Bytes()))
	}
	return out.Bytes(), end, err
}
