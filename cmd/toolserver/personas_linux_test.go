// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolserver/toolserver/internal/persona"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestPersonas has an agent of each system explore, edit, run tests, fix and finish,
// with calls as the documentation of the system writes them, and compares the tools it
// is shown and the results it gets with testdata/personas. UPDATE_GOLDEN=1 writes them.
func TestPersonas(t *testing.T) {
	for _, system := range persona.Systems() {
		t.Run(system.Name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", "personas", system.Name+".txtar")
			script, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := newFailing(t, "1h")
			made, err := f.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "turn", Persona: system.Name, Mode: pb.Mode_MODE_ALLOW})
			if err != nil {
				t.Fatal(err)
			}
			f.workspace = made.GetSession().GetWorkspace()
			var got strings.Builder
			list, err := f.ListTools(t.Context(), &pb.ListToolsRequest{SessionId: "turn"})
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range list.GetTools() {
				got.WriteString(tool.GetName() + " ")
			}
			got.WriteString("\n")
			for call := range strings.Lines(string(section(script, "calls"))) {
				name, input, _ := strings.Cut(strings.TrimSpace(call), " ")
				got.WriteString("\n> " + strings.TrimSpace(call) + "\n" +
					f.call(&pb.ExecuteToolRequest{SessionId: "turn", Tool: name, InputJson: []byte(input)}, nil))
			}
			result := wallTime.ReplaceAllString(got.String(), "$1 N$2")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				script.Files = []txtar.File{{Name: "calls", Data: section(script, "calls")}, {Name: "results", Data: []byte(result)}}
				if err := os.WriteFile(file, txtar.Format(script), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(section(script, "results")); result != want {
				t.Errorf("got:\n%s\nwant:\n%s", result, want)
			}
		})
	}
}

// wallTime is what forms tell of the time that a command took.
var wallTime = regexp.MustCompile(`(Wall time:|is running,) [0-9.]+( seconds|m?s)`)

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}
