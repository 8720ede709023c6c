// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

// table is settings for the tool config.
type table map[string]string

func (t table) All() (list []tools.Setting) {
	for _, name := range []string{"answer", "level"} {
		list = append(list, tools.Setting{Name: name, Value: t[name], About: "for tests", Settable: name == "answer"})
	}
	return list
}

func (t table) Set(name, value string) error {
	if name != "answer" {
		return tools.Failf("not_settable", "%s cannot be changed.", name)
	}
	t[name] = value
	return nil
}

// TestDocuments makes the calls of each script in testdata/documents one after the other in
// one session, and compares what they say, report and tell runtimes. UPDATE_GOLDEN=1 writes
// it.
func TestDocuments(t *testing.T) {
	scripts, err := filepath.Glob("testdata/documents/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	byName := make(map[string]tools.Tool)
	for _, tool := range turn.Tools() {
		byName[tool.Spec().Name] = tool
	}
	for _, file := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			env := toolstest.Env(t, nil)
			env.Settings = table{"answer": "50000", "level": "read_only"}
			var got strings.Builder
			for call := range strings.Lines(string(script.Files[0].Data)) {
				name, input, _ := strings.Cut(strings.TrimSpace(call), " ")
				got.WriteString("\n> " + strings.TrimSpace(call) + "\n" + transcript(t, byName[name], env, input))
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				script.Files = []txtar.File{script.Files[0], {Name: "results", Data: []byte(got.String())}}
				if err := os.WriteFile(file, txtar.Format(script), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(script.Files) < 2 || got.String() != string(script.Files[1].Data) {
				t.Errorf("got:\n%s", got.String())
			}
		})
	}
}

// transcript returns all that a call tells.
func transcript(t *testing.T, tool tools.Tool, env tools.Env, input string) string {
	call, err := tool.Decode(&env, json.RawMessage(input))
	if err != nil {
		return "invalid input: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, effect := range call.Effects() {
		fmt.Fprintf(&b, "effect: %s %s\n", effect.Kind, effect.Mode)
	}
	if shown, ok := call.(tools.Previewer); ok {
		b.WriteString("shows: " + strings.ReplaceAll(shown.Preview(t.Context()).Text, "\n", "\n  ") + "\n")
	}
	recorder := new(toolstest.Recorder)
	result, err := call.Run(context.WithoutCancel(t.Context()), tools.Rights{}, recorder)
	for _, report := range recorder.Reports() {
		if p, ok := report.(tools.Progress); ok {
			fmt.Fprintf(&b, "progress: %s (%v of %v %s)\n", p.Message, p.Done, p.Total, p.Unit)
		}
	}
	b.WriteString(toolstest.Text(result))
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return b.String() + failure.Code + ": " + failure.Message + "\n"
	}
	if err != nil {
		return b.String() + "error: " + err.Error() + "\n"
	}
	if len(result.Details) > 0 {
		b.WriteString(string(result.Details) + "\n")
	}
	return b.String()
}

// TestPlanChangedMeanwhile proves that what was shown is what is approved.
func TestPlanChangedMeanwhile(t *testing.T) {
	env := toolstest.Env(t, nil)
	s := toolstest.NewSession(tools.ModePlan)
	env.Session = s
	toolstest.Run(t, turn.Plan(), env, `{"goal":"Small","steps":[{"step":"one"}]}`)
	call, err := turn.ExitPlanMode().Decode(&env, json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	preview := call.(tools.Previewer).Preview(t.Context())
	toolstest.Run(t, turn.Plan(), env, `{"steps":[{"step":"two"}]}`)
	renewed, err := call.(tools.Renewer).Renew(nil) // as after an approval
	if err != nil {
		t.Fatal(err)
	}
	if again := renewed.(tools.Previewer).Preview(t.Context()); again != preview || !strings.Contains(preview.Text, "1. one") {
		t.Errorf("shown was %q, and is %q", preview.Text, again.Text)
	}
	_, err = renewed.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "plan_changed" || s.Mode() != tools.ModePlan {
		t.Errorf("%v, in mode %s", err, s.Mode())
	}
}

// full keeps nothing new.
type full struct{ tools.Documents }

func (f full) Change(name string, change func(json.RawMessage) (json.RawMessage, error)) error {
	return f.Documents.Change(name, func(old json.RawMessage) (json.RawMessage, error) {
		if _, err := change(old); err != nil {
			return nil, err
		}
		return nil, tools.Failf("documents_full", "There is no room.")
	})
}

// TestPlanThatCannotBeKept proves that a session does not leave plan mode for a plan that is
// lost.
func TestPlanThatCannotBeKept(t *testing.T) {
	env := toolstest.Env(t, nil)
	s := toolstest.NewSession(tools.ModePlan)
	env.Session, env.Documents = s, full{env.Documents}
	_, _, err := toolstest.Run(t, turn.ExitPlanMode(), env, `{"plan":"1. do it"}`)
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "documents_full" || s.Mode() != tools.ModePlan {
		t.Errorf("%v, in mode %s", err, s.Mode())
	}
}
