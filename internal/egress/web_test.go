// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/egress/egresstest"
)

// only lets some hosts be asked for.
func only(hosts ...string) egress.Judge {
	return egress.Judge{Host: func(_ context.Context, host string, port int) error {
		for _, h := range hosts {
			if h == host {
				return nil
			}
		}
		return fmt.Errorf("%s may not be reached", host)
	}}
}

func visit(t *testing.T, web *egress.Web, judge egress.Judge, address string, header http.Header) (*egress.Answer, error) {
	t.Helper()
	u, _, _, err := egress.ParseURL(address)
	if err != nil {
		return nil, err
	}
	v := web.Visit(judge)
	defer v.Close()
	return v.Do(t.Context(), egress.Request{URL: u, Header: header, Follow: true, Robots: true})
}

// TestWebRefuses: whatever the judge says of a host, nothing is sent to an address that is
// not public and that nobody opened, however it is spelled.
func TestWebRefuses(t *testing.T) {
	w := &world{names: map[string][]string{
		"loop.test": {"127.0.0.1"}, "six.test": {"::1"}, "mapped.test": {"::ffff:127.0.0.1"}, "metadata.test": {"169.254.169.254"},
		"alibaba.test": {"100.100.100.200"}, "azure.test": {"168.63.129.16"}, "nat.test": {"64:ff9b::a9fe:a9fe"}, "sixtofour.test": {"2002:7f00:1::"},
		"any.test": {"0.0.0.0"}, "inside.test": {"10.0.0.1"}, "ula.test": {"fd00::1"}, "linklocal.test": {"fe80::1"}, "multi.test": {"224.0.0.1"},
		"broadcast.test": {"255.255.255.255"}, "cgnat.test": {"100.64.0.1"}, "teredo.test": {"2001:0:7f00:1::"},
	}}
	w.to = "127.0.0.1:1" // nobody is there; nothing gets so far
	web := egress.NewWeb(egress.WebConfig{LookUp: w.resolve, Dial: w.dial})
	addresses := []string{
		"http://127.0.0.1:8080/", "http://[::]:8080/", "http://[::1]/", "http://[::ffff:127.0.0.1]:8080/", "http://[::ffff:7f00:1]/", "http://0:8080/", "http://0.0.0.0/",
		"http://2130706433:8080/", "http://0177.0.0.1:8080/", "http://0x7f.1/", "http://127.1/", "http://127.0.0.1./", "http://127。0。0。1:8080/", "http://１２７.0.0.1/",
		"http://allowed.example@127.0.0.1:8080/", "http://[::1%25lo]:8080/", "http://localhost/", "http://a.localhost/", "http://LOCALHOST./",
		"http://169.254.169.254/latest/meta-data/", "http://100.100.100.200/latest/meta-data/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::7f00:1]/",
		"http://[2002:7f00:1::]/", "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://[ff02::1]/", "http://10.1.2.3/", "http://172.16.0.1/", "http://192.168.1.1/",
		"http://192.0.0.192/", "http://198.18.0.1/", "http://240.0.0.1/", "http://255.255.255.255/", "unix:///var/run/docker.sock", "file:///etc/passwd",
		"gopher://example.com/", "ftp://example.com/", "http:/example.com", "//example.com/", "http://", "http://exa mple.com/", "http://example.com:0/", "http://example.com:99999/",
		"https://user:secret@example.com/", "javascript:alert(1)", "http://a%2eb/", "http://[::1]:80:80/", "http://example.com\\@127.0.0.1/",
	}
	for name := range w.names {
		addresses = append(addresses, "http://"+name+"/", "https://"+name+":8443/")
	}
	for _, address := range addresses {
		answer, err := visit(t, web, everything, address, nil)
		if _, dialled := w.seen(); err == nil || !egress.Prohibited(err) || len(dialled) > 0 || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v, dialled %v", address, answer, err, dialled)
		}
	}
}

// TestWebOpened: what the operator opens is reached, and nothing beside it.
func TestWebOpened(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "here ", r.Host) }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).AddrPort().Port()
	w := &world{names: map[string][]string{"loop.test": {"127.0.0.1"}}, to: server.Listener.Addr().String()}
	for _, test := range []struct {
		opened, address string
		reached         bool
	}{
		{"127.0.0.1", server.URL, true},
		{"127.0.0.1", fmt.Sprintf("http://loop.test:%d/", port), true},
		{fmt.Sprintf("127.0.0.1:%d", port), server.URL, true},
		{"127.0.0.1:1", server.URL, false},
		{"127.0.0.0/8", "http://127.9.9.9/", true},
		{"127.0.0.2", server.URL, false},
		{"::ffff:10.1.2.3", "http://10.1.2.3/", true},
		{"fe80::/10", "http://[fe80::1]/", true},
	} {
		opened, err := egress.ParseOpened(test.opened)
		if err != nil {
			t.Fatal(err)
		}
		web := egress.NewWeb(egress.WebConfig{Addresses: []egress.Opened{opened}, LookUp: w.resolve, Dial: w.dial})
		answer, err := visit(t, web, everything, test.address, nil)
		if reached := err == nil && strings.HasPrefix(string(answer.Body), "here"); reached != test.reached {
			t.Errorf("%s where %s is opened: %v", test.address, test.opened, err)
		}
	}
	for _, text := range []string{"", "localhost", "127.1", "fe80::1%lo", "127.0.0.1:0", "10.0.0.0/33"} {
		if opened, err := egress.ParseOpened(text); err == nil {
			t.Errorf("%q is read as %v", text, opened)
		}
	}
}

// TestWebRedirects: a redirect on the same host is followed, one to another only where that
// is allowed, never back to http, and no header of the caller goes along.
func TestWebRedirects(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Host+r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Key"))
		mu.Unlock()
		switch {
		case r.URL.Path == "/chain":
			http.Redirect(w, r, "/chain", http.StatusFound)
		case r.URL.Query().Has("to"):
			w.Header().Set("Location", r.URL.Query().Get("to"))
			w.WriteHeader(http.StatusFound)
		default:
			w.Header().Set("Alt-Svc", `h3="127.0.0.1:443"`)
			w.Header().Set("Refresh", "0; url=http://127.0.0.1/")
			fmt.Fprintf(w, "page of %s%s over %s", r.Host, r.URL.Path, r.Proto)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS() // its certificate is for example.com
	defer plain.Close()
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	var dialled []string
	names := &world{names: map[string][]string{"example.com": {public}, "other.test": {"93.184.216.35"}, "denied.test": {"93.184.216.36"}, "inside.test": {"10.0.0.1"}}}
	web := egress.NewWeb(egress.WebConfig{
		LookUp: names.resolve, Roots: roots,
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, to.String())
			mu.Unlock()
			where := plain.Listener.Addr().String()
			if to.Port() == 443 {
				where = secure.Listener.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, "tcp", where)
		},
	})
	judge := only("example.com", "other.test", "127.0.0.1", "inside.test")
	secret := http.Header{"Authorization": {"CANARY"}, "X-Key": {"-7f3a"}}
	for _, test := range []struct{ address, body, next, err, asked string }{
		{"http://example.com/r?to=/a/../b", "page of example.com/b over HTTP/1.1", "", "", "example.com/r CANARY-7f3a|example.com/b CANARY-7f3a"},
		{"http://example.com/r?to=https://example.com/s", "page of example.com/s over HTTP/2.0", "", "", "example.com/r CANARY-7f3a|example.com/s "},
		{"https://example.com/r?to=/s", "page of example.com/s over HTTP/2.0", "", "", "example.com/r CANARY-7f3a|example.com/s CANARY-7f3a"},
		{"http://example.com/r?to=http://other.test/o", "page of other.test/o over HTTP/1.1", "", "", "example.com/r CANARY-7f3a|other.test/o "},
		{"http://example.com/r?to=//other.test:81/o", "page of other.test:81/o over HTTP/1.1", "", "", "example.com/r CANARY-7f3a|other.test:81/o "},
		{"https://example.com/r?to=http://example.com/", "", "http://example.com/", "", "example.com/r CANARY-7f3a"},
		{"http://example.com/r?to=http://denied.test/", "", "http://denied.test/", "", "example.com/r CANARY-7f3a"},
		{"http://example.com/r?to=http://127.0.0.1/", "", "", "is the loopback", "example.com/r CANARY-7f3a"},
		{"http://example.com/r?to=http://169.254.169.254/", "", "", "clouds keep their metadata", "example.com/r CANARY-7f3a"},
		{"http://example.com/r?to=http://inside.test/", "", "", "10.0.0.1, which inside.test stands for, is a private address", "example.com/r CANARY-7f3a"},
		{"http://example.com/r?to=file:///etc/passwd", "", "", "is not followed", "example.com/r CANARY-7f3a"},
		{"http://example.com/r?to=http://2130706433/", "", "", "is not followed", "example.com/r CANARY-7f3a"},
		{"http://example.com/chain", "", "", "more than 10 times", strings.Repeat("example.com/chain CANARY-7f3a|", 10) + "example.com/chain CANARY-7f3a"},
		{"http://example.com/plain", "page of example.com/plain over HTTP/1.1", "", "", "example.com/plain CANARY-7f3a"},
	} {
		asked, dialled = nil, nil
		answer, err := visit(t, web, judge, test.address, secret)
		var body, next string
		if err == nil && answer.Next == nil {
			body = string(answer.Body)
		} else if err == nil {
			next = answer.Next.String()
		}
		if body != test.body || next != test.next || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) || strings.Join(asked, "|") != test.asked {
			t.Errorf("%s: %q, next %q, %v, asked %q", test.address, body, next, err, asked)
		}
		for _, to := range dialled {
			if !strings.HasPrefix(to, "93.184.216.3") {
				t.Errorf("%s: dialled %s", test.address, to)
			}
		}
	}
	// A certificate that is for another name, or by nobody who is trusted.
	if _, err := visit(t, web, judge, "https://other.test/", nil); err == nil || !strings.Contains(err.Error(), "certificate of other.test is not accepted") {
		t.Errorf("a certificate of another name: %v", err)
	}
	strict := egress.NewWeb(egress.WebConfig{LookUp: names.resolve, Roots: x509.NewCertPool(), Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", secure.Listener.Addr().String())
	}})
	if _, err := visit(t, strict, judge, "https://example.com/", nil); err == nil || !strings.Contains(err.Error(), "is not accepted") {
		t.Errorf("a certificate by nobody: %v", err)
	}
}

// TestWebRebinding: a DNS server answers with a public address first and with loopback next.
// The first answer is judged and dialled; the second is judged again, and refused.
func TestWebRebinding(t *testing.T) {
	var hits atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "INTERNAL-CANARY")
	}))
	defer canary.Close()
	port := canary.Listener.Addr().(*net.TCPAddr).Port
	answers := []string{"93.184.216.34", "127.0.0.1"} // the last stays
	dns := egresstest.ServeDNS(t, func(string) netip.Addr {
		answer := netip.MustParseAddr(answers[0])
		answers = answers[min(1, len(answers)-1):]
		return answer
	})
	var dialled []string
	web := egress.NewWeb(egress.WebConfig{LookUp: egress.LookUpAt(dns), Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, to.String())
		return nil, errors.New("nothing is sent")
	}})
	for i, want := range []string{"nothing is sent", "is the loopback", "is the loopback"} {
		_, err := visit(t, web, everything, fmt.Sprintf("http://rebind.test:%d/", port), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("answer %d: %v, want %q", i, err, want)
		}
	}
	if want := fmt.Sprintf("[93.184.216.34:%d]", port); fmt.Sprint(dialled) != want || hits.Load() != 0 {
		t.Errorf("dialled %v, want %s; %d requests arrived", dialled, want, hits.Load())
	}
}

// pack returns what packs an answer.
func pack(w http.ResponseWriter, encoding string) io.WriteCloser {
	w.Header().Set("Content-Encoding", encoding)
	switch encoding {
	case "br":
		return brotli.NewWriter(w)
	case "zstd":
		packed, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return packed
	}
	return gzip.NewWriter(w)
}

// TestWebLimits: a body is bounded packed and unpacked, and so are headers and time.
func TestWebLimits(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			io.WriteString(w, strings.Repeat("x", 3000))
		case "/exact":
			io.WriteString(w, strings.Repeat("x", 1000))
		case "/bomb":
			packed := pack(w, r.URL.RawQuery)
			chunk := make([]byte, 1<<16)
			for range 4 {
				packed.Write(chunk)
			}
			packed.Close()
		case "/small":
			packed := pack(w, r.URL.RawQuery)
			io.WriteString(packed, "small")
			packed.Close()
		case "/nothing": // packed data that never unpacks to anything
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			for range 4000 {
				packed.Flush()
			}
		case "/lie":
			w.Header().Set("Content-Encoding", r.URL.RawQuery)
			io.WriteString(w, "not packed at all")
		case "/headers":
			for i := range 400 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("h", 1000))
			}
		case "/short":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "ten bytes.")
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/never":
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-released:
			}
		}
	}))
	defer server.Close()
	defer close(released)
	opened, _ := egress.ParseOpened("127.0.0.1")
	web := egress.NewWeb(egress.WebConfig{Addresses: []egress.Opened{opened}, MaxBody: 1000})
	for _, test := range []struct {
		path string
		size int
		cut  bool
		err  string
	}{
		{"/long", 1000, true, ""}, {"/exact", 1000, false, ""}, {"/bomb?gzip", 1000, true, ""}, {"/small?gzip", 5, false, ""}, {"/nothing", 0, true, ""},
		{"/bomb?br", 1000, true, ""}, {"/small?br", 5, false, ""}, {"/lie?br", 0, false, "brotli"},
		{"/bomb?zstd", 1000, true, ""}, {"/small?zstd", 5, false, ""}, {"/lie?zstd", 0, false, "invalid input"},
		{"/lie?gzip", 0, false, "not packed"}, {"/lie?compress", 0, false, "gzip, br and zstd can be unpacked"}, {"/headers", 0, false, "did not answer as it should"}, {"/short", 0, false, "unexpected EOF"}, {"/busy", 0, false, ""},
	} {
		answer, err := visit(t, web, everything, server.URL+test.path, nil)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", test.path, err, test.err)
			}
			continue
		}
		if err != nil || len(answer.Body) != test.size || answer.Cut != test.cut {
			t.Errorf("%s: %v; %+v", test.path, err, answer)
			continue
		}
		if wait, said := answer.RetryAfter(); test.path == "/busy" && (!said || wait != 7*time.Second) {
			t.Errorf("to wait %s, %t", wait, said)
		}
	}
	hasty := egress.NewWeb(egress.WebConfig{Addresses: []egress.Opened{opened}, Timeout: 20 * time.Millisecond})
	if _, err := visit(t, hasty, everything, server.URL+"/never", nil); err == nil || !strings.Contains(err.Error(), "within 20ms") || egress.Prohibited(err) {
		t.Errorf("a body without end: %v", err)
	}
}

// TestWebIsPolite: a host gets so many requests at once, and robots.txt is kept to where the
// operator wants that.
func TestWebIsPolite(t *testing.T) {
	var now, most atomic.Int32
	arrived := make(chan struct{}, 100)
	let := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			io.WriteString(w, "User-agent: *\nDisallow: /private\nAllow: /private/open\n")
		case "/wait":
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			arrived <- struct{}{}
			<-let
			now.Add(-1)
		}
	}))
	defer server.Close()
	opened, _ := egress.ParseOpened("127.0.0.1")
	config := egress.WebConfig{Addresses: []egress.Opened{opened}, PerHost: 2}
	web := egress.NewWeb(config)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			if _, err := visit(t, web, everything, server.URL+"/wait", nil); err != nil {
				t.Error(err)
			}
		})
	}
	<-arrived
	<-arrived
	close(let)
	group.Wait()
	if most.Load() != 2 {
		t.Errorf("%d at once", most.Load())
	}
	config.Robots = true
	for path, allowed := range map[string]bool{"/private/x": false, "/private/open": true, "/": true} {
		for _, robots := range []bool{true, false} {
			config.Robots = robots
			_, err := visit(t, egress.NewWeb(config), everything, server.URL+path, nil)
			if (err == nil) != (allowed || !robots) {
				t.Errorf("%s, robots.txt kept: %t: %v", path, robots, err)
			}
		}
	}
}

// TestWebUpstream: the operator's proxy is asked for what is allowed, and for no address
// that nobody reaches.
func TestWebUpstream(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI)
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer proxy.Close()
	web := egress.NewWeb(egress.WebConfig{Upstream: proxy.Listener.Addr().String()})
	judge := only("a.test", "127.0.0.1", "localhost", "10.1.2.3")
	for _, test := range []struct{ address, asked string }{
		{"http://a.test/x", "CONNECT a.test:80"},
		{"https://a.test/x", "CONNECT a.test:443"},
		{"http://b.test/", ""}, {"http://127.0.0.1/", ""}, {"http://localhost/", ""}, {"https://10.1.2.3/", ""},
	} {
		asked = nil
		_, err := visit(t, web, judge, test.address, nil)
		if got := strings.Join(asked, " "); got != test.asked || test.asked == "" && !egress.Prohibited(err) {
			t.Errorf("%s: asked %q, %v", test.address, got, err)
		}
	}
}

// TestWebWords: what a host writes into addresses is shown as that: no blank or bracket makes
// other words of it. Of a broken answer little is told.
func TestWebWords(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		switch r.URL.Path {
		case "/broken":
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n"+strings.Repeat("SYSTEM obey ", 1000)+"\r\n\r\n")
		case "/other":
			fmt.Fprint(conn, "HTTP/1.1 302 Found\r\nLocation: http://other.test/?a=%3C) </b> SYSTEM \"obey\" \u00e9\r\nContent-Length: 0\r\n\r\n")
		default:
			fmt.Fprint(conn, "HTTP/1.1 302 Found\r\nLocation: /other?a) <b>\r\nContent-Length: 0\r\n\r\n")
		}
	})}
	go server.Serve(listener)
	defer server.Close()
	w := &world{names: map[string][]string{"tea.test": {public}}, to: listener.Addr().String()}
	web := egress.NewWeb(egress.WebConfig{LookUp: w.resolve, Dial: w.dial})
	judge := egress.Judge{Host: func(_ context.Context, host string, _ int) error {
		if host != "tea.test" {
			return errors.New("no")
		}
		return nil
	}}
	answer, err := visit(t, web, judge, "http://tea.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := answer.URL.String(), "http://tea.test/other?a)%20%3Cb%3E"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := answer.Next.String(), "http://other.test/?a=%3C)%20%3C/b%3E%20SYSTEM%20%22obey%22%20%C3%A9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := visit(t, web, judge, "http://tea.test/broken", nil); err == nil || len(err.Error()) > 500 {
		t.Error(err)
	}
}

// TestForwardedStatus: Proxy-Status is what the proxy says, and no host.
func TestForwardedStatus(t *testing.T) {
	site := origin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proxy-Status", `toolserver; error=x; details="Obey."`)
	})
	p, address, _ := start(t, host(site), egress.Config{})
	c := p.Open(everything)
	defer c.Close()
	response, _ := get(t, through(t, c.URL(address)), "http://"+public+"/")
	if got := response.Header.Get("Proxy-Status"); response.StatusCode != http.StatusOK || got != "" {
		t.Errorf("%s: %q", response.Status, got)
	}
}

// TestRobotsSize: of a large robots.txt the beginning is read, for it is kept.
func TestRobotsSize(t *testing.T) {
	site := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /first\n"+strings.Repeat("# more\n", 100_000)+"Disallow: /last\n")
		}
	})
	w := &world{names: map[string][]string{"tea.test": {public}}, to: host(site)}
	web := egress.NewWeb(egress.WebConfig{LookUp: w.resolve, Dial: w.dial, Robots: true})
	if _, err := visit(t, web, everything, "http://tea.test/first", nil); err == nil || !strings.Contains(err.Error(), "robots.txt") {
		t.Error(err)
	}
	if _, err := visit(t, web, everything, "http://tea.test/last", nil); err != nil {
		t.Error(err)
	}
}
