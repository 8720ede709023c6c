// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/tools"
)

// HostOf returns what an address with http or https reaches; false for other addresses.
func HostOf(address string) (Host, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return Host{}, false
	}
	host := Host{Name: strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))}
	switch u.Scheme {
	case "http", "ws":
		host.Port = 80
	case "https", "wss":
		host.Port = 443
	default:
		return Host{}, false
	}
	if port := u.Port(); port != "" {
		if host.Port, err = strconv.Atoi(port); err != nil || host.Port < 1 || host.Port > 65535 {
			return Host{}, false
		}
	}
	return host, true
}

// Own reports whether a host is the loopback of the session whose browser asks for it.
func (s *Set) Own(host Host) bool { return s.config.Endpoint == "" && host.isLocal() }

// isLocal reports whether a host is written as one on loopback.
func (h Host) isLocal() bool {
	addr, err := netip.ParseAddr(h.Name)
	return err == nil && addr.Unmap().IsLoopback() || h.Name == "localhost" || strings.HasSuffix(h.Name, ".localhost")
}

// judge returns what the proxy asks about each connection of the browser: pages, what they
// load, WebSockets, workers, and what the browser does by itself.
func (b *Browser) judge() egress.Judge {
	return egress.Judge{
		Host: func(_ context.Context, name string, port int) error {
			host := Host{name, port}
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.remember(host, b.reaches(host, b.anyLocal() || b.opens(host)))
		},
		Address: func(_ context.Context, addr netip.Addr, port int) (bool, error) {
			host := Host{addr.String(), port}
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.restrictions == nil {
				return false, nil
			}
			listed, err := b.restrictions.ReachesAddress(addr, port)
			if err == nil && !listed {
				b.remember(host, egress.Public(addr)) // which the proxy asks next
			}
			return listed, b.remember(host, err)
		},
		Asks: func(name string, port int, header http.Header) error {
			host := Host{name, port}
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.remember(host, b.asked(host, header))
		},
	}
}

// asked judges who asks for what the session itself serves. A browser tells that in headers
// which pages cannot change, and so for frames, workers and WebSockets, too, of which no tab
// tells. The browser is locked.
func (b *Browser) asked(host Host, header http.Header) error {
	local := false
	from := cmp.Or(header.Get("Origin"), header.Get("Referer"))
	switch {
	case header == nil: // it is sealed
		local = !slices.ContainsFunc(b.tabs, func(t *Tab) bool { host, ok := HostOf(t.url); return ok && !host.isLocal() })
	case b.opens(host) && header.Get("Sec-Fetch-Dest") == "document":
		local = true
	case from != "":
		origin, ok := HostOf(from)
		local = ok && origin.isLocal()
	default:
		local = header.Get("Sec-Fetch-Site") != "cross-site"
	}
	if !local {
		return notFromThere(host)
	}
	return nil
}

func notFromThere(host Host) error {
	return fmt.Errorf("%s may not be reached from there: pages of other hosts do not reach what the session itself serves", host.key())
}

// reaches judges a host. Loopback is the session's own, and local says that a page from there
// asks, or a call: pages of other hosts do not get there by what calls were given. The
// browser is locked.
func (b *Browser) reaches(host Host, local bool) error {
	switch {
	case host.isLocal():
		if local {
			return nil
		}
		return notFromThere(host)
	case b.granted[host.key()]:
		if b.restrictions == nil {
			return nil
		}
		// The policy may be another one than when the host was given.
		if denied, ok := errors.AsType[tools.Prohibition](b.restrictions.Reaches(host.Name, host.Port)); ok {
			return denied
		}
		return nil
	case b.restrictions == nil:
		return errNoHosts
	}
	return b.restrictions.Reaches(host.Name, host.Port)
}

var errNoHosts = errors.New("this host may not be reached")

// opens reports whether the call that runs opens a host: it names it, or has a tab go where
// an earlier one was.
func (b *Browser) opens(host Host) bool {
	return slices.Contains(b.named, host) ||
		b.granted[host.key()] && slices.ContainsFunc(b.tabs, func(t *Tab) bool { return t.leaving })
}

// anyLocal reports whether a page of the session's own loopback is open.
func (b *Browser) anyLocal() bool {
	return slices.ContainsFunc(b.tabs, func(t *Tab) bool {
		host, ok := HostOf(t.url)
		return ok && host.isLocal()
	})
}

// remember keeps why something was refused, for who asks why a page is not there.
func (b *Browser) remember(host Host, err error) error {
	if err != nil && len(b.refused) < maxNotes {
		b.refused[host.key()] = err.Error()
		b.wake()
	}
	return err
}

// paused judges a request before it is made. The browser is locked.
func (t *Tab) paused(ev *fetch.EventRequestPaused) {
	if ev.Request == nil {
		ev.Request = new(network.Request) // which is refused
	}
	host, ok := HostOf(ev.Request.URL)
	if !ok {
		t.answer(ev.RequestID, fmt.Errorf("%s may not be opened: pages are reached by http and https alone", clip(ev.Request.URL)))
		return
	}
	page, _ := HostOf(t.url)
	opened := ev.ResourceType == network.ResourceTypeDocument && ev.FrameID == t.frame && t.b.opens(host)
	err := t.b.remember(host, t.b.reaches(host, page.isLocal() || opened))
	if err != nil || t.b.leave == nil {
		t.answer(ev.RequestID, err)
		return
	}
	go func() { // no proxy asks about addresses
		// The request waits for this, whatever becomes of the call that began it.
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		err := t.b.elsewhere(ctx, host)
		t.b.mu.Lock()
		defer t.b.mu.Unlock()
		t.answer(ev.RequestID, t.b.remember(host, err))
	}()
}

// answer has a request made, or fail.
func (t *Tab) answer(id fetch.RequestID, err error) {
	if err != nil {
		t.b.conn.post(t.session, fetch.CommandFailRequest, fetch.FailRequest(id, network.ErrorReasonBlockedByClient))
		return
	}
	t.b.conn.post(t.session, fetch.CommandContinueRequest, fetch.ContinueRequest(id))
}

// challenged answers the proxy of the server, and nobody else.
func (t *Tab) challenged(ev *fetch.EventAuthRequired) {
	answer := &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}
	if c := ev.AuthChallenge; c != nil && c.Source == fetch.AuthChallengeSourceProxy && t.b.proxy != nil {
		secret, _ := t.b.proxy.Password()
		answer = &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseProvideCredentials, Username: t.b.proxy.Username(), Password: secret}
	}
	t.b.conn.post(t.session, fetch.CommandContinueWithAuth, fetch.ContinueWithAuth(ev.RequestID, answer))
}
