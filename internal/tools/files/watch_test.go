// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// watch runs a watch, and between looks the steps that change files.
func watch(t *testing.T, input string, steps ...func(dir string) error) (output, text string, err error) {
	t.Helper()
	return watchIn(t, toolstest.Env(t, map[string]string{"src/a": "a", "src/b": "b", "other": "o", ".git/x": ""}), input, steps...)
}

func watchIn(t *testing.T, env tools.Env, input string, steps ...func(dir string) error) (output, text string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		call, decodeErr := byName("watch_files").Decode(&env, json.RawMessage(input))
		if decodeErr != nil {
			t.Fatal(decodeErr)
		}
		var recorder toolstest.Recorder
		done := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			defer close(done)
			var result tools.Result
			result, err = call.Run(ctx, tools.Rights{}, &recorder)
			text = toolstest.Text(result)
		}()
		for _, step := range steps {
			time.Sleep(time.Second)
			synctest.Wait()
			if err := step(env.Workspace.Dir()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if strings.Contains(input, `"cancel"`) || !strings.Contains(input, "timeout_ms") && !strings.Contains(input, "max_events") {
			cancel(errors.New("enough"))
		}
		<-done
		cancel(nil)
		var b strings.Builder
		for _, r := range recorder.Reports() {
			if o, ok := r.(tools.Output); ok {
				b.Write(o.Data)
			}
		}
		output = b.String()
	})
	return output, text, err
}

func put(name, text string) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o644)
	}
}

func gone(name string) func(dir string) error {
	return func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) }
}

func TestWatch(t *testing.T) {
	for _, test := range []struct {
		name, input string
		steps       []func(string) error
		want        string
	}{
		{"all kinds", `{"path":"src","max_events":3}`, []func(string) error{put("src/new", ""), put("src/a", "longer"), gone("src/b")},
			"created src/new\nchanged src/a\nremoved src/b\n"},
		{"what is elsewhere", `{"path":"src","timeout_ms":10000}`, []func(string) error{put("other", "longer"), put("elsewhere", "")}, ""},
		{"a tree that comes and goes", `{"max_events":7}`, []func(string) error{put("deep/er/file", "1"), put("deep/er/file", "11"), gone("deep")},
			"created deep\ncreated deep/er\ncreated deep/er/file\nchanged deep/er/file\nremoved deep\nremoved deep/er\nremoved deep/er/file\n"},
		{"one file", `{"path":"src/a","max_events":2}`, []func(string) error{put("src/b", "xx"), put("src/a", "xx"), gone("src/a")}, "changed src/a\nremoved src/a\n"},
		{"not there yet", `{"path":"new","max_events":1}`, []func(string) error{put("new", "")}, "created new\n"},
		{"left out", `{"max_events":1,"exclude":["*.log",".git"]}`, []func(string) error{put("x.log", ""), put(".git/y", ""), put("z", "")}, "created z\n"},
		{"the whole directory goes", `{"path":"src","max_events":2}`, []func(string) error{gone("src")}, "removed src/a\nremoved src/b\n"},
		{"more than asked for", `{"path":"src","max_events":1}`, []func(string) error{gone("src")}, "removed src/a\n"},
		{"a link is not followed", `{"max_events":1}`, []func(string) error{func(dir string) error { return os.Symlink("/etc", dir+"/etc") }}, "created etc\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, text, err := watch(t, test.input, test.steps...)
			if err != nil || output != test.want || !strings.Contains(text, strings.TrimSpace(test.want)) {
				t.Errorf("output %q, want %q; the answer is %q, %v", output, test.want, text, err)
			}
		})
	}
}

func TestWatchIsCancelled(t *testing.T) {
	output, text, err := watch(t, `{"path":"src"}`, put("src/new", ""))
	if err == nil || output != "created src/new\n" || !strings.HasPrefix(text, "created src/new\n") {
		t.Errorf("%q, %q, %v", output, text, err)
	}
	env := toolstest.Env(t, nil)
	toolstest.StopsSoon(t, byName("watch_files"), `{"timeout_ms":600000}`, env)
	if got := answer(t, env, "watch_files", `{"path":"../x"}`); !strings.HasPrefix(got, "! outside_workspace") {
		t.Error(got)
	}
}

// TestWatchTellsNothingOfWhatIsWithheld changes what rules are about: that it
// comes and goes is told, as a listing would, and nothing of what is in it.
func TestWatchTellsNothingOfWhatIsWithheld(t *testing.T) {
	for name, hide := range map[string]func(*toolstest.Restrictions, func(string) bool){
		"denied": func(g *toolstest.Restrictions, hidden func(string) bool) { g.Denies = hidden },
		"asked":  func(g *toolstest.Restrictions, hidden func(string) bool) { g.Asks = hidden },
	} {
		t.Run(name, func(t *testing.T) {
			env := toolstest.Env(t, map[string]string{"src/a": "a", "src/keys/old": "k", "src/.env": "k"})
			var guard toolstest.Restrictions
			hide(&guard, func(path string) bool {
				return path == "src/keys" || path == "src/.env" || strings.HasPrefix(path, "src/keys/")
			})
			env.Restrictions = guard
			output, text, err := watchIn(t, env, `{"path":"src","max_events":3}`,
				put("src/keys/new", "k"), put("src/keys/deep/er", "k"), put("src/keys/old", "longer"), gone("src/keys/new"),
				put("src/.env", "longer"), gone("src/.env"), gone("src/keys"), put("src/a", "longer"))
			const want = "removed src/.env\nremoved src/keys\nchanged src/a\n"
			if err != nil || output != want || !strings.HasPrefix(text, want) {
				t.Errorf("output %q, want %q; the answer is %q, %v", output, want, text, err)
			}
		})
	}
}
