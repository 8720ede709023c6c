// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"time"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/tools"
)

// startTime is how long a browser may take until it answers.
const startTime = 30 * time.Second

// launch runs Chromium. The protocol comes by its input and output, where nobody but the
// server is: a port would be open to the commands of the session and to pages. Of the
// proxy it learns the address; the secret stays with the server.
const launch = `proxy=${http_proxy##*@}
for name in http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY no_proxy NO_PROXY; do unset $name; done
export HOME="$TMPDIR" && mkdir "$TMPDIR/downloads" "$TMPDIR/uploads" || exit
exec "$0" "$@" --proxy-server="http://$proxy" --user-data-dir="$TMPDIR/profile" about:blank 3<&0 4>&1 0</dev/null 1>&2`

// flags are those of every browser. Its own sandbox cannot be made inside of ours, which
// confines all of its processes; see docs/decisions/0098.
var flags = []string{
	"--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
	"--no-first-run", "--no-default-browser-check", "--no-pings", "--password-store=basic", "--use-mock-keychain",
	"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions",
	"--disable-sync", "--disable-breakpad", "--disable-domain-reliability", "--disable-client-side-phishing-detection",
	"--disable-hang-monitor", "--disable-prompt-on-repost", "--disable-back-forward-cache",
	"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
	"--metrics-recording-only", "--force-color-profile=srgb", "--hide-scrollbars", "--mute-audio", "--lang=en-US",
	"--disable-site-isolation-trials", "--renderer-process-limit=4",
	"--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,DialMediaRouteProvider,LocalNetworkAccessChecks",
	// All that leaves the browser goes through the proxy: loopback, and what is no HTTP.
	"--proxy-bypass-list=<-loopback>", "--disable-quic",
	"--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--webrtc-ip-handling-policy=disable_non_proxied_udp",
	"--window-size=1280,800",
}

// start starts a browser for the session of a call.
func (s *Set) start(ctx context.Context, env tools.Env, runner *command.Runner, reaches []Host) (*Browser, error) {
	if s.config.Endpoint != "" {
		return s.connect(ctx, env, reaches)
	}
	program, ok := s.Program()
	if !ok {
		return nil, tools.Failf("no_browser", "This server %s.", Unavailable)
	}
	b := newBrowser(s)
	b.begin(env, reaches) // pages are judged from the first request on
	var said output.Tail
	messages := framed{take: b.conn.receive}
	judge := b.judge()
	running, err := runner.Start(ctx, command.Command{
		Path: "sh", Args: append([]string{"-c", launch, program}, flags...), Dir: ".", Input: true, MaxOutput: math.MaxInt64, Unmasked: true, Lasting: true,
		Rights: tools.Rights{Confinement: tools.Reading, Network: tools.NetworkLoopback, Deny: env.Rights.Deny}, Proxied: &judge,
		Limits: sandbox.Limits{Memory: uint64(s.config.Memory), FileSize: 2 * uint64(s.config.Download)},
	}, func(stream tools.Stream, data []byte) {
		if stream != tools.Stdout {
			said.Add(data)
		} else if err := messages.write(data); err != nil {
			b.conn.close() // what follows cannot be understood either
		}
	})
	if err != nil {
		return nil, err
	}
	b.running = running
	go func() {
		<-running.Done()
		b.conn.close()
	}()
	b.conn.write = func(data []byte) error {
		_, err := running.Write(context.Background(), append(data, 0)) // it ends with the browser
		return err
	}
	if proxy, err := url.Parse(running.Proxy()); err == nil {
		b.mu.Lock()
		b.proxy = proxy.User
		b.mu.Unlock()
	}
	var temp string
	temp, b.seen = running.Temp()
	if b.files, err = os.OpenRoot(temp); err != nil {
		b.stop(err)
		return nil, err
	}
	go b.conn.send()
	if err := b.prepare(ctx, filepath.Join(b.seen, "downloads")); err != nil {
		ended := b.isGone()
		b.stop(err)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if ended {
			return nil, tools.Failf("browser_not_started", "The browser could not be started: it %s. It said: %s", b.ending(), said.String())
		}
		return nil, tools.Failf("browser_not_started", "The browser could not be started: %v.", err)
	}
	return b, nil
}

// prepare has the browser tell of its tabs and downloads, and waits for the first tab.
func (b *Browser) prepare(ctx context.Context, downloads string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	browser := cdp.WithExecutor(ctx, executor{b.conn, ""})
	if _, _, _, _, _, err := chrome.GetVersion().Do(browser); err != nil {
		return err
	}
	if err := chrome.SetDownloadBehavior(chrome.SetDownloadBehaviorBehaviorAllowAndName).WithDownloadPath(downloads).WithEventsEnabled(true).WithBrowserContextID(b.context).Do(browser); err != nil {
		return err
	}
	if err := target.SetAutoAttach(true, true).WithFlatten(true).WithFilter(target.Filter{{Type: "page"}, {Exclude: true}}).Do(browser); err != nil {
		return err
	}
	var first *Tab
	if err := b.wait(ctx, func() bool { first = b.current; return first != nil }); err != nil {
		return err
	}
	return first.begun(ctx)
}

// stop ends the browser and everything it started.
func (b *Browser) stop(cause error) {
	if b.expiry != nil {
		b.expiry.Stop()
	}
	if b.running != nil {
		b.running.Stop(cause)
		<-b.running.Done()
	}
	if b.leave != nil {
		b.leave()
	}
	if b.files != nil {
		b.files.Close()
	}
	b.conn.close()
}

// isGone reports whether the browser is.
func (b *Browser) isGone() bool {
	select {
	case <-b.conn.lost:
		return true
	default:
		return false
	}
}
