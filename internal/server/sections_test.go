// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Whatever the floors below let an operator choose is in the configuration.
func TestEverythingCanBeConfigured(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Sessions.AllowedWorkspaces, c.Sessions.Modes = []string{"/"}, []tools.Mode{tools.ModeAsk}
	c.Tenants = quota.Tenants{{Name: "acme"}}
	if err := c.FillIn(); err != nil {
		t.Fatal(err)
	}
	for _, made := range []any{SessionsOf(c, "local")} {
		v := reflect.ValueOf(made)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			wired := []string{"Logger", "Sessions", "Steps", "Approvals", "Mask", "Records", "Replicas"} // not an operator's to choose
			if v.Field(i).IsZero() && !slices.Contains(wired, name) {
				t.Errorf("%s.%s is not set", v.Type(), name)
			}
		}
	}
}

// TestSearchInMemory proves what max_text says: at 0 every search reads the files.
func TestSearchInMemory(t *testing.T) {
	for most, warm := range map[size.Bytes]bool{0: false, 1: true, 1 << 20: true} {
		c := config.Default()
		c.Search.MaxText = most
		dir := t.TempDir()
		ws, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		engines := search.NewPool(indexesOf(c.Search))
		synctest.Test(t, func(t *testing.T) {
			defer ws.Close() // ends what the engine does in the background
			for i := range 4 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("text"), 0o644); err != nil {
					t.Fatal(err)
				}
				found, sum, err := engines.Engine(ws).Glob(t.Context(), search.Scope{}, search.ByName)
				if err != nil || len(found) != i+1 || sum.Warm != (warm && i > 1) {
					t.Errorf("max_text %v, search %d: %d files, from memory: %t, %v", most, i+1, len(found), sum.Warm, err)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
			}
		})
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	c := &config.Sandbox{Repl: []config.Repl{
		{Language: "sqlite", Command: []string{"sqlite3", "-batch"}, Mark: ".print {mark}"},
		{Language: "perl", Command: []string{"perl", "repl.pl"}},
	}}
	var names []string
	for _, l := range languagesOf(c) {
		names = append(names, l.Name+" "+l.Program)
	}
	if want := []string{"sqlite sqlite3", "perl perl"}; !slices.Equal(names, want) {
		t.Errorf("languages %q, want %q", names, want)
	}
}

// TestPersonasMeanOurTools proves that whatever another system's tool becomes is a tool
// that is here, by its own name.
func TestPersonasMeanOurTools(t *testing.T) {
	t.Parallel()
	specs := BuiltinSpecs()
	for _, system := range persona.Systems() {
		for _, tool := range system.Tools {
			for _, meaning := range tool.Means {
				if !slices.ContainsFunc(specs, func(s *tools.Spec) bool { return s.Name == meaning.Tool }) {
					t.Errorf("%s of %s means %s, which is not here", tool.Name, system.Name, meaning.Tool)
				}
			}
		}
	}
}
