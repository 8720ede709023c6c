// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package egress is how hosts are reached: by commands through an HTTP proxy, by the
// server itself with a [Dialer], for tools of the web by a [Web]. Each host is judged before its name is resolved, then
// what the name stands for, and exactly the address that was judged is dialled.
//
// Locks: those of a [Proxy], of its clients and of a [Web] are taken alone, and not held while
// somebody is waited for.
//
// Goroutines: net/http has those of a proxy. A tunnel has one for what the client sends, which ends with
// the tunnel.
package egress

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Config says how a proxy reaches hosts. The zero value reaches them directly.
type Config struct {
	// Upstream is a proxy, as host:port, that is asked to reach hosts. It resolves
	// names then: what a name stands for is not judged here.
	Upstream string

	// MaxConnections is how many connections one client may have at once; 0 means
	// 256.
	MaxConnections int

	// MaxAccepted is how many connections the proxy accepts at once, those of
	// nobody it knows included; 0 means 1024.
	MaxAccepted int

	// MaxHeader is the largest header of a request, in bytes; 0 means 32 KiB.
	MaxHeader int

	// ConnectTime is how long resolving and dialling may take together; 0 means 20
	// seconds.
	ConnectTime time.Duration

	// IdleTime is how long a connection may be silent; 0 means 5 minutes.
	IdleTime time.Duration

	// Resolve returns the addresses of a name, and Dial connects to one. nil: as
	// the machine does.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// A Judge tells what a client may reach. Its functions end when ctx does; the
// text of their errors is shown to whoever runs the command, so it says which
// rule it was and what would be allowed.
type Judge struct {
	// Host judges what the client asks for: a name in small letters, or an address
	// as [netip.Addr] writes it. nil refuses everything.
	Host func(ctx context.Context, host string, port int) error

	// Address judges each address that an allowed host stands for. It reports
	// whether a rule lists this very address, alone or in a prefix: only then may
	// it be a private one. nil lists none and refuses none.
	Address func(ctx context.Context, addr netip.Addr, port int) (listed bool, err error)

	// Opened reports whether the operator opens this very address, wherever it leads:
	// to the server's own machine, too. nil opens none.
	Opened func(addr netip.Addr, port int) bool

	// Local connects to a port on the client's own loopback, where Host allows a
	// loopback address. nil: nobody reaches loopback through the proxy.
	Local func(ctx context.Context, port uint16) (net.Conn, error)

	// Asks judges who asks for a port on the client's own loopback, by the headers of the
	// request; for a WebSocket those come first in its tunnel. They are nil where that is
	// sealed by TLS. nil judges nobody.
	Asks func(host string, port int, header http.Header) error
}

// A Proxy serves clients that it knows by their secrets. It is safe for
// concurrent use.
type Proxy struct {
	config Config
	server *http.Server

	mu       sync.Mutex
	closed   bool
	clients  map[[sha256.Size]byte]*Client // by the hash of the secret
	accepted map[*acceptedConn]struct{}    // connections that have not ended
}

// New returns a proxy without clients. Close it after use.
func New(config Config) *Proxy {
	config.MaxConnections = cmp.Or(config.MaxConnections, 256)
	config.MaxAccepted = cmp.Or(config.MaxAccepted, 1024)
	config.ConnectTime = cmp.Or(config.ConnectTime, 20*time.Second)
	config.IdleTime = cmp.Or(config.IdleTime, 5*time.Minute)
	if config.Resolve == nil {
		config.Resolve = lookUp
	}
	if config.Dial == nil {
		config.Dial = dial
	}
	p := &Proxy{config: config, clients: make(map[[sha256.Size]byte]*Client), accepted: make(map[*acceptedConn]struct{})}
	p.server = &http.Server{
		Handler:                      http.HandlerFunc(p.handle),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            10 * time.Second,
		MaxHeaderBytes:               cmp.Or(config.MaxHeader, 32<<10),
		ErrorLog:                     log.New(io.Discard, "", 0), // commands must not be able to fill the log
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, acceptedKey{}, conn)
		},
	}
	// A connection has one request, so that it ends with it, and every request is
	// judged.
	p.server.SetKeepAlivesEnabled(false)
	return p
}

// Serve accepts connections from listener, which it closes, until Close. It can
// be called for several listeners.
func (p *Proxy) Serve(listener net.Listener) error {
	err := p.server.Serve(&boundedListener{listener, p})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends all clients and all connections, and waits for them.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	clients, accepted := slices.Collect(maps.Values(p.clients)), slices.Collect(maps.Keys(p.accepted))
	p.mu.Unlock()
	p.server.Close()
	for _, conn := range accepted {
		conn.Close()
	}
	for _, c := range clients {
		c.Close()
	}
}

// A Client is somebody who may use the proxy: the commands of one call.
type Client struct {
	proxy  *Proxy
	judge  Judge
	secret string

	mu       sync.Mutex
	closed   bool
	requests map[*request]struct{}
	running  sync.WaitGroup // the requests
	refused  []string
}

// A request is one that has not ended, and how to end it.
type request struct{ end func() }

// Open makes a client that may reach what judge allows, until it is closed.
func (p *Proxy) Open(judge Judge) *Client {
	c := &Client{proxy: p, judge: judge, secret: rand.Text(), requests: make(map[*request]struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.closed = p.closed
	p.clients[sha256.Sum256([]byte(c.secret))] = c
	return c
}

// Close ends everything of the client, and waits for it.
func (c *Client) Close() {
	c.proxy.mu.Lock()
	delete(c.proxy.clients, sha256.Sum256([]byte(c.secret)))
	c.proxy.mu.Unlock()
	c.mu.Lock()
	c.closed = true
	for r := range c.requests {
		r.end()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// begin counts a request, which end ends, until done is called.
func (c *Client) begin(end func()) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errUnknown
	}
	if most := c.proxy.config.MaxConnections; len(c.requests) >= most {
		return nil, refusef(http.StatusServiceUnavailable, "connection_limit_reached",
			"This call has %d connections through the proxy, the most it may have at once: try again when some have ended, or use fewer at a time.", most)
	}
	r := &request{end}
	c.requests[r] = struct{}{}
	c.running.Add(1)
	return func() {
		c.mu.Lock()
		delete(c.requests, r)
		c.mu.Unlock()
		c.running.Done()
	}, nil
}

// Refused returns what the client was refused and why, each text once and the
// first 16 at most: curl and git show their users nothing but the status.
func (c *Client) Refused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// note keeps a refusal for Refused.
func (c *Client) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why, ok := errors.AsType[*refusal](err); ok && why.status < 500 && len(c.refused) < 16 && !slices.Contains(c.refused, why.text) {
		c.refused = append(c.refused, why.text)
	}
}

// URL returns the proxy as the client names it. Address is where a listener of
// the proxy is, as host:port.
func (c *Client) URL(address string) string {
	u := url.URL{Scheme: "http", User: url.UserPassword("call", c.secret), Host: address}
	return u.String()
}

// Environ returns the variables by which programs find the proxy. Loopback, which
// is the session's own, is reached without it.
func (c *Client) Environ(address string) []string {
	// NODE_USE_ENV_PROXY has Node's own client look at the others.
	env := []string{"NODE_USE_ENV_PROXY=1"}
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env = append(env, name+"="+c.URL(address))
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		env = append(env, name+"=localhost,127.0.0.1,::1")
	}
	return env
}
