// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/tools"
)

// A foundProgram is a program that a command was tried with.
type foundProgram struct {
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty"` // why it could not tell its version
}

// triedPrograms are those that are looked for, with what has them tell their
// version.
var triedPrograms = []struct{ name, arguments string }{
	{"bash", "--version"}, {"git", "--version"}, {"go", "version"}, {"gofmt", ""}, {"python3", "--version"}, {"pip", "--version"},
	{"node", "--version"}, {"npm", "--version"}, {"cargo", "--version"}, {"rustc", "--version"}, {"java", "-version"}, {"mvn", "--version"},
	{"ruby", "--version"}, {"php", "--version"}, {"perl", "--version"}, {"make", "--version"}, {"cmake", "--version"}, {"gcc", "--version"},
	{"rg", "--version"}, {"jq", "--version"}, {"curl", "--version"}, {"sqlite3", "--version"},
	{"pwsh", "--version"},
}

// howToGet tells of programs that a tool cannot do without.
var howToGet = map[string]string{
	"chromium": "the tool browser is not offered: this server " + browser.Unavailable + ".",
	"pwsh":     "the tool powershell is not offered: install PowerShell, whose program is pwsh, into a directory of PATH.",
}

const (
	tryTime     = 10 * time.Second // for one program
	triedAtOnce = 4
)

// tryPrograms runs each program.
func tryPrograms(ctx context.Context, runners *command.Runners, runner *command.Runner) []foundProgram {
	found := make([]foundProgram, len(triedPrograms))
	turns := make(chan struct{}, triedAtOnce)
	var group sync.WaitGroup
	for i, p := range triedPrograms {
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			path, _ := runners.Find(p.name)
			found[i] = tryPath(ctx, runner, p.name, path, strings.Fields(p.arguments))
		})
	}
	group.Wait()
	return found
}

// tryBrowser tells of the browser that sessions use.
func tryBrowser(ctx context.Context, runners *command.Runners, runner *command.Runner, c browser.Config) foundProgram {
	if c.Endpoint != "" {
		return foundProgram{Name: "chromium", Path: c.Endpoint + ", which is elsewhere"}
	}
	path, _ := browser.New(runners, c).Program()
	return tryPath(ctx, runner, "chromium", path, []string{"--version"})
}

// tryPath runs a program; path is "" where there is none.
func tryPath(ctx context.Context, runner *command.Runner, name, path string, arguments []string) foundProgram {
	p := foundProgram{Name: name, Path: path}
	if path == "" {
		return p
	}
	text, err := runIn(ctx, runner, path, arguments...)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	p.Version = versionPattern.FindString(text)
	return p
}

var versionPattern = regexp.MustCompile(`\d+\.\d+[\w.+-]*`)

// runIn runs a program and returns what it wrote.
func runIn(ctx context.Context, runner *command.Runner, path string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	var out bytes.Buffer
	x, err := runner.Start(ctx, command.Command{Rights: doctorRights, Path: path, Args: arguments, Dir: "."}, func(_ tools.Stream, data []byte) { out.Write(data) })
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { x.Stop(context.Cause(ctx)) })()
	outcome, err := x.Wait()
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %s", tryTime)
	case outcome.Exit.Reason != tools.Exited:
		return "", fmt.Errorf("it was ended: %s %s", outcome.Exit.Reason, outcome.Exit.Message)
	case outcome.Exit.Code != 0:
		line, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
		return "", fmt.Errorf("exit status %d: %.200s", outcome.Exit.Code, cli.OneLine(line))
	}
	return out.String(), nil
}

// usualPlaces are where programs lie that are in no PATH.
var usualPlaces = []string{
	"/usr/local/go/bin", "/usr/lib/go*/bin", "/opt/*/bin", "/snap/bin", "/usr/lib/jvm/*/bin", "/home/linuxbrew/.linuxbrew/bin",
	"~/go/bin", "~/.local/bin", "~/.cargo/bin", "~/.pyenv/shims", "~/.rbenv/shims", "~/.asdf/shims", "~/.nvm/versions/node/*/bin", "~/.bun/bin", "~/.deno/bin",
	"~/.local/share/mise/shims", "~/.volta/bin", "~/.sdkman/candidates/*/current/bin",
}

// advise tells what to set where something is missing.
func (d *diagnosis) advise(ctx context.Context, c *config.Config) {
	for _, p := range d.Programs {
		if p.Path != "" {
			if p.Problem != "" {
				d.Advice = append(d.Advice, fmt.Sprintf("%s: it is there and does not work. What it needs may have to be readable: add that to sandbox.read.", p.Name))
			}
			continue
		}
		if advice := cmp.Or(d.whereIs(p.Name), howToGet[p.Name]); advice != "" {
			d.Advice = append(d.Advice, p.Name+": "+advice)
		}
	}
	d.Advice = append(d.Advice, c.Warnings(ctx)...)
	d.Advice = append(d.Advice, tryModels(ctx, c.Models)...)
	if c.Sandbox.Network.String() == "none" {
		d.Advice = append(d.Advice, "network: nothing can be downloaded. sandbox.network opens more.")
	}
	for _, check := range d.Sandbox.Open {
		if check.Required {
			d.Advice = append(d.Advice, "sandbox: it does not hold. toolserver sandbox probe tells more.")
			break
		}
	}
}

// whereIs tells how a program that is not in PATH could be; "" where it is nowhere.
func (d *diagnosis) whereIs(name string) string {
	for _, dir := range d.LeftOut {
		if isProgram(filepath.Join(dir.Dir, name)) {
			return fmt.Sprintf("it is in %s, which is left out of PATH: %s. Change that, or add the directory to sandbox.path.", dir.Dir, dir.Why)
		}
	}
	home, _ := os.UserHomeDir()
	for _, place := range usualPlaces {
		if rest, ok := strings.CutPrefix(place, "~"); ok {
			place = home + rest
		}
		found, _ := filepath.Glob(filepath.Join(place, name))
		for _, path := range found {
			if isProgram(path) {
				return fmt.Sprintf("not found in PATH; it is in %s: add that to sandbox.path.", filepath.Dir(path))
			}
		}
	}
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// doctorRights are those of a command that nobody understands in mode allow.
var doctorRights = tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
