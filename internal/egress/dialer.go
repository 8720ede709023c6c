// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
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

	// Judge judges hosts that nobody has named, and what they stand for, in place of
	// Others; nil where there is no judge.
	Judge *Judge

	// Upstream, if set, is a proxy of the operator, as host:port, which is asked to reach
	// hosts. It resolves their names, so that what a name stands for is for the proxy to
	// judge; addresses are judged here. This machine is reached without it.
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
	case d.Upstream != "":
		return d.tunnel(ctx, to)
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
		if d.Upstream != "" && !addr.IsLoopback() {
			return d.tunnel(ctx, to)
		}
		conn, err := connect(ctx, netip.AddrPortFrom(addr, to.port))
		return conn, why(err, to.String())
	})
}

// tunnel connects by way of the proxy.
func (d *Dialer) tunnel(ctx context.Context, to target) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.Upstream)
	if err != nil {
		return nil, why(err, "the operator's proxy")
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	reader := bufio.NewReader(conn)
	err = ask(connectTime, reader, conn, to)
	if err == nil && (reader.Buffered() > 0 || !stop()) { // nobody speaks before the client does
		err = refusef(http.StatusBadGateway, "proxy_internal_response", "The operator's proxy did not open a tunnel to %s.", to)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// CheckProxy returns what is wrong with the address of a proxy.
func CheckProxy(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") {
		return fmt.Errorf("%q is no address of a proxy: want host:port, without http://", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q is not a port: want 1 to 65535", port)
	}
	return nil
}

// admit judges a host before anything is known of its addresses. It reports whether the
// configuration names it.
func (d *Dialer) admit(ctx context.Context, to target) (named bool, err error) {
	switch {
	case slices.Contains(d.Named, to.String()) || slices.Contains(d.Named, net.JoinHostPort(to.host, "0")):
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

// Transport returns what speaks HTTP over connections of the dialer.
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
