// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
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
		call := &policy.Subject{
			Principal: "alice", Level: tools.WorkspaceWrite, Mode: mode, Workspace: ws.Dir(),
			Spec: &tools.Spec{Name: "bash", Level: tools.WorkspaceWrite},
		}
		env := tools.Env{Workspace: ws, Restrictions: p.Restrictions(call)}
		call.Effects = effects.Resolve(env, shell.Effects(command, shell.Place{Dir: ".", Workspace: ws.Dir()}))
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
		"rm -rf vendor":                  "allow", // another repository
		"rm -rf vend*":                   "allow",
		"rm -rf vendor/lib/.git":         "allow",
		"rm -rf vendor/lib/.git/hooks":   "deny",
		"rm -rf .git":                    "deny",
		"rm -rf .GIT":                    "deny",
		"rm -rf .git/hooks":              "deny",
		"rm -rf .":                       "deny",
		"rm -rf sub/../.git":             "deny",
		"rm -rf .g*":                     "deny",
		"cp -r vendor new":               "ask",
		"rm -rf *":                       "ask", // .vscode
		"tar xf a.tar -C sub":            "ask",

		"cp --backup=numbered notes.txt b.txt":         "allow",
		"cp -b notes.txt new":                          "allow",
		"cp -S .orig notes.txt b.txt":                  "allow",
		"mv -b -S -ci.yml notes.txt .gitlab":           "ask",
		"cp -S rc notes.txt .env":                      "ask",
		"SIMPLE_BACKUP_SUFFIX=rc cp -b notes.txt .env": "ask",
		"cp -b notes.txt .env && cat .env~":            "ask", // the secret that was there

		"curl -s --output-dir .vscode -o tasks.json file://" + dir + "/b.txt":      "ask",
		"curl -s -w '%output{.github/workflows/ci.yml}x' file://" + dir + "/b.txt": "ask",
		"curl -s 'file://" + dir + "/.en[v-v]'":                                    "ask",
		"curl -s -o '.envr#1' 'file://" + dir + "/b.tx[t-t]'":                      "ask",
		"curl -s -T b.txt file://" + dir + "/.vscode/tasks.json":                   "ask",
		"curl -s file:" + dir + "/.env":                                            "ask",
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

// TestOrdinaryWork judges commands as agents write them, with nobody to ask and a
// sandbox that holds.
func TestOrdinaryWork(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".git/config", ".git/hooks/x", "main.go", "a.tmp", "docs/notes.md", "node_modules/x/i.js", "pkg/node_modules/y/i.js", "clone1/.git/config",
		"clone1/.husky/pre-commit", "scripts/build.sh", "evil/.git/hooks/pre-commit",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	p := policy.Builtin()
	for command, want := range map[string]string{
		"go build ./... && go vet ./...":                                    "allow",
		"echo hello > /var/tmp/out.txt 2>&1; tail -1 /var/tmp/out.txt":      "allow",
		"f=$(mktemp) && echo hi > \"$f\" && cat \"$f\"":                     "allow",
		"python3 -c 'print(6*7)'":                                           "allow",
		"python3 - <<'P'\nprint(6*7)\nP":                                    "allow",
		"bash scripts/build.sh":                                             "allow",
		"./scripts/build.sh":                                                "allow",
		"make -j$(nproc)":                                                   "allow",
		"git ls-files | xargs wc -l":                                        "allow",
		"for f in $(git ls-files '*.go'); do wc -l $f; done":                "allow",
		"find . -name '*.tmp' -delete":                                      "allow",
		"gofmt -w .":                                                        "allow",
		"chmod -R u+w .":                                                    "allow",
		"tar czf docs.tgz docs && mkdir -p un && tar xzf docs.tgz -C un":    "allow",
		"git add -A && git commit -qm \"work: $(date +%s)\"":                "allow",
		"git push -q -u origin HEAD":                                        "allow",
		"git clone -q . clone2 && rm -rf clone2":                            "allow",
		"rm -rf clone1":                                                     "allow",
		"rm -rf node_modules pkg/node_modules":                              "allow",
		"find . -type d -name node_modules -exec rm -rf {} +":               "allow",
		"mv clone1 clone3":                                                  "allow",
		"cp -r clone1 clone4":                                               "allow",
		"git reset --hard && git clean -fdx":                                "allow",
		"curl -s http://localhost:8080/x":                                   "allow",
		"head -3 $(go env GOROOT)/src/fmt/print.go":                         "allow",
		"cat /etc/os-release | head -1; ls /usr/include | head -2":          "allow",
		"python3 -m venv venv && source venv/bin/activate && python -c 'x'": "allow",
		"rm -rf .git":                                                       "deny",
		"rm -rf .git/hooks":                                                 "deny",
		"rm -rf .git*":                                                      "deny",
		"echo x > node_modules/y.js":                                        "deny",
		"rm -rf node_modules > node_modules/y.js":                           "deny",
		"rm -rf x; echo x > node_modules/y.js":                              "deny",
		"cp x .git/hooks/pre-commit":                                        "deny",
		"cp -r evil/.git .":                                                 "deny",
		"mv evil/.git/hooks/pre-commit .git/hooks/":                         "deny",
		"curl -sS -m 5 https://example.com":                                 "deny",
		"sudo ls":                                                           "deny",
		"cat .env":                                                          "ask",
		"cat /etc/shadow":                                                   "ask",
		"echo x > /srv/x":                                                   "deny",

		"curl -s --output-dir docs -o x http://localhost:8080/x":   "allow",
		"curl -s -o /dev/null -w '%{http_code}' localhost:8080/x":  "allow",
		"curl -s -o x 'http://[::1]:8080/?a[]=1'":                  "allow",
		"curl -s -F 'f=@main.go;type=text/plain' localhost:8080/x": "allow",
		"curl -sO localhost:8080/x && wget -q localhost:8080/y":    "allow",
		"curl -s -F 'f=@\".env\"' http://localhost/":               "ask",
		"wget -q http://localhost/%2eenvrc":                        "ask",
		"csplit -b '%03d.txt' docs/notes.md 2":                     "allow",
		"csplit -f .gitlab -b '-ci.yml%.0d' docs/notes.md 2":       "ask",
		"mv -b -S -ci.yml a.tmp .gitlab":                           "ask",
		"tar czf a.tgz -C docs notes.md -C ../scripts build.sh":    "allow",
		"gzip -k docs/notes.md && gunzip -f docs/notes.md.gz":      "allow",
		"gunzip .envrc-z":     "ask",
		"gunzip -S X .envrcX": "ask",
	} {
		t.Run(command, func(t *testing.T) {
			call := &policy.Subject{
				Principal: "alice", Level: tools.WorkspaceWrite, Mode: tools.ModeAllow, Workspace: ws.Dir(),
				Spec: &tools.Spec{Name: "bash", Level: tools.ReadOnly}, Network: tools.NetworkLoopback,
				Offer: &tools.Offer{
					Holds: true, Covers: true, Network: tools.NetworkLoopback,
					Readable: []string{"/usr", "/bin", "/lib", "/etc/os-release"}, Temporary: []string{"/tmp", "/var/tmp"},
				},
			}
			env := tools.Env{Workspace: ws, Restrictions: p.Restrictions(call)}
			call.Effects = effects.Resolve(env, shell.Effects(command, shell.Place{Dir: ".", Workspace: ws.Dir()}))
			d := p.Decide(call, nil)
			if d.Action.String() != want {
				t.Errorf("%+v, want %s", d.Verdict, want)
				for _, judged := range d.Effects {
					t.Logf("%+v", judged)
				}
			}
		})
	}
}

// TestBrought judges commands that make something and put it in another place, or give it another
// name, in a session that accepts edits.
func TestBrought(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".github/CODEOWNERS", "infra/dev/main.tf", "infra/file", "src/lib/x.go", "there/x", "tpl/workflows/ci.yml", "tpl/x.go"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".github", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	deny := must("version: 1\nrules:\n- {name: prod, action: deny, writes: [infra/prod/]}\n")
	prod := must("version: 1\nrules:\n- {name: prod, action: deny, writes: [infra/file/workflows/, infra/file/tpl/workflows/]}\n")
	ask := must("version: 1\nrules:\n- {name: names, action: ask, writes: [workflows]}\n")
	but := must("version: 1\nrules:\n- {name: fine, action: allow, writes: [g/]}\n- {name: names, action: ask, writes: [workflows]}\n")
	for _, test := range []struct {
		policy  *policy.Policy
		command string
		want    string
	}{
		{policy.Builtin(), "mkdir -p g/workflows && echo evil > g/workflows/ci.yml && mv g .github", "ask"},
		{policy.Builtin(), "mkdir -p g/workflows && echo evil > g/workflows/ci.yml && cp -r g/. .github", "ask"},
		{policy.Builtin(), "mkdir -p there/workflows && echo evil > there/workflows/ci.yml && cp -r there/. .github", "ask"},
		{policy.Builtin(), "mkdir g && echo evil > g/ci.yml && mkdir h && mv g h/workflows && mv h/workflows .github", "ask"},
		{policy.Builtin(), "cp -r tpl g && mv g/* . && mv tpl .github", "ask"},
		{policy.Builtin(), "cp -r tpl g && mv g .github", "ask"},
		{policy.Builtin(), "mkdir -p w t && echo evil > w/ci.yml && for i in workflows .github; do mkdir t; mv w t/$i; mv t w; done; mv w/.github .", "ask"},
		{policy.Builtin(), "mkdir -p a/b && echo x > a/b/c && mv a/b d", "allow"},
		{policy.Builtin(), "mkdir -p a/b && echo x > a/b/c && mv a/b .github", "allow"},
		{policy.Builtin(), "cp -r src new && mv new/lib new/pkg && echo x > new/pkg/x.go && mv new src/new", "allow"},
		{policy.Builtin(), "mkdir -p new/lib && cp -r src/lib/. new/lib && mv new newer && cp -r newer newest && rm -rf newer", "allow"},
		{deny, "mkdir -p g/prod && echo x > g/prod/main.tf && cp -r g/. infra", "deny"},
		{deny, "mkdir -p g/prod && echo x > g/prod/main.tf && mv g/prod infra/", "deny"},
		{deny, "mkdir -p g/test && echo x > g/test/main.tf && cp -r g/. infra", "allow"},
		{deny, "cp -r tpl g && mv g infra/test", "allow"},
		{deny, "rm infra/file && mv tpl infra/file", "allow"},
		{prod, "rm infra/file && mv tpl infra/file", "ask"},
		{prod, "mv tpl/x.go infra/file", "allow"},
		{ask, "cp -r src g && mv g h", "allow"},
		{ask, "cp -r tpl g && mv g h", "ask"},
		{but, "cp -r tpl g", "allow"},
		{but, "cp -r tpl g && mv g h", "ask"},
		{but, "mkdir -p g/workflows && mv g h", "ask"},

		{policy.Builtin(), "mkdir -p d .github && ln -sr .github d/w && mkdir -p d/w/workflows && echo evil > d/w/workflows/ci.yml", "ask"},
		{policy.Builtin(), "mkdir -p d && ln -sr .env d/w && cat d/w", "ask"},
		{policy.Builtin(), "ln -s /proc/self/cwd/.github w && mkdir -p w/workflows && echo evil > w/workflows/ci.yml", "ask"},
		{policy.Builtin(), "ln -s /proc/self/cwd/.env w && cat w", "ask"},
		{deny, "ln -s / r", "ask"},
		{deny, "ln -s /usr/.." + ws.Dir() + "/infra w && mkdir w/prod", "ask"},
		{deny, "mkdir -p infra/b && ln -s ../prod infra/b && echo x > infra/b/prod/main.tf", "deny"},
		{deny, "touch prod && ln -s pro* infra/w && echo x > infra/w/main.tf", "ask"},
		{policy.Builtin(), "ln -s /usr/share/x w && ln -sf /dev/null null", "allow"},
		{deny, "ln -s ../lib src/lib && ln -s x.go src/y.go", "allow"},
		{policy.Builtin(), "(cd src && mv tpl .github); rm -rf old; mv tpl .github", "ask"},
		{prod, "ls -R tpl; mv tpl there infra/file/", "ask"},
		{policy.Builtin(), "ls -R src; cp -r src new", "allow"},
		{deny, "mkdir prod && cp -r --parents prod infra", "deny"},
		{policy.Builtin(), "mv --exchange .github tpl", "ask"},
		{policy.Builtin(), "mkdir -p .github/workf g && echo evil > .github/workf/ci.yml && mv -T -S lows g .github/workf", "ask"},
		{policy.Builtin(), "cp -r tpl/. link/", "ask"},
		{policy.Builtin(), "cp -r src/. link/", "allow"},
	} {
		t.Run(test.command, func(t *testing.T) {
			call := &policy.Subject{
				Principal: "alice", Level: tools.WorkspaceWrite, Mode: tools.ModeAcceptEdits, Workspace: ws.Dir(),
				Spec: &tools.Spec{Name: "bash", Level: tools.WorkspaceWrite}, Offer: &tools.Offer{Holds: true, Covers: true},
			}
			env := tools.Env{Workspace: ws, Restrictions: test.policy.Restrictions(call)}
			call.Effects = effects.Resolve(env, shell.Effects(test.command, shell.Place{Dir: ".", Workspace: ws.Dir()}))
			check(t, test.policy.Decide(call, nil), test.want)
		})
	}
}

// TestCommittedWork judges what git shows of commits, where a rule denies to read some of
// it, by a sandbox that hides the file.
func TestCommittedWork(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".git/config", "main.go", "src/a.go", "keys/a"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("main.go", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	decide := func(p *policy.Policy, mode tools.Mode, command string) policy.Decision {
		call := &policy.Subject{
			Principal: "alice", Level: tools.WorkspaceWrite, Mode: mode, Workspace: ws.Dir(),
			Spec: &tools.Spec{Name: "bash", Level: tools.ReadOnly}, Offer: &tools.Offer{Holds: true, Covers: true},
		}
		env := tools.Env{Workspace: ws, Restrictions: p.Restrictions(call)}
		place := shell.Place{Dir: ".", Workspace: ws.Dir(), SameRepository: func(dir string) bool { return dir == "src" }}
		call.Effects = effects.Resolve(env, shell.Effects(command, place))
		return p.Decide(call, nil)
	}
	rule := func(reads string) *policy.Policy {
		return must("version: 1\nrules:\n- {name: keys, action: deny, reads: [" + reads + "]}\n")
	}
	anywhere, top, elsewhere := rule("keys/"), rule("./keys/"), rule("/srv/keys/")
	none := must("version: 1\n")
	for command, want := range map[string]string{
		"git status; git log --oneline; git diff --stat; git show --stat HEAD; git log --name-only -3": "allow",
		"git ls-files; git ls-tree -r HEAD; git cat-file -t HEAD; git rev-parse HEAD; git stash list":  "allow",
		"git show HEAD:main.go; git cat-file -p HEAD~1:src/a.go; git cat-file blob HEAD:main.go":       "allow",
		"git show HEAD:main.go HEAD~1:main.go; git diff HEAD~1:main.go HEAD:main.go":                   "allow",
		"git diff -- main.go; git log -p HEAD~2.. -- main.go src/a.go; git show HEAD -- main.go":       "allow",
		"git log -p abc1234 -- main.go; git show --stat HEAD~3 -- main.go":                             "allow",
		"git blame main.go; git blame HEAD~1 -- src/a.go; git blame -L 1,2 main.go HEAD":               "allow",
		"git grep x; git grep x ./src; git grep x src/; git grep -n x -- src":                          "allow",
		"cd src && git status && git diff -- a.go && git show HEAD:./a.go":                             "allow",
		"git grep --cached x main.go; git grep x HEAD -- main.go":                                      "allow",

		"git show":                                "ask",
		"git show HEAD":                           "ask",
		"git show HEAD main.go":                   "ask",
		"git show abc1234 -- main.go":             "ask", // it may be a file
		"git show --stat abc1234":                 "ask",
		"git show v1.0-3-gabc1234 -- main.go":     "ask",
		"git show -s abc1234^{}":                  "ask",
		"git log -p":                              "ask",
		"git log -p -- .":                         "ask",
		"git log -p ':!main.go'":                  "ask",
		"git log -p --follow -- main.go":          "ask", // under the names that it had
		"git diff":                                "ask",
		"git diff HEAD~1":                         "ask",
		"git diff --cached HEAD:src":              "ask", // with everything
		"git diff abc1234..def5678 -- main.go":    "ask",
		"git diff HEAD:keys/a..abc1234":           "ask",
		"git grep -h '' HEAD":                     "ask",
		"git grep -h '' HEAD -- .":                "ask",
		"git grep -- '' HEAD":                     "ask",
		"git grep -e -- HEAD":                     "ask",
		"git grep -h '' main -- '*'":              "ask",
		"git grep --cached ''":                    "ask",
		"git stash show":                          "ask",
		"git stash list -p":                       "ask",
		"git cat-file -p HEAD":                    "ask",
		"git cat-file -p -- abc1234":              "ask",
		"echo HEAD:keys/a | git cat-file --batch": "ask",
		"cd src && git grep x HEAD":               "ask",
		"cd src && git log -p -- ..":              "ask",

		"git show HEAD:keys/a":              "deny",
		"git show --stat HEAD:keys/a":       "deny",
		"git show HEAD:keys/a:b":            "deny",
		"git show 'HEAD^{/a: b}:keys/a'":    "deny",
		"git show :0:keys/a":                "deny",
		"git diff HEAD:keys HEAD:src -- a":  "deny",
		"git blame keys/a HEAD":             "deny",
		"git grep -h '' HEAD -- keys":       "deny",
		"git log -p -- keys":                "deny",
		"cd src && git show HEAD:keys/a":    "deny",
		"cd src && git show HEAD:../keys/a": "deny",
		"git cat-file blob HEAD:keys/a":     "deny",
	} {
		t.Run(command, func(t *testing.T) {
			for _, mode := range []tools.Mode{tools.ModeAllow, tools.ModeAsk, tools.ModePlan} {
				for i, p := range []*policy.Policy{anywhere, top, none, elsewhere} {
					if got := decide(p, mode, command); i < 2 && got.Action.String() != want || i >= 2 && got.Action != policy.Allow {
						t.Errorf("policy %d, mode %s: %+v", i, mode, got.Verdict)
					}
				}
			}
		})
	}
	for _, test := range []struct {
		p             *policy.Policy
		command, want string
	}{
		{anywhere, "git archive HEAD", "ask"}, // it is not read-only
		{none, "git archive HEAD", "allow"},
		{anywhere, "git log -p -- src", "ask"},
		{top, "git log -p -- src", "allow"},
		{rule("./link/keys/"), "git log -p -- link", "ask"}, // git does not follow it
	} {
		t.Run(test.command, func(t *testing.T) { check(t, decide(test.p, tools.ModeAllow, test.command), test.want) })
	}
}

func TestCares(t *testing.T) {
	p := must("version: 1\nprotected: [locked/]\nrules:\n- {name: a, action: allow, paths: [fine/]}\n- {name: b, action: ask, writes: [.ci/, /work/ws/abs/]}\n- {name: c, action: deny, reads: ['*.key']}\n")
	cares := p.Restrictions(&policy.Subject{Workspace: "/work/ws"}).Cares
	for path, want := range map[string]string{
		"a": "", "fine/x": "", "locked/x": "", ".git": "", "a/.ci": "writes", "a/.CI/x": "writes", "abs/x": "writes", "a/x.key": "reads",
	} {
		for _, kind := range []tools.EffectKind{tools.ReadsPath, tools.WritesPath} {
			if got := cares(kind, path); got != (kind.String() == want) {
				t.Errorf("%s %s: %t", kind, path, got)
			}
		}
	}
}
