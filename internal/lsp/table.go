// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Server is a language server of the operator's table. Nothing in a workspace can name
// another program, but for those of servers that an operator has to name for that reason.
type Server struct {
	Name string `yaml:"name"`

	// Command is the program, which is looked for where commands find programs, and
	// its arguments.
	Command []string `yaml:"command"`

	// Languages are what it is asked about: names of the protocol, such as "go", with
	// the endings or names of their files.
	Languages map[string][]string `yaml:"languages"`

	// Env is what it has in its environment besides. Settings are what it is told when
	// it asks for its configuration, Options when it begins.
	Env      []string       `yaml:"env"`
	Settings map[string]any `yaml:"settings"`
	Options  map[string]any `yaml:"options"`

	// Off leaves one of Defaults out.
	Off bool `yaml:"off"`

	// Install is how one of Defaults is got, for people.
	Install string `yaml:"-"`

	// runsWorkspace says that a workspace can have the server run its own programs:
	// toolchains, wrappers of compilers, builds. An operator names such a one to have it.
	runsWorkspace bool

	// findsAll says that the server finds the uses of a name in files that nobody gave it,
	// checksAll that it tells what is wrong with such files.
	findsAll, checksAll bool

	// projects are names of files that tell the server which files belong together.
	projects []string
}

// Defaults returns the servers that are known, which are used where their programs are found.
func Defaults() []Server {
	return []Server{
		{
			Name: "gopls", Install: "go install golang.org/x/tools/gopls@latest", Command: []string{"gopls"},
			Languages: map[string][]string{"go": {".go"}, "go.mod": {"go.mod"}, "go.work": {"go.work"}}, findsAll: true, checksAll: true,
			// It tells when it has told all that is wrong, and tells it at once.
			Settings: map[string]any{"gopls": map[string]any{"verboseWorkDoneProgress": true, "diagnosticsDelay": "0s", "diagnosticsTrigger": "Edit", "linkTarget": ""}},
		},
		{
			Name: "typescript-language-server", Install: "npm install -g typescript-language-server typescript", Command: []string{"typescript-language-server", "--stdio"},
			Languages: map[string][]string{
				"typescript": {".ts", ".mts", ".cts"}, "typescriptreact": {".tsx"},
				"javascript": {".js", ".mjs", ".cjs"}, "javascriptreact": {".jsx"},
			},
			projects: []string{"tsconfig.json", "jsconfig.json"},
			// A second server for syntax would answer what it knows while the first still reads.
			Options: map[string]any{"disableAutomaticTypingAcquisition": true, "tsserver": map[string]any{"useSyntaxServer": "never"}},
		},
		{
			Name: "pyright", Install: "npm install -g pyright", Command: []string{"pyright-langserver", "--stdio"},
			Languages: map[string][]string{"python": {".py", ".pyi"}}, findsAll: true,
		},
		{
			Name: "rust-analyzer", Install: "rustup component add rust-analyzer", Command: []string{"rust-analyzer"}, runsWorkspace: true,
			Languages: map[string][]string{"rust": {".rs"}}, findsAll: true,
			// A check would build, which is to write, and run what the workspace says.
			Options: map[string]any{"checkOnSave": false, "cargo": map[string]any{"buildScripts": map[string]any{"enable": false}}, "procMacro": map[string]any{"enable": false}},
		},
		{
			Name: "clangd", Install: "the package clangd of the system", Command: []string{"clangd", "--background-index=false"},
			Languages: map[string][]string{"c": {".c", ".h"}, "cpp": {".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"}},
		},
		{
			Name: "jdtls", Install: "the release of eclipse.jdt.ls, with jdtls in the PATH of commands", Command: []string{"jdtls"}, runsWorkspace: true,
			Languages: map[string][]string{"java": {".java"}}, findsAll: true, checksAll: true,
		},
		{
			Name: "bash-language-server", Install: "npm install -g bash-language-server", Command: []string{"bash-language-server", "start"},
			Languages: map[string][]string{"shellscript": {".sh", ".bash"}},
		},
	}
}

// Check finds what is wrong with the table of an operator.
func (c Config) Check(fault func(key, format string, args ...any)) {
	seen := make(map[string]bool)
	for i, s := range c.Servers {
		key := fmt.Sprintf("code.servers[%d]", i)
		known := slices.ContainsFunc(Defaults(), func(d Server) bool { return d.Name == s.Name })
		switch {
		case s.Name == "":
			fault(key+".name", "it is missing")
		case seen[s.Name]:
			fault(key+".name", "there are two servers %s", s.Name)
		}
		seen[s.Name] = true
		if s.Off {
			if !known {
				fault(key+".off", "there is no server %s that could be left out", s.Name)
			}
			continue
		}
		if s.standsForDefault() && known {
			continue
		}
		if len(s.Command) == 0 || s.Command[0] == "" {
			fault(key+".command", "it is missing: name the program, and its arguments")
		}
		if len(s.Languages) == 0 {
			fault(key+".languages", "none is named: write such as {go: [.go]}")
		}
		for language, names := range s.Languages {
			if len(names) == 0 || slices.Contains(names, "") {
				fault(key+".languages."+language, "want endings of files, such as [.go]")
			}
		}
		if _, err := json.Marshal([]any{s.Settings, s.Options}); err != nil {
			fault(key+".settings", "%v", err)
		}
	}
}

// standsForDefault reports whether the operator named a known server, and nothing of it.
func (s *Server) standsForDefault() bool { return len(s.Command) == 0 && len(s.Languages) == 0 }

// with returns a known server with what the operator adds to it.
func (s Server) with(more Server) Server {
	s.Env = slices.Concat(s.Env, more.Env)
	s.Settings, s.Options = merged(s.Settings, more.Settings), merged(s.Options, more.Options)
	return s
}

// merged returns settings with others, which count where both have one.
func merged(settings, others map[string]any) map[string]any {
	if len(others) == 0 {
		return settings
	}
	all := maps.Clone(others)
	for name, value := range settings {
		below, isObject := value.(map[string]any)
		if other, ok := all[name]; !ok {
			all[name] = value
		} else if other, ok := other.(map[string]any); ok && isObject {
			all[name] = merged(below, other)
		}
	}
	return all
}

// languageOf returns the name of the language of a file; "" where the server is not asked
// about it.
func (s *Server) languageOf(path string) string {
	base := filepath.Base(path)
	found := "" // of several the first by name
	for language, names := range s.Languages {
		if found != "" && found < language {
			continue
		}
		for _, name := range names {
			if base == name || strings.HasPrefix(name, ".") && strings.HasSuffix(base, name) {
				found = language
			}
		}
	}
	return found
}

// serverFor returns the server of a file, and its program.
func (s *Set) serverFor(path string) (server *Server, program string, err error) {
	var missing []string
	for i := range s.table {
		server := &s.table[i]
		if server.languageOf(path) == "" {
			continue
		}
		if program, ok := s.programs.Load(server.Name); ok {
			return server, program.(string), nil
		}
		if program, ok := s.find(server); ok {
			s.programs.Store(server.Name, program)
			return server, program, nil
		}
		missing = append(missing, fmt.Sprintf("%s is not here: %s", server.Name, command.NoProgram(server.Command[0])))
	}
	for _, d := range Defaults() {
		if d.runsWorkspace && d.languageOf(path) != "" {
			missing = append(missing, fmt.Sprintf("%s is used where the operator names it in code.servers, for a workspace can have it run programs", d.Name))
		}
	}
	if len(missing) > 0 {
		return nil, "", tools.Failf("no_language_server", "There is no language server for %s. %s.", path, strings.Join(missing, "; "))
	}
	return nil, "", tools.Failf("no_language_server", "There is no language server for %s: none is known for files of that kind. %s The operator adds others to code.servers.", path, s.serves())
}

// find returns the program of a server.
func (s *Set) find(server *Server) (path string, ok bool) {
	if path, ok = s.runners.Find(server.Command[0]); ok {
		return path, true
	}
	return FindBeside(s.config.Beside, server.Command[0])
}

// FindBeside returns a program in a directory that is not one of commands.
func FindBeside(dir, name string) (path string, ok bool) {
	if dir == "" || strings.Contains(name, "/") {
		return "", false
	}
	path = filepath.Join(dir, name)
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// found returns the servers whose programs are here, by name.
func (s *Set) found() (list []*Server) {
	for i := range s.table {
		if _, ok := s.find(&s.table[i]); ok {
			list = append(list, &s.table[i])
		}
	}
	return list
}

// known names the servers of the table.
func (s *Set) known() string {
	var names []string
	for i := range s.table {
		names = append(names, s.table[i].Name)
	}
	return strings.Join(names, ", ")
}

// serves tells what the servers that are here are asked about.
func (s *Set) serves() string {
	var all []string
	for _, server := range s.found() {
		for _, language := range slices.Sorted(maps.Keys(server.Languages)) {
			all = append(all, server.Languages[language]...)
		}
	}
	if len(all) == 0 {
		return "None is installed here."
	}
	return fmt.Sprintf("There are servers for %s.", strings.Join(all, ", "))
}

// errNoTypeScript says that a server would run the TypeScript of a workspace.
var errNoTypeScript = errors.New("there is no TypeScript beside it, and that of a workspace is a program which is not run: the operator installs typescript beside typescript-language-server, or names its tsserver.js in options.tsserver.path of code.servers")

// options returns what a server is told when it begins. The TypeScript beside its server
// is used, and not that of a workspace: that would be a program which the workspace names.
func (s *Server) options(program string) (map[string]any, error) {
	own, _ := s.Options["tsserver"].(map[string]any)
	if s.Name != "typescript-language-server" || own["path"] != nil {
		return s.Options, nil
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return nil, err
	}
	beside := filepath.Join(filepath.Dir(real), "..", "..", "typescript", "lib", "tsserver.js")
	if _, err := os.Stat(beside); err != nil {
		return nil, errNoTypeScript
	}
	options := map[string]any{"tsserver": map[string]any{"path": beside}}
	maps.Copy(options["tsserver"].(map[string]any), own)
	for name, value := range s.Options {
		if name != "tsserver" {
			options[name] = value
		}
	}
	return options, nil
}

// modules returns the environment of a server, and what it reads beside the workspace: modules
// of Go that the commands of the session have fetched or, where they have fetched none, those
// of the machine.
func (p *sessionServers) modules(server *Server) (env, read []string) {
	machine := p.set.config.GoModules
	named := slices.ContainsFunc(server.Env, func(pair string) bool { return strings.HasPrefix(pair, "GOMODCACHE=") })
	if server.Name != "gopls" || machine == "" || named {
		return server.Env, nil
	}
	if _, err := os.Stat(filepath.Join(p.runner.Caches(), "go-mod", "cache", "download")); err == nil {
		return server.Env, nil
	}
	return append(slices.Clip(server.Env), "GOMODCACHE="+machine), []string{machine}
}

// section returns the part of the settings that a server asks for by a dotted name; nil
// where there is none.
func (s *Server) section(name string) any {
	var value any = s.Settings
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[part]
	}
	return value
}
