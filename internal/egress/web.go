// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/temoto/robotstxt"
	"golang.org/x/net/idna"
)

// WebConfig says how tools of the web reach hosts. The zero value reaches them directly,
// with the limits below.
type WebConfig struct {
	// Addresses are those that are reached beside public ones: an address, a prefix, or
	// an address with a port.
	Addresses []Opened

	// Upstream is as in [Config]. LookUp, as [LookUpAt] returns it, and Dial replace what
	// the machine does.
	Upstream string
	LookUp   func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial     func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	// Roots are the authorities that certificates are checked by; nil: those of the
	// machine.
	Roots *x509.CertPool

	UserAgent string

	// Timeout is how long a request may take with its redirects and its body; 30 s.
	Timeout time.Duration

	// MaxBody is how much of a body is read, packed and unpacked; 10 MiB.
	MaxBody int64

	// MaxRedirects is how many redirects are followed; 10.
	MaxRedirects int

	// PerHost is how many requests one host gets at once; 4.
	PerHost int

	// Robots has robots.txt of a host asked whether a page may be fetched.
	Robots bool
}

// An Opened is an address, or a prefix of them, that an operator opens.
type Opened struct {
	Prefix netip.Prefix
	Port   uint16 // 0 is any
}

// ParseOpened reads 10.1.0.0/16, 10.1.2.3, 127.0.0.1:8080 or [::1]:8080.
func ParseOpened(text string) (Opened, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return Opened{Prefix: prefix.Masked()}, nil
	}
	if at, err := netip.ParseAddrPort(text); err == nil && at.Addr().Zone() == "" && at.Port() != 0 {
		return Opened{netip.PrefixFrom(at.Addr().Unmap(), at.Addr().Unmap().BitLen()), at.Port()}, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return Opened{}, fmt.Errorf("%q is no address: want 10.1.2.3, 10.1.0.0/16 or 127.0.0.1:8080", text)
	}
	return Opened{Prefix: netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())}, nil
}

// Web is how tools reach the web. It is safe for concurrent use.
type Web struct {
	config WebConfig

	mu     sync.Mutex
	slots  map[string]*slot
	robots map[string]robotsRules
}

// slot is what a host takes of requests at once.
type slot struct {
	free  chan struct{}
	users int // who hold it or wait; guarded by the mutex of Web
}

// NewWeb returns a way to the web.
func NewWeb(config WebConfig) *Web {
	config.UserAgent = cmp.Or(config.UserAgent, "toolserver")
	config.Timeout = cmp.Or(config.Timeout, 30*time.Second)
	config.MaxBody = cmp.Or(config.MaxBody, 10<<20)
	config.MaxRedirects = cmp.Or(config.MaxRedirects, 10)
	config.PerHost = cmp.Or(config.PerHost, 4)
	return &Web{config: config, slots: make(map[string]*slot), robots: make(map[string]robotsRules)}
}

// A Visit is the requests of one call, which share connections. Close it after use.
type Visit struct {
	web       *Web
	judge     *Judge
	transport *http.Transport
}

// Visit begins the requests of a call that may reach what judge allows, and what is named,
// as in [Dialer].
func (w *Web) Visit(judge Judge, named ...string) *Visit {
	judge.Opened = func(addr netip.Addr, port int) bool {
		for _, o := range w.config.Addresses {
			if o.Prefix.Contains(addr) && (o.Port == 0 || int(o.Port) == port) {
				return true
			}
		}
		return false
	}
	v := &Visit{web: w, judge: &judge}
	dialer := &Dialer{Named: named, Judge: v.judge, Upstream: w.config.Upstream, Resolve: w.config.LookUp, Dial: w.config.Dial}
	v.transport = dialer.Transport()
	v.transport.DisableCompression = true // it is counted before and after
	v.transport.TLSClientConfig = &tls.Config{RootCAs: w.config.Roots, MinVersion: tls.VersionTLS12}
	return v
}

// Foresee returns why nobody reaches a page, where its address alone tells that: it spells out
// the server's own machine, which the operator did not open.
func (w *Web) Foresee(u *url.URL) error {
	whateverRulesList := func(context.Context, netip.Addr, int) (bool, error) { return true, nil }
	visit := w.Visit(Judge{Address: whateverRulesList})
	defer visit.Close()
	return visit.reachable(context.Background(), u) // which waits for nothing
}

// Close ends the connections.
func (v *Visit) Close() { v.transport.CloseIdleConnections() }

// ParseURL reads the address of a page as strictly as a host is read, and returns it in one
// spelling, without a fragment, and what it reaches.
func ParseURL(text string) (u *url.URL, host string, port int, err error) {
	if u, err = url.Parse(strings.TrimSpace(text)); err != nil || u.Opaque != "" || u.Host == "" {
		return nil, "", 0, badTarget(text, "want an address such as https://example.com/page")
	}
	if name := u.Hostname(); strings.ContainsFunc(name, func(r rune) bool { return r > '~' }) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err == nil {
			_, addr, failed := parseHost(ascii)
			if err = failed; addr.IsValid() {
				err = badTarget(text, "it spells an address in other letters")
			}
		}
		if err != nil {
			return nil, "", 0, badTarget(text, "its host is no name that can be looked up")
		}
		u.Host = strings.Replace(u.Host, name, ascii, 1)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	named, err := Named(u)
	if err != nil {
		return nil, "", 0, err
	}
	to, err := parseTarget(named, 0)
	if err != nil {
		return nil, "", 0, err
	}
	u.Host = to.String()
	if standard := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; strings.HasSuffix(u.Host, standard) {
		u.Host = strings.TrimSuffix(u.Host, standard)
	}
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = escapeQuery(u.RawQuery)
	u.Path = cmp.Or(u.Path, "/")
	return u, to.host, int(to.port), nil
}

// escapeQuery returns a query as programs send it. What a host writes there is shown as an
// address, and has no blanks and brackets in it that make other words of it.
func escapeQuery(query string) string {
	var b strings.Builder
	for _, c := range []byte(query) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"<>`", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// A Request is what is asked of a host.
type Request struct {
	Method string // GET where it is empty
	URL    *url.URL
	Header http.Header // of the first host alone: no other gets it
	Body   []byte

	// Follow has redirects followed, where the judge allows what they lead to. Robots has
	// robots.txt asked, where it is asked at all.
	Follow, Robots bool
}

// An Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Cut    bool // the body is longer

	URL   *url.URL // that answered
	Hops  []string // the addresses before it
	Next  *url.URL // where a redirect leads that was not followed; nil where there is none
	Stays string   // why it was not followed
}

// RetryAfter returns how long the host asks to wait.
func (a *Answer) RetryAfter() (time.Duration, bool) {
	text := a.Header.Get("Retry-After")
	var seconds uint32
	if _, err := fmt.Sscanf(text, "%d", &seconds); err == nil {
		return time.Duration(min(seconds, 1<<20)) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0).Round(time.Second), true
	}
	return 0, false
}

// Do sends a request and follows where it leads. An error is for a model: [Prohibited]
// tells one that trying again does not help.
func (v *Visit) Do(ctx context.Context, r Request) (*Answer, error) {
	limited, cancel := context.WithTimeout(ctx, v.web.config.Timeout)
	defer cancel()
	answer, err := v.follow(limited, r)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = refusef(http.StatusGatewayTimeout, "http_response_timeout", "%s did not answer within %s.", r.URL.Host, v.web.config.Timeout)
	}
	return answer, err
}

func (v *Visit) follow(ctx context.Context, r Request) (*Answer, error) {
	var hops []string
	for {
		if r.Robots && v.web.config.Robots {
			if err := v.permitted(ctx, r.URL); err != nil {
				return nil, err
			}
		}
		answer, err := v.once(ctx, &r)
		if err != nil {
			return nil, err
		}
		answer.Hops = hops
		if answer.Next == nil {
			return answer, nil
		}
		if answer.Stays = v.stays(ctx, &r, answer.Next); answer.Stays != "" {
			return answer, nil
		}
		if hops = append(hops, r.URL.String()); len(hops) > v.web.config.MaxRedirects {
			return nil, refusef(http.StatusForbidden, "http_request_denied", "%s redirects more than %d times: it is not followed further.", r.URL.Host, v.web.config.MaxRedirects)
		}
		if answer.Next.Host != r.URL.Host || answer.Next.Scheme != r.URL.Scheme {
			r.Header = nil // credentials are for who they were given for
		}
		r.URL = answer.Next
	}
}

// stays returns why a redirect is not followed; "" where it is.
func (v *Visit) stays(ctx context.Context, r *Request, next *url.URL) string {
	to, err := parseTarget(next.Host, map[string]uint16{"http": 80, "https": 443}[next.Scheme])
	switch {
	case err != nil:
		return err.Error()
	case !r.Follow:
		return "redirects are not followed here"
	case r.URL.Scheme == "https" && next.Scheme == "http":
		return "it leads from https back to http"
	case next.Host == r.URL.Host && next.Scheme == r.URL.Scheme:
		return ""
	case v.judge.Host == nil:
		return "it leads to another host"
	}
	if err := v.judge.Host(ctx, to.host, int(to.port)); err != nil {
		return "it leads to another host, which has to be allowed by itself"
	}
	return ""
}

// once sends one request. The answer has Next where it redirects to an address that can be
// read.
func (v *Visit) once(ctx context.Context, r *Request) (*Answer, error) {
	release, err := v.web.enter(ctx, r.URL.Host)
	if err != nil {
		return nil, err
	}
	defer release()
	request, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodGet), r.URL.String(), nil)
	if err != nil {
		return nil, badTarget(r.URL.Redacted(), "it is no address")
	}
	if r.Header != nil {
		request.Header = r.Header.Clone()
	}
	if r.Body != nil {
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(string(r.Body))), int64(len(r.Body))
	}
	request.Header.Set("User-Agent", cmp.Or(request.Header.Get("User-Agent"), v.web.config.UserAgent))
	request.Header.Set("Accept", cmp.Or(request.Header.Get("Accept"), "text/html,application/xhtml+xml,text/markdown;q=0.9,*/*;q=0.8"))
	request.Header.Set("Accept-Encoding", "gzip, br, zstd")
	response, err := v.transport.RoundTrip(request)
	if err != nil {
		return nil, broken(err, r.URL.Host)
	}
	defer response.Body.Close()
	answer := &Answer{Status: response.StatusCode, Header: response.Header, URL: r.URL}
	if response.StatusCode/100 == 3 && response.StatusCode != http.StatusNotModified {
		if location := response.Header.Get("Location"); location != "" {
			next, err := r.URL.Parse(location)
			if err == nil {
				answer.Next, _, _, err = ParseURL(next.String())
			}
			if err != nil {
				return nil, refusef(http.StatusForbidden, "http_request_denied", "%s redirects to %.300q, which is not followed: it is no address with http or https that can be reached.", r.URL.Host, location)
			}
			if err := v.reachable(ctx, answer.Next); err != nil {
				return nil, err
			}
		}
	}
	answer.Body, answer.Cut, err = v.web.read(response)
	if err != nil {
		return nil, broken(err, r.URL.Host)
	}
	return answer, nil
}

// reachable refuses an address that spells out what nobody reaches, so that nobody is told
// to go there.
func (v *Visit) reachable(ctx context.Context, u *url.URL) error {
	to, err := parseTarget(u.Host, map[string]uint16{"http": 80, "https": 443}[u.Scheme])
	if err != nil {
		return err
	}
	addr := to.literal()
	if !addr.IsValid() {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	if addr.IsLoopback() && !to.addr.IsValid() { // localhost is either
		if v.judge.check(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 1}), to, own, forTools) == nil {
			return nil
		}
	}
	return v.judge.check(ctx, addr.Unmap(), to, own, forTools)
}

// unpacked returns what a body is unpacked.
func unpacked(body io.Reader, encoding string) (io.ReadCloser, error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return io.NopCloser(body), nil
	case "gzip", "x-gzip":
		reader, err := gzip.NewReader(body)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the body is not packed as its header says: %w", err)
		}
		return reader, err
	case "br":
		return io.NopCloser(brotli.NewReader(body)), nil
	case "zstd":
		reader, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20)) // as RFC 9659 has it
		if err != nil {
			return nil, err
		}
		return reader.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("the body is packed as %.40q, and gzip, br and zstd can be unpacked here", encoding)
}

// read reads a body, packed and unpacked no more than is allowed.
func (w *Web) read(response *http.Response) (body []byte, cut bool, err error) {
	packed := &bounded{from: response.Body, left: w.config.MaxBody}
	from, err := unpacked(packed, response.Header.Get("Content-Encoding"))
	if errors.Is(err, io.EOF) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer from.Close()
	most := w.config.MaxBody
	size := min(max(response.ContentLength, 0), most) + 512
	text := make([]byte, 0, size)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case int64(len(text)) > most:
			return text[:most], true, nil
		case packed.ended:
			return text, true, nil
		case err == io.EOF:
			return text, false, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// bounded reads so many bytes at most.
type bounded struct {
	from  io.Reader
	left  int64
	ended bool // there may be more
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		b.ended = true
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	return n, err
}

// broken is why a request came to no answer.
func broken(err error, host string) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err // without addresses of this machine
	}
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return refusef(http.StatusForbidden, "tls_certificate_error", "The certificate of %s is not accepted: %v.", host, failed.Err)
	}
	return refusef(http.StatusBadGateway, "http_response_incomplete", "%s did not answer as it should: %.300v.", host, err)
}

// Prohibited reports whether an error of this package is a refusal, and not a failure of the
// network: trying again does not help.
func Prohibited(err error) bool {
	why, ok := errors.AsType[*refusal](err)
	return ok && why.status < http.StatusInternalServerError
}

// enter waits until a host takes one more request.
func (w *Web) enter(ctx context.Context, host string) (release func(), err error) {
	w.mu.Lock()
	s := w.slots[host]
	if s == nil {
		s = &slot{free: make(chan struct{}, w.config.PerHost)}
		w.slots[host] = s
	}
	s.users++
	w.mu.Unlock()
	leave := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(w.slots, host)
		}
	}
	select {
	case s.free <- struct{}{}:
		return func() { <-s.free; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// robotsRules is what a host says about robots.
type robotsRules struct {
	group *robotstxt.Group
	until time.Time
}

const (
	maxRobots  = 200       // hosts whose rules are kept
	robotsSize = 512 << 10 // bytes of them that are read, somewhat more than RFC 9309 asks for
	robotsTime = time.Hour
)

// permitted asks robots.txt of a host. One that cannot be read permits everything, but for
// one that the host fails to send.
func (v *Visit) permitted(ctx context.Context, u *url.URL) error {
	w, at := v.web, u.Scheme+"://"+u.Host
	w.mu.Lock()
	rules, known := w.robots[at]
	w.mu.Unlock()
	if !known || time.Now().After(rules.until) {
		answer, err := v.once(ctx, &Request{URL: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}})
		if err != nil {
			return err
		}
		rules = robotsRules{until: time.Now().Add(robotsTime)}
		if data, err := robotstxt.FromStatusAndBytes(answer.Status, answer.Body[:min(len(answer.Body), robotsSize)]); err == nil {
			rules.group = data.FindGroup(w.config.UserAgent)
		}
		w.mu.Lock()
		if len(w.robots) >= maxRobots {
			clear(w.robots)
		}
		w.robots[at] = rules
		w.mu.Unlock()
	}
	if rules.group != nil && !rules.group.Test(u.EscapedPath()) {
		return refusef(http.StatusForbidden, "http_request_denied", "robots.txt of %s asks programs not to fetch %s, and this server keeps to it. Use another source.", u.Host, u.Path)
	}
	return nil
}
