// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/service"
	searchtools "github.com/toolserver/toolserver/internal/tools/search"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// canary is what no answer and no line of the log may have in it.
const canary = "CANARY-7f3a"

// arena is where an attack takes place: a server, a session, and what lies
// beside its workspace.
type arena struct {
	t             *testing.T
	server        *testServer
	client        *client
	ws, out, home string
	asked         func() // what happens while a person is asked, who allows it then; nil where nobody is there

	stopping atomic.Bool
	running  sync.WaitGroup
}

// newArena prepares everything for an attack.
func newArena(t *testing.T, a attack) *arena {
	x := &arena{t: t, home: t.TempDir()}
	t.Setenv("HOME", x.home)
	kind, more, _ := strings.Cut(a.Policy, "+")
	policy, ok := attackPolicies[kind]
	if !ok {
		t.Fatalf("no policy %s", a.Policy)
	}
	rules := policy.text
	if more != "" {
		more = ", " + more
	}
	if strings.Contains(rules, "%s") {
		rules = fmt.Sprintf(rules, more)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host+" says ok") }))
	t.Cleanup(site.Close)
	others := append(foreignTools(site.Listener.Addr().String()), shellTool())
	x.server = serve(t, func(c *service.Config) {
		if kind != "builtin" {
			withPolicy(t, rules)(c)
		}
		if err := c.Registry.Replace("arena", append(searchtools.Tools(search.NewPool(index.NewPool(index.Config{}))), others...)...); err != nil {
			t.Fatal(err)
		}
	})
	x.ws, x.out = filepath.Join(os.Getenv("TEST_ALLOWED"), "ws"), filepath.Join(os.Getenv("TEST_ALLOWED"), "out")
	for _, dir := range []string{x.ws, x.out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x.client = x.server.dial("")
	if _, err := x.client.CreateSession(timeout(t), &pb.CreateSessionRequest{
		SessionId: "attacked", Workspace: x.ws, Mode: policy.mode, Level: pb.Level_LEVEL_WORKSPACE_WRITE,
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(x.out, "secret"), []byte(canary), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(x.ws, attacked(t)); err != nil {
		t.Fatal(err)
	}
	if a.Setup != "" {
		prepare(t, x.ws, x.place(a.Setup))
	}
	return x
}

// attacked returns what the workspaces of attacks have at first: it is made once, since
// hundreds of attacks begin with it.
func attacked(t *testing.T) fs.FS {
	t.Helper()
	if attackedFiles == nil {
		dir := t.TempDir()
		prepare(t, dir, "git init -q . && rm .git/hooks/*.sample && mkdir src && echo hello > notes.txt && echo one > one.txt && echo keep > keep.txt")
		attackedFiles = make(fstest.MapFS)
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == "." {
				return err
			}
			file := &fstest.MapFile{Mode: 0o644}
			if entry.IsDir() {
				file.Mode = fs.ModeDir | 0o755
			} else if file.Data, err = os.ReadFile(filepath.Join(dir, path)); err != nil {
				return err
			}
			attackedFiles[path] = file
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return attackedFiles
}

var attackedFiles fstest.MapFS

// place fills in where things are.
func (x *arena) place(text string) string {
	text = strings.NewReplacer("{WS}", x.ws, "{OUT}", x.out, "{HOME}", x.home, "{MARK}", filepath.Join(x.out, "pwned")).Replace(text)
	return repeated.ReplaceAllStringFunc(text, func(m string) string {
		parts := repeated.FindStringSubmatch(m)
		n, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], n)
	})
}

// repeated finds <REP "text" n> in JSON.
var repeated = regexp.MustCompile(`<REP \\"(.*?)\\" (\d+)>`)

// call makes a call, and tells how it ended, what it answered, and the event
// that says so.
func (x *arena) call(tool string, input json.RawMessage) (end, answer string, event *pb.Event) {
	request := asJSON(tool, x.place(string(input)))
	request.SessionId = "attacked"
	stream, event := x.client.begin(request)
	if event.GetAccepted().GetVerdict().GetAction() == pb.Action_ACTION_ASK {
		if x.asked == nil {
			return "ask", "", event
		}
		question, err := stream.Recv()
		if err != nil {
			x.t.Fatal(err)
		}
		x.asked()
		x.client.answer(&pb.ResolveApprovalRequest{
			ApprovalId: question.GetEvent().GetApprovalRequested().GetApproval().GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE,
		})
	}
	if event.GetAccepted() != nil {
		events, err := rest(stream)
		if err != nil {
			x.t.Fatal(err)
		}
		event = events[len(events)-1]
		answer = fmt.Sprint(events[:len(events)-1])
	}
	finished := event.GetFinished()
	end, ok := map[pb.Outcome]string{
		pb.Outcome_OUTCOME_SUCCEEDED: "allow", pb.Outcome_OUTCOME_DENIED: "deny",
		pb.Outcome_OUTCOME_INVALID_INPUT: "invalid", pb.Outcome_OUTCOME_FAILED: "failed",
	}[finished.GetOutcome()]
	if !ok {
		x.t.Fatalf("ended with %v", finished)
	}
	if strings.Contains(answer+finished.String(), canary) {
		return end, canary, event
	}
	return end, text(finished), event
}

// meanwhiles are what may go on while calls are made, over and over.
var meanwhiles = map[string]func(x *arena){
	// rd is a directory, then a link to the outside, then gone.
	"swap": func(x *arena) {
		_ = os.Rename(x.ws+"/rd", x.ws+"/real")
		_ = os.Symlink(x.out, x.ws+"/rd")
		_ = os.Remove(x.ws + "/rd")
		_ = os.Rename(x.ws+"/real", x.ws+"/rd")
	},
	// log grows, up to 64 MiB.
	"grow": func(x *arena) {
		f, err := os.OpenFile(x.ws+"/log", os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Size() < 64<<20 {
			_, _ = f.Write([]byte(strings.Repeat("y\n", 32<<10)))
		}
	},
}

// meanwhile starts what goes on while calls are made.
func (x *arena) meanwhile(name string) {
	do, ok := meanwhiles[name]
	if !ok {
		x.t.Fatalf("nothing is called %s", name)
	}
	x.running.Go(func() {
		for !x.stopping.Load() {
			do(x)
		}
	})
	x.t.Cleanup(x.stop)
}

// stop ends what goes on meanwhile.
func (x *arena) stop() {
	x.stopping.Store(true)
	x.running.Wait()
}

// shape tells of everything in a directory what it is, and what is in it.
func shape(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		is := info.Mode().String()
		switch {
		case info.Mode().IsRegular() && info.Size() <= 1<<20:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" %x", sha256.Sum256(text))
		case info.Mode().IsRegular():
			is += fmt.Sprintf(" %d bytes", info.Size())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			is += " " + target
		}
		all[name] = is
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// prepare runs commands in a directory.
func prepare(t *testing.T, dir, commands string) {
	t.Helper()
	cmd := exec.Command("bash", "-ec", commands)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, text)
	}
}
