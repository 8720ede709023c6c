// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Dialer is how the server itself reaches hosts for tools: it resolves a name once,
// judges each address that it stands for, and connects to exactly the one that was
// judged. It is safe for concurrent use.
type Dialer struct {
	// Named are the hosts that the operator's configuration names, see [Named]. One that
	// is named by its address, or as localhost, is reached wherever it is. A name may
	// stand for private addresses as well, but for none of this machine, of a cloud's own
	// services, or that is reserved: who answers for a name must not choose those.
	Named []string

	// Others has hosts reached that nobody has named, at public addresses only.
	Others bool

	// Judge judges hosts that nobody has named, and what they stand for, in place of
	// Others; nil where there is no judge.
	Judge *Judge

	// Upstream is as in [Config]. What is named is reached without it.
	Upstream string

	// Resolve and Dial are as in [Config].
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Named returns the host and port of an address with http or https, as [Dialer.Named] has
// them, or why there are none.
func Named(u *url.URL) (string, error) {
	standard := uint16(443)
	switch u.Scheme {
	case "http":
		standard = 80
	case "https":
	default:
		return "", badTarget(u.Redacted(), "want an address that begins with https:// or http://")
	}
	if u.User != nil {
		return "", badTarget(u.Host, "there is a name or password before the host: they are configured apart")
	}
	to, err := parseTarget(u.Host, standard)
	if err != nil {
		return "", err
	}
	return to.String(), nil
}

// connectTime is how long resolving and dialling may take together.
const connectTime = 20 * time.Second

// DialContext connects to address, which is host:port.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := parseTarget(address, 0)
	if err != nil {
		return nil, err
	}
	named, err := d.admit(ctx, to)
	if err != nil {
		return nil, err
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	addrs, exact := []netip.Addr{to.addr}, named
	switch {
	case to.addr.IsValid():
	case to.host == "localhost" || strings.HasSuffix(to.host, ".localhost"):
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	default:
		exact = false
		resolve := d.Resolve
		if resolve == nil {
			resolve = lookUp
		}
		if addrs, err = resolve(ctx, to.host); err != nil || len(addrs) == 0 {
			return nil, unresolved(to.host, err)
		}
		addrs = addrs[:min(len(addrs), 16)]
	}
	connect := d.Dial
	if connect == nil {
		connect = dial
	}
	return first(ctx, addrs, func(addr netip.Addr) error {
		if d.Judge != nil && !named {
			return d.Judge.check(ctx, addr, to, own, forTools)
		}
		if what, final := standing(addr, own); what != "" && !exact && !(named && !final && ofSite(addr)) {
			return prohibited(addr, to, what, "The server reaches it only where the configuration names the address itself.")
		}
		return nil
	}, func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
		conn, err := connect(ctx, netip.AddrPortFrom(addr, to.port))
		return conn, why(err, to.String())
	})
}

// admit judges a host before anything is known of its addresses. It reports whether the
// configuration names it.
func (d *Dialer) admit(ctx context.Context, to target) (named bool, err error) {
	switch {
	case slices.Contains(d.Named, to.String()):
		return true, nil
	case d.Judge != nil && d.Judge.Host != nil:
		if err := d.Judge.Host(ctx, to.host, int(to.port)); err != nil {
			return false, denied(err)
		}
		return false, nil
	case d.Others:
		return false, nil
	}
	return false, refusef(http.StatusForbidden, "http_request_denied", "%s is not reached: the configuration does not name it.", to)
}

// literal returns the address that a target names; no address where that is a name.
func (t target) literal() netip.Addr {
	if t.host == "localhost" || strings.HasSuffix(t.host, ".localhost") {
		return netip.IPv6Loopback() // as the name is meant, whatever a resolver makes of it
	}
	return t.addr
}

// ofSite reports whether an address is one that sites give to their own machines.
func ofSite(addr netip.Addr) bool {
	return (addr.IsPrivate() || shared.Contains(addr)) && among(clouds, addr) == ""
}

var (
	shared = netip.MustParsePrefix("100.64.0.0/10")
	clouds = closed[:2]
)

// Transport returns what speaks HTTP over connections of the dialer. It goes through no
// proxy, which would look names up by itself, but for the upstream of the dialer.
func (d *Dialer) Transport() *http.Transport {
	transport := &http.Transport{
		DialContext:            d.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		MaxConnsPerHost:        128,
		IdleConnTimeout:        time.Minute,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if d.Upstream != "" {
		transport.Proxy = d.upstream
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != d.Upstream {
				return d.DialContext(ctx, network, address)
			}
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return conn, why(err, "the operator's proxy")
		}
	}
	return transport
}

// upstream returns the proxy for a request, once what can be known of its host is judged;
// none for hosts that are named.
func (d *Dialer) upstream(r *http.Request) (*url.URL, error) {
	standard := uint16(443)
	if r.URL.Scheme == "http" {
		standard = 80
	}
	to, err := parseTarget(r.URL.Host, standard)
	if err != nil {
		return nil, err
	}
	named, err := d.admit(r.Context(), to)
	if named || err != nil {
		return nil, err
	}
	if addr := to.literal(); addr.IsValid() {
		own, err := net.InterfaceAddrs()
		if err != nil {
			return nil, err
		}
		judge := d.Judge
		if judge == nil {
			judge = new(Judge)
		}
		if err := judge.check(r.Context(), addr.Unmap(), to, own, forTools); err != nil {
			return nil, err
		}
	}
	return &url.URL{Scheme: "http", Host: d.Upstream}, nil
}
