// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Print what commands find here, and what to set where something is missing",
		Long: `doctor starts commands as a server with the same configuration would, in its
sandbox and with its environment, and prints what they find: programs and their
versions, the network, directories and caches, what is readable, limits, and what
of the sandbox does not hold. Below that it tells what to set where something is
missing, also of models that cannot be reached or do not take their key. It exits with 1 if something required of the sandbox does not hold.`,
		Args: cli.Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), (*config.Config).ValidateInside)
			if err != nil {
				return err
			}
			d, err := diagnose(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(os.Stdout).Encode(d)
			} else {
				err = d.print(os.Stdout)
			}
			if err == nil && !d.Sandbox.Holds {
				err = &cli.ExitError{Code: cli.ExitFailed, Err: errors.New("the sandbox does not hold")}
			}
			return err
		},
	}
	config.AddFlags(cmd.Flags(), "workspace")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as one JSON object")
	return cmd
}

// A diagnosis is what commands find on this machine.
type diagnosis struct {
	Programs    []foundProgram   `json:"programs"`
	Code        []codeProgram    `json:"code"`
	Path        []string         `json:"path"`
	LeftOut     []leftOut        `json:"left_out_of_path"`
	Network     string           `json:"network"`
	Directories []foundDirectory `json:"directories"`
	Readable    []string         `json:"readable"`
	Limits      []limitLine      `json:"limits"`
	Sandbox     sandboxState     `json:"sandbox"`
	Advice      []string         `json:"advice"`
}

type leftOut struct {
	Dir string `json:"directory"`
	Why string `json:"why"`
}

// A codeProgram is one that the tool code asks.
type codeProgram struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	Note string `json:"note,omitempty"` // where it is not found: how to get it
}

// codePrograms returns what parses source code, and language servers.
func codePrograms(c *config.Config, programs command.Programs) []codeProgram {
	parser := codeProgram{Name: "toolserver-syntax", Path: server.SyntaxProgram(c.Syntax)}
	if parser.Path == "" {
		parser.Note = "not found: code knows no syntax; make syntax builds it beside toolserver, where there is a C compiler"
	}
	list := []codeProgram{parser}
	for _, s := range c.Code.Known() {
		one := codeProgram{Name: s.Name}
		var ok bool
		if one.Path, ok = programs.Find(s.Command[0]); !ok {
			one.Path, ok = lsp.FindBeside(server.Beside(), s.Command[0])
		}
		if !ok {
			one.Path = ""
			one.Note = "not found: " + cmp.Or(s.Install, command.NoProgram(s.Command[0]))
		}
		list = append(list, one)
	}
	return list
}

// A foundDirectory is a directory of commands.
type foundDirectory struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Note  string `json:"note,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
}

type limitLine struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type sandboxState struct {
	Mode       string      `json:"mode"`
	Holds      bool        `json:"holds"` // all that is required
	Landlock   int         `json:"landlock"`
	Namespaces bool        `json:"namespaces"`
	User       int         `json:"user"`
	Open       []checkLine `json:"open"` // checks that do not hold
}

// diagnose runs commands as a server with this configuration would.
func diagnose(ctx context.Context, c *config.Config) (*diagnosis, error) {
	if err := c.FillIn(); err != nil {
		return nil, err
	}
	programs := c.Programs()
	d := &diagnosis{
		Path: programs.Path, LeftOut: []leftOut{}, Network: c.Sandbox.Network.String(),
		Readable: tools.ReadableTrees(c.Readable(programs)...), Limits: linesOf(&c.Sandbox.Limits), Advice: []string{},
	}
	d.Code = codePrograms(c, programs)
	for _, r := range programs.Refused {
		d.LeftOut = append(d.LeftOut, leftOut(r))
	}
	jails, err := server.OpenSandbox(&c.Sandbox, os.Stderr)
	if err != nil {
		return nil, err
	}
	defer jails.Close()
	if err := d.run(ctx, c, jails, programs); err != nil {
		return nil, err
	}
	checks, capabilities, err := server.Probe(ctx, c, os.Stderr)
	if err != nil {
		return nil, err
	}
	d.Sandbox = sandboxState{Mode: c.Sandbox.Mode.String(), Holds: true, Landlock: capabilities.Landlock, Namespaces: capabilities.Namespaces, User: capabilities.User, Open: []checkLine{}}
	for _, check := range checks {
		if !check.Tried || !check.Holds {
			d.Sandbox.Open = append(d.Sandbox.Open, checkLine{check.Name, check.Holds, check.Tried, check.Required, check.What, check.Detail})
			d.Sandbox.Holds = d.Sandbox.Holds && !check.Required
		}
	}
	d.advise(ctx, c)
	return d, nil
}

// run tries programs in a session of its own, whose workspace goes with it.
func (d *diagnosis) run(ctx context.Context, c *config.Config, jails *sandbox.Sandbox, programs command.Programs) error {
	nothing := func() *output.Masker { return output.NewMasker(nil) }
	runners := server.NewRunners(c, jails, programs, nothing, zap.NewNop())
	store := session.NewStore(server.SessionsOf(c, auth.Local.Name))
	defer store.Close()
	s, err := store.Create(auth.Local.Owner(), session.Request{ID: "doctor"})
	if err != nil {
		return err
	}
	runner, err := runners.Of(tools.Env{SessionID: s.ID, CallID: "doctor", Workspace: s.Workspace, Session: s})
	if err != nil {
		return err
	}
	variables, err := variablesIn(ctx, runner)
	if err != nil {
		return fmt.Errorf("no command can be run here: %w", err)
	}
	d.Directories = []foundDirectory{{Name: "workspace", Path: c.Sessions.Workspace, Note: "of callers without authentication"}}
	for _, v := range []struct{ name, note string }{{"HOME", "goes with its session"}, {"TMPDIR", "goes with its session"}} {
		d.Directories = append(d.Directories, foundDirectory{Name: v.name, Path: variables[v.name], Note: v.note})
	}
	caches, err := s.Cache()
	if err != nil {
		return err
	}
	if caches == "" {
		d.Directories = append(d.Directories, foundDirectory{Name: "caches", Path: filepath.Dir(variables["GOCACHE"]), Note: "go with their session: sandbox.caches.max_bytes is 0"})
	} else {
		d.Directories = append(d.Directories, foundDirectory{Name: "caches", Path: caches, Note: "of " + auth.Local.Name + ", at most " + output.Size(uint64(c.Sandbox.Caches.MaxBytes)), Bytes: sizeOf(ctx, caches)})
	}
	d.Programs = append(tryPrograms(ctx, runners, runner), tryBrowser(ctx, runners, runner, c.Browser))
	return nil
}

// variablesIn returns the environment that a command has.
func variablesIn(ctx context.Context, runner *command.Runner) (map[string]string, error) {
	text, err := runIn(ctx, runner, "env", "-0")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for pair := range strings.SplitSeq(text, "\x00") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return all, nil
}

// sizeOf returns how many bytes the files of a directory have, or those that were
// counted in time.
func sizeOf(ctx context.Context, dir string) (bytes int64) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// linesOf returns the limits that an operator thinks of first.
func linesOf(l *command.Limits) []limitLine {
	return []limitLine{
		{"memory", orNone(l.Memory)}, {"processes", orNone(l.Processes)}, {"cpu", orNone(l.CPU)}, {"open_files", orNone(l.OpenFiles)},
		{"file_size", orNone(l.FileSize)}, {"output", orNone(l.Output)}, {"session_memory", orNone(l.SessionMemory)},
		{"session_processes", orNone(l.SessionProcesses)}, {"session_cpu", orNone(l.SessionCPU)}, {"session_files", orNone(l.SessionFiles)},
		{"per_session", orNone(l.PerSession)}, {"per_server", orNone(l.PerServer)},
	}
}

func orNone[T comparable](limit T) string {
	if limit == *new(T) {
		return "none"
	}
	return fmt.Sprint(limit)
}

// print writes the diagnosis for people.
func (d *diagnosis) print(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0) // a line without tabs ends a table
	fmt.Fprintln(out, "PROGRAM\tVERSION\tPATH")
	for _, p := range d.Programs {
		place := p.Path
		if p.Problem != "" {
			place += ": " + p.Problem
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", p.Name, cmp.Or(p.Version, "-"), cmp.Or(place, "not found"))
	}
	fmt.Fprintln(out, "\nCODE\tPATH")
	for _, p := range d.Code {
		fmt.Fprintf(out, "%s\t%s\n", p.Name, cmp.Or(p.Path, p.Note))
	}
	fmt.Fprintln(out, "\nDIRECTORY\tPATH\tNOTE")
	for _, dir := range d.Directories {
		if dir.Bytes > 0 {
			dir.Note += ", now " + output.Size(uint64(dir.Bytes))
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", dir.Name, dir.Path, dir.Note)
	}
	fmt.Fprintln(out, "\nLIMIT\tVALUE")
	for _, l := range d.Limits {
		fmt.Fprintf(out, "%s\t%s\n", l.Key, l.Value)
	}
	fmt.Fprintf(out, "\nPATH\t%s\n", strings.Join(d.Path, ":"))
	for _, dir := range d.LeftOut {
		fmt.Fprintf(out, "left out\t%s: %s\n", dir.Dir, dir.Why)
	}
	fmt.Fprintf(out, "readable\t%s\nnetwork\t%s\n", strings.Join(d.Readable, " "), d.Network)
	fmt.Fprintf(out, "sandbox\t%s, mode %s, namespaces: %s, Landlock %d, as user %d\n", d.Sandbox.summary(), d.Sandbox.Mode, yesNo(d.Sandbox.Namespaces), d.Sandbox.Landlock, d.Sandbox.User)
	for _, check := range d.Sandbox.Open {
		fmt.Fprintf(out, "open\t%s: not so: %s\n", check.Check, check.What)
	}
	if len(d.Advice) > 0 {
		fmt.Fprintln(out, "\nTO SET")
	}
	for _, advice := range d.Advice {
		fmt.Fprintln(out, advice)
	}
	return out.Flush()
}

func (s *sandboxState) summary() string {
	switch {
	case s.Mode == config.SandboxOff.String():
		return "off"
	case s.Holds:
		return "holds"
	case slices.ContainsFunc(s.Open, func(line checkLine) bool { return line.Required && line.Tried }):
		return "does not hold"
	}
	return "could not be tried"
}
