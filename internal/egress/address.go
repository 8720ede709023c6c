// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// never are the addresses that lead to the server's own machine, or to no single
// one. Nobody reaches them through the proxy, whatever a rule lists: loopback is
// the session's own to its commands, and would be the server's here.
var never = []addresses{
	{"is the loopback of the server's machine", prefixes("127.0.0.0/8", "::1/128")},
	{"leads to the server's own machine", prefixes("0.0.0.0/8", "::/128")},
	{"is a multicast address", prefixes("224.0.0.0/4", "ff00::/8")},
	{"is a broadcast address", prefixes("255.255.255.255/32")},
}

// closed are the addresses that are dialled only where a rule lists them.
// Everything in IPv6 that is not below 2000::/3 is closed, too.
var closed = []addresses{
	{"is a link-local address, where clouds keep their metadata", prefixes("169.254.0.0/16", "fe80::/10")},
	{"is an address of a cloud's own services", prefixes("168.63.129.16/32", "192.0.0.0/24", "100.100.100.200/32", "fd00:ec2::/32")},
	{"is a private address", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")},
	{"is an address behind a provider's translation", prefixes("100.64.0.0/10")},
	{"stands for an IPv4 address", prefixes("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")},
	{"is reserved", prefixes("192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16")},
}

var public6 = netip.MustParsePrefix("2000::/3")

// addresses are prefixes, and what is said of each address in them.
type addresses struct {
	are      string
	prefixes []netip.Prefix
}

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// among tells what an address is by a list; "" where it is not in there.
func among(list []addresses, addr netip.Addr) string {
	for _, a := range list {
		for _, prefix := range a.prefixes {
			if prefix.Contains(addr) {
				return a.are
			}
		}
	}
	return ""
}

// standing tells why an address is not simply dialled, and whether no rule can change
// that; own are the addresses of the machine.
func standing(addr netip.Addr, own []net.Addr) (what string, final bool) {
	what = among(never, addr)
	switch {
	case addr.Zone() != "":
		return "has a zone", true
	case what != "":
		return what, true
	case slices.ContainsFunc(own, func(a net.Addr) bool { return isAddr(a, addr) }):
		return "is an address of the server's machine", true
	}
	if what = among(closed, addr); what == "" && addr.Is6() && !public6.Contains(addr) {
		what = "is no public address"
	}
	return what, false
}

// check judges an address that a host stands for; own are those of the machine, and advice
// is for those who are refused.
func (j *Judge) check(ctx context.Context, addr netip.Addr, to target, own []net.Addr, advice advice) error {
	what, final := standing(addr, own)
	opened := j.Opened != nil && j.Opened(addr, int(to.port))
	listed := false
	if (!final || opened) && j.Address != nil {
		var err error
		if listed, err = j.Address(ctx, addr, int(to.port)); err != nil {
			return denied(err)
		}
	}
	if what == "" || listed || opened {
		return nil
	}
	text := advice.final
	if !final {
		text = fmt.Sprintf(advice.closed, addr)
	}
	return prohibited(addr, to, what, text)
}

// advice is what is said to those who are refused an address: one that a rule may open,
// which stands in the text, and one that no rule opens.
type advice struct{ closed, final string }

var (
	forCommands = advice{
		"It is reached only where a rule of the policy lists the address itself, such as hosts: [\"%s\"].",
		"No command reaches that through the proxy; what the session itself serves is reached at localhost, without the proxy.",
	}
	forTools = advice{
		"It is reached only where a rule of the policy lists the address itself, such as hosts: [\"%s\"], or the configuration does, in web.addresses.",
		"The server reaches it for nobody unless the operator lists it in web.addresses.",
	}
)

// prohibited is why an address that a target stands for is not dialled.
func prohibited(addr netip.Addr, to target, what, advice string) error {
	name := addr.String()
	if !to.addr.IsValid() {
		name += ", which " + to.host + " stands for,"
	}
	return refusef(http.StatusForbidden, "destination_ip_prohibited", "%s %s. %s", name, what, advice)
}

// isAddr reports whether an address of an interface is addr.
func isAddr(a net.Addr, addr netip.Addr) bool {
	prefix, err := netip.ParsePrefix(a.String())
	return err == nil && prefix.Addr().Unmap() == addr
}

// dial connects to what a request asks to reach, or to the upstream proxy for it,
// once that is judged.
func (c *Client) dial(ctx context.Context, to target) (net.Conn, error) {
	if c.judge.Host == nil {
		return nil, refusef(http.StatusForbidden, "http_request_denied", "This call may reach no hosts.")
	}
	if err := c.judge.Host(ctx, to.host, int(to.port)); err != nil {
		return nil, denied(err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	config := &c.proxy.config
	ctx, cancel := context.WithTimeout(ctx, config.ConnectTime)
	defer cancel()
	if c.isOwn(to) {
		conn, err := c.judge.Local(ctx, to.port)
		return c.dialled(conn, err, to.String())
	}
	if upstream := c.upstream(to); upstream != "" {
		if addr := to.literal(); addr.IsValid() {
			if err := c.judge.check(ctx, addr, to, own, forCommands); err != nil {
				return nil, err
			}
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", upstream)
		return c.dialled(conn, err, "the operator's proxy")
	}
	addrs := []netip.Addr{to.addr}
	if !to.addr.IsValid() {
		if addrs, err = config.Resolve(ctx, to.host); err != nil || len(addrs) == 0 {
			return nil, unresolved(to.host, err)
		}
		addrs = addrs[:min(len(addrs), 16)]
	}
	return first(ctx, addrs, func(addr netip.Addr) error { return c.judge.check(ctx, addr, to, own, forCommands) },
		func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
			conn, err := config.Dial(ctx, netip.AddrPortFrom(addr, to.port))
			return c.dialled(conn, err, fmt.Sprintf("%s at %s", to, addr))
		})
}

// isOwn reports whether a target is on the client's own loopback.
func (c *Client) isOwn(to target) bool { return c.judge.Local != nil && to.isLoopback() }

// upstream returns the proxy that is asked to reach a target; "" where none is.
func (c *Client) upstream(to target) string {
	if c.isOwn(to) {
		return ""
	}
	return c.proxy.config.Upstream
}

// first connects to the first of addresses that check lets pass and that answers. ctx has
// a deadline, of which each address has its share, as in package net.
func first(ctx context.Context, addrs []netip.Addr, check func(netip.Addr) error, dial func(context.Context, netip.Addr) (net.Conn, error)) (conn net.Conn, err error) {
	deadline, _ := ctx.Deadline()
	for i, addr := range addrs {
		addr = addr.Unmap()
		if refused := check(addr); refused != nil {
			err = cmp.Or(err, refused)
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addrs)-i))
		conn, err = dial(attempt, addr)
		cancel()
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// dialled returns a connection as the proxy uses it, or why there is none.
func (c *Client) dialled(conn net.Conn, err error, to string) (net.Conn, error) {
	if err == nil {
		return &idleConn{conn, c.proxy.config.IdleTime}, nil
	}
	return nil, why(err, to)
}

// why is what is told of a connection that failed; nil where none did.
func why(err error, to string) error {
	if err == nil {
		return nil
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return refusef(http.StatusGatewayTimeout, "connection_timeout", "No answer in time from %s.", to)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // without addresses of this machine
	}
	return refusef(http.StatusBadGateway, "connection_refused", "No connection to %s: %v.", to, err)
}

// lookUp looks a name up as it is: the machine's search domains do not apply.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true} // libc reads 127.1 as an address
	return resolver.LookupNetIP(ctx, "ip", name+".")
}

// LookUpAt returns what looks names up at a DNS server, which is host:port; "" is that of
// the machine.
func LookUpAt(server string) func(ctx context.Context, name string) ([]netip.Addr, error) {
	if server == "" {
		return lookUp
	}
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	return func(ctx context.Context, name string) ([]netip.Addr, error) {
		return resolver.LookupNetIP(ctx, "ip", name+".")
	}
}

func unresolved(name string, err error) error {
	if failure, ok := errors.AsType[*net.DNSError](err); err == nil || ok && failure.IsNotFound {
		return refusef(http.StatusBadGateway, "dns_error", "There is no host %s: its name has no address.", name)
	}
	return refusef(http.StatusBadGateway, "dns_error", "The name %s could not be looked up. Trying again may help.", name)
}

// dial connects to an address, and to no other.
func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Control: only(to)}
	return dialer.DialContext(ctx, "tcp", to.String())
}

// only fails a connection to any other address: a second look, right before the
// connection is made.
func only(want netip.AddrPort) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		if got, err := netip.ParseAddrPort(address); err != nil || got != want {
			return fmt.Errorf("%s was judged, not %s", want, address)
		}
		return nil
	}
}

// Public returns nil for an address that anybody may reach, and otherwise what it is: one
// that leads to this machine, or that is reached only where somebody has listed it.
func Public(addr netip.Addr) error {
	addr = addr.Unmap()
	own, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	return (&Judge{}).check(context.Background(), addr, target{addr: addr}, own, forCommands)
}
