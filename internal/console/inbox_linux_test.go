// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/toolserver/toolserver/sdk/sdktest"
)

// write begins a call that a person is asked about.
func (s *site) write(token, callID, path, content string) {
	s.t.Helper()
	s.call(token, callID, "write_file", map[string]string{"path": path, "content": content}, `,"purpose":"so that `+callID+` is there"`)
}

const ready = "document.querySelector('.card[data-armed=true]')" // keys answer what is shown

// TestInbox answers by key, and what the call says is on the page before that.
func TestInbox(t *testing.T) {
	s := serve(t, principals)
	if err := os.WriteFile(filepath.Join(s.home(annToken), "a.go"), []byte("package a\n\nvar one = \"two\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := browse(t, s.origin+"/console/").signIn(otisToken)
	b.see("Nothing waits")
	s.call(annToken, "edit", "edit_file", map[string]string{"path": "a.go", "old_string": "\"two\"", "new_string": "\"three\" // better"}, `,"purpose":"a better number"`)
	b.see("1 waiting")
	b.wait(ready)
	for _, want := range []string{"edit_file", "writes a.go", "a better number", "ann", "session default", "mode ask"} {
		b.see(want)
	}
	b.wait("document.querySelector('.diff .plus')?.textContent.includes('three') && document.querySelector('.diff .minus')?.textContent.includes('two')")
	b.wait("document.querySelector('.diff .plus .hljs-keyword')?.textContent === 'var' && document.querySelector('.diff .plus .hljs-comment') && document.querySelector('.diff .minus .hljs-string')?.textContent === '\"two\"'")
	b.wait("getComputedStyle(document.querySelector('.diff .hljs-keyword')).display === 'inline'") // a line stays one
	b.wait("document.title.startsWith('(1) Inbox')")
	b.press("y")
	b.see("Nothing waits")
	if end := s.ended(annToken, "edit"); !strings.Contains(end, "OUTCOME_SUCCEEDED") || !strings.Contains(end, `"by":"otis"`) {
		t.Error(end)
	}

	s.write(annToken, "no", "b.txt", "x")
	b.wait(ready)
	b.press("c")
	b.press("not now\r")
	b.press("n")
	b.see("Nothing waits")
	if end := s.ended(annToken, "no"); !strings.Contains(end, "OUTCOME_DENIED") || !strings.Contains(end, "not now") {
		t.Error(end)
	}

	s.write(annToken, "always", "c.txt", "x")
	b.wait(ready)
	b.press("a")
	b.wait("document.activeElement?.name === 'tier'")
	b.press("\r") // the narrowest
	b.see("Nothing waits")
	s.ended(annToken, "always")
	s.write(annToken, "never", "d.txt", "x")
	b.wait(ready)
	b.press("N")
	b.wait("document.activeElement?.name === 'tier'")
	b.press("1")
	b.see("Nothing waits")
	if _, grants := s.rest(otisToken, "GET", "/v1/grants", ""); strings.Count(grants, `"grantId"`) != 2 || !strings.Contains(grants, "ACTION_DENY") || !strings.Contains(grants, "ACTION_ALLOW") {
		t.Error(grants)
	}
	b.calm()
}

// TestSeveral answers several at once.
func TestSeveral(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/").signIn(otisToken)
	for i := range 4 {
		s.write(annToken, fmt.Sprint("w", i), fmt.Sprint("f", i), "x")
	}
	b.see("4 waiting")
	b.wait(ready)
	b.press("x") // the first
	b.press("j")
	b.press("x") // and the second
	b.see("2 selected")
	b.press("y")
	b.see("2 waiting")
	b.press("X")
	b.see("2 selected")
	b.press("n")
	b.see("Nothing waits")
	for i, want := range []string{"SUCCEEDED", "SUCCEEDED", "DENIED", "DENIED"} {
		if end := s.ended(annToken, fmt.Sprint("w", i)); !strings.Contains(end, "OUTCOME_"+want) {
			t.Errorf("%d: %s", i, end)
		}
	}
	b.calm()
}

// TestQuestions answers what an agent wants to know, by keys alone.
func TestQuestions(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/").signIn(otisToken)
	s.call(annToken, "ask", "ask_user", map[string]any{"questions": []any{map[string]any{
		"header": "Colour", "question": "Which colour?", "options": []any{map[string]string{"label": "red", "description": "warm"}, map[string]string{"label": "blue", "description": "cold"}},
	}}})
	b.see("Which colour?")
	b.wait(ready)
	b.press("y") // to the first option
	b.wait("document.activeElement?.value === 'red'")
	b.press(" ")
	b.press("\r")
	b.see("Nothing waits")
	if end := s.ended(annToken, "ask"); !strings.Contains(end, "red") || !strings.Contains(end, "OUTCOME_SUCCEEDED") {
		t.Error(end)
	}
	b.calm()
}

// TestRace: two browsers and a terminal answer the same approval at once. One of them
// wins, and all agree on which.
func TestRace(t *testing.T) {
	s := serve(t, principals)
	browsers := []*tab{browse(t, s.origin+"/console/").signIn(otisToken), browse(t, s.origin+"/console/").signIn(olgaToken)}
	for round := range 5 {
		callID := fmt.Sprint("race", round)
		s.write(annToken, callID, callID, "x")
		for _, b := range browsers {
			b.wait(fmt.Sprintf("%s?.innerText.includes(%q)", ready, callID))
		}
		_, waiting := s.rest(otisToken, "GET", "/v1/approvals", "")
		id := between(waiting, `"approvalId":"`, `"`)
		begin, all := make(chan struct{}), sync.WaitGroup{}
		all.Go(func() { <-begin; browsers[0].press("y") })
		all.Go(func() { <-begin; browsers[1].press("n") })
		var said string
		all.Go(func() {
			<-begin
			said, _ = s.terminal(otisToken, "approvals", "allow", id, "--comment", "from the terminal")
		})
		close(begin)
		all.Wait()
		end := s.ended(annToken, callID)
		by := between(end[strings.Index(end, "approvalResolved"):], `"by":"`, `"`)
		denied := strings.Contains(end, "OUTCOME_DENIED")
		terminal := strings.Contains(end, "from the terminal")
		if denied != (by == "olga") || strings.Count(end, "approvalResolved") != 1 {
			t.Errorf("by %s: %s", by, end)
		}
		if _, err := os.Stat(filepath.Join(s.home(annToken), callID)); (err == nil) == denied {
			t.Errorf("the file: %v, and denied is %v", err, denied)
		}
		t.Logf("%s won (terminal %v); the terminal says %q", by, terminal, said)
		for _, b := range browsers {
			b.see("Nothing waits") // with whoever lost, too
			b.run(chromedp.Evaluate("document.querySelector('.over button')?.click()", nil))
			b.see("When a call needs a person")
		}
	}
	for _, b := range browsers {
		b.calm()
	}
}

// TestAnsweredElsewhere: what somebody else answered is gone, and a key that was meant for
// it does not answer the next.
func TestAnsweredElsewhere(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/").signIn(otisToken)
	s.write(annToken, "first", "first", "x")
	b.wait(ready)
	s.write(annToken, "second", "second", "x")
	b.see("2 waiting")
	_, waiting := s.rest(otisToken, "GET", "/v1/approvals", "")
	if out, err := s.terminal(olgaToken, "approvals", "deny", between(waiting, `"approvalId":"`, `"`)); err != nil {
		t.Fatal(err, out)
	}
	b.see("1 waiting")
	b.see("denied by olga")
	b.press("y")  // of a person who has not seen it
	b.press("\r") // goes on
	b.wait(ready + "?.innerText.includes('second')")
	if _, waiting := s.rest(otisToken, "GET", "/v1/approvals", ""); !strings.Contains(waiting, `"callId":"second"`) {
		t.Error("the second was answered: ", waiting)
	}
	b.press("n")
	b.see("Nothing waits")
	b.calm()
}

// TestOtherTenant: an approval of another tenant is not there, also by its id.
func TestOtherTenant(t *testing.T) {
	s := serve(t, principals)
	s.write(annToken, "secret", "secret.txt", "x")
	_, waiting := s.rest(otisToken, "GET", "/v1/approvals", "")
	id := between(waiting, `"approvalId":"`, `"`)
	b := browse(t, s.origin+"/console/#/inbox/"+id).signIn(tessToken)
	b.see("Nothing waits")
	var code int
	b.eval(`fetch("v1/approvals/`+id+`/answer", {method: "POST", headers: {"Toolserver-Console": localStorage["toolserver-console-key"]}, body: '{"kind":"ANSWER_KIND_ALLOW_ONCE"}'}).then(r => r.status)`, &code)
	if code != 404 {
		t.Errorf("the answer of another tenant is %d", code)
	}
	if _, waiting := s.rest(otisToken, "GET", "/v1/approvals", ""); !strings.Contains(waiting, id) {
		t.Error("it was answered")
	}
}

// TestFirstAnswer runs the lines of the README that lead to the first approval that is answered
// in a browser.
func TestFirstAnswer(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(between(string(readme), "<!-- answered in a browser -->\n```sh\n", "```")), "\n")
	if len(lines) != 2 {
		t.Fatalf("the README has %q", lines)
	}
	t.Parallel()
	origin, dir := freeOrigin(t), t.TempDir()
	program := sdktest.Build(t)
	run := func(line string) *exec.Cmd {
		address := strings.TrimPrefix(origin, "http://")
		line = strings.NewReplacer("127.0.0.1:8667", address+" --listen 127.0.0.1:0 --admin off", "localhost:8667", address).Replace(line)
		cmd := exec.Command("sh", "-c", "exec "+line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+dir)
		return cmd
	}
	server := run(lines[0])
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	untilServing(t, log)
	b := browse(t, origin)
	b.see("Nothing waits")
	var answered sync.WaitGroup
	answered.Go(func() {
		if out, err := run(lines[1]).CombinedOutput(); err != nil || !strings.Contains(string(out), "OUTCOME_SUCCEEDED") {
			t.Errorf("%v: %s", err, out)
		}
	})
	b.wait(ready)
	b.see("hello.txt")
	b.press("y")
	answered.Wait()
	if text, err := os.ReadFile(filepath.Join(dir, "hello.txt")); string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
}
