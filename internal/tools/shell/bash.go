// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed bash.md
var bashDoc string

//go:embed bash_help.md
var bashHelp string

type bashInput struct {
	Command        string            `json:"command" check:"min=1,max=1048576" jsonschema:"what to run"`
	Description    string            `json:"description,omitempty" check:"max=1000" jsonschema:"what it does, in five to ten words"`
	Workdir        string            `json:"workdir,omitempty" jsonschema:"default: the workspace, or where keep_workdir left off"`
	KeepWorkdir    bool              `json:"keep_workdir,omitempty" jsonschema:"later calls begin where this one ends"`
	Env            map[string]string `json:"env,omitempty" check:"max=100" jsonschema:"variables to add"`
	TimeoutMS      int64             `json:"timeout_ms,omitempty" check:"min=1,max=86400000" jsonschema:"default 120000; in the background: the session"`
	QuietTimeoutMS int64             `json:"quiet_timeout_ms,omitempty" check:"min=1,max=86400000" jsonschema:"end it after so long without output"`
	Background     bool              `json:"run_in_background,omitempty" jsonschema:"return at once with an id; it goes on"`
	AfterMS        int64             `json:"background_after_ms,omitempty" check:"min=1,max=600000" jsonschema:"then it goes on in the background"`
	Interactive    bool              `json:"interactive,omitempty" jsonschema:"in a terminal that takes input"`
	Rows           uint16            `json:"rows,omitempty" check:"min=1,max=1000" jsonschema:"default 24"`
	Columns        uint16            `json:"columns,omitempty" check:"min=1,max=1000" jsonschema:"default 80"`
}

// Timeout is how long the call may run.
func (in bashInput) Timeout() time.Duration {
	if in.Background {
		return 0 // it only starts something
	}
	if in.AfterMS > 0 {
		return milliseconds(in.AfterMS) + leeway
	}
	return milliseconds(in.TimeoutMS)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Check finds what the schema cannot tell.
func (in bashInput) Check() []tools.Problem {
	var problems []tools.Problem
	if strings.TrimSpace(in.Command) == "" {
		problems = append(problems, tools.Problem{Pointer: "/command", Message: "is blank: give the command to run"})
	}
	if strings.ContainsRune(in.Command, 0) {
		problems = append(problems, tools.Problem{Pointer: "/command", Message: `contains a NUL character, which no command can: write it as $'\x00' where a program is to make one`})
	}
	if in.Background && in.KeepWorkdir {
		problems = append(problems, tools.Problem{Pointer: "/keep_workdir", Message: "does not go with run_in_background: later calls cannot know where it will end"})
	}
	if in.AfterMS > 0 && (in.Background || in.KeepWorkdir) {
		problems = append(problems, tools.Problem{Pointer: "/background_after_ms", Message: "does not go with run_in_background and keep_workdir: leave them out"})
	}
	for name, value := range in.Env {
		if !isName(name) {
			problems = append(problems, tools.Problem{Pointer: "/env", Message: strconv.Quote(name) + " is no name of a variable: use letters, digits and _, and begin with no digit"})
		}
		if strings.ContainsRune(value, 0) {
			problems = append(problems, tools.Problem{Pointer: "/env/" + name, Message: "contains a NUL character: leave it out"})
		}
	}
	return problems
}

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return s != ""
}

const defaultTimeout = 2 * time.Minute

// Bash returns the tool that runs shell commands.
func Bash(runners *command.Runners, companions *companion.Set) tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:    "bash",
			Aliases: []string{"Bash", "shell", "execute_bash", "executeCmd", "execute_cmd", "ShellExec", "run_command"},
			Keys: []tools.Key{
				{Other: "working_dir", Name: "workdir"}, {Other: "working_directory", Name: "workdir"}, {Other: "cwd", Name: "workdir"},
				{Other: "timeout", Name: "timeout_ms"},
			},
			Label:   "Run a command",
			Summary: "Run a command with bash in the workspace.",

			Description:          describe(bashDoc, runners.Facts()),
			Help:                 describe(bashHelp, runners.Facts()),
			Category:             category,
			Level:                tools.DangerFullAccess,
			LeastLevel:           tools.ReadOnly,
			Dangerous:            true,
			RequiredCapabilities: []string{command.Capability},
			DefaultTimeout:       defaultTimeout,
			Examples: []tools.Example{
				{Summary: "Run the tests of a module", Input: json.RawMessage(`{"command":"go test ./...","description":"Run all tests","timeout_ms":300000}`)},
				{Summary: "Start a server and go on", Input: json.RawMessage(`{"command":"npm run dev","run_in_background":true}`)},
				{Summary: "In a directory, with a variable", Input: json.RawMessage(`{"command":"npm run build","workdir":"web","env":{"NODE_ENV":"production"}}`)},
			},
		},
		func(env tools.Env, in bashInput) []tools.Effect {
			dir := workdir(runners, env, in)
			return effects.Resolve(env, shell.Effects(in.judged(), placeOf(runners, env, dir)))
		},
		func(ctx context.Context, env tools.Env, in bashInput, out tools.Sink) (tools.Result, error) {
			return runBash(ctx, runners, companions, env, in, out)
		})
	return tools.WithPreview(tool, func(_ context.Context, _ tools.Env, in bashInput) tools.Preview {
		return tools.Preview{Kind: tools.PreviewCommand, Text: in.judged()}
	})
}

// describe returns what the model is told, with what is so on this server.
func describe(text string, f command.Facts) string {
	return strings.NewReplacer("{network}", f.Network, "{temporary}", f.Temporary, "{programs}", cmp.Or(f.Programs, "none")).Replace(text)
}

// placeOf is where a command begins. Where its home is not that of the session,
// nobody knows what it means.
func placeOf(runners *command.Runners, env tools.Env, dir string) shell.Place {
	place := shell.PlaceOf(env, dir)
	if runners.ReplacesHome() {
		place.Home = ""
	}
	return place
}

// judged returns the command with what it does to its environment.
func (in bashInput) judged() string {
	if len(in.Env) == 0 {
		return in.Command
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		b.WriteString("export " + name + "=" + shell.Quote(in.Env[name]) + "\n")
	}
	return b.String() + in.Command
}

// workdir returns where a call runs. What it was when the call was judged is
// what it stays.
func workdir(runners *command.Runners, env tools.Env, in bashInput) string {
	dir := in.Workdir
	if dir == "" {
		dir = runners.Dir(env.Session)
	}
	path, inside := env.Workspace.Resolve(dir)
	if !inside {
		return dir
	}
	env.Pin("workdir", path)
	return path
}

func runBash(ctx context.Context, runners *command.Runners, companions *companion.Set, env tools.Env, in bashInput, out tools.Sink) (tools.Result, error) {
	dir, inside := env.Pinned("workdir")
	if !inside {
		return tools.Result{}, tools.Failf("outside_workspace", "The command was not run: workdir %s is outside of the workspace.", in.Workdir)
	}
	runner, err := runners.Of(env)
	if err != nil {
		return tools.Result{}, err
	}
	c := command.Command{
		Dir: dir, Rights: env.Rights, Restrictions: env.Restrictions, SharedTemp: strings.Contains(in.Command, "TMPDIR"),
		Deletes: len(in.Env) == 0 && deletes(in.Command, placeOf(runners, env, dir)), Finding: finding(in.Command), Quiet: milliseconds(in.QuietTimeoutMS),
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		c.Env = append(c.Env, name+"="+in.Env[name])
	}
	if in.Interactive {
		c.Terminal = &command.Size{Rows: cmp.Or(in.Rows, 24), Columns: cmp.Or(in.Columns, 80)}
	}
	script := command.Script{Command: c, Text: in.Command, KeepDir: in.KeepWorkdir}
	var result tools.Result
	switch {
	case in.Background:
		result, err = startBackground(ctx, companions, env, script, milliseconds(in.TimeoutMS))
	case in.AfterMS > 0:
		result, err = runFor(ctx, companions, env, script, milliseconds(in.AfterMS), milliseconds(in.TimeoutMS), out)
	default:
		result, err = runner.RunScript(ctx, env, script, out)
	}
	if f, ok := errors.AsType[*tools.Failure](err); ok && f.Code == "no_such_directory" && in.Workdir == "" {
		err = tools.Failf(f.Code, `Nothing was run: %s, where keep_workdir left off, is no directory any more. Call again with workdir; "." is the workspace.`, dir)
	}
	if f, ok := errors.AsType[*tools.Failure](err); ok && f.Code == "no_such_directory" && in.Workdir != "" {
		err = tools.Failf(f.Code, "Nothing was run: %s is no directory of the workspace. %s", in.Workdir, tools.DidYouMean(effects.NearFiles(env, in.Workdir), "Make it first, or choose another."))
	}
	return result, err
}
