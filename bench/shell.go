// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	shellWorkers = 16                    // commands at once, each in a session of its own
	agentPause   = 30 * time.Millisecond // between the calls of an agent, which thinks for longer
	slicesAtOnce = 4                     // in each round: the rate of commands differs much from one slice to the next
)

// shellFigure is figure 10: commands in the sandbox, beside a server that runs
// them with os/exec.
func shellFigure(ctx context.Context, h *harness) ([]row, error) {
	speed, err := h.shellSpeed(ctx)
	if err != nil {
		return nil, fmt.Errorf("speed: %w", err)
	}
	prompt, err := h.firstByte(ctx)
	if err != nil {
		return nil, fmt.Errorf("first byte: %w", err)
	}
	much, err := h.commandOutput(ctx)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	ends, err := h.cancelling(ctx)
	if err != nil {
		return nil, fmt.Errorf("cancelling: %w", err)
	}
	return slices.Concat(speed, prompt, much, ends), nil
}

// startShell starts toolserver with a policy that lets bash run unasked.
func (b *binaries) startShell(ctx context.Context, environment ...string) (*server, error) {
	policy := filepath.Join(b.dir, "shell.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nrules:\n- {name: bench, action: allow, tools: [bash]}\n"), 0o644); err != nil {
		return nil, err
	}
	command := b.toolserver(b.subject, anyPort)
	command.Args = append(command.Args, "--policy", policy)
	command.Env = append(command.Env, environment...)
	return b.start(ctx, command)
}

// startBareShell starts the bare server with the environment that commands are to
// have: bash alone takes 8 % longer where the environment says that text is
// UTF-8, and commands of toolserver are told that.
func (b *binaries) startBareShell(ctx context.Context, environment []string) (*server, error) {
	command := b.yardstick(anyPort, "-answers", b.answers)
	command.Env = append(command.Env, environment...)
	return b.start(ctx, command)
}

// environmentOf returns the environment of the commands of a server, but for
// where they find programs and put files.
func environmentOf(ctx context.Context, s *server) ([]string, error) {
	ids, err := sessions(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	var text []byte
	err = bash(ctx, s, ids[0], "env -0", func(out *pb.Output) error {
		text = append(text, out.GetData()...)
		return nil
	})
	var environment []string
	for variable := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "PATH", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_":
		default:
			environment = append(environment, variable)
		}
	}
	return environment, err
}

// sessions returns new sessions of a server that may run commands.
func sessions(ctx context.Context, s *server, n int) ([]string, error) {
	ids := make([]string, n)
	for i := range ids {
		created, err := pb.NewSessionServiceClient(s.conn).CreateSession(ctx, &pb.CreateSessionRequest{
			Mode: pb.Mode_MODE_ACCEPT_EDITS, Level: pb.Level_LEVEL_WORKSPACE_WRITE,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: a session: %w", s.name, err)
		}
		ids[i] = created.GetSession().GetSessionId()
	}
	return ids, nil
}

// bash runs a command, hands what it writes to see, and proves that it succeeded.
func bash(ctx context.Context, s *server, session, command string, see func(*pb.Output) error) error {
	request := &pb.ExecuteToolRequest{SessionId: session, Tool: work.Bash, InputJson: work.JSON(work.BashInput{Command: command})}
	var finished *pb.Finished
	err := follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
		switch kind := message.GetEvent().GetKind().(type) {
		case *pb.Event_Output:
			return see(kind.Output)
		case *pb.Event_Finished:
			finished = kind.Finished
		}
		return nil
	})
	if err == nil && finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		err = fmt.Errorf("%s: %.300v", command, finished)
	}
	return err
}

// runTrue runs the command true, each time in a session that runs nothing else.
func runTrue(s *server, ids []string) caller {
	free := make(chan string, max(1, len(ids)))
	for _, id := range ids {
		free <- id
	}
	return func(ctx context.Context) error {
		id := ""
		if len(ids) > 0 {
			id = <-free
			defer func() { free <- id }()
		}
		return bash(ctx, s, id, "true", func(*pb.Output) error { return nil })
	}
}

// shellServers are those of shellSpeed. Each has as many sessions as run at
// once: an agent by itself has one, and a server of its own.
type shellServers struct{ agent, agentOff, many, manyOff, bare, control *server }

func (h *harness) startShells(ctx context.Context) (*shellServers, error) {
	const off = "TOOLSERVER_SANDBOX_MODE=off"
	s := new(shellServers)
	var errs [7]error
	s.agent, errs[0] = h.startShell(ctx)
	s.agentOff, errs[1] = h.startShell(ctx, off)
	s.many, errs[2] = h.startShell(ctx)
	s.manyOff, errs[3] = h.startShell(ctx, off)
	var environment []string
	if errs[3] == nil {
		environment, errs[4] = environmentOf(ctx, s.manyOff)
	}
	s.bare, errs[5] = h.startBareShell(ctx, environment)
	s.control, errs[6] = h.startBareShell(ctx, environment)
	if err := errors.Join(errs[:]...); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *shellServers) stop() {
	for _, server := range []*server{s.agent, s.agentOff, s.many, s.manyOff, s.bare, s.control} {
		if server != nil {
			server.stop()
		}
	}
}

// shellSpeed measures commands that do nothing: one after another with pauses,
// and many at once, with and without the sandbox.
func (h *harness) shellSpeed(ctx context.Context) ([]row, error) {
	servers, err := h.startShells(ctx)
	if err != nil {
		return nil, err
	}
	defer servers.stop()
	callers := map[*server]caller{servers.bare: runTrue(servers.bare, nil), servers.control: runTrue(servers.control, nil)}
	for s, n := range map[*server]int{servers.agent: 1, servers.agentOff: 1, servers.many: shellWorkers, servers.manyOff: shellWorkers} {
		ids, err := sessions(ctx, s, n)
		if err != nil {
			return nil, err
		}
		callers[s] = runTrue(s, ids)
	}
	paced := func(s *server) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return pacedCalls(ctx, callers[s], h.plan.pacedCalls) }
	}
	full := func(s *server) func(context.Context) (slice, error) {
		return func(ctx context.Context) (slice, error) {
			return load(ctx, s, callers[s], shellWorkers, h.plan.slice)
		}
	}
	var agent, agentOff sides[float64]
	var many, manyOff sides[slice]
	one := []group{
		agent.entrants(paced(servers.agent), paced(servers.bare), paced(servers.control)),
		agentOff.entrants(paced(servers.agentOff), paced(servers.bare), paced(servers.control)),
	}
	atOnce := []group{
		many.entrants(full(servers.many), full(servers.bare), full(servers.control)),
		manyOff.entrants(full(servers.manyOff), full(servers.bare), full(servers.control)),
	}
	if err := interleave(ctx, 1, slices.Concat(one, atOnce)...); err != nil { // to warm up
		return nil, err
	}
	agent.forget()
	agentOff.forget()
	many.forget()
	manyOff.forget()
	for range h.plan.shellRounds {
		err := errors.Join(interleave(ctx, 1, one...), interleave(ctx, slicesAtOnce, atOnce...))
		if err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("bash true, %d at once", shellWorkers)
	return []row{
		agent.row("bash true, with a pause between calls: p50", "µs", itself, ratioAtMost(1.0)),
		agentOff.row("bash true, with a pause between calls, sandbox off: p50", "µs", itself, target{}),
		many.row(name, "calls/s", rateOf, ratioAtLeast(0.5)),
		many.row(name+": server CPU", "µs/call", cpuOf, target{}),
		manyOff.row(name+", sandbox off", "calls/s", rateOf, ratioAtLeast(0.95)),
		manyOff.row(name+", sandbox off: server CPU", "µs/call", cpuOf, target{}),
	}, nil
}

// pacedCalls returns the median time of calls with pauses before them, in µs.
func pacedCalls(ctx context.Context, call caller, calls int) (float64, error) {
	times := make([]float64, calls)
	for i := range times {
		if err := pause(ctx, agentPause); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := call(ctx); err != nil {
			return 0, err
		}
		times[i] = float64(time.Since(begin)) / 1e3
	}
	slices.Sort(times)
	return quantile(times, 0.5), nil
}

// firstByte measures how long what a program writes is under way: it writes the
// time, and who reads it looks at the clock. The bare side reads the pipe.
func (h *harness) firstByte(ctx context.Context) ([]row, error) {
	s, err := h.startShell(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ids, err := sessions(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	command := fmt.Sprintf(`for ((i = 0; i < %d; i++)); do echo $EPOCHREALTIME; sleep 0.005; done`, h.plan.pacedCalls*5)
	own := func(ctx context.Context) (float64, error) {
		var d delays
		err := bash(ctx, s, ids[0], command, func(out *pb.Output) error { return d.add(out.GetData(), time.Now()) })
		return d.p99(), err
	}
	pipe := func(ctx context.Context) (float64, error) {
		var d delays
		err := readLocally(ctx, command, func(data []byte) error { return d.add(data, time.Now()) })
		return d.p99(), err
	}
	var p sides[float64]
	if err := interleave(ctx, h.plan.shellRounds, p.entrants(own, pipe, pipe)); err != nil {
		return nil, err
	}
	more := make([]float64, len(p.subject))
	for i := range more {
		more[i] = p.subject[i] - p.bare[i]
	}
	const name = "first byte of output (bare: read the pipe): p99"
	difference := row{Name: name + ", the difference", Unit: "ms", Rounds: len(more), Toolserver: spreadOf(more)}
	return []row{p.row(name, "ms", itself, target{}), difference.judge(valueAtMost(5))}, nil
}

// delays are the times that lines with times in them were under way, in ms.
type delays []float64

func (d *delays) add(data []byte, now time.Time) error {
	line, _, _ := strings.Cut(string(data), "\n") // others came together with it, later
	seconds, micros, _ := strings.Cut(line, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	*d = append(*d, float64(now.Sub(time.Unix(s, us*1e3)))/1e6)
	return errors.Join(err, err2)
}

func (d delays) p99() float64 {
	slices.Sort(d)
	return quantile(d, 0.99)
}

// readLocally runs a command and reads what it writes from a pipe.
func readLocally(ctx context.Context, command string, see func([]byte) error) error {
	bash := exec.CommandContext(ctx, "bash", "-c", command)
	out, err := bash.StdoutPipe()
	if err != nil {
		return err
	}
	if err := bash.Start(); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := out.Read(buffer)
		if n > 0 {
			if err := see(buffer[:n]); err != nil {
				return errors.Join(err, bash.Process.Kill(), bash.Wait())
			}
		}
		if errors.Is(err, io.EOF) {
			return bash.Wait()
		}
		if err != nil {
			return errors.Join(err, bash.Wait())
		}
	}
}

// flood is a command that writes so many bytes of text.
func flood(size int64) string {
	return fmt.Sprintf("yes 'a line of text as programs write it' | head -c %d", size)
}

// commandOutput measures a command that writes very much.
func (h *harness) commandOutput(ctx context.Context) ([]row, error) {
	s, err := h.startShell(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ids, err := sessions(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	// A call before it counts: a server that has run nothing is not at rest.
	if err := bash(ctx, s, ids[0], "true", func(*pb.Output) error { return nil }); err != nil {
		return nil, err
	}
	idle, err := h.idleMemory(ctx, s)
	if err != nil {
		return nil, err
	}
	own := func(ctx context.Context, size int64) (float64, error) {
		var bytes int64
		begin := time.Now()
		err := bash(ctx, s, ids[0], flood(size), func(out *pb.Output) error {
			bytes += int64(len(out.GetData()))
			return nil
		})
		if err == nil && bytes != size {
			err = fmt.Errorf("%d bytes arrived of %d", bytes, size)
		}
		return float64(size) / mib / time.Since(begin).Seconds(), err
	}
	pipe := func(ctx context.Context, size int64) (float64, error) {
		begin := time.Now()
		err := readLocally(ctx, flood(size), func([]byte) error { return nil })
		return float64(size) / mib / time.Since(begin).Seconds(), err
	}
	if err := resetPeak(s.pid()); err != nil {
		return nil, err
	}
	var whole sides[float64]
	of := func(f func(context.Context, int64) (float64, error)) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return f(ctx, h.plan.output) }
	}
	if err := interleave(ctx, h.plan.floodRounds, whole.entrants(of(own), of(pipe), of(pipe))); err != nil {
		return nil, err
	}
	_, peak, err := memory(s.pid())
	name := fmt.Sprintf("%d MiB of output of a command", h.plan.output/mib)
	return []row{
		whole.row(name+" (bare: read the pipe)", "MiB/s", itself, ratioAtLeast(0.25)),
		single(name+": peak RSS over idle", "MiB", (peak-idle)/mib, valueAtMost(64)),
	}, err
}

const (
	cancelWorkers = 64
	stormSize     = 500 // processes, all of them asleep
)

// cancelling measures how soon everything is gone that a command started. The
// server says that it ended when it is; the harness sees that it is so.
func (h *harness) cancelling(ctx context.Context) ([]row, error) {
	s, err := h.startShell(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ids, err := sessions(ctx, s, cancelWorkers)
	if err != nil {
		return nil, err
	}
	// The time that they sleep is how their processes are known.
	asleep := fmt.Sprintf("600.%d", os.Getpid())
	some := fmt.Sprintf("sleep %s & setsid sleep %s & echo ready; wait", asleep, asleep)
	storm := fmt.Sprintf("for ((i = 0; i < %d; i++)); do sleep %s & done; echo ready; wait", stormSize, asleep)
	var many, one []float64
	for range h.plan.cancelRounds {
		times, err := cancelAll(ctx, s, ids, some)
		if err == nil {
			err = noneLeft(asleep)
		}
		if err != nil {
			return nil, err
		}
		slices.Sort(times)
		many = append(many, quantile(times, 0.99))
		times, err = cancelAll(ctx, s, ids[:1], storm)
		if err == nil {
			err = noneLeft(asleep)
		}
		if err != nil {
			return nil, err
		}
		one = append(one, times[0])
	}
	own := func(name string, values []float64, limit float64) row {
		return row{Name: name, Unit: "ms", Rounds: len(values), Toolserver: spreadOf(values)}.judge(valueAtMost(limit))
	}
	return []row{
		own(fmt.Sprintf("cancel to empty process tree, %d at once: p99", cancelWorkers), many, 50),
		own(fmt.Sprintf("cancel to empty process tree of %d processes", stormSize), one, 100),
	}, nil
}

// cancelAll runs a command in all sessions, cancels it everywhere once it runs,
// and returns how long it took each to end, in ms.
func cancelAll(ctx context.Context, s *server, ids []string, command string) ([]float64, error) {
	var (
		wait    sync.WaitGroup
		running sync.WaitGroup
		times   = make([]float64, len(ids))
		errs    = make([]error, len(ids))
	)
	running.Add(len(ids))
	for i, id := range ids {
		wait.Go(func() { times[i], errs[i] = cancelOne(ctx, s, s, id, command, &running) })
	}
	wait.Wait()
	return times, errors.Join(errs...)
}

// cancelOne runs a command at one server, and cancels it through one that may be another.
func cancelOne(ctx context.Context, s, by *server, session, command string, running *sync.WaitGroup) (float64, error) {
	request := &pb.ExecuteToolRequest{SessionId: session, Tool: work.Bash, InputJson: work.JSON(work.BashInput{Command: command})}
	ready := sync.OnceFunc(running.Done)
	defer ready()
	cancelled := make(chan error, 1)
	var begin time.Time
	var took time.Duration
	var began sync.Once
	err := follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
		event := message.GetEvent()
		switch kind := event.GetKind().(type) {
		case *pb.Event_Output:
			began.Do(func() {
				ready()
				running.Wait() // for all others
				begin = time.Now()
				go func() {
					_, err := by.client.Cancel(ctx, &pb.CancelRequest{ExecutionId: event.GetExecutionId()})
					cancelled <- err
				}()
			})
		case *pb.Event_Finished:
			took = time.Since(begin)
			if kind.Finished.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
				return fmt.Errorf("it was not cancelled: %.300v", kind.Finished)
			}
		}
		return nil
	})
	if err == nil {
		err = <-cancelled
	}
	return float64(took) / 1e6, err
}

// noneLeft reports processes that have a word among their arguments.
func noneLeft(word string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	left := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Contains(text, []byte("sleep\x00"+word+"\x00")) {
			left++
		}
	}
	if left > 0 {
		return fmt.Errorf("%d processes are left of what was cancelled", left)
	}
	return nil
}
