// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/egress"
)

// TestDialerThroughProxy: the operator's proxy is asked for what may be reached, by its name, and
// for nothing else; this machine is reached without it.
func TestDialerThroughProxy(t *testing.T) {
	var asked []string
	answer := http.StatusOK
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		w.WriteHeader(answer)
	}))
	defer proxy.Close()
	dialled := ""
	dialer := egress.Dialer{
		Named: []string{"api.example:443", "10.1.2.3:80", "127.0.0.1:80"}, Upstream: proxy.Listener.Addr().String(),
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			t.Errorf("%s was looked up here", name)
			return nil, nil
		},
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialled = to.String()
			conn, other := net.Pipe()
			other.Close()
			return conn, nil
		},
	}
	for _, test := range []struct {
		address         string
		others          bool
		status          int
		want            string // of the proxy
		direct, refused string
	}{
		{"api.example:443", false, 200, "CONNECT api.example:443", "", ""},
		{"api.example:443", false, 403, "CONNECT api.example:443", "", "The operator's proxy does not connect to api.example:443"},
		{"10.1.2.3:80", false, 200, "CONNECT 10.1.2.3:80", "", ""},
		{"127.0.0.1:80", false, 200, "", "127.0.0.1:80", ""},
		{"other.example:443", false, 200, "", "", "does not name it"},
		{"other.example:443", true, 200, "CONNECT other.example:443", "", ""},
		{"169.254.169.254:80", true, 200, "", "", "clouds keep their metadata"},
		{"localhost:22", true, 200, "", "", "is the loopback"},
	} {
		asked, dialled, answer, dialer.Others = nil, "", test.status, test.others
		conn, err := dialer.DialContext(t.Context(), "tcp", test.address)
		if conn != nil {
			conn.Close()
		}
		if strings.Join(asked, " ") != test.want || dialled != test.direct || (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: the proxy was asked %q, dialled %q, %v", test.address, asked, dialled, err)
		}
	}
}

// TestDialer: what an operator names is reached, and what a name must not stand for is not.
func TestDialer(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var ours string // an address of this machine that is not loopback
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			ours = prefix.Addr().String()
		}
	}
	w := &world{names: map[string][]string{
		"api.example": {"93.184.216.34"}, "inside.example": {"10.255.254.253"}, "shared.example": {"100.64.7.7"}, "ula.example": {"fd12::7"},
		"rebound.example": {"127.0.0.1"}, "six.example": {"::ffff:127.0.0.1"}, "metadata.example": {"169.254.169.254"},
		"alibaba.example": {"100.100.100.200"}, "nat.example": {"64:ff9b::a9fe:a9fe"}, "any.example": {"0.0.0.0"},
		"mixed.example": {"169.254.169.254", "93.184.216.35"}, "own.example": {ours},
	}}
	named := []string{"10.1.2.3:80", "127.0.0.1:80", "localhost:80", "169.254.169.254:80", "[::1]:80"}
	for name := range w.names {
		named = append(named, name+":80")
	}
	for _, test := range []struct{ address, dialled, refused string }{
		{"api.example:80", "93.184.216.34:80", ""},
		{"API.example.:80", "93.184.216.34:80", ""},
		{"inside.example:80", "10.255.254.253:80", ""},
		{"shared.example:80", "100.64.7.7:80", ""},
		{"ula.example:80", "[fd12::7]:80", ""},
		{"mixed.example:80", "93.184.216.35:80", ""},
		{"10.1.2.3:80", "10.1.2.3:80", ""},
		{"127.0.0.1:80", "127.0.0.1:80", ""},
		{"[::1]:80", "[::1]:80", ""},
		{"localhost:80", "127.0.0.1:80", ""},
		{"169.254.169.254:80", "169.254.169.254:80", ""},
		{"rebound.example:80", "", "127.0.0.1, which rebound.example stands for, is the loopback"},
		{"six.example:80", "", "is the loopback"},
		{"metadata.example:80", "", "clouds keep their metadata"},
		{"alibaba.example:80", "", "a cloud's own services"},
		{"nat.example:80", "", "stands for an IPv4 address"},
		{"any.example:80", "", "leads to the server's own machine"},
		{"own.example:80", "", "is an address of the server's machine"},
		{"api.example:443", "", "does not name it"},
		{"other.example:80", "", "does not name it"},
		{"127.0.0.2:80", "", "does not name it"},
		{"127.1:80", "", "ends in a number"},
		{"api.example", "", "no port"},
	} {
		if test.address == "own.example:80" && ours == "" {
			continue
		}
		w.dialled = nil
		dialer := egress.Dialer{Named: named, Resolve: w.resolve, Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			w.dialled = append(w.dialled, to.String())
			conn, other := net.Pipe()
			other.Close()
			return conn, nil
		}}
		conn, err := dialer.DialContext(t.Context(), "tcp", test.address)
		if conn != nil {
			conn.Close()
		}
		if got := strings.Join(w.dialled, " "); got != test.dialled || (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: dialled %q, %v; want %q, %q", test.address, got, err, test.dialled, test.refused)
		}
	}
	others := egress.Dialer{Others: true, Resolve: w.resolve}
	if _, err := others.DialContext(t.Context(), "tcp", "inside.example:80"); err == nil || !strings.Contains(err.Error(), "is a private address") {
		t.Errorf("a private address that nobody named: %v", err)
	}
}

// TestDialerResolvesOnce: a name that stands for something else the next time has been
// judged, and dialled, by the first answer.
func TestDialerResolvesOnce(t *testing.T) {
	answers := []string{"93.184.216.34", "127.0.0.1"}
	var dialled []string
	dialer := egress.Dialer{
		Named: []string{"rebind.test:80"},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			answer := answers[0]
			answers = answers[1:]
			return []netip.Addr{netip.MustParseAddr(answer)}, nil
		},
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialled = append(dialled, to.String())
			return nil, net.ErrClosed
		},
	}
	for range 2 {
		if _, err := dialer.DialContext(t.Context(), "tcp", "rebind.test:80"); err == nil {
			t.Error("connected")
		}
	}
	if !slices.Equal(dialled, []string{"93.184.216.34:80"}) {
		t.Errorf("dialled %v", dialled)
	}
}

func TestTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, err := egress.Named(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	transport := (&egress.Dialer{Named: []string{host}}).Transport()
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil || response.StatusCode != http.StatusTeapot {
		t.Fatalf("%v %v", response, err)
	}
	response.Body.Close()
	for _, text := range []string{"unix:///var/run/docker.sock", "ftp://a.example", "http://user:secret@a.example", "http://", "https://a.example:0", "http://2130706433"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if host, err := egress.Named(u); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %s, %v", text, host, err)
		}
	}
}
