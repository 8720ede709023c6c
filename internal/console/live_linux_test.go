// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// allow has the calls of the default session of a principal run unasked.
func (s *site) allow(token string) {
	s.t.Helper()
	if code, text := s.rest(token, "PATCH", "/v1/sessions/default", `{"mode":"MODE_ALLOW"}`); code != 200 {
		s.t.Fatal(text)
	}
}

// screen is what the terminal of the page shows.
const screen = "document.querySelector('.tty')?.screen?.text()"

// TestOutput: what a command writes is there while it runs; it reads what is typed in the
// terminal; it can be cancelled; and what it writes is never markup.
func TestOutput(t *testing.T) {
	s := serve(t, principals)
	s.allow(olgaToken)
	b := browse(t, s.origin+"/console/#/live").signIn(olgaToken)
	b.see("Nothing has run yet")
	s.call(olgaToken, "talk", "bash", map[string]any{"command": "echo begun; read line; echo heard $line; sleep 600", "interactive": true}, `,"purpose":"to talk"`)
	b.see("to talk")
	b.press("j")
	b.wait(screen + "?.includes('begun')") // while it runs
	b.wait("document.querySelector('.card .badge.running')")
	b.run(chromedp.Click(".tty"))
	b.press("hello\r")
	b.wait(screen + "?.includes('heard hello')")
	b.run(chromedp.Click("//section//button[text()='Cancel']", chromedp.BySearch))
	b.wait("document.querySelector('.card .badge.cancelled')")
	if end := s.ended(olgaToken, "talk"); !strings.Contains(end, "OUTCOME_CANCELLED") || !strings.Contains(end, `"by":"olga"`) {
		t.Error(end)
	}
	b.calm()
}

// TestRestart: the page comes back when the server does, without signing in again; and it
// goes on with an execution where it was when the connection alone is lost.
func TestRestart(t *testing.T) {
	s := serve(t, principals)
	s.allow(olgaToken)
	b := browse(t, s.origin+"/console/#/live").signIn(olgaToken)
	s.call(olgaToken, "long", "bash", map[string]any{"command": "echo one; read line; echo two; sleep 600", "interactive": true})
	b.wait("document.querySelector('.row')")
	b.press("j")
	b.wait(screen + "?.includes('one')")
	b.run(chromedp.Evaluate(`window.asked = []; const real = fetch; window.fetch = (path, init) => { if (String(path).includes("/events")) asked.push(init.headers["Last-Event-ID"] ?? ""); return real(path, init) };
		Object.defineProperty(document, "hidden", {get: () => window.away, configurable: true}); away = true; document.dispatchEvent(new Event("visibilitychange"))`, nil))
	s.rest(olgaToken, "POST", "/v1/sessions/default/calls/long/input", `{"data":"Cg=="}`)
	b.run(chromedp.Evaluate(`away = false; document.dispatchEvent(new Event("visibilitychange"))`, nil))
	b.wait(screen + "?.includes('two')")
	b.wait("asked.length > 0 && Number(asked[0]) > 1")
	b.wait(screen + ".split('one').length === 2") // it was written once

	s.Kill()
	b.see("connection lost")
	s.Restart()
	s.allow(olgaToken)
	b.wait("document.querySelector('.link.open')")
	s.call(olgaToken, "after", "bash", map[string]any{"command": "echo again"}, `,"purpose":"after the restart"`)
	b.see("after the restart")
	b.press("1")
	b.see("Nothing waits")
	b.calm()
}

// TestTenThousand: a list of as many executions scrolls, with few of them in the page.
func TestTenThousand(t *testing.T) {
	s := serve(t, principals)
	s.allow(olgaToken)
	var all sync.WaitGroup
	for worker := range 10 {
		all.Go(func() {
			for batch := range 10 {
				var b strings.Builder
				b.WriteString(`{"start":{}}`)
				for i := range 100 {
					fmt.Fprintf(&b, `{"call":{"tool":"sleep","input":{"duration_ms":0},"purpose":"number %d"}}`, (worker*10+batch)*100+i)
				}
				if code, text := s.rest(olgaToken, "POST", "/v1/batches", b.String()); code != 200 {
					t.Errorf("%d: %.300s", code, text)
					return
				}
			}
		})
	}
	all.Wait()
	b := browse(t, s.origin+"/console/#/live").signIn(olgaToken)
	b.see("0 unfinished of 10000")
	b.run(chromedp.Focus(".rows"))
	b.press(kb.End)
	b.wait("document.querySelector('.row.current')?.getAttribute('aria-posinset') === '10000'")
	var rows int
	b.eval("document.querySelectorAll('.row').length", &rows)
	if rows > 60 {
		t.Errorf("%d rows are in the page", rows)
	}
	b.run(chromedp.SetValue("input[type=search]", "number 4711"))
	b.run(chromedp.Evaluate("document.querySelector('input[type=search]').dispatchEvent(new Event('input', {bubbles: true}))", nil))
	b.wait("document.querySelectorAll('.row').length === 1")
	b.calm()
}
