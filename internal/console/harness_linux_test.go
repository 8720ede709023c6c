// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !given("test.parallel") {
		flag.Set("test.parallel", "6") // they wait for pages and processes, more than they compute
	}
	code := sandboxtest.Run(m, func(string) {})
	closeBrowser()
	sdktest.Remove(code)
}

// given reports whether a flag was set.
func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// The tokens of the principals that a server of the tests knows.
const (
	annToken  = "ann-has-a-token-that-is-long-enough"  // an agent
	olgaToken = "olga-has-a-token-that-is-long-enough" // has every role
	otisToken = "otis-has-a-token-that-is-long-enough" // an approver and operator
	avaToken  = "ava-has-a-token-that-is-long-enough"  // an approver
	tessToken = "tess-has-a-token-that-is-long-enough" // an agent and approver of another tenant
)

const principals = `authentication:
  tokens:
    - {principal: ann, token: ` + annToken + `}
    - {principal: olga, token: ` + olgaToken + `, roles: [agent, approver, operator, viewer]}
    - {principal: otis, token: ` + otisToken + `, roles: [approver, operator]}
    - {principal: ava, token: ` + avaToken + `, roles: [approver]}
    - {principal: tess, token: ` + tessToken + `, roles: [agent, approver], tenant: other}
`

// site is a server as a process of its own, with a console.
type site struct {
	*sdktest.Server
	t       *testing.T
	program string
	origin  string // of its pages
	audit   string
}

// serve starts a server with sections in its configuration.
func serve(t *testing.T, sections string) *site {
	t.Helper()
	t.Parallel() // servers and pages wait for each other
	dir := t.TempDir()
	s := &site{t: t, program: sdktest.Build(t), audit: filepath.Join(dir, "audit")}
	s.origin = freeOrigin(t)
	file := filepath.Join(dir, "toolserver.yaml")
	text := fmt.Sprintf(`http: {listen: %s}
sandbox: {helper: %s}
audit: {file: %s}
artifacts: {dir: %s/artifacts}
sessions: {workspace: %[4]s, workspace_root: %[4]s/others, max_mode: allow}
%[5]s`, strings.TrimPrefix(s.origin, "http://"), sandboxtest.Helper(), s.audit, dir, sections)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Server = sdktest.Start(t, s.program, "TOOLSERVER_CONFIG="+file)
	return s
}

// freeOrigin returns that of a port which nobody has, and which stays over restarts.
func freeOrigin(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

// untilServing reads the log of a server until it serves.
func untilServing(t *testing.T, log io.Reader) {
	t.Helper()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), `"serving"`) {
			go io.Copy(io.Discard, log) // so that the server never waits for us
			return
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server does not serve")
}

// rest sends a request to the REST edge as a principal, and returns the answer.
func (s *site) rest(token, method, path, body string) (int, string) {
	s.t.Helper()
	return s.send(method, path, body, "Authorization", "Bearer "+token)
}

// send sends a request with headers in pairs.
func (s *site) send(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	response := s.begin(method, path, body, headers...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (s *site) begin(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.origin+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// call begins a call as a principal, which goes on when nobody follows it, and returns when
// the server has it.
func (s *site) call(token, callID, tool string, with any, more ...string) {
	s.t.Helper()
	text, err := json.Marshal(with)
	if err != nil {
		s.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"callId":%q,"tool":%q,"onDisconnect":"ON_DISCONNECT_DETACH","input":%s%s}`, callID, tool, text, strings.Join(more, ""))
	response := s.begin("POST", "/v1/executions", body, "Authorization", "Bearer "+token)
	defer response.Body.Close()
	if _, err := io.ReadAtLeast(response.Body, make([]byte, 64), 1); err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %v", response.Status, err)
	}
}

// ended waits for the end of a call, and returns the execution.
func (s *site) ended(token, callID string) string {
	s.t.Helper()
	_, events := s.rest(token, "GET", "/v1/sessions/default/calls/"+callID+"/events", "")
	return events
}

// home returns the workspace of the default session of a principal.
func (s *site) home(token string) string {
	s.t.Helper()
	_, text := s.rest(token, "GET", "/v1/sessions/default", "")
	return between(text, `"workspace":"`, `"`)
}

// between returns what is between two texts, the first time.
func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

// terminal runs the command line as a principal.
func (s *site) terminal(token string, args ...string) (string, error) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Env = append(os.Environ(), "TOOLSERVER_ADDRESS="+s.Address, "TOOLSERVER_TOKEN="+token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// chromium is the browser of all tests, which begins with the first that needs it.
var chromium = sync.OnceValues(func() (context.Context, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1280, 800),
		chromedp.Flag("ignore-certificate-errors", true)) // issuers of tests have signed their own
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), all...)
	silent := func(string, ...any) {} // the types of cdproto do not know what newer browsers add
	ctx, cancelBrowser := chromedp.NewContext(allocated, chromedp.WithErrorf(silent), chromedp.WithLogf(silent))
	closeBrowser = func() { cancelBrowser(); cancel() }
	return ctx, chromedp.Run(ctx)
})

var closeBrowser = func() {}

// tab is a page with a profile of its own, as of another person.
type tab struct {
	t       *testing.T
	ctx     context.Context
	profile cdp.BrowserContextID
	errors  chan string // of scripts
}

// browse opens a page in a profile of its own.
func browse(t *testing.T, address string) *tab {
	t.Helper()
	browser, err := chromium()
	switch {
	case err == nil:
	case os.Getenv("CI") != "" || !errors.Is(err, exec.ErrNotFound):
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	b := &tab{t: t, errors: make(chan string, 100)}
	var window target.ID
	whole := cdp.WithExecutor(browser, chromedp.FromContext(browser).Browser)
	if b.profile, err = target.CreateBrowserContext().Do(whole); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.DisposeBrowserContext(b.profile).Do(whole) })
	if window, err = target.CreateTarget("about:blank").WithBrowserContextID(b.profile).WithNewWindow(true).Do(whole); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithTargetID(window))
	t.Cleanup(cancel)
	b.ctx = ctx
	chromedp.ListenTarget(ctx, func(event any) {
		if thrown, ok := event.(*runtime.EventExceptionThrown); ok {
			select {
			case b.errors <- thrown.ExceptionDetails.Error():
			default:
			}
		}
	})
	if err := chromedp.Run(ctx, emulation.SetFocusEmulationEnabled(true)); err != nil { // which the tab lives as long as
		t.Fatal(err)
	}
	b.run(chromedp.Navigate(address))
	return b
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var page string
		chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText", &page))
		b.t.Fatalf("%v; the page says:\n%.2000s", err, page)
	}
}

// eval returns what a script is.
func (b *tab) eval(script string, to any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, to, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// wait waits until a script is true, also over pages that come and go.
func (b *tab) wait(condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for {
		var there bool
		err := chromedp.Run(ctx, chromedp.Evaluate("Boolean("+condition+")", &there))
		if there && err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			var page string
			chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText", &page))
			b.t.Fatalf("%s does not come: %v; the page says:\n%.3000s", condition, err, page)
		}
	}
}

// see waits for a text on the page.
func (b *tab) see(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// press presses keys, as a person does whose focus is wherever it is.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		for _, key := range keys {
			events := kb.Encode(key)
			for _, event := range events {
				if event.Type == input.KeyChar { // it comes of the one before, unless the page takes that
					continue
				}
				if event.Type == input.KeyRawDown || event.Type == input.KeyDown {
					event.Type = input.KeyDown
					for _, char := range events {
						if char.Type == input.KeyChar {
							event.Text, event.UnmodifiedText = char.Text, char.UnmodifiedText
						}
					}
				}
				if err := event.Do(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// signIn signs in with a token.
func (b *tab) signIn(token string) *tab {
	b.t.Helper()
	b.wait("document.activeElement?.id === 'token'")
	b.press(token + "\r")
	b.wait("document.querySelector('.link.open')")
	return b
}

// calm fails the test for scripts that failed.
func (b *tab) calm() {
	b.t.Helper()
	for {
		select {
		case err := <-b.errors:
			b.t.Error("a script failed: ", err)
		default:
			return
		}
	}
}
