// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/egress"
)

// listing is the judge whose rules allow every host, and list all private
// addresses there are.
var listing = egress.Judge{Host: everything.Host, Address: func(context.Context, netip.Addr, int) (bool, error) { return true, nil }}

// status sends a request to the proxy as it is, and returns the answer's status
// and text.
func status(t *testing.T, at, secret, line string) (int, string) {
	t.Helper()
	conn, answer := ask(t, at, line+" HTTP/1.1\r\nHost: example.com\r\n"+secret+"\r\n")
	defer conn.Close()
	method, _, _ := strings.Cut(line, " ")
	response, err := http.ReadResponse(answer, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if response.StatusCode == http.StatusOK {
		return response.StatusCode, ""
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return response.StatusCode, string(body)
}

// TestAddresses has names and literals stand for addresses that nobody may reach
// by a rule about names: the oracle is that nothing is dialled.
func TestAddresses(t *testing.T) {
	s := origin(t, hello)
	p, at, w := start(t, host(s), egress.Config{})
	byName, byAddress := authorization(p.Open(everything).URL(at)), authorization(p.Open(listing).URL(at))
	const never, closed, open = "never", "closed", "open"
	for addr, want := range map[string]string{
		"127.0.0.1": never, "127.8.8.8": never, "::1": never, "0.0.0.0": never, "0.0.0.1": never, "::": never,
		"::ffff:127.0.0.1": never, "::ffff:0.0.0.0": never, "224.0.0.1": never, "239.1.1.1": never, "ff02::1": never, "255.255.255.255": never,
		"10.0.0.1": closed, "172.16.0.1": closed, "172.31.255.255": closed, "192.168.1.1": closed, "::ffff:10.0.0.1": closed,
		"169.254.169.254": closed, "::ffff:169.254.169.254": closed, "fe80::1": closed, "fd00:ec2::254": closed,
		"100.64.0.1": closed, "100.100.100.200": closed, "100.127.255.255": closed, "168.63.129.16": closed, "192.0.0.192": closed,
		"64:ff9b::a9fe:a9fe": closed, "64:ff9b:1::1": closed, "64:ff9b:1:ffff::a9fe:a9fe": closed, "2002:a9fe:a9fe::1": closed,
		"2002:7f00:1::": closed, "::a9fe:a9fe": closed, "::7f00:1": closed, "::ffff:0:7f00:1": closed, "2001::1": closed, "2001:0:a9fe:a9fe::": closed,
		"fc00::1": closed, "fd12::1": closed, "fec0::1": closed, "feff::1": closed, "198.18.0.1": closed, "198.19.255.255": closed, "240.0.0.1": closed,
		"192.0.2.1": closed, "198.51.100.1": closed, "203.0.113.1": closed, "192.88.99.1": closed, "100::1": closed, "2001:db8::1": closed,
		"2001:2::1": closed, "3fff::1": closed, "5f00::1": closed, "4000::1": closed, "8000::1": closed, "e000::1": closed,
		public: open, "::ffff:" + public: open, "11.0.0.1": open, "172.32.0.1": open, "172.15.0.1": open, "100.63.0.1": open, "100.128.0.1": open,
		"168.63.129.17": open, "192.0.1.1": open, "126.0.0.1": open, "128.0.0.1": open, "223.255.255.255": open, "2606:4700::1111": open, "2a00::1": open,
	} {
		w.names["some.name"] = []string{addr}
		literal := addr
		if strings.Contains(addr, ":") {
			literal = "[" + addr + "]"
		}
		for _, to := range []string{"CONNECT some.name:443", "GET http://some.name:443/", "CONNECT " + literal + ":443", "GET http://" + literal + ":443/"} {
			for secret, allowed := range map[string]bool{byName: want == open, byAddress: want != never} {
				code, text := status(t, at, secret, to)
				_, dialled := w.seen()
				parsed := netip.MustParseAddr(addr).Unmap()
				switch {
				case allowed && (code != http.StatusOK || !slices.Equal(dialled, []string{netip.AddrPortFrom(parsed, 443).String()})):
					t.Errorf("%s (%s): %d, dialled %q: %s", to, addr, code, dialled, text)
				case !allowed && (code != http.StatusForbidden || dialled != nil || !strings.HasPrefix(text, parsed.String())):
					t.Errorf("%s (%s) is refused by %d, and dialled %q: %s", to, addr, code, dialled, text)
				}
			}
		}
	}
}

// TestSpellings has hosts that different programs read differently: none is
// reached, and none is given to a resolver.
func TestSpellings(t *testing.T) {
	s := origin(t, hello)
	p, at, w := start(t, host(s), egress.Config{})
	secret := authorization(p.Open(listing).URL(at))
	for _, host := range []string{
		"2130706433", "0x7f000001", "0X7F000001", "017700000001", "0177.0.0.1", "0x7f.1", "127.1", "127.0.1", "0", "127.0.0.01", "127.0.0.1.", "1.2.3.4.5", "256.1.1.1",
		"example.0x1", "example.1", "10.0.0", "1.1.1.0x", "①②⑦.⓪.⓪.①", "127。0。0。1", "１２７.0.0.1", "еxample.com", "exämple.com",
		"example.com..", ".example.com", "exa..mple.com", ".", "-example.com", "example-.com", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com",
		"example.com\x00.evil.org", "example.com%00.evil.org", "example.com%2eevil.org", "%65xample.com", "exam ple.com", "example.com\t", "example.com\\@evil.org",
		"user@example.com", "example.com@127.0.0.1", "a:b@example.com", "[::1%25lo]", "[::1%lo]", "[fe80::1%25eth0]", "[::1", "::1]", "::1", "[127.0.0.1]", "[]", "[::1]x",
		"example.com:443:443", "exa*mple.com", "example.com,evil.org", "example.com/evil.org", "example.com?x", "example.com#x", "`id`", "",
	} {
		for _, line := range []string{"CONNECT " + host + ":443", "GET http://" + host + ":443/"} {
			if strings.HasPrefix(line, "GET") && strings.ContainsAny(host, "/?#") {
				continue // a path is a path
			}
			code, text := status(t, at, secret, line)
			if code != http.StatusBadRequest {
				t.Errorf("%q: %d %s", line, code, text)
			}
			if resolved, dialled := w.seen(); resolved != nil || dialled != nil {
				t.Errorf("%q: resolved %q, dialled %q", line, resolved, dialled)
			}
		}
	}
	for _, line := range []string{
		"CONNECT example.com", "CONNECT example.com:", "CONNECT example.com:0", "CONNECT example.com:65536", "CONNECT example.com:+80", "CONNECT example.com:080",
		"CONNECT example.com:http", "CONNECT http://example.com:443", "CONNECT /", "CONNECT [2606:4700::1111]", "GET /", "GET //example.com/", "GET https://example.com/", "GET ftp://example.com/",
		"GET unix:///var/run/docker.sock", "GET file:///etc/passwd", "OPTIONS *", "GET http:///", "GET http://example.com:0/",
	} {
		if code, text := status(t, at, secret, line); code != http.StatusBadRequest {
			t.Errorf("%q: %d %s", line, code, text)
		}
	}
	if resolved, dialled := w.seen(); resolved != nil || dialled != nil {
		t.Errorf("resolved %q, dialled %q", resolved, dialled)
	}
}

// TestRebinding has a name stand for another address each time it is asked: what
// was judged is what is dialled, and a second answer is judged again.
func TestRebinding(t *testing.T) {
	s := origin(t, hello)
	p, at, w := start(t, host(s), egress.Config{})
	secret := authorization(p.Open(everything).URL(at))
	for _, step := range []struct{ stands, dialled string }{
		{public, public + ":80"}, {"127.0.0.1", ""}, {"169.254.169.254", ""}, {public, public + ":80"},
	} {
		w.names["rebind.test"] = []string{step.stands}
		status(t, at, secret, "GET http://rebind.test/")
		resolved, dialled := w.seen()
		if len(resolved) != 1 || strings.Join(dialled, " ") != step.dialled {
			t.Errorf("%s: resolved %q, dialled %q", step.stands, resolved, dialled)
		}
	}
}

// TestSomeAddresses has a name stand for several: those that are refused are
// passed over.
func TestSomeAddresses(t *testing.T) {
	s := origin(t, hello)
	p, at, w := start(t, host(s), egress.Config{})
	var judged []string
	client := p.Open(egress.Judge{Host: everything.Host, Address: func(_ context.Context, addr netip.Addr, port int) (bool, error) {
		judged = append(judged, netip.AddrPortFrom(addr, uint16(port)).String())
		if addr == netip.MustParseAddr("93.184.216.99") {
			return false, errors.New("Rule no-mirrors denies 93.184.216.99.")
		}
		return false, nil
	}})
	secret := authorization(client.URL(at))
	w.names["many.test"] = []string{"10.0.0.1", "93.184.216.99", "127.0.0.1", public}
	if code, text := status(t, at, secret, "GET http://many.test/"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if _, dialled := w.seen(); !slices.Equal(dialled, []string{public + ":80"}) {
		t.Errorf("dialled %q", dialled)
	}
	if want := []string{"10.0.0.1:80", "93.184.216.99:80", public + ":80"}; !slices.Equal(judged, want) {
		t.Errorf("judged %q, want %q", judged, want)
	}
	w.names["many.test"] = []string{"93.184.216.99", "10.0.0.1"}
	if code, text := status(t, at, secret, "GET http://many.test/"); code != http.StatusForbidden || text != "Rule no-mirrors denies 93.184.216.99.\n" {
		t.Errorf("%d %q", code, text)
	}
	w.names["many.test"] = slices.Repeat([]string{"10.0.0.1"}, 1000)
	judged = nil
	if code, _ := status(t, at, secret, "CONNECT many.test:22"); code != http.StatusForbidden || len(judged) > 16 {
		t.Errorf("%d, %d addresses were judged", code, len(judged))
	}
}

// TestRedirect proves that the proxy follows nothing by itself: the client asks
// again, and that is judged.
func TestRedirect(t *testing.T) {
	s := origin(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+strings.Split(r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }).String(), ":")[1]+"/", http.StatusFound)
	})
	p, at, w := start(t, host(s), egress.Config{})
	secret := authorization(p.Open(everything).URL(at))
	_, answer := ask(t, at, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n"+secret+"\r\n")
	response, err := http.ReadResponse(bufio.NewReader(answer), nil)
	if err != nil || response.StatusCode != http.StatusFound {
		t.Fatal(response, err)
	}
	if code, text := status(t, at, secret, "GET "+response.Header.Get("Location")); code != http.StatusForbidden {
		t.Errorf("%d %s", code, text)
	}
	if _, dialled := w.seen(); len(dialled) != 1 {
		t.Errorf("dialled %q", dialled)
	}
}
