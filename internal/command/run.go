// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/tools"
)

// Run runs a command to its end and returns the result for the model: the output
// within limits, and how it ended. The output is reported as it comes; while the
// command runs it takes signals, and input if it has one. A command that is
// stopped with ctx returns what there is by then.
func (r *Runner) Run(ctx context.Context, env tools.Env, c Command, out tools.Sink) (tools.Result, error) {
	return r.follow(ctx, env, c, out, func(ctx context.Context, take Taker) (*Running, error) { return r.begin(ctx, c, take) })
}

// follow is Run for a command that start begins.
func (r *Runner) follow(ctx context.Context, env tools.Env, c Command, out tools.Sink, start func(context.Context, Taker) (*Running, error)) (tools.Result, error) {
	t := NewTranscript(env, env.Shown())
	traced, ran := traced(ctx, &c)
	x, err := start(traced, func(stream tools.Stream, data []byte) {
		t.Write(stream, data)
		out.Emit(tools.Output{Stream: stream, Data: data})
	})
	if err != nil {
		ran(nil)
		return tools.Result{}, err
	}
	defer out.Listen(ctx, x.hear)()
	defer context.AfterFunc(ctx, func() { x.Stop(context.Cause(ctx)) })()
	x.attend()
	ran(x)
	return r.ended(ctx, env, c, &t, x)
}

// Ended returns the result of a script that was started and has ended, as RunScript
// does; t is what it wrote.
func (r *Runner) Ended(ctx context.Context, env tools.Env, s Script, t *Transcript, x *Running) (tools.Result, error) {
	<-x.Done()
	c := s.Command
	c.Path = shellPath
	return r.ended(ctx, env, c, t, x)
}

func (r *Runner) ended(ctx context.Context, env tools.Env, c Command, t *Transcript, x *Running) (tools.Result, error) {
	result := t.result(x.outcome)
	x.remark(&result)
	if x.failed != nil {
		return result, notExecuted(c, x.failed)
	}
	if e := x.outcome.Exit; c.Finding != "" && c.Terminal == nil && e.Reason == tools.Exited && e.Code == 1 && t.bytes[tools.Stderr] == 0 {
		result.Content = append(result.Content, tools.Text("(Exit status 1: "+string(c.Finding)+".)"))
		return result, nil
	}
	return result, r.failureOf(ctx, x.outcome, &failure{runner: r, env: env, command: &c, code: x.outcome.Exit.Code, said: lastOf(t.window.Text(nil), maxSaid)})
}

// remark adds to a result what was taken back, and which hosts were not reached.
func (x *Running) remark(result *tools.Result) {
	x.runner.Warn(result, x.found)
	if len(x.refused) > 0 {
		result.Content = append(result.Content, tools.Text("(Not reached: "+strings.Join(x.refused, "; ")+")"))
	}
}

// lastOf returns at most the last n bytes of a text.
func lastOf(text string, n int) string { return text[max(0, len(text)-n):] }

// details is what a runtime is told of a command.
type details struct {
	ExitCode    *int   `json:"exit_code,omitempty"`
	Signal      string `json:"signal,omitempty"`
	DurationMS  int64  `json:"duration_ms"`
	StdoutBytes uint64 `json:"stdout_bytes,omitempty"`
	StderrBytes uint64 `json:"stderr_bytes,omitempty"`
	OutputBytes uint64 `json:"output_bytes,omitempty"` // of a terminal
}

func (t *Transcript) result(o Outcome) tools.Result {
	result := tools.Result{Exit: &o.Exit, Usage: &o.Usage}
	text, artifact := t.Content()
	if text != "" {
		result.Content = append(result.Content, tools.Text(text))
	} else if o.Exit.Reason == tools.Exited && o.Exit.Code == 0 {
		result.Content = append(result.Content, tools.Text("(The command wrote nothing.)"))
	}
	result.Content = append(result.Content, artifact...)
	if o.Exit.Reason == tools.Exited && o.Exit.Message != "" {
		result.Content = append(result.Content, tools.Text("("+o.Exit.Message+")"))
	}
	result.Details = t.details(o)
	return result
}

// details returns what a runtime is told of the command.
func (t *Transcript) details(o Outcome) json.RawMessage {
	d := details{
		Signal: o.Exit.Signal, DurationMS: o.Ran.Milliseconds(),
		StdoutBytes: t.bytes[tools.Stdout], StderrBytes: t.bytes[tools.Stderr], OutputBytes: t.bytes[tools.Terminal],
	}
	if o.Exit.Reason == tools.Exited {
		d.ExitCode = &o.Exit.Code
	}
	text, _ := json.Marshal(d)
	return text
}

// failureOf returns why a command did not do what it was asked; nil if it did.
func (r *Runner) failureOf(ctx context.Context, o Outcome, why *failure) error {
	switch o.Exit.Reason {
	case tools.Exited:
		if o.Exit.Code == 0 {
			return nil
		}
		return tools.Failf("exit_status", "The command ended with exit status %d.%s", o.Exit.Code, why.hint())
	case tools.Signaled:
		if o.Exit.Signal == "" {
			return tools.Failf("lost", "%s", o.Exit.Message)
		}
		return tools.Failf("signal", "The command was ended by signal %s.", o.Exit.Signal)
	case tools.TimedOut, tools.Cancelled:
		if o.Exit.Reason == tools.TimedOut && (ctx.Err() != nil || o.Exit.Message == "") {
			return tools.Failf(tools.TimedOutCode, "The command was ended after %s, when its time was over. %s %s%s.", briefly(o.Ran), wrote(why.said), moreTime(why.env.Words), background(why.env.Words, why.command))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.Exit.Message != "" {
			return tools.Failf("quiet", "%s What it wrote until then is above.", o.Exit.Message)
		}
		return tools.Failf("stopped", "The command was stopped.")
	}
	return tools.Failf(failureCodes[o.Exit.Reason], "%s", o.Exit.Message)
}

// moreTime tells how a command that takes long is run.
func moreTime(words tools.Words) string {
	switch key, ok := words.HasKey("bash", "timeout_ms"); {
	case !ok:
		return "Do less at once"
	case key == "timeout_ms":
		return "Ask for more time with timeout_ms, in milliseconds, or do less at once"
	default:
		return "Ask for more time with " + key + ", or do less at once"
	}
}

// background tells of another way to run a script that takes long.
func background(words tools.Words, c *Command) string {
	if key, ok := words.HasKey("bash", "run_in_background"); ok && c.Path == shellPath {
		return "; what is to go on, such as a server, runs with " + key
	}
	return ""
}

// wrote tells of what a command that was stopped had written.
func wrote(said string) string {
	if said == "" {
		return "It had written nothing."
	}
	return "What it had written is above."
}

var failureCodes = map[tools.ExitReason]string{
	tools.OutputLimit: "output_limit", tools.OutOfMemory: "out_of_memory", tools.CPULimit: "cpu_limit",
	tools.FileSizeLimit: "file_size_limit", tools.ProcessLimit: "process_limit", tools.SandboxViolation: "sandbox_violation",
	tools.DiskLimit: "disk_limit",
}

// notExecuted says why a program was not started.
func notExecuted(c Command, err error) error {
	start, ok := errors.AsType[*sandbox.StartError](err)
	if !ok {
		return err
	}
	switch start.Errno {
	case syscall.ENOENT:
		if _, err := os.Stat(c.Path); err == nil {
			return tools.Failf("program_not_found", "%s was not started: the sandbox does not let it be read, or the interpreter that its first line names is missing. "+
				"The operator opens its directory with sandbox.read, to an MCP server with read of its entry (--read of mcp add).", c.Path)
		}
		return tools.Failf("program_not_found", "%s was not started: it, or the interpreter that its first line names, does not exist.", c.Path)
	case syscall.EACCES, syscall.EPERM:
		return tools.Failf("not_executable", "%s was not started: it is not executable, or lies where the sandbox lets nothing run.", c.Path)
	case syscall.ENOEXEC:
		return tools.Failf("not_executable", "%s was not started: it is no program of this machine, nor a script that begins with #!.", c.Path)
	case syscall.E2BIG:
		return tools.Failf("too_long", "%s was not started: its arguments and environment are longer than the system allows. Put the data into a file.", c.Path)
	}
	return tools.Failf("not_started", "%s was not started: %v.", c.Path, start)
}

// hear takes what callers send to a command.
func (x *Running) hear(ctx context.Context, in tools.Input) (int, error) {
	switch in := in.(type) {
	case tools.Data:
		if x.input == nil {
			return 0, tools.Failf("no_input", "The command takes no input: its standard input is empty. Call it with interactive set.")
		}
		return x.Write(ctx, in)
	case tools.EndOfInput:
		if x.input == nil {
			return 0, nil
		}
		return 0, x.CloseInput()
	case tools.Signal:
		return 0, x.Signal(string(in))
	case tools.WindowSize:
		if !x.terminal {
			return 0, tools.Failf("no_terminal", "The command has no terminal. Call it with interactive set.")
		}
		return 0, sandbox.ResizeTerminal(x.input, uint16(in.Rows), uint16(in.Columns))
	}
	return 0, errors.ErrUnsupported
}

// leftover says what was still running when a command ended. What a shell does by
// itself in the background has the command line of the shell, which may be ours and
// tells nothing: of that the program is told.
func (x *Running) leftover(list []sandbox.Leftover) string {
	if len(list) == 0 {
		return ""
	}
	program := filepath.Base(x.command.Path)
	own := strings.Join(append([]string{program}, x.command.Args...), " ")
	told := make([]string, len(list))
	for i, l := range list {
		if told[i] = strings.ReplaceAll(l.Line, "\n", "; "); l.Line == own {
			told[i] = program + " (a part of the command)"
		}
		if l.Count > 1 {
			told[i] = fmt.Sprintf("%d times %s", l.Count, told[i])
		}
	}
	return fmt.Sprintf("Still running when the command ended, and ended with it: %s. To keep something running, call again with run_in_background.",
		output.Clean([]byte(strings.Join(told, "; "))))
}

// Messages of limits: which one, and how to stay under it.

func (r *Runner) memoryMessage(of *sandbox.Group) string {
	c := &r.all.config
	switch of {
	case nil:
		return fmt.Sprintf("The command was ended: its processes used more than the %s of memory they may. Work on less at once, or with fewer processes.", output.Size(uint64(c.Limits.Memory)))
	case r.group:
		return fmt.Sprintf("The command was ended: all commands of this session together, background processes and interpreters too, used more than the %s of memory they may, and this one used the most. Work on less at once, or end background processes and interpreters that are no longer needed.", output.Size(uint64(c.Limits.SessionMemory)))
	}
	return fmt.Sprintf("The command was ended: the commands of all sessions together used more than the %s of memory this server has for them, and this one used the most. Work on less at once, or try again in a while.", output.Size(uint64(c.Limits.ServerMemory)))
}

func (r *Runner) processesMessage(of *sandbox.Group) string {
	c := &r.all.config
	switch of {
	case nil:
		return fmt.Sprintf("The command was ended: it started more than the %d processes it may have at a time. Start fewer at once.", c.Limits.Processes)
	case r.group:
		return fmt.Sprintf("The command was ended: all commands of this session together, background processes and interpreters too, had more than the %d processes they may have at a time, and this one had the most. Start fewer at once, or end background processes that are no longer needed.", c.Limits.SessionProcesses)
	}
	return fmt.Sprintf("The command was ended: the commands of all sessions together had more than the %d processes this server has for them, and this one had the most. Start fewer at once, or try again in a while.", c.Limits.ServerProcesses)
}

func (r *Runner) cpuMessage(of *sandbox.Group) string {
	if of != nil {
		return "The command was ended: " + spent(r.all.config.Limits.SessionCPU)
	}
	return fmt.Sprintf("The command was ended: a process of it computed for more than the %s it may. Split the work.", r.all.config.Limits.CPU)
}

// spent says that a session has used up its CPU time, and what is left to do.
func spent(limit time.Duration) string {
	return fmt.Sprintf("the commands of this session have used all of the %s of CPU time that they may use together, so it can run no more of them. Tools that start no program still work; go on in a new session, or ask the operator for more (sandbox.limits.session_cpu).", limit)
}

func (c *Config) fileMessage() string {
	return fmt.Sprintf("The command was ended: it wrote a file larger than the %s it may. Write less, or several files.", output.Size(uint64(c.Limits.FileSize)))
}

func (c *Config) outputMessage(limit int64) string {
	return fmt.Sprintf("The command was ended: it wrote more than the %s of output it may. Write to a file, or filter what it writes.", output.Size(uint64(limit)))
}

// signalName returns the name of a signal without SIG.
func signalName(sig syscall.Signal) string {
	name := unix.SignalName(sig)
	if len(name) > 3 {
		return name[3:]
	}
	return name
}

// patience is how long what the kernel could not kill may hold the output.
const patience = time.Second

// briefly rounds how long something took. What took less than a second is told in
// milliseconds, so that one who meant seconds sees it.
func briefly(d time.Duration) time.Duration {
	if d < time.Second {
		return max(d.Round(time.Millisecond), time.Millisecond)
	}
	return d.Round(time.Second / 10)
}
