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
	// Named are the hosts that the operator's configuration names, see [Named]; port 0
	// is any port. One that
	// is named by its address, or as localhost, is reached wherever it is. A name may
	// stand for private addresses as well, but for none of this machine, of a cloud's own
	// services, or that is reserved: who answers for a name must not choose those.
	Named []string

	// Others has hosts reached that nobody has named, at public addresses only.
	Others bool

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
	named := slices.Contains(d.Named, to.String()) || slices.Contains(d.Named, net.JoinHostPort(to.host, "0"))
	if !named && !d.Others {
		return nil, refusef(http.StatusForbidden, "http_request_denied", "%s is not reached: the configuration does not name it.", to)
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
		if what, final := standing(addr, own); what != "" && !exact && !(named && !final && ofSite(addr)) {
			return prohibited(addr, to, what, "The server reaches it only where the configuration names the address itself.")
		}
		return nil
	}, func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
		conn, err := connect(ctx, netip.AddrPortFrom(addr, to.port))
		return conn, why(err, to.String())
	})
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
// proxy, which would look names up by itself.
func (d *Dialer) Transport() *http.Transport {
	return &http.Transport{
		DialContext:            d.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		MaxConnsPerHost:        128,
		IdleConnTimeout:        time.Minute,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}
