// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/egress/egresstest"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// everyHost is a policy that allows all hosts, and lists no address.
type everyHost struct{ tools.Restrictions }

func (everyHost) Reaches(string, int) error                     { return nil }
func (everyHost) ReachesAddress(netip.Addr, int) (bool, error)  { return false, nil }
func (everyHost) Protection() tools.Protection                  { return nil }
func (everyHost) Protected(string) bool                         { return false }
func (everyHost) Withheld(string, bool) func(path string) bool  { return nil }
func (everyHost) Cares(kind tools.EffectKind, path string) bool { return false }

// TestRebinding: a DNS server answers with a public address until the page is there, and with
// addresses of this machine, of a cloud and of a private network from then on. The browser is
// connected to the address that was judged, each time anew, and to nothing else.
func TestRebinding(t *testing.T) {
	const public = "93.184.216.34"
	var answer atomic.Value
	answer.Store(public)
	dns := egresstest.ServeDNS(t, func(string) netip.Addr { return netip.MustParseAddr(answer.Load().(string)) })

	var canaried atomic.Int32
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer canary.Close()
	go func() {
		for {
			conn, err := canary.Accept()
			if err != nil {
				return
			}
			canaried.Add(1)
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(canary.Addr().String())

	rebinds := []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", public}
	site := http.NewServeMux()
	site.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<title>Rebinds</title><body><script>(async () => {
for (let i = 0; i < %d; i++) {
	await fetch("http://other.test:%s/rebind?" + i);
	document.body.append("[" + await fetch("/secret").then(r => r.ok ? r.text() : "refused", () => "refused") + "]");
	await new Promise(done => { new WebSocket("ws://" + location.host + "/socket").onclose = done });
}
document.body.append("All tried");
})()</script>`, len(rebinds), port)
	})
	site.HandleFunc("GET /secret", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "its own") })
	server := httptest.NewServer(site)
	defer server.Close()
	steering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var next int
		fmt.Sscan(r.URL.RawQuery, &next)
		answer.Store(rebinds[next])
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	defer steering.Close()

	var mu sync.Mutex
	var dialled []string
	box, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	lookUp := egress.LookUpAt(dns)
	runners := command.New(command.Config{
		Sandbox: box, View: sandbox.View{Read: sandbox.SystemPaths()}, Network: tools.NetworkHosts,
		Hosts: egress.Config{
			Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
				if name == "other.test" {
					return []netip.Addr{netip.MustParseAddr("93.184.216.35")}, nil
				}
				return lookUp(ctx, name)
			},
			Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
				at := to.String()
				switch to.Addr().String() {
				case public:
					at = server.Listener.Addr().String()
				case "93.184.216.35":
					return new(net.Dialer).DialContext(ctx, "tcp", steering.Listener.Addr().String())
				}
				mu.Lock()
				dialled = append(dialled, to.String())
				mu.Unlock()
				return new(net.Dialer).DialContext(ctx, "tcp", at)
			},
		},
	})
	set := browser.New(runners, browser.Config{})
	if !set.Available() {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Chromium")
		}
		t.Skip("there is no Chromium")
	}
	env := toolstest.Env(t, nil)
	env.Restrictions = everyHost{}
	host, _ := browser.HostOf("http://rebind.test:" + port + "/")
	text := ""
	_, err = set.Use(t.Context(), env, []browser.Host{host}, func(b *browser.Browser) error {
		tab, err := b.Current(t.Context())
		if err == nil {
			err = tab.Navigate(t.Context(), "http://rebind.test:"+port+"/", time.Minute)
		}
		if err == nil {
			err = tab.WaitFor(t.Context(), "All tried", false, time.Minute)
		}
		if err == nil {
			text, _, err = tab.Text(t.Context(), "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "[refused][refused][refused][its own]All tried"; strings.TrimSpace(text) != want {
		t.Errorf("the page shows %s, want %s", text, want)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := canaried.Load(); n > 0 || len(dialled) < 3 || slices.ContainsFunc(dialled, func(to string) bool { return to != public+":"+port }) {
		t.Errorf("dialled %v; this machine was connected to %d times", dialled, n)
	}
}
