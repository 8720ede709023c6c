// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed list_dir.md
var listDirDoc string

//go:embed list_dir_help.md
var listDirHelp string

type listDirInput struct {
	Path    string    `json:"path,omitempty" check:"max=4096" jsonschema:"default the workspace; artifact: for outputs that were cut"`
	Depth   int       `json:"depth,omitempty" check:"min=1,max=20" jsonschema:"levels to show; default 1"`
	Exclude *[]string `json:"exclude,omitempty" check:"max=100" jsonschema:"patterns to leave out; default node_modules, .git, dist, build, out, .cache, target"`
	Limit   int       `json:"limit,omitempty" check:"min=1,max=10000" jsonschema:"default 1000"`
	Offset  int       `json:"offset,omitempty" check:"min=0,max=100000" jsonschema:"how many to skip"`
}

// Check finds patterns that are none.
func (in listDirInput) Check() []tools.Problem { return checkPatterns(in.Exclude) }

func checkPatterns(patterns *[]string) []tools.Problem {
	if patterns == nil {
		return nil
	}
	var problems []tools.Problem
	for i, pattern := range *patterns {
		if _, err := glob.CompileBelow(pattern); err != nil {
			problems = append(problems, tools.Problem{Pointer: "/exclude/" + itoa(i), Message: err.Error() + "; a pattern is such as *.log or build/**"})
		}
	}
	return problems
}

// alwaysExcluded is what is left out of deeper levels where nothing else is
// said.
var alwaysExcluded = []string{"node_modules", ".git", "dist", "build", "out", ".cache", "target"}

// ListDir returns the tool that lists a directory.
func ListDir() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "list_dir",
			Aliases:         []string{"list_files", "FileList", "ls", "list_directory"},
			Keys:            []tools.Key{{Other: "max_depth", Name: "depth"}, {Other: "exclude_patterns", Name: "exclude"}},
			Label:           "List directory",
			Summary:         "List the files of a directory.",
			Description:     listDirDoc,
			Help:            listDirHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Pages:           true,
			Examples: []tools.Example{
				{Summary: "The workspace", Input: json.RawMessage(`{}`)},
				{Summary: "Three levels of a directory", Input: json.RawMessage(`{"path":"src","depth":3,"exclude":["*.o"]}`)},
			},
		},
		func(env tools.Env, in listDirInput) []tools.Effect { return env.ViewsTree(cmp.Or(in.Path, ".")) },
		func(ctx context.Context, env tools.Env, in listDirInput, _ tools.Sink) (tools.Result, error) {
			l, err := list(ctx, env, in, env.Shown())
			if err != nil {
				return tools.Result{}, explainOf(env, err, cmp.Or(in.Path, "."))
			}
			return tools.Detailed(l.String(), l.details())
		})
}

// listing is what is in a directory.
type listing struct {
	words   tools.Words
	in      listDirInput
	room    int // bytes of text there is room for
	name    string
	text    strings.Builder
	passed  int // entries before the first that is shown
	entries []listed
	more    bool // there is more than is shown
	unread  bool // and more than can be listed
	left    int  // entries that were left out by patterns
	closed  int  // directories whose entries may not be read with the others
}

// listed is one entry of a listing.
type listed struct {
	Name   string `json:"name"` // below the directory
	Kind   string `json:"kind"`
	Size   int64  `json:"size"`
	Time   string `json:"modified,omitempty"`
	Target string `json:"target,omitempty"` // of a link; of an artifact, its name

	Expires string `json:"expires,omitempty"` // of an artifact
}

var errEnough = errors.New("enough")

// maxScanned bounds how many entries of one directory are looked at.
const maxScanned = 100_000

// list lists a directory, with at most room bytes of text.
func list(ctx context.Context, env tools.Env, in listDirInput, room int) (*listing, error) {
	name := cmp.Or(in.Path, ".")
	if tools.IsArtifact(name) {
		return listArtifacts(env, in, room)
	}
	view, err := env.View(name)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	top := view.Path
	l := &listing{words: env.Words, in: in, room: room, name: name}
	depth := cmp.Or(in.Depth, 1)
	exclude, withheld := excluding(in.Exclude), view.Withheld(true)
	visit := func(e workspace.Entry) error {
		rel, err := filepath.Rel(top, e.Path)
		if err != nil {
			return err
		}
		level := strings.Count(rel, "/") + 1
		if exclude.Match(rel) {
			l.left++
			return workspace.SkipDir
		}
		entry := listed{Name: rel, Kind: kindName(e.Mode), Size: e.Size, Time: e.ModTime.UTC().Format("2006-01-02T15:04:05Z")}
		if e.Mode&fs.ModeSymlink != 0 {
			entry.Target, _ = view.Workspace.Readlink(e.Path)
		}
		if !l.add(entry) {
			return errEnough
		}
		if level >= depth || in.Exclude == nil && slices.Contains(alwaysExcluded, filepath.Base(rel)) {
			return workspace.SkipDir
		}
		if e.Mode.IsDir() && withheld != nil && withheld(e.Path) {
			l.closed++
			return workspace.SkipDir
		}
		return nil
	}
	all, err := view.Workspace.Walk(ctx, top, maxScanned, visit)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, notADirectory(env.Words, name, named(view, name, err))
	}
	l.unread = !all && !l.more
	return l, nil
}

// listArtifacts lists the artifacts of a session, or one of them.
func listArtifacts(env tools.Env, in listDirInput, room int) (*listing, error) {
	view, err := env.View(in.Path)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	l := &listing{words: env.Words, in: in, room: room, name: in.Path}
	one, single := view.Artifact()
	for _, a := range env.Artifacts.All() {
		if single && a.File != one.File {
			continue
		}
		entry := listed{Name: a.URI, Kind: "artifact", Size: int64(a.Size), Target: a.Name}
		if !a.Expires.IsZero() {
			entry.Expires = a.Expires.UTC().Format("2006-01-02T15:04:05Z")
		}
		if !l.add(entry) {
			break
		}
	}
	return l, nil
}

// add shows an entry. It reports false where there is no room for it.
func (l *listing) add(e listed) bool {
	if l.passed < l.in.Offset {
		l.passed++
		return true
	}
	line := e.line()
	if len(l.entries) == cmp.Or(l.in.Limit, 1000) || len(l.entries) > 0 && l.text.Len()+len(line) > l.room {
		l.more = true
		return false
	}
	l.entries = append(l.entries, e)
	l.text.WriteString(line)
	return true
}

// excluding returns the patterns of what is left out, which were checked.
func excluding(patterns *[]string) glob.List {
	if patterns == nil {
		return nil
	}
	list, _ := glob.CompileList(*patterns)
	return list
}

// notADirectory tells that a file cannot be listed.
func notADirectory(words tools.Words, name string, err error) error {
	failure, ok := errors.AsType[*tools.Failure](explain(err))
	if ok && failure.Code == "not_a_directory" {
		return tools.Failf("not_a_directory", "%s is no directory. Use %s to see what is in a file.", name, words.Tool("read_file"))
	}
	return err
}

func kindName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode.IsRegular():
		return "file"
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// plain returns a name in one line.
func plain(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) && r != '\u00ad' }) {
		return strconv.Quote(name)
	}
	return name
}

// line returns how an entry is shown.
func (e *listed) line() string {
	name := plain(e.Name)
	switch e.Kind {
	case "directory":
		return name + "/\n"
	case "file":
		return name + "\t" + strconv.FormatInt(e.Size, 10) + "\n"
	case "link":
		return name + " -> " + plain(e.Target) + "\n"
	case "artifact":
		kept := "is being written"
		if e.Expires != "" {
			kept = "kept until " + e.Expires
		}
		return fmt.Sprintf("%s\t%d\t%s, %s\n", name, e.Size, plain(e.Target), kept)
	}
	return name + "\t(" + e.Kind + ")\n"
}

func (l *listing) String() string {
	b := &l.text
	switch {
	case len(l.entries) == 0 && l.in.Offset > 0:
		fmt.Fprintf(b, "(there is no more: offset %d is beyond the last entry)\n", l.in.Offset)
	case len(l.entries) == 0 && l.left == 0:
		b.WriteString("(the directory is empty)\n")
	}
	if l.left > 0 {
		fmt.Fprintf(b, "(%s left out)\n", tools.Count(l.left, "excluded name", "excluded names"))
	}
	if l.closed > 0 {
		fmt.Fprintf(b, "(%s not gone into: the policy has rules about reading what is there)\n", tools.Count(l.closed, "directory", "directories")+" of these")
	}
	if l.more {
		on := l.in
		on.Offset += len(l.entries)
		fmt.Fprintf(b, "(there is more than these %d: go on with %s)\n", len(l.entries), l.words.GoOn("list_dir", on))
	}
	if l.unread {
		b.WriteString("(there is more than can be listed: list a directory of these)\n")
	}
	return visible(b.String())
}

func (l *listing) details() any {
	entries := slices.Clone(l.entries)
	for i := range entries {
		entries[i].Name, entries[i].Target = visible(entries[i].Name), visible(entries[i].Target)
	}
	if entries == nil {
		entries = []listed{}
	}
	return map[string]any{"path": l.name, "entries": entries, "more": l.more || l.unread}
}
