// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// A target is what a request asks to reach.
type target struct {
	host string     // a name in small letters, or an address
	addr netip.Addr // where host is an address
	port uint16
}

// String returns the target as host:port.
func (t target) String() string {
	if t.addr.IsValid() {
		return netip.AddrPortFrom(t.addr, t.port).String()
	}
	return t.host + ":" + strconv.Itoa(int(t.port))
}

// isLoopback reports whether the target is written as one on loopback: what a name
// stands for is another question.
func (t target) isLoopback() bool {
	return t.addr.IsLoopback() || t.host == "localhost" || strings.HasSuffix(t.host, ".localhost")
}

// IsHere reports whether a host is written as this machine: localhost, or an address on loopback.
func IsHere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// targetOf returns what a request asks to reach.
func targetOf(r *http.Request) (target, error) {
	switch {
	case r.Method == http.MethodConnect:
		return parseTarget(r.RequestURI, 0)
	case r.URL.Scheme == "" || r.URL.Host == "":
		return target{}, badTarget(r.RequestURI, "this is a proxy, which wants a whole address such as http://example.com/")
	case r.URL.Scheme != "http":
		return target{}, badTarget(r.RequestURI, "the proxy forwards http alone, and tunnels everything else by CONNECT")
	case r.URL.User != nil:
		return target{}, badTarget(r.URL.Host, "there is a name or password before the host: send them in the header Authorization")
	}
	return parseTarget(r.URL.Host, 80)
}

// parseTarget reads host:port; without a port it is standard, if that is not 0.
func parseTarget(text string, standard uint16) (target, error) {
	host, port, found := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && i > strings.LastIndexByte(text, ']') {
		host, port, found = text[:i], text[i+1:], true
	}
	t := target{port: standard}
	if found {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return target{}, badTarget(text, "the port is no number from 1 to 65535")
		}
		t.port = uint16(n)
	}
	if t.port == 0 {
		return target{}, badTarget(text, "there is no port: want host:port")
	}
	var err error
	t.host, t.addr, err = parseHost(host)
	return t, err
}

// parseHost reads a host as strictly as it can be read: what programs take for
// different hosts, or a resolver for another one than was judged, is refused.
func parseHost(text string) (host string, addr netip.Addr, err error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", addr, badTarget(text, "between brackets goes an IPv6 address, without a zone")
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
		return addr.String(), addr, nil
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	if len(name) > 253 {
		return "", addr, badTarget(text, "it is longer than a name can be")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", addr, badTarget(text, "it is no name of a host")
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "", addr, badTarget(text, "names of hosts have letters, digits, - and _ in them; write others in their ASCII form, xn--")
			}
		}
	}
	// What ends in a number is an address to some programs, and 0x7f.1 is
	// 127.0.0.1 to them.
	if last := labels[len(labels)-1]; isNumber(last) {
		return "", addr, badTarget(text, "it ends in a number: write an IPv4 address as four decimal numbers without leading zeros")
	}
	return name, addr, nil
}

// isNumber reports whether a label in small letters is a number to those who read
// addresses by inet_aton.
func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func badTarget(text, why string) error {
	return refusef(http.StatusBadRequest, "http_request_error", "%.300q cannot be reached: %s.", text, why)
}
