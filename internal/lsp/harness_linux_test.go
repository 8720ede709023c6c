// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.lsp.dev/jsonrpc2"
	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fakeServer {
		serveFake(os.Args[2:])
		return
	}
	sandboxtest.Main(m)
}

// kit is a set of language servers with a real sandbox, and a session.
type kit struct {
	t       testing.TB
	dir     string
	env     tools.Env
	runners *command.Runners
	set     *lsp.Set
	asker   *lsp.Asker
}

// binDir is where make puts programs.
func binDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../.bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newKit(t testing.TB, config lsp.Config, files map[string]string) *kit {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, inherited := binDir(t), os.Getenv("PATH")
	if config.Beside != "" {
		inherited = pathWithout("gopls", inherited)
	}
	programs := command.FindPrograms(command.ProgramsConfig{
		Operator:  []string{filepath.Join(bin, "lsp", "node_modules", ".bin")},
		Inherited: inherited, Covered: sandbox.SystemPaths(),
	})
	read := slices.Concat(sandbox.SystemPaths(), programs.Trees, []string{self})
	path := programs.Path
	if config.Beside == "" {
		read, path = append(read, filepath.Join(bin, "gopls")), append([]string{bin}, path...)
	}
	runners := command.New(command.Config{
		Sandbox: s, View: sandbox.View{Read: read}, Network: tools.NetworkLoopback, Grace: 2 * time.Second, Path: path,
	})
	env := toolstest.Env(t, files)
	env.Rights = tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
	set := lsp.New(runners, search.NewPool(nil), config)
	return &kit{t: t, dir: env.Workspace.Dir(), env: env, runners: runners, set: set, asker: set.For(env, nil)}
}

// pathWithout is a search path without the folders that hold a program.
func pathWithout(program, path string) string {
	folders := slices.DeleteFunc(filepath.SplitList(path), func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, program))
		return err == nil
	})
	return strings.Join(folders, string(filepath.ListSeparator))
}

// needs skips a test on a machine without a program, which make test installs.
func (k *kit) needs(program string) string {
	k.t.Helper()
	path, ok := k.runners.Find(program)
	if !ok && os.Getenv("CI") != "" {
		k.t.Fatal("there is no " + program)
	}
	if !ok {
		k.t.Skip("there is no " + program)
	}
	return path
}

// write writes a file of the workspace, as somebody else would.
func (k *kit) write(name, text string) {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) read(name string) string {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		k.t.Fatal(err)
	}
	return string(data)
}

// find returns where a relation leads, as path:line:column.
func (k *kit) find(r lsp.Relation, t lsp.Target) []string {
	k.t.Helper()
	found, err := k.asker.Find(k.t.Context(), r, t)
	if err != nil {
		k.t.Fatalf("%s of %v: %v", r, t, err)
	}
	return names(found.List)
}

func names(list []lsp.Location) (all []string) {
	for _, l := range list {
		all = append(all, l.String())
	}
	return all
}

// failure returns the code and the text of an error, which must be a failure.
func failure(t testing.TB, err error) (code, text string) {
	t.Helper()
	f, ok := errors.AsType[*tools.Failure](err)
	if !ok {
		t.Fatalf("no failure: %v", err)
	}
	return f.Code, f.Message
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in: %s", part, text)
		}
	}
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// copyTree copies a directory into the workspace.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// What comes out of a module cache may be read alone.
	err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()|0o200)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// direct is a language server that is asked without anything between, outside of a sandbox.
type direct struct {
	protocol.Server
	t   testing.TB
	dir string
}

type quiet struct{ protocol.UnimplementedClient }

func (quiet) Configuration(_ context.Context, params *protocol.ConfigurationParams) ([]protocol.LSPAny, error) {
	list := make([]protocol.LSPAny, len(params.Items))
	for i := range list {
		list[i] = protocol.LSPAny("null")
	}
	return list, nil
}

func (quiet) RegisterCapability(context.Context, *protocol.RegistrationParams) error { return nil }

type stdio struct {
	io.ReadCloser
	io.WriteCloser
}

func (s stdio) Close() error { return errors.Join(s.WriteCloser.Close(), s.ReadCloser.Close()) }

func startDirect(t testing.TB, dir, options string, program string, args ...string) *direct {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, conn, server := protocol.NewClient(context.Background(), quiet{}, jsonrpc2.NewStream(stdio{out, in}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if server.Shutdown(ctx) == nil {
			_ = server.Exit(ctx)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-conn.Done()
	})
	root := uri.File(dir)
	params := &protocol.InitializeParams{WorkspaceFoldersInitializeParams: protocol.WorkspaceFoldersInitializeParams{
		WorkspaceFolders: protocol.NewNullable([]protocol.WorkspaceFolder{{URI: root, Name: "w"}}),
	}}
	if options != "" {
		params.InitializationOptions = protocol.LSPAny(options)
	}
	if _, err := server.Initialize(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	if err := server.Initialized(t.Context(), &protocol.InitializedParams{}); err != nil {
		t.Fatal(err)
	}
	return &direct{Server: server, t: t, dir: dir}
}

func (d *direct) open(name, language string) {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	err = d.DidOpen(d.t.Context(), &protocol.DidOpenTextDocumentParams{TextDocument: protocol.TextDocumentItem{
		URI: uri.File(filepath.Join(d.dir, name)), LanguageID: protocol.LanguageKind(language), Version: 1, Text: string(data),
	}})
	if err != nil {
		d.t.Fatal(err)
	}
}

// at is a position of ASCII lines, from one.
func (d *direct) at(name string, line, column int) protocol.TextDocumentPositionParams {
	return protocol.TextDocumentPositionParams{
		TextDocument: protocol.TextDocumentIdentifier{URI: uri.File(filepath.Join(d.dir, name))},
		Position:     protocol.Position{Line: uint32(line - 1), Character: uint32(column - 1)},
	}
}

// names returns places as path:line:column, sorted as ours.
func (d *direct) names(list []protocol.Location) (all []string) {
	var locations []lsp.Location
	for _, l := range list {
		path := l.URI.FsPath()
		if rel, err := filepath.Rel(d.dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		locations = append(locations, lsp.Location{Path: path, Line: int(l.Range.Start.Line) + 1, Column: int(l.Range.Start.Character) + 1})
	}
	slices.SortFunc(locations, func(a, b lsp.Location) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return (a.Line-b.Line)*10_000 + a.Column - b.Column
	})
	return slices.Compact(names(locations))
}

func (d *direct) definition(name string, line, column int) []string {
	d.t.Helper()
	result, err := d.Definition(d.t.Context(), &protocol.DefinitionParams{TextDocumentPositionParams: d.at(name, line, column)})
	if err != nil {
		d.t.Fatal(err)
	}
	switch result := result.(type) {
	case *protocol.Location:
		return d.names([]protocol.Location{*result})
	case protocol.LocationSlice:
		return d.names(result)
	}
	return nil
}

func (d *direct) references(name string, line, column int) []string {
	d.t.Helper()
	result, err := d.References(d.t.Context(), &protocol.ReferenceParams{TextDocumentPositionParams: d.at(name, line, column), Context: protocol.ReferenceContext{IncludeDeclaration: true}})
	if err != nil {
		d.t.Fatal(err)
	}
	return d.names(result)
}
