// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/soaktest"
)

// kernels are configurations under which everything must be found and killed.
var kernels = map[string]sandbox.Config{
	"scoped": {}, "without scope": sandbox.Config{}.AsOn(5), "first": sandbox.Config{}.AsOn(1), "off": {Off: true},
}

// runaways try to outlive their call. Each of them says when it is under way.
var runaways = map[string]string{
	"children":     `sleep 300 & sleep 300 & echo ready`,
	"sessions":     `setsid sleep 300 & setsid -f setsid -f sleep 300; echo ready`,
	"double fork":  `(setsid bash -c '(sleep 300; sleep 300) & (sleep 300 &)' &); echo ready`,
	"ignoring":     `(trap "" TERM HUP INT; setsid bash -c 'sleep 300; sleep 300' &) ; echo ready`,
	"many":         `for i in {1..300}; do sleep 300 & done; echo ready`,
	"hopping":      `hop() { hop & exit; }; hop & echo ready`,
	"storm":        `storm() { for i in 1 2 3; do [ $1 = 0 ] || storm $(($1-1)) & done; sleep 300; }; storm 4 & echo ready`,
	"stopped":      `bash -c 'sleep 300 & kill -STOP $$' & echo ready`,
	"new pipes":    `coproc sleep 300; (sleep 300 | sleep 300 | sleep 300) & echo ready`,
	"holds output": `(sleep 300 <&- 2>&1 &) ; echo ready`,
}

// TestNothingIsLeft ends commands, by themselves and by being killed, that have
// left something running.
func TestNothingIsLeft(t *testing.T) {
	for kernel, config := range kernels {
		p := newPlace(t, config, nil)
		for name, command := range runaways {
			t.Run(kernel+"/"+name, func(t *testing.T) {
				out, end := p.run(t, command, sandbox.Limits{})
				if !strings.HasSuffix(out, "ready\n") || end.Reason != sandbox.Exited || end.Left {
					t.Errorf("%q %+v", out, end)
				}
				p.wantNothingLeft(t)

				process, r := p.start(t, command+"; sleep 300", sandbox.Limits{})
				defer r.Close()
				waitFor(t, r, "ready\n")
				process.Kill()
				if end, err := process.Wait(); err != nil || end.Reason != sandbox.Killed || end.Left {
					t.Errorf("%+v, %v", end, err)
				}
				p.wantNothingLeft(t)
			})
		}
	}
}

func waitFor(t *testing.T, r io.Reader, want string) string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || want != "" && line != want {
		t.Fatalf("%q, %v; want %q", line, err, want)
	}
	return line
}

func TestSignal(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	process, r := p.start(t, `trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done`, sandbox.Limits{})
	defer r.Close()
	waitFor(t, r, "ready\n")
	if err := process.Signal(-1); err == nil {
		t.Error("there is no signal -1")
	}
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Exited || end.Code != 7 {
		t.Errorf("%+v, %v", end, err)
	}
	if err := process.Signal(syscall.SIGTERM); err != os.ErrProcessDone {
		t.Errorf("%v, want %v", err, os.ErrProcessDone)
	}
	process.Kill()
}

// TestSignalsDoNotWait sends more signals than a guard that was stopped takes.
func TestSignalsDoNotWait(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	process, r := p.start(t, `trap '' USR1; echo $PPID; exec sleep 300`, sandbox.Limits{})
	defer r.Close()
	guard, err := strconv.Atoi(strings.TrimSpace(waitFor(t, r, "")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = process.Signal(syscall.SIGUSR1)
	}
	process.Kill()
	if err := syscall.Kill(guard, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Killed {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestGuardStopped has a guard that does not answer: it is replaced.
func TestGuardStopped(t *testing.T) {
	t.Parallel() // it is waited for
	p := newPlace(t, sandbox.Config{}, nil)
	process, r := p.start(t, `setsid sleep 300 & echo $PPID; sleep 300`, sandbox.Limits{})
	defer r.Close()
	guard, err := strconv.Atoi(strings.TrimSpace(waitFor(t, r, "")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	process.Kill()
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Killed || !end.Left {
		t.Errorf("%+v, %v", end, err)
	}
	p.waitUntilNothingLeft(t)
}

// TestGuardKilled takes away the guard of a command.
func TestGuardKilled(t *testing.T) {
	for kernel, config := range kernels {
		t.Run(kernel, func(t *testing.T) {
			p := newPlace(t, config, nil)
			process, r := p.start(t, `setsid bash -c 'sleep 300 & sleep 300' & echo $PPID; sleep 300`, sandbox.Limits{})
			defer r.Close()
			guard, err := strconv.Atoi(strings.TrimSpace(waitFor(t, r, "")))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if end, err := process.Wait(); err != nil || end.Reason != sandbox.Lost {
				t.Errorf("%+v, %v", end, err)
			}
			p.waitUntilNothingLeft(t)
			if out, _ := p.run(t, "echo on", sandbox.Limits{}); out != "on\n" {
				t.Errorf("%q", out)
			}
		})
	}
}

func (p *place) waitUntilNothingLeft(t testing.TB) {
	for len(alive(t, p.dir)) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// helpers returns the helpers that this process has started. They have threads;
// guards, which come here when this is the first process, have none.
func helpers(t testing.TB) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		children, _ := os.ReadFile(path)
		for field := range strings.FieldsSeq(string(children)) {
			threads, _ := os.ReadDir("/proc/" + field + "/task")
			if name, _ := os.ReadFile("/proc/" + field + "/comm"); string(name) == "toolserver-exec\n" && len(threads) > 1 {
				pid, _ := strconv.Atoi(field)
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestHelperKilled kills the helper while commands are running and are being
// started. Those that run end as they would have.
func TestHelperKilled(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	var running []*sandbox.Process
	var stdins []*os.File
	for range 10 {
		process, r := p.start(t, `echo ready; read -t 300 </dev/zero; (sleep 300 &); exit 5`, sandbox.Limits{})
		defer r.Close()
		running = append(running, process)
		stdins = append(stdins, r)
	}
	for _, r := range stdins {
		waitFor(t, r, "ready\n")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				process, r, err := p.tryStart("exit 6", sandbox.Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				r.Close()
				if end, err := process.Wait(); err != nil || end.Reason != sandbox.Lost && end.Code != 6 {
					t.Errorf("%+v, %v", end, err)
				}
			}
		})
	}
	for range 5 {
		for _, pid := range helpers(t) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	for _, process := range running {
		process.Signal(syscall.SIGKILL)
		if end, err := process.Wait(); err != nil || end.Reason != sandbox.Signaled || end.Left {
			t.Errorf("%+v, %v", end, err)
		}
	}
	p.wantNothingLeft(t)
}

// TestClose closes a sandbox in which commands run.
func TestClose(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	var running []*sandbox.Process
	for range 20 {
		process, r := p.start(t, "setsid sleep 300 & sleep 300", sandbox.Limits{})
		defer r.Close()
		running = append(running, process)
	}
	if err := p.sandbox.Close(); err != nil {
		t.Error(err)
	}
	for _, process := range running {
		if end, err := process.Wait(); err != nil || end.Reason != sandbox.Killed || end.Left {
			t.Errorf("%+v, %v", end, err)
		}
	}
	p.wantNothingLeft(t)
	if _, _, err := p.tryStart("true", sandbox.Limits{}); err == nil {
		t.Error("a command was started in a sandbox that is closed")
	}
}

// TestCancelTogether kills 64 trees at once.
func TestCancelTogether(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	var wg sync.WaitGroup
	kill := make(chan struct{})
	var ready sync.WaitGroup
	for range 64 {
		process, r := p.start(t, `for i in 1 2 3; do setsid sleep 300 & done; echo ready; sleep 300`, sandbox.Limits{Memory: 1 << 30, Processes: 100})
		defer r.Close()
		ready.Go(func() { bufio.NewReader(r).ReadString('\n') })
		wg.Go(func() {
			<-kill
			for range 3 { // more than once does no harm
				go process.Kill()
				go process.Signal(syscall.SIGTERM)
			}
			process.Kill()
			if end, err := process.Wait(); err != nil || end.Reason != sandbox.Killed || end.Left {
				t.Errorf("%+v, %v", end, err)
			}
		})
	}
	ready.Wait()
	close(kill)
	wg.Wait()
	p.wantNothingLeft(t)
}

// servedCommands is how many commands of three processes each a server has when it is killed.
const servedCommands = 60

// serve is a server that runs commands until it is killed.
func serve(dir string) {
	s, err := sandbox.Open(sandbox.Config{Helper: helperPath, NoNamespaces: true})
	if err != nil {
		panic(err)
	}
	space := s.Space(sandbox.SpaceConfig{})
	jail, err := space.Jail(sandbox.Profile{View: sandbox.View{Read: sandbox.SystemPaths(), Write: []string{dir}}, Write: []string{dir}})
	if err != nil {
		panic(err)
	}
	p := &place{jail, s, dir}
	for range servedCommands {
		_, r, err := p.tryStart(`setsid sleep 300 & (sleep 300 &); echo ready; sleep 300`, sandbox.Limits{})
		if err != nil {
			panic(err)
		}
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready")
	select {}
}

// TestServerKilled kills a server that has many commands running.
func TestServerKilled(t *testing.T) {
	p := &place{dir: t.TempDir()}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperVariable+"="+helperPath, serverVariable+"="+p.dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, stdout, "ready\n")
	running := 0
	for running < 3*servedCommands { // one that is about to execute sleep has no environment
		running = len(alive(t, p.dir))
	}
	cmd.Process.Kill()
	killed := time.Now()
	p.waitUntilNothingLeft(t)
	t.Logf("%d processes were gone after %v", running, time.Since(killed))
	cmd.Wait()
}

// TestNothingLeaks starts many commands: nothing of them stays in the server or
// in the helper.
func TestNothingLeaks(t *testing.T) {
	starts := soaktest.Times(240, 10_000)
	p := newPlace(t, sandbox.Config{}, nil)
	run := func(n int) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range n / 8 {
					process, r, err := p.tryStart("(setsid sleep 300 &)", sandbox.Limits{Memory: 1 << 30, Processes: 100})
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, r)
					r.Close()
					if end, err := process.Wait(); err != nil || end.Reason != sandbox.Exited || end.Left {
						t.Errorf("%+v, %v", end, err)
					}
				}
			})
		}
		wg.Wait()
	}
	run(100)
	helper := helpers(t)
	if len(helper) == 0 {
		t.Fatal("there is no helper")
	}
	before := count(t, helper[0])
	run(starts)
	after := count(t, helper[0])
	for range 5000 { // goroutines still end, and guards are sent away after a while
		if after.below(before) {
			break
		}
		time.Sleep(time.Millisecond)
		after = count(t, helper[0])
	}
	if !after.below(before) {
		t.Errorf("%+v, was %+v", after, before)
	}
	if files, err := os.ReadDir(p.dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	p.wantNothingLeft(t)
}

// resources are what must not grow.
type resources struct{ files, goroutines, children, helperFiles, helperChildren int }

func (r resources) below(other resources) bool {
	return r.files <= other.files && r.goroutines <= other.goroutines && r.children <= other.children &&
		r.helperFiles <= other.helperFiles && r.helperChildren == 0
}

func count(t *testing.T, helper int) resources {
	t.Helper()
	entries := func(pattern string, process any) int {
		paths, err := filepath.Glob(fmt.Sprintf(pattern, process))
		if err != nil {
			t.Fatal(err)
		}
		return len(paths)
	}
	children := func(process any) (n int) {
		paths, err := filepath.Glob(fmt.Sprintf("/proc/%v/task/*/children", process))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, _ := os.ReadFile(path)
			n += len(strings.Fields(string(text)))
		}
		return n
	}
	return resources{entries("/proc/%v/fd/*", "self"), runtime.NumGoroutine(), children("self"), entries("/proc/%v/fd/*", helper), children(helper)}
}

// TestNoFilesLeft starts commands while the server runs out of files, at every
// step of it.
func TestNoFilesLeft(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	p.run(t, "true", sandbox.Limits{})
	dir, err := os.Open(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	before, started := files(), 0
	for room := range 12 {
		limit := syscall.Rlimit{Cur: uint64(before + room - 8), Max: was.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		process, err := p.Start(sandbox.Command{Path: "/bin/true", Args: []string{"true"}, Dir: dir})
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			started++
			if end, err := process.Wait(); err != nil || end.Reason != sandbox.Exited {
				t.Errorf("%+v, %v", end, err)
			}
		}
		if after := files(); after > before {
			t.Fatalf("%d files are open, were %d", after, before)
		}
	}
	if started == 0 || started == 12 {
		t.Errorf("%d of 12 started", started)
	}
}
