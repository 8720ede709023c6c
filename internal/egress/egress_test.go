// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolserver/toolserver/internal/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is what a proxy sees of other machines: names have the addresses of the
// map, and whatever is dialled is a server on loopback. No packet leaves.
type world struct {
	names map[string][]string

	mu       sync.Mutex
	to       string // where connections end
	resolved []string
	dialled  []string
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolved = append(w.resolved, name)
	var list []netip.Addr
	for _, text := range w.names[name] {
		list = append(list, netip.MustParseAddr(text))
	}
	if list == nil {
		return nil, &net.DNSError{Err: "no such host", Name: name, Server: "10.9.8.7:53", IsNotFound: true}
	}
	return list, nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to.String())
	where := w.to
	w.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, "tcp", where)
}

// seen returns what was resolved and dialled since the last time.
func (w *world) seen() (resolved, dialled []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resolved, dialled = w.resolved, w.dialled
	w.resolved, w.dialled = nil, nil
	return resolved, dialled
}

const public = "93.184.216.34"

// start serves a proxy to a world in which connections end at to.
func start(t *testing.T, to string, config egress.Config) (*egress.Proxy, string, *world) {
	t.Helper()
	w := &world{to: to, names: map[string][]string{"example.com": {public}, "example.org": {"93.184.216.35"}}}
	config.Resolve, config.Dial = w.resolve, w.dial
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := egress.New(config)
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(listener) }()
	t.Cleanup(func() {
		p.Close()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return p, listener.Addr().String(), w
}

// everything is the judge that allows every host.
var everything = egress.Judge{Host: func(context.Context, string, int) error { return nil }}

// through returns a client that uses the proxy.
func through(t *testing.T, proxy string) *http.Client {
	t.Helper()
	at, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func host(server *httptest.Server) string { return server.Listener.Addr().String() }

func get(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func origin(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) }

func TestTunnel(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(hello))
	defer s.Close()
	p, at, w := start(t, host(s), egress.Config{})
	var judged []string
	client := p.Open(egress.Judge{Host: func(_ context.Context, host string, port int) error {
		judged = append(judged, fmt.Sprint(host, " ", port))
		return nil
	}})
	if _, body := get(t, through(t, client.URL(at)), "https://EXAMPLE.com./x"); body != "hello from EXAMPLE.com." {
		t.Errorf("body %q", body)
	}
	resolved, dialled := w.seen()
	if want := []string{"example.com"}; !slices.Equal(resolved, want) {
		t.Errorf("resolved %q, want %q", resolved, want)
	}
	if want := []string{public + ":443"}; !slices.Equal(dialled, want) {
		t.Errorf("dialled %q, want %q", dialled, want)
	}
	if want := []string{"example.com 443"}; !slices.Equal(judged, want) {
		t.Errorf("judged %q, want %q", judged, want)
	}
}

// TestHalfClosed proves that a host hears of the end of what a client sends, and
// the client still gets the answer.
func TestHalfClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "got %s", all)
	}()
	p, at, _ := start(t, listener.Addr().String(), egress.Config{})
	// The first bytes come along with the request: they must not be lost.
	conn, answer := ask(t, at, "CONNECT example.com:9 HTTP/1.1\r\nHost: example.com:9\r\n"+authorization(p.Open(everything).URL(at))+"\r\nfirst ")
	response, err := http.ReadResponse(answer, &http.Request{Method: http.MethodConnect})
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	io.WriteString(conn, "second")
	conn.(*net.TCPConn).CloseWrite()
	if text, err := io.ReadAll(answer); err != nil || string(text) != "got first second" {
		t.Errorf("%q, %v", text, err)
	}
}

// ask sends text to the proxy as it is.
func ask(t *testing.T, at, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// authorization returns the header that the address of a proxy asks for.
func authorization(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil {
		return ""
	}
	r := http.Request{Header: make(http.Header)}
	password, _ := u.User.Password()
	r.SetBasicAuth(u.User.Username(), password)
	return "Proxy-Authorization: " + r.Header.Get("Authorization") + "\r\n"
}

func TestForward(t *testing.T) {
	var got *http.Request
	var body []byte
	s := origin(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		conn, _, err := http.NewResponseController(w).Hijack() // net/http would say Connection by itself
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 418 Teapot\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 1\r\nContent-Length: 15\r\n\r\nshort and stout")
	})
	p, at, w := start(t, host(s), egress.Config{})
	_, answer := ask(t, at, "POST http://Example.COM.:80/a%2Fb?x=1;y&z=%zz HTTP/1.1\r\nHost: other.example\r\n"+
		authorization(p.Open(everything).URL(at))+
		"Connection: X-Mine, Keep-Alive\r\nX-Mine: 1\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTe: gzip\r\n"+
		"Authorization: Bearer mine\r\nAccept-Encoding: br\r\nContent-Length: 4\r\n\r\nbody")
	response, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusTeapot || string(text) != "short and stout" ||
		response.Header.Get("X-Hop") != "" || response.Header.Get("X-Kept") != "1" {
		t.Errorf("answer %v %q", response, text)
	}
	if got == nil {
		t.Fatal("nothing was forwarded")
	}
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "X-Mine", "Te", "User-Agent"} {
		if value, there := got.Header[name]; there {
			t.Errorf("%s: %q was forwarded", name, value)
		}
	}
	if got.Host != "example.com" || got.RequestURI != "/a%2Fb?x=1;y&z=%zz" || string(body) != "body" ||
		got.Header.Get("Authorization") != "Bearer mine" || got.Header.Get("Accept-Encoding") != "br" {
		t.Errorf("forwarded %v %v %v %q", got.Host, got.RequestURI, got.Header, body)
	}
	if _, dialled := w.seen(); !slices.Equal(dialled, []string{public + ":80"}) {
		t.Errorf("dialled %q", dialled)
	}
}

// TestStreams proves that nothing is kept back, in either direction.
func TestStreams(t *testing.T) {
	s := origin(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, "echo", lines.Text())
			rc.Flush()
		}
	})
	p, at, _ := start(t, host(s), egress.Config{})
	reader, writer := io.Pipe()
	request, _ := http.NewRequest(http.MethodPost, "http://example.com/", reader)
	go fmt.Fprintln(writer, 0)
	response, err := through(t, p.Open(everything).URL(at)).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for i := range 5 {
		if !lines.Scan() || lines.Text() != fmt.Sprint("echo ", i) {
			t.Fatalf("%d: %q, %v", i, lines.Text(), lines.Err())
		}
		fmt.Fprintln(writer, i+1) // only now
	}
	writer.Close()
}

// TestUpgrade has a host speak another protocol after an ordinary request.
func TestUpgrade(t *testing.T) {
	s := origin(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, io.LimitReader(conn, 4))
	})
	p, at, _ := start(t, host(s), egress.Config{})
	conn, answer := ask(t, at, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: echo\r\n"+
		authorization(p.Open(everything).URL(at))+"\r\n")
	response, err := http.ReadResponse(answer, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response, err)
	}
	io.WriteString(conn, "ping")
	if text, _ := io.ReadAll(answer); string(text) != "ping" {
		t.Errorf("%q", text)
	}
}

func TestSecrets(t *testing.T) {
	s := origin(t, hello)
	p, at, w := start(t, host(s), egress.Config{})
	client := p.Open(everything)
	if _, body := get(t, through(t, client.URL(at)), "http://example.com/"); body != "hello from example.com" {
		t.Fatalf("body %q", body)
	}
	ended := p.Open(everything)
	ended.Close()
	ended.Close()
	w.seen()
	for name, proxy := range map[string]string{
		"none":     "http://" + at,
		"empty":    "http://call:@" + at,
		"guessed":  "http://call:guessed@" + at,
		"the name": strings.Replace(client.URL(at), "call:", "", 1),
		"ended":    ended.URL(at),
	} {
		response, body := get(t, through(t, proxy), "http://example.com/")
		if response.StatusCode != http.StatusProxyAuthRequired || !strings.Contains(body, "$https_proxy") || response.Header.Get("Proxy-Authenticate") == "" {
			t.Errorf("%s: %v %q", name, response, body)
		}
		if _, err := through(t, proxy).Get("https://example.com/"); err == nil || !strings.Contains(err.Error(), "does not know this call") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, header := range []string{"Bearer x", "Basic", "Basic !", "Basic " + strings.Repeat("A", 4000), "basic x"} {
		_, answer := ask(t, at, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nProxy-Authorization: "+header+"\r\n\r\n")
		if response, err := http.ReadResponse(answer, nil); err != nil || response.StatusCode != http.StatusProxyAuthRequired {
			t.Errorf("%.20s: %v, %v", header, response, err)
		}
	}
	if resolved, dialled := w.seen(); resolved != nil || dialled != nil {
		t.Errorf("resolved %q, dialled %q for nobody", resolved, dialled)
	}
}

// TestRefusal proves that what a judge says reaches the command: as the answer to
// http, and in the status line for those who show nothing else.
func TestRefusal(t *testing.T) {
	p, at, w := start(t, "127.0.0.1:1", egress.Config{})
	client := p.Open(egress.Judge{Host: func(_ context.Context, host string, port int) error {
		if host == "example.com" && port == 443 {
			return nil
		}
		return fmt.Errorf("Rule hosts allows example.com:443,\nnot %s:%d — ask for it.", host, port)
	}})
	response, body := get(t, through(t, client.URL(at)), "http://evil.example/")
	if response.StatusCode != http.StatusForbidden || body != "Rule hosts allows example.com:443,\nnot evil.example:80 — ask for it.\n" ||
		response.Header.Get("Proxy-Status") != `toolserver; error=http_request_denied; details="Rule hosts allows example.com:443, not evil.example:80 ? ask for it."` {
		t.Errorf("%v %q", response, body)
	}
	if _, err := through(t, client.URL(at)).Get("https://evil.example/"); err == nil || !strings.HasSuffix(err.Error(), "Rule hosts allows example.com:443, not evil.example:443 ? ask for it.") {
		t.Errorf("%v", err)
	}
	if resolved, dialled := w.seen(); resolved != nil || dialled != nil {
		t.Errorf("resolved %q, dialled %q although it was refused", resolved, dialled)
	}
	get(t, through(t, client.URL(at)), "http://evil.example/again")
	if got := client.Refused(); len(got) != 2 || !strings.Contains(got[0], "not evil.example:80") || !strings.Contains(got[1], "not evil.example:443") {
		t.Errorf("refused %q, want each once", got)
	}
	for i := range 20 {
		get(t, through(t, client.URL(at)), fmt.Sprintf("http://%d.example/", i))
	}
	if got := client.Refused(); len(got) != 16 {
		t.Errorf("%d refusals are kept", len(got))
	}
	if _, err := through(t, p.Open(egress.Judge{}).URL(at)).Get("https://example.com/"); err == nil || !strings.Contains(err.Error(), "may reach no hosts") {
		t.Errorf("the zero judge: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	closed := origin(t, hello)
	closed.Close()
	p, at, _ := start(t, host(closed), egress.Config{})
	client := through(t, p.Open(everything).URL(at))
	for url, want := range map[string]string{
		"http://example.com/": "No connection to example.com:80 at " + public + ": connect: connection refused.\n",
		"http://nowhere.org/": "There is no host nowhere.org: its name has no address.\n",
	} {
		if response, body := get(t, client, url); response.StatusCode != http.StatusBadGateway || body != want {
			t.Errorf("%s: %v %q", url, response, body)
		}
	}
	silent := origin(t, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	p, at, _ = start(t, host(silent), egress.Config{})
	if response, body := get(t, through(t, p.Open(everything).URL(at)), "http://example.com/"); response.StatusCode != http.StatusBadGateway || body != "example.com:80 did not answer the request.\n" {
		t.Errorf("%v %q", response, body)
	}
}

// TestUpstream has the operator's proxy reach hosts: another proxy of ours.
func TestUpstream(t *testing.T) {
	plain := origin(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	defer secure.Close()
	var mu sync.Mutex
	var lines []string
	upstream := origin(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		lines = append(lines, r.Method+" "+r.RequestURI)
		mu.Unlock()
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the operator's proxy gets the secret of a call")
		}
		if r.Method != http.MethodConnect {
			fmt.Fprintf(w, "fetched %s", r.URL)
			return
		}
		if strings.HasPrefix(r.RequestURI, "blocked.") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		to, err := net.Dial("tcp", host(secure))
		if err != nil {
			return
		}
		defer to.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			io.Copy(to, conn)
			to.Close()
		}()
		io.Copy(conn, to)
	})
	p, at, w := start(t, host(plain), egress.Config{Upstream: host(upstream)})
	client := through(t, p.Open(everything).URL(at))
	if _, body := get(t, client, "http://example.com/x"); body != "fetched http://example.com/x" {
		t.Errorf("http: %q", body)
	}
	if _, body := get(t, client, "https://example.com/"); body != "hello from example.com" {
		t.Errorf("https: %q", body)
	}
	client.CloseIdleConnections()
	if _, err := client.Get("https://blocked.example/"); err == nil || !strings.Contains(err.Error(), "The operator's proxy does not connect to blocked.example:443: 403 Forbidden.") {
		t.Errorf("what it refuses: %v", err)
	}
	if response, body := get(t, client, "http://169.254.169.254/latest"); response.StatusCode != http.StatusForbidden || !strings.Contains(body, "metadata") {
		t.Errorf("an address: %v %q", response, body)
	}
	if response, body := get(t, client, "http://x.localhost/"); response.StatusCode != http.StatusForbidden {
		t.Errorf("its loopback: %v %q", response, body)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"GET http://example.com/x", "CONNECT example.com:443", "CONNECT blocked.example:443"}; !slices.Equal(lines, want) {
		t.Errorf("the operator's proxy was asked %q, want %q", lines, want)
	}
	if resolved, dialled := w.seen(); resolved != nil || dialled != nil {
		t.Errorf("resolved %q, dialled %q beside the operator's proxy", resolved, dialled)
	}
}

// TestPrograms has programs find the proxy by their environment.
func TestPrograms(t *testing.T) {
	s := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x/info/refs" { // as git has it
			fmt.Fprintf(w, "%040d\trefs/heads/hello\n", 1)
			return
		}
		hello(w, r)
	})
	p, at, w := start(t, host(s), egress.Config{})
	client := p.Open(everything)
	for name, line := range map[string]string{
		"curl":               "curl -sS http://example.com/",
		"curl, by CONNECT":   "curl -sS --proxytunnel http://example.com/",
		"curl, asking first": "curl -sS --proxy-anyauth http://example.com/",
		"wget":               "wget -qO- http://example.com/",
		"python3":            `python3 -c 'import urllib.request as r; print(r.urlopen("http://example.com/").read().decode())'`,
		"git":                "git ls-remote http://example.com/x",
	} {
		program, _, _ := strings.Cut(line, " ")
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is not installed", program)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
		cmd.Env = append(client.Environ(at), "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "GIT_TERMINAL_PROMPT=0")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "hello") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if _, dialled := w.seen(); len(dialled) == 0 {
			t.Errorf("%s did not use the proxy", name)
		}
	}
}
