// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestCommands judges commands in a workspace, as they are judged when they are
// called: taken apart, resolved, decided by the policy that is built in.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".git/config", "notes.txt", "b.txt", "build/x", "dist/y", "tpl/a", "sub/b", "src/a/b.ts", "mod/.vscode/tasks.json", "vendor/lib/.git/config",
		"keys/server.pem", "apps/.github/workflows/ci.yml", "ci/workflows/x.yml", "out/x", "safe/b", ".github/CODEOWNERS",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"sub/cfg": "../.git/config", "out/link": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	p := policy.Builtin()
	decide := func(mode tools.Mode, command string) policy.Decision {
		call := &policy.Call{
			Principal: "alice", Level: tools.WorkspaceWrite, Mode: mode, Workspace: ws.Dir(),
			Spec: &tools.Spec{Name: "bash", Level: tools.WorkspaceWrite},
		}
		env := tools.Env{Workspace: ws, Guard: p.Guard(call)}
		call.Effects = env.Resolve(shell.Effects(command, shell.Place{Dir: ".", Workspace: ws.Dir()}))
		return p.Decide(call, nil)
	}
	for command, want := range map[string]string{
		"wc -l *.txt":                    "allow",
		"ls src/**/*.ts":                 "allow",
		"du -sh *":                       "allow",
		"mv notes.txt n2.txt":            "allow",
		"rm -rf build dist":              "allow",
		"rm -rf buil*":                   "allow",
		"cp -r tpl/. build/":             "allow",
		"cp -r tpl new":                  "allow",
		"cat b.*":                        "allow",
		"echo x > sub/c?g":               "deny", // a link to .git/config
		"cp -r tpl/. sub/":               "allow",
		"cp -r tpl/. vendor/":            "ask",
		"find safe -name x -delete":      "ask",
		"find src -exec cat {} +":        "allow",
		"find out -exec cat {} +":        "ask",
		"touch tpl/cfg; cp tpl/cf? sub/": "deny",
		"cat out/lin?":                   "ask", // a link to /etc/passwd
		"cat keys/*":                     "ask", // a secret
		"cat key?/s*":                    "ask",
		"rm -rf mod":                     "ask", // .vscode
		"rm -rf mo*":                     "ask",
		"cp -r mod new":                  "ask",
		"cp -r mod/. new/":               "ask",
		"mv mod new":                     "ask",
		"cp -r ci/. .github/":            "ask", // .github/workflows
		"cp -r ci/workflows .github":     "ask",
		"rm -rf vendor":                  "deny",
		"rm -rf vend*":                   "deny",
		"cp -r vendor new":               "ask",
		"rm -rf *":                       "deny",
		"tar xf a.tar -C sub":            "ask",
	} {
		t.Run(command, func(t *testing.T) { check(t, decide(tools.ModeAllow, command), want) })
	}
	for command, want := range map[string]string{
		"echo x > sub/c?g": "deny",
		"cat out/lin?":     "ask",
		"cat *.txt":        "allow",
	} {
		t.Run("edits/"+command, func(t *testing.T) { check(t, decide(tools.ModeAcceptEdits, command), want) })
	}
}

func TestCares(t *testing.T) {
	p := must("version: 1\nprotected: [locked/]\nrules:\n- {name: a, action: allow, paths: [fine/]}\n- {name: b, action: ask, writes: [.ci/, /work/ws/abs/]}\n- {name: c, action: deny, reads: ['*.key']}\n")
	cares := p.Guard(&policy.Call{Workspace: "/work/ws"}).Cares
	for path, want := range map[string]string{
		"a": "", "fine/x": "", "locked/x": "writes", ".git": "writes", "a/.ci": "writes", "a/.CI/x": "writes", "abs/x": "writes", "a/x.key": "reads",
	} {
		for _, kind := range []tools.EffectKind{tools.ReadsPath, tools.WritesPath} {
			if got := cares(kind, path); got != (kind.String() == want) {
				t.Errorf("%s %s: %t", kind, path, got)
			}
		}
	}
}
