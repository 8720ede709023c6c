// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/toolserver/toolserver/internal/policy"
)

// markup is what would do something if any page took it for more than text.
const markup = `<img src=x onerror="window.owned=1"><script>window.owned=1</script><a href="javascript:window.owned=1">click</a>`

// hostile has every text that agents and tools choose say markup.
func hostile(t *testing.T) *site {
	t.Helper()
	cache, err := os.UserCacheDir() // where no call can write
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(cache, 0o700)
	tools, err := os.MkdirTemp(cache, "toolserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tools) })
	manifest := fmt.Sprintf("name: evil\ndescription: %q\nschema: {type: object, properties: {q: {type: string, description: %[1]q}}}\ncommand: [cat]\nread_only: true\n", markup)
	if err := os.WriteFile(filepath.Join(tools, "evil.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, principals+"scripts: [{name: ops, dir: "+tools+"}]\n")
	s.allow(olgaToken)
	purpose, err := json.Marshal(markup + "\u202e txt.exe")
	if err != nil {
		t.Fatal(err)
	}
	s.call(olgaToken, "out", "bash", map[string]any{"command": "printf '%s\\n' \"$TEXT\"; printf '\\033]8;;javascript:window.owned=1\\a%s\\033]8;;\\a\\n' link", "env": map[string]string{"TEXT": markup}}, `,"purpose":`+string(purpose))
	s.call(annToken, "ask", "write_file", map[string]string{"path": strings.ReplaceAll(markup, "/", "-") + "\u202e.txt", "content": markup}, `,"purpose":`+string(purpose))
	s.call(annToken, "q", "ask_user", map[string]any{"questions": []any{map[string]any{"header": "<b>x</b>", "question": markup, "options": []any{map[string]string{"label": "<i>one</i>", "description": markup}, map[string]string{"label": "two", "description": "2"}}}}})
	return s
}

// TestNothingIsMarkup: HTML, scripts and links in outputs, names of files, purposes,
// questions and descriptions of tools are shown as they are, on every page.
func TestNothingIsMarkup(t *testing.T) {
	s := hostile(t)
	b := browse(t, s.origin+"/console/").signIn(olgaToken)
	check := func(where string) {
		t.Helper()
		var found string
		b.eval(`JSON.stringify([window.owned ?? "", ...[...document.querySelectorAll('[onerror], script:not([src]), a[href^="javascript:"], img[src="x"], iframe, object, q b')].map(e => e.outerHTML)].filter(Boolean))`, &found)
		if found != "[]" {
			t.Errorf("%s: %s", where, found)
		}
	}
	b.see("2 waiting")
	b.see(`<img src=x onerror="window.owned=1">`)
	b.see("<U+202E>") // in the purpose
	check("the inbox")
	b.press("j")
	b.see("wants to know")
	check("a question")
	b.run(chromedp.Navigate(s.origin + "/console/#/live"))
	b.see("<U+202E>")
	b.press("/")
	b.press("bash")
	b.press(kb.Escape)
	b.press("j")
	b.wait(screen + `?.includes('<script>window.owned=1')`)
	b.wait(screen + `?.includes('link')`)
	check("the output")
	b.run(chromedp.Evaluate(`document.querySelectorAll(".xterm-rows span, .xterm-rows div").forEach(e => e.click())`, nil))
	check("a link in the output")
	b.run(chromedp.Navigate(s.origin + "/console/#/tools/ops__evil"))
	b.see(`<script>window.owned=1</script>`)
	check("a tool")
	b.run(chromedp.Navigate(s.origin + "/console/#/audit"))
	b.see("finished")
	check("the audit log")
	b.calm()
}

// TestKeyboardOnly goes to every page and answers without a mouse; what has the focus can be
// seen.
func TestKeyboardOnly(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/console/").signIn(otisToken)
	for i, title := range []string{"Inbox", "Live", "Tools", "Policy", "Audit", "Status"} {
		b.press(fmt.Sprint(i + 1))
		b.wait(fmt.Sprintf("document.querySelector('h1')?.textContent === %q && document.querySelector('nav [aria-current]')?.textContent.startsWith(%[1]q)", title))
	}
	b.press("?")
	b.wait("document.querySelector('dialog[open]')")
	b.press(kb.Escape)
	b.wait("!document.querySelector('dialog[open]')")
	b.run(chromedp.Evaluate("document.activeElement.blur()", nil))
	b.press(kb.Tab) // from the beginning: to the content
	b.wait("document.activeElement?.className === 'skip' && getComputedStyle(document.activeElement).outlineStyle === 'solid'")
	b.press("\r")
	b.wait("document.activeElement?.id === 'content'")
	b.press("1")
	s.write(annToken, "w", "w.txt", "x")
	b.wait(ready)
	b.press("\r") // into the card
	b.wait("document.activeElement?.classList.contains('card')")
	b.wait(`(() => { const b = [...document.querySelectorAll(".answers button")].find(b => b.textContent.startsWith("Deny")); return b && b.tabIndex === 0 })()`)
	for range 40 { // at most
		var there bool
		if b.eval(`document.activeElement?.textContent.startsWith("Deny once")`, &there); there {
			break
		}
		b.press(kb.Tab)
	}
	b.press("\r")
	b.see("Nothing waits")
	if end := s.ended(annToken, "w"); !strings.Contains(end, "OUTCOME_DENIED") {
		t.Error(end)
	}
	b.calm()
}

// appearance is how a page is looked at.
type appearance struct {
	width, height int64
	theme         string
}

func (b *tab) as(l appearance) {
	b.t.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		return emulation.SetDeviceMetricsOverride(l.width, l.height, 1, false).Do(ctx)
	}), chromedp.Evaluate(fmt.Sprintf("document.documentElement.dataset.theme = %q", l.theme), nil))
}

// pages are the places of the console, with what is on them when they are there.
var pages = []struct{ name, place, there string }{
	{"inbox", "inbox", ready},
	{"live", "live/{execution}", screen + "?.includes('passed')"},
	{"timeline", "live", "document.querySelector('.timeline')"},
	{"tools", "tools/write_file", "document.querySelector('.form textarea')"},
	{"recording", "live/recording/{execution}", "document.querySelector('.player') && " + screen + "?.includes('passed')"},
	{"policy", "policy", "document.querySelector('tbody tr') && document.querySelector('tr[data-rule]')"},
	{"audit", "audit", "document.querySelectorAll('tbody tr').length > 3"},
	{"status", "status", "document.querySelectorAll('.panel').length > 5"},
}

// lively is a server at which something happens, with more sections in its configuration.
func lively(t *testing.T, sections string) (s *site, execution string) {
	t.Helper()
	s = serve(t, principals+sections)
	s.allow(olgaToken)
	s.write(annToken, "granted", "notes.md", "x")
	_, waiting := s.rest(otisToken, "GET", "/v1/approvals", "")
	if out, err := s.terminal(otisToken, "approvals", "allow", between(waiting, `"approvalId":"`, `"`), "--always=2"); err != nil {
		t.Fatal(err, out)
	}
	s.ended(annToken, "granted")
	if err := os.WriteFile(filepath.Join(s.home(annToken), "server.go"), []byte("package main\n\nfunc main() {\n\tlisten(\":80\")\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.call(olgaToken, "test", "bash", map[string]any{"command": "for t in auth policy session; do printf '\\033[32m✓\\033[0m %s passed\\n' $t; done; sleep 600"}, `,"purpose":"Run the tests before the release"`)
	for i, c := range []struct{ tool, input string }{
		{"list_dir", `{}`}, {"read_file", `{"path":"README.md"}`}, {"grep", `{"pattern":"listen"}`}, {"write_file", `{"path":"notes.md","content":"x"}`}, {"sleep", `{"duration_ms":200}`},
	} {
		s.call(olgaToken, fmt.Sprint("c", i), c.tool, json.RawMessage(c.input), `,"purpose":"Look around"`)
	}
	s.call(annToken, "edit", "edit_file", map[string]string{"path": "server.go", "old_string": "listen(\":80\")", "new_string": "listen(\"127.0.0.1:8080\")"}, `,"purpose":"Listen on loopback alone, as the issue asks"`)
	s.call(annToken, "run", "bash", map[string]any{"command": "git fetch origin && rm -rf build && go test ./..."}, `,"purpose":"Start from a clean tree"`)
	s.call(annToken, "push", "bash", map[string]any{"command": "git push origin main"}, `,"purpose":"Publish the change"`)
	_, executions := s.rest(olgaToken, "GET", "/v1/sessions/default/calls/test", "")
	return s, between(executions, `"executionId":"`, `"`)
}

// openRecorded opens a recording of a session.
func (b *tab) openRecorded(s *site) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "tests.rec")
	if out, err := s.terminal(olgaToken, "record", "export", "--session", "default", "-o", file); err != nil {
		b.t.Fatal(err, out)
	}
	b.run(chromedp.Evaluate("location.hash = '#/live'", nil))
	b.wait("document.querySelector('input[type=file]')")
	b.open(file)
	b.wait("document.querySelector('.player')")
}

// TestAxe: axe finds nothing serious on any page, narrow and wide, light and dark; and no
// page is wider than the window.
func TestAxe(t *testing.T) {
	axe, err := os.ReadFile("../../.bin/console/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal("packages of the console are missing: make console installs them, with npm")
	}
	patient := filepath.Join(t.TempDir(), "policy.yaml") // axe takes minutes where many tests run at once
	if err := os.WriteFile(patient, []byte(strings.Replace(policy.BuiltinText(), "expire: 2m", "expire: 1h", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, execution := lively(t, "policy: {file: "+patient+"}\n")
	b := browse(t, s.origin+"/console/")
	b.wait("document.activeElement?.id === 'token'")
	test := func(name string) {
		t.Helper()
		var loaded bool
		if b.eval("typeof axe !== 'undefined'", &loaded); !loaded {
			b.run(chromedp.Evaluate(string(axe), nil))
		}
		var found string
		b.eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical").map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 200) + " " + n.any.map(a => a.message).join("; ")).join(" | ")).join("\n"))`, &found)
		if found != "" {
			t.Errorf("%s: %s", name, found)
		}
		var wide bool
		if b.eval("document.documentElement.scrollWidth > innerWidth || document.querySelector('main').scrollWidth > document.querySelector('main').clientWidth", &wide); wide {
			t.Errorf("%s is wider than the window", name)
		}
	}
	test("sign-in")
	b.signIn(olgaToken)
	b.openRecorded(s)
	for _, l := range []appearance{{360, 740, "dark"}, {1280, 800, "light"}} {
		b.as(l)
		for _, p := range pages {
			b.run(chromedp.Evaluate(fmt.Sprintf("location.hash = '#/' + %q", strings.ReplaceAll(p.place, "{execution}", execution)), nil))
			b.wait(p.there)
			test(fmt.Sprintf("%s at %d, %s", p.name, l.width, l.theme))
		}
	}
	b.calm()
}

// TestFirstPaint: how long the first paint takes, on loopback, as Chromium tells it: the first
// time with a process of the browser that has to begin. It is told, and not judged; bench has the
// figure.
func TestFirstPaint(t *testing.T) {
	s := serve(t, "")
	b := browse(t, s.origin+"/console/")
	var painted []string
	for range 5 {
		var at float64
		b.wait("document.querySelector('.link.open') && performance.getEntriesByName('first-contentful-paint').length > 0")
		b.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime", &at)
		painted = append(painted, fmt.Sprintf("%.0f", at))
		b.run(chromedp.Reload())
	}
	t.Logf("first contentful paint after %s ms", strings.Join(painted, ", "))
}

// TestScreenshots makes the pictures in docs/console, where that is asked for by
// UPDATE_SCREENSHOTS.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("UPDATE_SCREENSHOTS")
	if dir == "" {
		t.Skip("set UPDATE_SCREENSHOTS to a directory")
	}
	s, execution := lively(t, "")
	b := browse(t, s.origin+"/console/").signIn(olgaToken)
	b.openRecorded(s)
	themes := map[string]string{"inbox": "light", "live": "dark", "recording": "light"} // of those that docs/console.md shows
	for _, p := range pages {
		l := appearance{1280, 800, themes[p.name]}
		if l.theme == "" {
			continue
		}
		b.as(l)
		b.run(chromedp.Evaluate(fmt.Sprintf("location.hash = '#/' + %q", strings.ReplaceAll(p.place, "{execution}", execution)), nil))
		b.wait(p.there)
		var picture []byte
		b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(60).Do(ctx)
			return err
		}))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.webp", p.name, l.width, l.theme)), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
