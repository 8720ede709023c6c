// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// Machine is what a configuration is checked against.
type Machine struct {
	Path       []string // where programs are looked for
	Writable   []string // directories that sessions write, with links resolved
	MaxNetwork tools.Network
}

// Check finds everything that is wrong, with the key of each.
func (c Config) Check(m Machine, fault func(key, format string, args ...any)) {
	if len(c) > maxHooks {
		fault("hooks", "%d hooks: at most %d", len(c), maxHooks)
	}
	names := make(map[string]bool)
	for i, spec := range c {
		spec.check(m, func(key, format string, args ...any) {
			fault(fmt.Sprintf("hooks[%d]%s", i, key), "hook "+spec.withDefaults().Name+": "+format, args...)
		})
		if spec.Name != "" && names[spec.Name] {
			fault(fmt.Sprintf("hooks[%d].name", i), "there is a hook %s already", spec.Name)
		}
		names[spec.Name] = true
	}
}

func (s *Spec) check(m Machine, fault func(key, format string, args ...any)) {
	if len(s.Name) > 64 || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		fault(".name", "%.80q is no name: want letters, digits, _, - and dots, at most 64", s.Name)
	}
	if len(s.On) == 0 {
		fault(".on", "is missing: want when the hook is called, such as before_call")
	}
	seen := make(map[Point]bool)
	for _, point := range s.On {
		if seen[point] {
			fault(".on", "%s is there twice", point)
		}
		seen[point] = true
	}
	if err := (tools.Selection{Include: s.Tools}).Check(); err != nil {
		fault(".tools", "%v", err)
	}
	for i, e := range s.Effects {
		if _, err := Effect(e).compile(); err != nil {
			fault(fmt.Sprintf(".effects[%d]", i), "%v", err)
		}
	}
	switch {
	case len(s.Run) == 0 && s.URL == "":
		fault("", "has neither run nor url: want a command or an endpoint")
	case len(s.Run) > 0 && s.URL != "":
		fault(".url", "is beside run: want a command or an endpoint")
	case s.URL != "":
		s.checkEndpoint(fault)
	default:
		if err := s.Run.check(m); err != nil {
			fault(".run", "%v", err)
		}
		if s.SecretFile != "" {
			fault(".secret_file", "is for an endpoint: a command has no key")
		}
	}
	if s.Timeout < 0 || s.Timeout > time.Hour {
		fault(".timeout", "%s is out of bounds: want up to 1h", s.Timeout)
	}
	if s.MaxOutput > 16<<20 {
		fault(".max_output", "%s is out of bounds: want up to 16 MiB", s.MaxOutput)
	}
	if s.Concurrency < 0 || s.Concurrency > 1000 {
		fault(".concurrency", "%d is out of bounds: want 1 to 1000", s.Concurrency)
	}
	if m.MaxNetwork != 0 && s.Network > m.MaxNetwork {
		fault(".network", "%s is more than sandbox.max_network, %s", s.Network, m.MaxNetwork)
	}
}

func (s *Spec) checkEndpoint(fault func(key, format string, args ...any)) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		fault(".url", "%.80q is no address: want one such as https://checks.example.com/toolserver", s.URL)
	}
	if s.Network != 0 {
		fault(".network", "is for a command")
	}
	if s.SecretFile == "" {
		fault(".secret_file", "is missing: want a file with the key that bodies are signed with, at least %d bytes", minSecret)
	} else if _, err := s.secret(); err != nil {
		fault(".secret_file", "%v", err)
	}
}

// check returns why the command would not run, or would run what calls can change.
func (c Command) check(m Machine) error {
	program := c[0]
	switch {
	case program == "":
		return errors.New("names no program")
	case !strings.Contains(program, "/"):
		for _, dir := range m.Path {
			if path := filepath.Join(dir, program); checkProgram(path, m) == nil {
				return nil
			}
		}
		return fmt.Errorf("there is no program %s in %s", program, strings.Join(m.Path, ":"))
	case !filepath.IsAbs(program):
		return fmt.Errorf("%s would be looked for in the workspace: want an absolute path, or a name that is in PATH", program)
	}
	return checkProgram(program, m)
}

func checkProgram(path string, m Machine) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no program %s", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x it", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, dir := range m.Writable {
		for _, at := range []string{real, filepath.Clean(path)} {
			if at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") {
				return fmt.Errorf("%s lies in %s, where calls can write: put it where only the operator can", path, dir)
			}
		}
	}
	return nil
}
