// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// download clicks a button, and returns the file that the browser gets.
func (b *tab) download(button string) string {
	b.t.Helper()
	dir := b.t.TempDir()
	done := make(chan string, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	chromedp.ListenBrowser(ctx, func(event any) {
		if progress, ok := event.(*browser.EventDownloadProgress); ok && progress.State == browser.DownloadProgressStateCompleted {
			if _, err := os.Stat(filepath.Join(dir, progress.GUID)); err == nil { // that of another tab is elsewhere
				select {
				case done <- filepath.Join(dir, progress.GUID):
				default:
				}
			}
		}
	})
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		ctx = cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
		return browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllowAndName).WithBrowserContextID(b.profile).
			WithDownloadPath(dir).WithEventsEnabled(true).Do(ctx)
	}))
	b.click(button)
	select {
	case file := <-done:
		return file
	case <-time.After(time.Minute):
		b.t.Fatal("there is no download")
		return ""
	}
}

// open opens a recording on the page.
func (b *tab) open(file string) {
	b.t.Helper()
	b.run(chromedp.SetUploadFiles("input[type=file]", []string{file}))
}

// TestRecordings: an execution and a session are exported on their pages; the command line
// plays what was exported, a server answers from it, by REST and by MCP, and the page plays it with the
// views of Live: it stops, goes on, and goes to any time. What is in it is text.
func TestRecordings(t *testing.T) {
	s := serve(t, principals)
	s.allow(olgaToken)
	s.call(olgaToken, "first", "bash", map[string]any{"command": "echo one; printf '%s\\n' \"$TEXT\"; sleep 1; echo two; sleep 1", "env": map[string]string{"TEXT": markup}}, `,"purpose":"to be recorded"`)
	s.ended(olgaToken, "first")
	s.call(olgaToken, "second", "list_dir", map[string]any{})
	s.ended(olgaToken, "second")
	b := browse(t, s.origin+"/console/#/live").signIn(olgaToken)
	b.see("to be recorded")
	b.run(chromedp.Evaluate(`[...document.querySelectorAll(".row")].find(r => r.innerText.includes("to be recorded")).click()`, nil))
	b.wait(screen + "?.includes('two')")
	one := b.download("Export")
	b.run(chromedp.Evaluate(`location.hash = "#/live"; (s => { s.selectedIndex = 1; s.dispatchEvent(new Event("change", {bubbles: true})) })(document.querySelector("select[aria-label=Session]"))`, nil))
	b.see("Session default")
	all := b.download("Export")

	out, err := s.terminal(olgaToken, "replay", "--no-wait", one)
	if err != nil || !strings.Contains(out, "one\n") || !strings.Contains(out, "two\n") {
		t.Errorf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(all); strings.Count(string(text), `{"execution":`) != 2 || err != nil {
		t.Errorf("the session has %.300s", text)
	}
	s.answersFrom(all)

	b.open(one)
	b.wait(screen + "?.includes('one')")
	b.press(" ")
	b.wait(`[...document.querySelectorAll("button")].some(b => b.textContent === "Play")`)
	at := func(ms string) {
		t.Helper()
		b.run(chromedp.Evaluate(`(r => { r.value = `+ms+`; r.dispatchEvent(new Event("input", {bubbles: true})) })(document.querySelector(".player input"))`, nil))
	}
	at("r.max")
	b.wait(screen + "?.includes('two')")
	b.wait("document.querySelector('.card .badge.succeeded')")
	at(fmt.Sprint(beforeLastOutput(t, one)))
	b.wait(screen + "?.includes('one') && !" + screen + ".includes('two')")
	b.wait("document.querySelector('.card .badge.running')")
	b.wait(screen + "?.includes('<script>window.owned=1')")
	b.run(chromedp.SetValue(".player select", "64"))
	b.run(chromedp.Evaluate(`document.querySelector(".player select").dispatchEvent(new Event("change", {bubbles: true}))`, nil))
	b.press(" ") // to the end, by itself
	b.wait(screen + "?.includes('two')")
	b.wait(`[...document.querySelectorAll("button")].some(b => b.textContent === "Play")`)

	text, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.rec")
	for content, want := range map[string]string{
		string(text[:len(text)/2]): "cut off", "<b>no</b>\n": "This is no recording", "{\"toolserverRecording\":9}\n": "version 9",
		strings.Replace(string(text), "\n", "\n{\"event\":{\"executionId\":\"none\"}}\n", 1): "not whole",
		"{\"toolserverRecording\":1}\n{\"end\":{\"lines\":1}}\n":                             "no execution",
	} {
		if err := os.WriteFile(wrong, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		b.open(wrong)
		b.see(want)
	}
	// What a model said, as a file tells it that somebody made.
	said, err := json.Marshal(markup)
	if err != nil {
		t.Fatal(err)
	}
	made := fmt.Sprintf(`{"toolserverRecording":1}
{"execution":{"executionId":"x","tool":%s,"callId":%[1]s,"principal":%[1]s}}
{"event":{"executionId":"x","sequence":"1","time":"2026-01-01T00:00:00Z","nested":{"agent":%[1]s,"text":%[1]s}}}
{"event":{"executionId":"x","sequence":"2","time":"2026-01-01T00:00:00Z","userMessage":{"message":%[1]s}}}
{"end":{"lines":4}}
`, said)
	if err := os.WriteFile(wrong, []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open(wrong)
	b.see("agent " + markup + ": " + markup)
	b.see("says: " + markup)
	var owned string
	if b.eval(`String(window.owned ?? "") + [...document.querySelectorAll('[onerror], img[src="x"], a[href^="javascript:"]')].length.toString().replace("0", "")`, &owned); owned != "" {
		t.Error("a script of the recording ran")
	}
	b.calm()
}

// beforeLastOutput returns how many milliseconds after the first event of a recording the last
// output was, less one.
func beforeLastOutput(t *testing.T, file string) int64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var first, last time.Time
	for line := range strings.Lines(string(text)) {
		var item struct {
			Event struct {
				Time   time.Time
				Output *struct{}
			}
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = item.Event.Time
		}
		if item.Event.Output != nil {
			last = item.Event.Time
		}
	}
	return last.Sub(first).Milliseconds() - 1
}

// answersFrom starts a server that replays a recording, and asks it by REST and by MCP.
func (s *site) answersFrom(file string) {
	s.t.Helper()
	r := &site{t: s.t, origin: freeOrigin(s.t)}
	cmd := exec.Command(s.program, "serve", "--replay", file, "--http", strings.TrimPrefix(r.origin, "http://"), "--listen", "127.0.0.1:0", "--admin", "off")
	log, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	untilServing(s.t, log)
	if code, text := r.send("POST", "/v1/executions", `{"tool":"list_dir","input":{}}`); code != 200 || !strings.Contains(text, "OUTCOME_SUCCEEDED") {
		s.t.Errorf("REST: %d: %s", code, text)
	}
	if code, text := r.send("POST", "/v1/executions", `{"tool":"list_dir","input":{"path":"elsewhere"}}`); code != 404 || !strings.Contains(text, "not in the recording") {
		s.t.Errorf("REST, what is not recorded: %d: %s", code, text)
	}
	headers := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	begun := r.begin("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, headers...)
	begun.Body.Close()
	headers = append(headers, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-06-18")
	r.send("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	if code, text := r.send("POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_dir","arguments":{}}}`, headers...); code != 200 || !strings.Contains(text, `"content"`) || strings.Contains(text, `"isError":true`) {
		s.t.Errorf("MCP: %d: %s", code, text)
	}
}
