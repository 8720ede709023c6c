// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// scripted is a source that does what a test says.
type scripted struct {
	name  string
	serve func(ctx context.Context, offer func([]tools.Tool)) error
}

func (s scripted) Name() string     { return s.name }
func (s scripted) Kind() tools.Kind { return tools.MCP }
func (s scripted) Serve(ctx context.Context, offer func([]tools.Tool)) error {
	return s.serve(ctx, offer)
}

func foreign(name string) tools.Tool {
	return tools.NewForeign(tools.Foreign{
		Spec:   tools.Spec{Name: name, Summary: "A tool for tests.", Kind: tools.MCP, Level: tools.ReadOnly},
		Schema: json.RawMessage(`{"type":"object"}`),
		Check:  func(input json.RawMessage) (json.RawMessage, error) { return input, nil },
	})
}

// listed returns the tools of a registry, those that cannot be called in brackets.
func listed(r *tools.Registry) string {
	entries, _ := r.All()
	var names []string
	for _, entry := range entries {
		name := entry.Spec.Name
		if entry.Unavailable != "" {
			name = "(" + name + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestSourceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry tools.Registry
		keeper := source.NewKeeper(&registry, nil)
		defer keeper.Close()
		attempts := 0
		lost := make(chan error)
		err := keeper.Add(scripted{"weather", func(ctx context.Context, offer func([]tools.Tool)) error {
			if attempts++; attempts < 4 {
				return errors.New("connection refused")
			}
			offer([]tools.Tool{foreign("today")})
			select {
			case err := <-lost:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := keeper.Statuses()[0]; s.State != source.Unavailable || s.Reason != "connection refused" || !s.Next.After(time.Now()) {
			t.Errorf("after a refusal: %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := listed(&registry); got != "weather__today" || attempts != 4 {
			t.Errorf("after a minute, and %d attempts: %q", attempts, got)
		}
		lost <- errors.New("it died")
		synctest.Wait()
		if got := listed(&registry); got != "(weather__today)" {
			t.Errorf("after it died: %q", got)
		}
		entry, _ := registry.Lookup("today", nil)
		if !strings.Contains(entry.Unavailable, "it died") {
			t.Errorf("the reason is %q", entry.Unavailable)
		}
		if err := keeper.Retry("weather"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := listed(&registry); got != "weather__today" {
			t.Errorf("after another attempt: %q", got)
		}
	})
}

// TestSourcesThatComeLater: a source that is to come later is known, and is left alone until
// the keeper begins, however long that takes.
func TestSourcesThatComeLater(t *testing.T) {
	offers := func(name string) scripted {
		return scripted{name, func(ctx context.Context, offer func([]tools.Tool)) error {
			offer([]tools.Tool{foreign("one")})
			<-ctx.Done()
			return nil
		}}
	}
	for how, begin := range map[string]func(*source.Keeper){
		"by itself":          (*source.Keeper).Begin,
		"for who waits":      func(k *source.Keeper) { k.Settle(context.Background()) },
		"more than once":     func(k *source.Keeper) { k.Begin(); k.Begin() },
		"and never":          nil,
		"before it is known": func(k *source.Keeper) { k.Begin() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var registry tools.Registry
			keeper := source.NewKeeper(&registry, nil)
			defer keeper.Close()
			if how == "before it is known" {
				begin(keeper)
			}
			if err := errors.Join(keeper.AddLater(offers("late")), keeper.Add(offers("now"))); err != nil {
				t.Fatal(err)
			}
			if how != "before it is known" {
				time.Sleep(time.Hour)
				synctest.Wait()
				if got, s := listed(&registry), keeper.Statuses()[0]; got != "now__one" || s.State != source.Connecting {
					t.Errorf("%s: before it begins: %q, %+v", how, got, s)
				}
			}
			if begin == nil {
				return
			}
			begin(keeper)
			synctest.Wait()
			if got := listed(&registry); got != "late__one now__one" {
				t.Errorf("%s: %q", how, got)
			}
		})
	}
}

func TestPanickingSourceHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry tools.Registry
		keeper := source.NewKeeper(&registry, nil)
		defer keeper.Close()
		for _, s := range []scripted{
			{"bad", func(context.Context, func([]tools.Tool)) error { panic("oh") }},
			{"good", func(ctx context.Context, offer func([]tools.Tool)) error {
				offer([]tools.Tool{foreign("one"), foreign("one"), foreign("n\u0430me"), foreign("two")})
				<-ctx.Done()
				return nil
			}},
		} {
			if err := keeper.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		statuses := keeper.Statuses()
		if s := statuses[0]; s.State != source.Unavailable || !strings.Contains(s.Reason, "panicked: oh") {
			t.Errorf("%+v", s)
		}
		if s := statuses[1]; s.State != source.Available || s.Tools != 2 || len(s.Refused) != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNamesOfSources(t *testing.T) {
	for name, want := range map[string]bool{
		"github": true, "my-files_2": true, "": false, "GitHub": false, "fs__x": false, "fs_": false, "mcp": false,
		"builtin": false, "2fast": false, "g\u0456thub": false, strings.Repeat("a", 33): false,
	} {
		if err := source.CheckName(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestEffectsOfArguments(t *testing.T) {
	says := source.Says{Reaches: []string{"url", "to.hosts"}}
	effects := says.Effects(tools.Env{}, "web__get", json.RawMessage(
		`{"url":"https://example.com/a","to":{"hosts":["db.local:5432","http://%zz"]}}`))
	var got []string
	for _, e := range effects {
		got = append(got, strings.TrimSpace(e.Kind.String()+" "+e.Host+e.Tool+" "+e.Unclear))
	}
	want := `reaches example.com|reaches db.local|reaches  to.hosts names no host that can be told: "http://%zz"|uses web__get`
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

// TestFileAddresses has a file named in every way that a program may read: rules about its
// path are not passed by how it is spelled.
func TestFileAddresses(t *testing.T) {
	ws, err := workspace.Config{}.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := tools.Env{Workspace: ws}
	says := source.Says{Reads: []string{"path"}, ReadOnly: true}
	for text, want := range map[string]string{
		"/etc/passwd":                  "/etc/passwd",
		"file:///etc/passwd":           "/etc/passwd",
		"FILE:///etc/passwd":           "/etc/passwd",
		"file:/etc/passwd":             "/etc/passwd",
		"file://localhost/etc/passwd":  "/etc/passwd",
		"file:///etc/%70asswd":         "/etc/passwd",
		"file:///etc/passwd?x#y":       "/etc/passwd",
		"file://localhost/etc/%2e./me": "/me",
	} {
		input, _ := json.Marshal(map[string]string{"path": text})
		var got []string
		for _, e := range says.Effects(env, "files__read", input) {
			got = append(got, filepath.Clean(cmp.Or(e.Named, e.Path)))
		}
		if !slices.Contains(got, want) {
			t.Errorf("%s reads %q: want %s among them", text, got, want)
		}
	}
}

// TestUntoldArguments: where an argument is no text, or has its name in other letters, it cannot be
// told what it names, and a person is asked, whatever the operator says of the tool.
func TestUntoldArguments(t *testing.T) {
	says := source.Says{Reaches: []string{"url", "to.host"}, Complete: true}
	for input, want := range map[string]int{
		`{}`: 0, `{"url":null}`: 0, `{"url":"https://a.example"}`: 1, `{"url":["https://a.example","https://b.example"]}`: 2,
		`{"url":{"host":"a.example"}}`: 1, `{"url":7}`: 1, `{"to":"a.example"}`: 1, `{"to":{"host":["a.example",["b.example"]]}}`: 2,
		`{"to":{"host":{"x":"a.example"}}}`: 1, `{"url":"https://a.example","n":9e15}`: 1, `{"url":"https://a.example","n":1e999}`: 1,
		`{"URL":"https://a.example"}`: 1, `{"url":"https://a.example","Url":"https://b.example"}`: 2, `{"to":{"hoſt":"a.example"}}`: 1,
	} {
		effects := says.Effects(tools.Env{}, "web__get", json.RawMessage(input))
		if len(effects) != want {
			t.Errorf("%s: %v", input, effects)
		}
	}
}
