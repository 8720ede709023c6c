// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// typeInto types into a field by its label.
func (b *tab) typeInto(label, text string) {
	b.t.Helper()
	b.wait(`[...document.querySelectorAll("label")].some(l => l.textContent.trim() === "` + label + `")`)
	b.run(chromedp.Evaluate(`(l => (l.control ?? document.getElementById(l.htmlFor)).focus())([...document.querySelectorAll("label")].find(l => l.textContent.trim() === "`+label+`"))`, nil))
	b.press(text)
}

// click clicks a button by its text.
func (b *tab) click(text string) {
	b.t.Helper()
	b.run(chromedp.Click(`//button[normalize-space()="`+text+`"]`, chromedp.BySearch))
}

// TestTools finds a tool, asks what the policy says to a call of it, and runs it, with the
// answer of somebody else.
func TestTools(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/#/tools").signIn(olgaToken)
	b.see("read_file")
	b.press("/")
	b.press("write_fi")
	b.wait("document.querySelectorAll('.list li').length === 1")
	b.press("\x1b") // Escape
	b.press("j")
	b.typeInto("path *", "new.txt")
	b.typeInto("content *", "tried")
	b.click("What would the policy say?")
	b.wait("document.querySelector('.judgement .badge.ask')")
	b.see("writes new.txt")
	b.click("Run")
	b.see("waits for a person")
	_, waiting := s.rest(otisToken, "GET", "/v1/approvals", "")
	if out, err := s.terminal(otisToken, "approvals", "allow", between(waiting, `"approvalId":"`, `"`)); err != nil {
		t.Fatal(err, out)
	}
	b.see("finished: succeeded")
	if text, err := os.ReadFile(filepath.Join(s.home(olgaToken), "new.txt")); string(text) != "tried" {
		t.Errorf("%q, %v", text, err)
	}
	b.calm()
}

// TestPolicy explains a command as it is typed, and takes back a grant.
func TestPolicy(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/#/policy").signIn(olgaToken)
	b.typeInto("A shell command, or the input of a tool as JSON", "cat a.txt; rm -r build")
	b.wait("document.querySelector('.judgement .badge.ask')")
	for _, want := range []string{"cat a.txt (changes nothing)", "writes build and everything below", "rm -r build"} {
		b.see(want)
	}
	s.write(annToken, "w", "granted.txt", "x")
	_, waiting := s.rest(otisToken, "GET", "/v1/approvals", "")
	if out, err := s.terminal(otisToken, "approvals", "allow", between(waiting, `"approvalId":"`, `"`), "--always=2"); err != nil {
		t.Fatal(err, out)
	}
	b.see("granted.txt")
	b.click("Revoke")
	b.see("No answer is in force")
	for _, want := range []string{"default.yaml", "secrets_examples", "What else decided: ", "mode 1"} { // the rules, where they are from, and what decided
		b.see(want)
	}
	s.call(olgaToken, "secret", "read_file", map[string]any{"path": ".env"})
	b.wait(`document.querySelector("tr[data-rule=secrets]").children[2].innerText === "1"`)
	b.run(chromedp.SetValue("input[aria-label='Search rules']", "git push"))
	b.run(chromedp.Evaluate("document.querySelector(\"input[aria-label='Search rules']\").dispatchEvent(new Event('input', {bubbles: true}))", nil))
	b.wait("document.querySelectorAll('tr[data-rule]').length < 5")
	if code, text := s.rest(annToken, "GET", "/v1/policy", ""); code != 403 {
		t.Errorf("an agent reads the policy: %d %.200s", code, text)
	}
	if code, text := s.rest(tessToken, "GET", "/v1/policy", ""); code != 403 {
		t.Errorf("an approver of a tenant reads the policy: %d %.200s", code, text)
	}
	if code, text := s.rest(avaToken, "GET", "/v1/policy", ""); code != 200 {
		t.Errorf("an approver does not: %d %.200s", code, text)
	}
	if _, grants := s.rest(otisToken, "GET", "/v1/grants", ""); strings.Contains(grants, "grantId") {
		t.Error(grants)
	}
	b.calm()
}

// TestStatus: how the server is.
func TestStatus(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/#/status").signIn(olgaToken)
	for _, want := range []string{"approver", "confined", "nothing failed", "longest call", "All tools are those of the server"} {
		b.see(want)
	}
	if code, text := s.rest(olgaToken, "POST", "/v1/stops", `{"principal":"ann","reason":"too fast"}`); code != 200 {
		t.Fatal(text)
	}
	b.see("ann is stopped")
	b.calm()
}

// TestAudit searches the log, verifies it, and finds out that somebody changed it. Who is no
// operator or viewer sees nothing of it.
func TestAudit(t *testing.T) {
	s := serve(t, principals)
	s.call(annToken, "look", "read_file", map[string]string{"path": "nothing.txt"})
	s.ended(annToken, "look")
	b := browse(t, s.origin+"/console/#/audit").signIn(olgaToken)
	b.see("finished")
	b.press("/")
	b.press("session_created")
	b.wait("document.querySelectorAll('tbody tr').length > 0 && [...document.querySelectorAll('tbody tr')].every(r => r.innerText.includes('session_created'))")
	b.click("Verify")
	b.see("intact")
	text, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.audit, []byte(strings.Replace(string(text), `"tool":"read_file"`, `"tool":"mead_file"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.click("Verify")
	b.see("was changed: its hash is not that of its content")
	for _, token := range []string{annToken, tessToken} {
		if code, text := s.rest(token, "GET", "/v1/audit/records", ""); code != 403 {
			t.Errorf("%d: %.200s", code, text)
		}
	}
	b.calm()
}
