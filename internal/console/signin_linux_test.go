// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestBuilt proves that the files that are served are those that the sources make, and that
// their types fit the contract.
func TestBuilt(t *testing.T) {
	if _, err := os.Stat("../../.bin/console/node_modules/.bin/tsc"); err != nil {
		t.Fatal("packages of the console are missing: make console installs them, with npm")
	}
	out := t.TempDir()
	if text, err := exec.Command("web/build", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if text, err := exec.Command("diff", "-rq", out, "dist").CombinedOutput(); err != nil {
		t.Errorf("the files in dist are stale: run make console\n%s", text)
	}
}

// TestWeight: everything that a browser loads, compressed.
func TestWeight(t *testing.T) {
	s := serve(t, "")
	files, err := filepath.Glob("dist/*")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, file := range files {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.origin+"/console/"+filepath.Base(file), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip")
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 || response.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %s %v", file, response.Status, response.Header)
		}
		sum += int(response.ContentLength)
	}
	t.Logf("%d bytes, compressed", sum)
	if sum > 300_000 {
		t.Errorf("the console has %d bytes, compressed: want at most 300 KB", sum)
	}
}

// TestSignIn: a wrong token is refused in words; with a good one the page knows who it is,
// also when it is loaded again; and scripts do not see the cookie.
func TestSignIn(t *testing.T) {
	s := serve(t, principals)
	b := browse(t, s.origin+"/") // which leads to the console
	b.wait("document.activeElement?.id === 'token'")
	b.press("a-token-that-nobody-has\r")
	b.see("unknown token")
	b.run(chromedp.Evaluate("document.getElementById('token').value = ''; document.getElementById('token').focus()", nil))
	b.signIn(olgaToken)
	b.see("olga")
	var stored string
	b.eval("document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)", &stored)
	if strings.Contains(stored, olgaToken) || strings.Contains(stored, "toolserver-console=") {
		t.Errorf("a script reads %s", stored)
	}
	cookies := b.cookies()
	if len(cookies) != 1 || !cookies[0].HTTPOnly || cookies[0].SameSite != network.CookieSameSiteStrict || cookies[0].Path != "/console/" || strings.Contains(cookies[0].Value, olgaToken) {
		t.Errorf("the cookies are %+v", cookies)
	}
	b.run(chromedp.Reload())
	b.wait("document.querySelector('.link.open')")
	b.click("Sign out")
	b.see("--roles approver")
	b.signIn(avaToken)
	b.run(chromedp.Navigate(s.origin + "/console/#/live"))
	b.see("Your role is approver") // which sees nothing here, and is told why
	b.click("Sign out")
	b.wait("document.activeElement?.id === 'token'")
	b.calm()
}

// cookies returns those of the page, also those that scripts do not see.
func (b *tab) cookies() (all []*network.Cookie) {
	b.t.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		all, err = network.GetCookies().Do(ctx)
		return err
	}))
	return all
}

// TestOpen: where authentication is off, nobody signs in.
func TestOpen(t *testing.T) {
	s := serve(t, "")
	b := browse(t, s.origin+"/console/")
	b.wait("document.querySelector('.link.open')")
	b.see("local")
}

// halves are what a browser has that signed in: the cookie, and the key to it.
func (s *site) halves(token string) (cookie, key string) {
	s.t.Helper()
	response := s.begin("POST", "/console/sign-in", `{"token":"`+token+`"}`)
	defer response.Body.Close()
	var answer struct{ Key string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != 200 || len(response.Cookies()) != 1 {
		s.t.Fatalf("%s: %v", response.Status, err)
	}
	return response.Cookies()[0].Name + "=" + response.Cookies()[0].Value, answer.Key
}

// TestForged sends what pages of other sites, and programs with one half, could send.
func TestForged(t *testing.T) {
	s := serve(t, principals)
	cookie, key := s.halves(olgaToken)
	_, otherKey := s.halves(annToken)
	for _, c := range []struct {
		name, method, path, body string
		code                     int
		headers                  []string
	}{
		{"both halves", "GET", "/console/v1/server", "", 200, []string{"Cookie", cookie, "Toolserver-Console", key}},
		{"our own page", "GET", "/console/v1/server", "", 200, []string{"Cookie", cookie, "Toolserver-Console", key, "Origin", s.origin, "Sec-Fetch-Site", "same-origin"}},
		{"the cookie alone", "GET", "/console/v1/server", "", 403, []string{"Cookie", cookie}},
		{"the key alone", "GET", "/console/v1/server", "", 401, []string{"Toolserver-Console", key}},
		{"the key to another", "GET", "/console/v1/server", "", 401, []string{"Cookie", cookie, "Toolserver-Console", otherKey}},
		{"a cookie that was changed", "GET", "/console/v1/server", "", 401, []string{"Cookie", strings.Replace(cookie, "=", "=A", 1), "Toolserver-Console", key}},
		{"a token in its own header", "GET", "/console/v1/server", "", 401, []string{"Authorization", "Bearer " + olgaToken, "Toolserver-Console", "none"}},
		{"the cookie at the REST edge", "GET", "/v1/server", "", 401, []string{"Cookie", cookie, "Toolserver-Console", key}},
		{"a stream with the cookie alone", "GET", "/console/v1/approvals/changes", "", 403, []string{"Cookie", cookie, "Accept", "text/event-stream"}},
		{"a stream without the cookie", "GET", "/console/v1/approvals/changes", "", 401, []string{"Toolserver-Console", key}},
		{"a foreign origin with both", "POST", "/console/v1/executions", `{"tool":"read_file"}`, 403, []string{"Cookie", cookie, "Toolserver-Console", key, "Origin", "https://evil.example"}},
		{"another port of the host", "POST", "/console/v1/executions", `{"tool":"read_file"}`, 403, []string{"Cookie", cookie, "Toolserver-Console", key, "Origin", "http://127.0.0.1:1"}},
		{"a page of the same site", "GET", "/console/v1/server", "", 403, []string{"Cookie", cookie, "Toolserver-Console", key, "Sec-Fetch-Site", "same-site"}},
		{"a page of another site", "GET", "/console/v1/server", "", 403, []string{"Cookie", cookie, "Toolserver-Console", key, "Sec-Fetch-Site", "cross-site"}},
		{"another site signs in", "POST", "/console/sign-in", `{"token":"` + annToken + `"}`, 403, []string{"Origin", "https://evil.example"}},
		{"another site signs out", "POST", "/console/sign-out", "", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"no token", "POST", "/console/sign-in", `{}`, 400, nil},
		{"a token that is a header", "POST", "/console/sign-in", `{"token":"a\r\nb"}`, 400, nil},
		{"a huge token", "POST", "/console/sign-in", `{"token":"` + strings.Repeat("x", 1<<20) + `"}`, 400, nil},
		{"a path out of it", "GET", "/console/v1/../../v1/server", "", 401, []string{"Cookie", cookie, "Toolserver-Console", key}},
		{"no such file", "GET", "/console/../console.go", "", 404, nil},
	} {
		if code, text := s.send(c.method, c.path, c.body, c.headers...); code != c.code {
			t.Errorf("%s: %d: %.200s: want %d", c.name, code, text, c.code)
		}
	}
}

// TestHeaders: nothing but what the server embeds may be loaded, and nobody frames it.
func TestHeaders(t *testing.T) {
	s := serve(t, "")
	for _, path := range []string{"/console/", "/console/main.js", "/console/v1/server", "/console/nothing"} {
		response := s.begin("GET", path, "", "Toolserver-Console", "none")
		response.Body.Close()
		policy := response.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "trusted-types 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy is %q", path, policy)
			}
		}
		if response.Header.Get("X-Frame-Options") != "DENY" || response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, response.Header)
		}
	}
	page := s.begin("GET", "/console/", "")
	page.Body.Close()
	again := s.begin("GET", "/console/", "", "If-None-Match", page.Header.Get("ETag"))
	again.Body.Close()
	if again.StatusCode != http.StatusNotModified {
		t.Error(again.Status)
	}
}

// TestFramed: a page of another site sees nothing of the console in a frame, and its
// requests, which have the cookie where that is of the same site, do nothing.
func TestFramed(t *testing.T) {
	s := serve(t, principals)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // another port: the same site to a browser
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<iframe id=f src=" + s.origin + "/console/></iframe>"))
	}))
	t.Cleanup(evil.Close)
	b := browse(t, s.origin+"/console/").signIn(olgaToken)
	b.run(chromedp.Navigate(evil.URL))
	b.wait("document.readyState === 'complete'")
	var outcome string
	b.eval(`(async () => {
		const tries = []
		const attempt = async (name, path, init) => {
			try { const r = await fetch("`+s.origin+`" + path, {credentials: "include", ...init}); tries.push(name + ":" + (r.type === "opaque" ? "opaque" : r.status)) }
			catch { tries.push(name + ":refused") }
		}
		await attempt("read", "/console/v1/server", {headers: {"Toolserver-Console": "x"}})
		await attempt("simple", "/console/v1/executions", {method: "POST", mode: "no-cors", body: '{"tool":"write_file","input":{"path":"evil","content":"x"}}'})
		await attempt("out", "/console/sign-out", {method: "POST", mode: "no-cors"})
		return tries.join(" ") + " frame:" + (() => { try { return document.getElementById("f").contentDocument?.body?.innerText ?? "closed" } catch { return "closed" } })()
	})()`, &outcome)
	if !strings.HasPrefix(outcome, "read:refused") || !strings.HasSuffix(outcome, "frame:closed") {
		t.Error(outcome)
	}
	if _, text := s.rest(olgaToken, "GET", "/v1/executions", ""); strings.Contains(text, "write_file") {
		t.Error("a page of another site called a tool: ", text)
	}
	b.run(chromedp.Navigate(s.origin + "/console/"))
	b.wait("document.querySelector('.link.open')") // still signed in
}
