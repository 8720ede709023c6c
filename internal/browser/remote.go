// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/tools"
)

// Check returns what is wrong with the endpoint; nil where nothing is, or there is none.
func (c Config) Check() error {
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
		return fmt.Errorf("%q is no DevTools address: want one that begins with ws:// or wss://", c.Endpoint)
	}
	return nil
}

// connect uses a browser that runs elsewhere, in a context of its own there, which goes
// with the connection.
func (s *Set) connect(ctx context.Context, env tools.Env, reaches []Host) (*Browser, error) {
	b := newBrowser(s)
	b.begin(env, reaches)
	limited, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	named, err := url.Parse(s.config.Endpoint)
	if err != nil {
		return nil, err
	}
	host, _ := HostOf(s.config.Endpoint)
	dialer := ws.Dialer{NetDial: (&egress.Dialer{Named: []string{host.key()}}).DialContext}
	connection, buffered, _, err := dialer.Dial(limited, named.String())
	if err != nil {
		return nil, &tools.Failure{Code: "browser_not_started", Retryable: true, Message: "The browser that the operator configured cannot be reached: " + err.Error() + "."}
	}
	if buffered != nil { // a browser says nothing before it is asked
		connection.Close()
		return nil, tools.Failf("browser_not_started", "The endpoint that the operator configured is no browser.")
	}
	b.leave = func() { connection.Close() }
	b.conn.write = func(data []byte) error { return wsutil.WriteClientText(connection, data) }
	go b.conn.send()
	go func() {
		defer b.conn.close()
		for {
			data, err := wsutil.ReadServerText(connection)
			if err != nil || b.conn.receive(data) != nil {
				return
			}
		}
	}()
	elsewhere := cdp.WithExecutor(limited, executor{b.conn, ""})
	if b.context, err = target.CreateBrowserContext().WithDisposeOnDetach(true).Do(elsewhere); err == nil {
		err = chrome.SetDownloadBehavior(chrome.SetDownloadBehaviorBehaviorDeny).WithBrowserContextID(b.context).Do(elsewhere)
	}
	if err == nil {
		err = target.SetAutoAttach(true, true).WithFlatten(true).WithFilter(target.Filter{{Type: "page"}, {Exclude: true}}).Do(elsewhere)
	}
	if err == nil {
		_, err = b.Open(limited)
	}
	if err != nil {
		b.stop(err)
		return nil, tools.Failf("browser_not_started", "The browser that the operator configured cannot be used: %v.", err)
	}
	return b, nil
}

// elsewhere judges what a host stands for, as far as that is known here: the browser looks
// names up by itself.
func (b *Browser) elsewhere(ctx context.Context, host Host) error {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(strings.Trim(host.Name, "[]")); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host.Name); err != nil {
		return fmt.Errorf("there is no host %s", host.Name)
	}
	judge := b.judge()
	for _, addr := range addrs {
		addr = addr.Unmap()
		listed, err := judge.Address(ctx, addr, host.Port)
		if err == nil && !listed {
			err = egress.Public(addr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
