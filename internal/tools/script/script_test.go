// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package script_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/script"
)

// TestManifests has every mistake told, with its line.
func TestManifests(t *testing.T) {
	const top = "name: x\ndescription: D.\nschema: {type: object, properties: {q: {type: string}, o: {type: object}}}\n"
	for text, want := range map[string]string{
		top + "command: [grep, -e, '{{q}}', .]\n":                          "",
		top + "command: [bash, -c, 'grep -- \"$1\" .', x, '{{q}}']\n":      "",
		top + "command: [echo, 'a={{o.b}}', '{{ q }}!']\n":                 "",
		top + "command: [bash, -c, 'grep {{q}} .']\n":                      "would be code of the caller",
		top + "command: [bash, -xc, '{{q}}']\n":                            "would be code of the caller",
		top + "command: [python3, '{{q}}']\n":                              "would be code of the caller",
		top + "command: [env, A=1, '{{q}}']\n":                             "would be code of the caller",
		top + "command: [sed, -n, '{{q}}', a.txt]\n":                       "would be code of the caller",
		top + "command: [perl, -ne, 'print', -e, '{{q}}']\n":               "would be code of the caller",
		top + "command: ['{{q}}']\n":                                       "want a program",
		top + "command: [echo, '{{none}}']\n":                              "x.yaml:4: command: \"{{none}}\" names none, which is no property",
		top + "command: [echo, '{{q']\n":                                   "names no key",
		top + "command: [echo, '{{q}}{{q}}']\n":                            "more than one value",
		top + "command: [./gone]\n":                                        "./gone is not there",
		top + "command: [./x.yaml]\n":                                      "not executable",
		top + "command: [bin/x]\n":                                         "would be looked for in the workspace",
		top + "command: [true]\nread_only: true\nwrites: [a]\n":            "beside read_only",
		top + "command: [true]\ntimeout: 48h\n":                            "out of bounds",
		top + "command: [true]\nenvironment: {'A=B': c}\n":                 "no name of a variable",
		top + "command: [true]\nnetwork: all\n":                            "no network",
		top + "command: [true]\nresult: {type: string}\n":                  "result",
		top + "command: [true]\nreads: ['{{z}}']\n":                        "reads",
		top + "comand: [true]\n":                                           "command",
		"name: ä\ndescription: D.\ncommand: [true]\n":                      "is no name",
		"name: x\ndescription: \"a\\u200bb\"\ncommand: [true]\n":           "which nobody sees",
		"name: x\ncommand: [true]\n":                                       "description",
		"name: x\ndescription: D.\nschema: {type: string}\ncommand: [a]":   "an input is an object",
		"name: x\ndescription: D.\nschema: {$ref: 'file:///etc/passwd'}\n": "only references to parts of itself",
		top + "command: [true]\nsecrets: [TOKEN]\n":                        "",
		top + "command: [true]\nsecrets: [OTHER]\n":                        "is none of this folder",
		top + "command: [nowhere]\n":                                       "x.yaml: command: there is no program nowhere",
		"":                                                                 "name",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(script.Check(script.Config{Dir: dir, Secrets: map[string]string{"TOKEN": "/dev/null"}}, noProgram), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s\ngives %s\nwant %s", text, got, want)
		}
	}
	if errs := script.Check(script.Config{Dir: filepath.Join(t.TempDir(), "none")}, noProgram); len(errs) != 1 {
		t.Errorf("no folder: %v", errs)
	}
}

// noProgram knows the programs of the manifests above, but for one.
func noProgram(name string) string {
	if name == "nowhere" {
		return "there is no program nowhere"
	}
	return ""
}

// TestFolder proves what a source tells of its folder, and when.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "name: a\ndescription: D.\ncommand: [\"true\"]\n")
	write("b.yaml", "name: b\n")
	write("huge.yaml", strings.Repeat("#", 300<<10))
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "endless.yaml")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		registry := &tools.Registry{Capabilities: []string{command.Capability}}
		keeper := source.NewKeeper(registry, nil)
		defer keeper.Close()
		s := script.New(script.Config{Name: "ops", Dir: dir}, command.New(command.Config{}))
		if err := keeper.Add(s); err != nil {
			t.Fatal(err)
		}
		<-s.Scanned()
		synctest.Wait()
		status := keeper.Statuses()[0]
		if status.Tools != 1 || len(status.Refused) != 4 || !strings.Contains(status.Refused[0], "b.yaml") || status.State != source.Available {
			t.Errorf("%+v", status)
		}
		write("b.yaml", "name: b\ndescription: D.\ncommand: [\"true\"]\n")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if status := keeper.Statuses()[0]; status.Tools != 2 || len(status.Refused) != 2 {
			t.Errorf("after a change: %+v", status)
		}
		entry, ok := registry.Lookup("b", nil)
		if !ok || entry.Spec.Name != "ops__b" || entry.Spec.Kind != tools.Script || entry.Spec.Version == "" {
			t.Errorf("%+v", entry)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := script.New(script.Config{Name: "x", Dir: filepath.Join(dir, "none")}, nil).Serve(ctx, nil); !os.IsNotExist(err) {
		t.Errorf("no folder: %v", err)
	}
}
