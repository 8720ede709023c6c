// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestOwnAddresses proves that the server's machine is not reached, whatever a
// rule lists.
func TestOwnAddresses(t *testing.T) {
	judge := Judge{Address: func(context.Context, netip.Addr, int) (bool, error) { return true, nil }}
	_, subnet, _ := net.ParseCIDR("10.1.2.0/24")
	own := []net.Addr{&net.IPNet{IP: net.ParseIP("10.1.2.3"), Mask: subnet.Mask}, &net.IPNet{IP: net.ParseIP("2606:4700::7"), Mask: net.CIDRMask(64, 128)}}
	for text, reached := range map[string]bool{"10.1.2.3": false, "2606:4700::7": false, "10.1.2.4": true, "2606:4700::8": true} {
		addr := netip.MustParseAddr(text)
		if err := judge.check(t.Context(), addr, target{host: "x.test", port: 1}, own, forCommands); (err == nil) != reached {
			t.Errorf("%s: %v", text, err)
		}
	}
	link := netip.MustParseAddr("fe80::1%eth0")
	if err := judge.check(t.Context(), link, target{host: "x.test", port: 1}, own, forCommands); err == nil {
		t.Error("an address with a zone is reached")
	}
}

// TestDialsOnly looks at the second check: at what the kernel is asked for.
func TestDialsOnly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	to := netip.MustParseAddrPort(listener.Addr().String())
	conn, err := dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for _, address := range []string{"127.0.0.2:1", "[::1]:1", "127.0.0.1:2", "localhost:1", ""} {
		if only(netip.MustParseAddrPort("127.0.0.1:1"))("tcp", address, nil) == nil {
			t.Errorf("%s passes for 127.0.0.1:1", address)
		}
	}
}

// FuzzHost holds a host that is accepted to what everybody reads in the same way.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{
		"example.com", "EXAMPLE.com.", "127.0.0.1", "[::1]", "[::ffff:1.2.3.4]", "0x7f.1", "1.2.3", "xn--bcher-kva.example", "a_b.c", "[fe80::1%25lo]", "①.1", "x\x00y", "a@b", "-", "0x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, addr, err := parseHost(text)
		if err != nil {
			return
		}
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" {
			t.Fatalf("%q becomes %q", text, host)
		}
		at := target{host, addr, 443}
		again, err := parseTarget(at.String(), 0)
		if err != nil || again != at {
			t.Fatalf("%q becomes %+v, and that %+v, %v", text, at, again, err)
		}
		u, err := url.Parse("http://" + at.String() + "/")
		if err != nil || u.Hostname() != host || u.Port() != "443" {
			t.Fatalf("%q becomes %q, which is %v to others, %v", text, at, u, err)
		}
		parsed, err := netip.ParseAddr(host)
		if (err == nil) != addr.IsValid() || parsed != addr || addr.Is4In6() || addr.Zone() != "" {
			t.Fatalf("%q becomes %q, as an address %v", text, host, addr)
		}
		if !addr.IsValid() {
			last := host[strings.LastIndexByte(host, '.')+1:]
			if strings.HasSuffix(host, ".") || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
				t.Fatalf("%q becomes %q, which may be an address", text, host)
			}
		}
	})
}
