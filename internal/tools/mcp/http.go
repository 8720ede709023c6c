// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/source"
)

// reached is a server at an address.
type reached struct {
	transport sdk.Transport
	client    *http.Client

	mu    sync.Mutex
	last  error // that a request met
	begun bool  // the server has answered initialize
}

// reach prepares the connection to an address; the first request is made by who uses it.
func (s *Source) reach(ctx context.Context) (*reached, error) {
	origin, err := url.Parse(s.server.URL)
	if err != nil {
		return nil, err
	}
	r := new(reached)
	base := s.dialing().Transport()
	base.DisableCompression = true
	r.client = &http.Client{
		Transport:     &guarded{base: base, origin: origin, server: &s.server, note: r.note, strange: r.strange},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if s.server.Transport == transportSSE {
		r.transport = detachedTransport{ctx, &sdk.SSEClientTransport{Endpoint: s.server.URL, HTTPClient: r.client, MaxEventSize: maxLine}}
		return r, nil
	}
	transport := &sdk.StreamableClientTransport{Endpoint: s.server.URL, HTTPClient: r.client, MaxEventSize: maxLine}
	if s.oauth != nil {
		others := &http.Client{
			Transport: secure{&bounded{base, false}}, Timeout: 30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		if transport.OAuthHandler, err = s.oauth.handler(ctx, others); err != nil {
			return nil, err
		}
	}
	r.transport = transport
	return r, nil
}

// detachedTransport connects for as long as its own context lasts.
type detachedTransport struct {
	ctx   context.Context
	inner sdk.Transport
}

func (l detachedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	type made struct {
		c   sdk.Connection
		err error
	}
	done := make(chan made, 1)
	go func() {
		c, err := l.inner.Connect(l.ctx)
		done <- made{c, err}
	}()
	select {
	case m := <-done:
		return m.c, m.err
	case <-ctx.Done(): // what comes of it ends with l.ctx
		return nil, context.Cause(ctx)
	}
}

// note remembers what a request met.
func (r *reached) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
}

// strange is note before the server has answered initialize.
func (r *reached) strange(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		r.last = err
	}
}

// begin forgets what requests met before the server answered initialize.
func (r *reached) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.begun = nil, true
}

// why returns why the connection was lost: what the last request met that failed or, where
// none did, what the client says.
func (r *reached) why(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.last, err)
}

func (r *reached) close() { r.client.CloseIdleConnections() }

// dialing returns what connects to hosts: to the address in the URL and the hosts that the
// operator has named, and to others, which metadata of OAuth may name, at public addresses.
func (s *Source) dialing() *egress.Dialer {
	dialer := &egress.Dialer{Others: true, Upstream: s.server.Proxy}
	if origin, err := url.Parse(s.server.URL); err == nil {
		_, err := netip.ParseAddr(origin.Hostname())
		if at, bad := egress.Named(origin); bad == nil && (err == nil || origin.Hostname() == "localhost") {
			dialer.Named = append(dialer.Named, at)
		}
	}
	for _, host := range s.server.Hosts {
		if at, err := hostPort(host); err == nil { // which was checked
			dialer.Named = append(dialer.Named, at)
		}
	}
	return dialer
}

// secure makes requests whose addresses a server chose: by https, or to this machine.
type secure struct{ base http.RoundTripper }

func (s secure) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !egress.IsHere(request.URL.Hostname()) {
		return nil, fmt.Errorf("%s://%s is not asked for tokens: want https", request.URL.Scheme, request.URL.Host)
	}
	return s.base.RoundTrip(request)
}

// guarded makes requests to one server, and to no other.
type guarded struct {
	base   http.RoundTripper
	origin *url.URL
	server *Server

	// note remembers what a request met, and strange what it met while nothing else is
	// known of the server: later, such an answer is about one request.
	note, strange func(error)
}

func (g *guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != g.origin.Scheme || request.URL.Host != g.origin.Host {
		return nil, g.failed(fmt.Errorf("it leads to %s://%s, which is not followed", request.URL.Scheme, request.URL.Host))
	}
	request = request.Clone(request.Context())
	for name, value := range g.server.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "toolserver")
	if g.server.TokenFile != "" {
		token, err := source.Secret(g.server.TokenFile) // each time: it may have been replaced
		if err != nil {
			return nil, g.failed(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&bounded{g.base, true}).RoundTrip(request)
	switch {
	case err != nil && request.Context().Err() != nil:
		return nil, err
	case err != nil:
		return nil, g.failed(err)
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode >= 500:
		g.note(strangeAnswer(response))
	case !isMessage(response):
		g.strange(strangeAnswer(response))
	}
	return response, nil
}

// isMessage reports whether an answer is one of the protocol.
func isMessage(r *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.StatusCode < 300 && (r.StatusCode != http.StatusOK || kind == "application/json" || kind == "text/event-stream")
}

// strangeAnswer tells of an answer that is none of the protocol, and what to look at.
func strangeAnswer(r *http.Response) error {
	advice := ""
	switch r.StatusCode {
	case http.StatusOK:
		kind := output.Short(cmp.Or(r.Header.Get("Content-Type"), "something of no type"), 100)
		return fmt.Errorf("it answered with %s instead of messages of MCP: is the path of the address right? Many servers have /mcp", kind)
	case http.StatusUnauthorized:
		advice = ": it wants credentials: set token_file, headers or oauth"
	case http.StatusForbidden:
		advice = ": it does not take these credentials, or this caller"
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented:
		advice = ": is the path of the address right? Many servers have /mcp"
	}
	return fmt.Errorf("it answered with status %s%s", output.Short(r.Status, 100), advice)
}

func (g *guarded) failed(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = fmt.Errorf("no connection to %s: %w", g.origin.Host, op.Err)
	}
	g.note(err)
	return err
}

// bounded reads no answer that is longer than a message may be, and follows no redirect.
// With streams, an answer may be a stream of events, each of which is bounded.
type bounded struct {
	base    http.RoundTripper
	streams bool
}

func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		response.Body.Close()
		to := "elsewhere"
		if u, err := response.Location(); err == nil {
			to = output.Short(u.Scheme+"://"+u.Host, 200)
		}
		return nil, fmt.Errorf("it answered with status %d, which leads to %s: that is not followed", response.StatusCode, to)
	}
	stream := b.streams && response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
	if !stream {
		response.Body = &boundedBody{response.Body, maxLine}
	}
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it answered with more than %d bytes", maxLine)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
