// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A refusal is why a request gets no further.
type refusal struct {
	status int
	kind   string // as RFC 9209 names it
	text   string
}

func (r *refusal) Error() string { return r.text }

func refusef(status int, kind, format string, args ...any) error {
	return &refusal{status, kind, fmt.Sprintf(format, args...)}
}

// denied is a judge's answer.
func denied(err error) error {
	return &refusal{http.StatusForbidden, "http_request_denied", err.Error()}
}

var errUnknown = refusef(http.StatusProxyAuthRequired, "http_request_denied",
	"The proxy does not know this call, or it has ended. Use the address in $https_proxy as it is: it has a password in it that is good for one call.")

// acceptedKey is where the context of a request has its connection.
type acceptedKey struct{}

// handle serves one request, which is all that its connection has.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	client := p.client(r)
	if client == nil {
		refuse(w, r, errUnknown)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	accepted := ctx.Value(acceptedKey{}).(net.Conn)
	done, err := client.begin(func() {
		cancel()
		accepted.Close()
	})
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer done()
	if err := client.serve(w, r.WithContext(ctx)); err != nil {
		client.note(err)
		refuse(w, r, err)
	}
}

// client returns whose request it is; nil if nobody's.
func (p *Proxy) client(r *http.Request) *Client {
	encoded, ok := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	if !ok {
		return nil
	}
	pair, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	_, secret, _ := strings.Cut(string(pair), ":")
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clients[sha256.Sum256([]byte(secret))]
}

// serve answers a request, unless it returns why not.
func (c *Client) serve(w http.ResponseWriter, r *http.Request) error {
	to, err := targetOf(r)
	if err != nil {
		return err
	}
	if c.isOwn(to) && c.judge.Asks != nil {
		if r.Method == http.MethodConnect {
			return c.tunnelHome(w, r, to)
		}
		if err := c.judge.Asks(to.host, int(to.port), r.Header); err != nil {
			return denied(err)
		}
	}
	conn, err := c.dial(r.Context(), to)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { conn.Close() })()
	if r.Method == http.MethodConnect {
		return c.tunnel(w, conn, to)
	}
	c.forward(w, r, conn, to)
	return nil
}

// forward passes a request on over conn, and its answer back.
func (c *Client) forward(w http.ResponseWriter, r *http.Request, conn net.Conn, to target) {
	transport := &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	if upstream := c.upstream(to); upstream != "" {
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: upstream})
	}
	(&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Host = to.String() // what was judged, and nothing that reads like it
			p.Out.Host = strings.TrimSuffix(p.Out.URL.Host, ":80")
			p.Out.URL.RawQuery = p.In.URL.RawQuery
		},
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del("Proxy-Status") // those are words of this proxy
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			refuse(w, r, refusef(http.StatusBadGateway, "http_response_incomplete", "%s did not answer the request.", to))
		},
	}).ServeHTTP(w, r)
}

// tunnel passes bytes between the client and conn until both ends have closed.
func (c *Client) tunnel(w http.ResponseWriter, conn net.Conn, to target) error {
	from := io.Reader(conn)
	if c.upstream(to) != "" {
		reader := bufio.NewReader(conn)
		if err := ask(c.proxy.config.ConnectTime, reader, conn, to); err != nil {
			return err
		}
		from = reader
	}
	accepted, sends, err := established(w)
	if err != nil {
		return err
	}
	defer accepted.Close()
	join(accepted, sends, conn, from)
	return nil
}

// established tells the client that its tunnel is open, and returns its end of it and what it
// sends.
func established(w http.ResponseWriter) (accepted net.Conn, sends io.Reader, err error) {
	accepted, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	io.WriteString(accepted, "HTTP/1.1 200 Connection established\r\n\r\n") // a failure shows when it is read from
	// What was read already, then from the connection itself: to the buffer, the
	// end of what the client sends is the end of its request.
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	return accepted, io.MultiReader(bytes.NewReader(early), accepted), nil
}

// join passes what the client sends to conn, and what comes from there back.
func join(accepted net.Conn, sends io.Reader, conn net.Conn, from io.Reader) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		pass(conn, sends, accepted)
	}()
	pass(accepted, from, conn)
	<-sent
}

// tunnelHome is a tunnel to the client's own loopback. It looks at what the client sends
// first, to judge who asks, before it connects to anything.
func (c *Client) tunnelHome(w http.ResponseWriter, r *http.Request, to target) error {
	accepted, sends, err := established(w)
	if err != nil {
		return err
	}
	defer accepted.Close()
	accepted.SetReadDeadline(time.Now().Add(c.proxy.config.ConnectTime))
	reader := bufio.NewReaderSize(sends, maxHandshake)
	header, err := handshake(reader)
	accepted.SetReadDeadline(time.Time{})
	if err == nil {
		err = c.judge.Asks(to.host, int(to.port), header)
	}
	if err != nil { // the client takes the tunnel to be open: it is told nothing more
		c.note(denied(err))
		return nil
	}
	conn, err := c.dial(r.Context(), to)
	if err != nil {
		c.note(err)
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { conn.Close() })()
	join(accepted, reader, conn, conn)
	return nil
}

// maxHandshake is how long the header of a WebSocket may be.
const maxHandshake = 16 << 10

// handshake returns the header that begins a tunnel, without taking it; nil where TLS does.
func handshake(reader *bufio.Reader) (http.Header, error) {
	for n := 1; ; n++ {
		head, err := reader.Peek(n)
		if err != nil {
			return nil, fmt.Errorf("what began the tunnel is neither HTTP nor TLS")
		}
		if head[0] == tlsHandshake {
			return nil, nil
		}
		head, _ = reader.Peek(reader.Buffered())
		if n = len(head); !bytes.Contains(head, []byte("\r\n\r\n")) {
			continue
		}
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			return nil, err
		}
		return request.Header, nil
	}
}

const tlsHandshake = 0x16 // the first byte of a record

// ask has the upstream proxy open a tunnel, within a time.
func ask(most time.Duration, reader *bufio.Reader, conn net.Conn, to target) error {
	defer time.AfterFunc(most, func() { conn.Close() }).Stop()
	fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", to)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return refusef(http.StatusBadGateway, "proxy_internal_response", "The operator's proxy did not answer.")
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refusef(http.StatusBadGateway, "http_request_denied", "The operator's proxy does not connect to %s: %s.", to, oneLine(response.Status))
	}
	return nil
}

// pass copies what reader has of from, and tells the other end that there is no
// more. A failure ends both directions.
func pass(to net.Conn, reader io.Reader, from net.Conn) {
	if _, err := io.Copy(to, reader); err != nil {
		to.Close()
		from.Close()
		return
	}
	closeWrite(to)
}

// refuse answers a request with the reason why it gets no further.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	why, ok := errors.AsType[*refusal](err)
	if !ok {
		why = &refusal{http.StatusInternalServerError, "proxy_internal_error", "The proxy failed. Trying again may help."}
	}
	line := oneLine(why.text)
	header := http.Header{
		"Content-Type": {"text/plain; charset=utf-8"},
		"Proxy-Status": {"toolserver; error=" + why.kind + "; details=" + strconv.Quote(line)},
	}
	if why.status == http.StatusProxyAuthRequired {
		header.Set("Proxy-Authenticate", `Basic realm="toolserver"`)
	}
	if r.Method != http.MethodConnect {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(why.status)
		fmt.Fprintln(w, why.text)
		return
	}
	// Most programs show nothing of the answer to CONNECT but its status line: npm
	// and Go show the words in it.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	response := http.Response{
		Status: strconv.Itoa(why.status) + " " + line, StatusCode: why.status, ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Close: true, ContentLength: int64(len(why.text)) + 1, Body: io.NopCloser(strings.NewReader(why.text + "\n")),
	}
	response.Write(conn)
}

// oneLine returns text as it may be in a header: printable ASCII, not too long.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
	return text[:min(len(text), 600)]
}
