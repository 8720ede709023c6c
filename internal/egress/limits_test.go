// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
)

// pipes is a network in memory, in which time can be made to pass: a listener,
// and a host that shows what reaches it.
type pipes struct {
	accept chan net.Conn
	hosts  chan net.Conn
	once   sync.Once
	done   chan struct{}
}

func newPipes() *pipes {
	return &pipes{accept: make(chan net.Conn), hosts: make(chan net.Conn, 1), done: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(context.Context, netip.AddrPort) (net.Conn, error) {
	near, far := net.Pipe()
	p.hosts <- far
	return near, nil
}

func (p *pipes) connect() net.Conn {
	near, far := net.Pipe()
	p.accept <- far
	return near
}

// inMemory serves a proxy on pipes for as long as f runs.
func inMemory(t *testing.T, config egress.Config, f func(proxy *egress.Proxy, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		if config.Dial == nil {
			config.Dial = p.dial
		}
		proxy := egress.New(config)
		ended := make(chan error, 1)
		go func() { ended <- proxy.Serve(p) }()
		f(proxy, p)
		proxy.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

const at = "127.0.0.1:1"

// tunnel opens a tunnel, and returns both its ends.
func tunnel(t *testing.T, client *egress.Client, p *pipes) (near net.Conn, far net.Conn) {
	t.Helper()
	near = p.connect()
	io.WriteString(near, "CONNECT 93.184.216.34:22 HTTP/1.1\r\nHost: x\r\n"+authorization(client.URL(at))+"\r\n")
	response, err := http.ReadResponse(bufio.NewReader(near), &http.Request{Method: http.MethodConnect})
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	return near, <-p.hosts
}

// TestIdle proves that a tunnel lives as long as there is something in either
// direction, and ends when it was silent.
func TestIdle(t *testing.T) {
	for name, sender := range map[string]int{"the client sends": 0, "the host sends": 1} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, egress.Config{IdleTime: time.Minute}, func(proxy *egress.Proxy, p *pipes) {
				near, far := tunnel(t, proxy.Open(everything), p)
				from, to := near, far
				if sender == 1 {
					from, to = far, near
				}
				for i := range 10 {
					time.Sleep(59 * time.Second)
					go fmt.Fprint(from, i)
					b := make([]byte, 1)
					if _, err := io.ReadFull(to, b); err != nil || string(b) != fmt.Sprint(i) {
						t.Fatalf("%d: %q, %v", i, b, err)
					}
				}
				begin := time.Now()
				if n, err := io.Copy(io.Discard, from); n != 0 || err != nil || time.Since(begin) != time.Minute {
					t.Errorf("ended after %s: %d, %v", time.Since(begin), n, err)
				}
				near.Close()
				far.Close()
			})
		})
	}
}

// TestStalledReader proves that somebody who does not read what was asked for is
// not waited for.
func TestStalledReader(t *testing.T) {
	inMemory(t, egress.Config{IdleTime: time.Minute}, func(proxy *egress.Proxy, p *pipes) {
		near, far := tunnel(t, proxy.Open(everything), p)
		begin := time.Now()
		_, err := io.Copy(far, strings.NewReader(strings.Repeat("x", 1<<20)))
		if err == nil || time.Since(begin) > 2*time.Minute {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		near.Close()
		far.Close()
	})
}

func TestConnectTime(t *testing.T) {
	slow := egress.Config{ConnectTime: 10 * time.Second, Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
		if name == "slow.test" {
			<-ctx.Done()
			return nil, &net.DNSError{Err: "timeout", Name: name, Server: "10.9.8.7:53", IsTimeout: true}
		}
		return []netip.Addr{netip.MustParseAddr(public), netip.MustParseAddr("2606:4700::1111")}, nil
	}}
	inMemory(t, slow, func(proxy *egress.Proxy, p *pipes) {
		secret := authorization(proxy.Open(everything).URL(at))
		for host, want := range map[string]string{
			"example.com": "504 No answer in time from example.com:80 at 2606:4700::1111.\n",
			"slow.test":   "502 The name slow.test could not be looked up. Trying again may help.\n",
		} {
			begin := time.Now()
			conn := p.connect()
			go io.WriteString(conn, "GET http://"+host+"/ HTTP/1.1\r\nHost: x\r\n"+secret+"\r\n")
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			if got := fmt.Sprintf("%d %s", response.StatusCode, body); got != want || time.Since(begin) != 10*time.Second {
				t.Errorf("%s: %q after %s", host, got, time.Since(begin))
			}
			conn.Close()
		}
	})
}

// TestSilentClient proves that a connection that asks for nothing ends.
func TestSilentClient(t *testing.T) {
	inMemory(t, egress.Config{}, func(_ *egress.Proxy, p *pipes) {
		conn := p.connect()
		io.WriteString(conn, "CONNECT example.com")
		begin := time.Now()
		io.Copy(io.Discard, conn)
		if passed := time.Since(begin); passed > 15*time.Second {
			t.Errorf("ended after %s", passed)
		}
		conn.Close()
	})
}

func TestMaxConnections(t *testing.T) {
	inMemory(t, egress.Config{MaxConnections: 2}, func(proxy *egress.Proxy, p *pipes) {
		client := proxy.Open(everything)
		first, _ := tunnel(t, client, p)
		tunnel(t, client, p)
		conn := p.connect()
		io.WriteString(conn, "CONNECT 93.184.216.34:22 HTTP/1.1\r\nHost: x\r\n"+authorization(client.URL(at))+"\r\n")
		response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(response.Status, "2 connections") {
			t.Fatal(response, err)
		}
		tunnel(t, proxy.Open(everything), p) // somebody else's are not counted
		first.Close()
		synctest.Wait()
		tunnel(t, client, p)
	})
}

func TestMaxAccepted(t *testing.T) {
	inMemory(t, egress.Config{MaxAccepted: 2}, func(proxy *egress.Proxy, p *pipes) {
		client := proxy.Open(everything)
		tunnel(t, client, p)
		silent := p.connect()
		if _, err := p.connect().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("one too many: %v", err)
		}
		silent.Close()
		synctest.Wait()
		tunnel(t, client, p)
	})
}

func TestLargeHeader(t *testing.T) {
	s := origin(t, hello)
	p, at, w := start(t, host(s), egress.Config{MaxHeader: 8 << 10})
	secret := authorization(p.Open(everything).URL(at))
	if code, _ := status(t, at, secret+"X: "+strings.Repeat("x", 4<<10)+"\r\n", "GET http://example.com/"); code != http.StatusOK {
		t.Errorf("a header of 4 KiB: %d", code)
	}
	w.seen()
	_, answer := ask(t, at, "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n"+secret+"X: "+strings.Repeat("x", 20<<10)+"\r\n\r\n")
	if response, err := http.ReadResponse(answer, nil); err != nil || response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 20 KiB: %v, %v", response, err)
	}
	io.Copy(io.Discard, answer) // net/http waits a moment before it closes
	if _, dialled := w.seen(); dialled != nil {
		t.Errorf("dialled %q", dialled)
	}
}

// TestEnd proves that everything of a client ends with it, whatever it is about
// to do, and everything of a proxy with the proxy.
func TestEnd(t *testing.T) {
	entered := make(chan struct{}, 10)
	waits := func(ctx context.Context) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	s := origin(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begin")
		http.NewResponseController(w).Flush()
		waits(r.Context())
	})
	for name, end := range map[string]func(*egress.Proxy, *egress.Client){
		"client": func(_ *egress.Proxy, c *egress.Client) { c.Close() },
		"proxy":  func(p *egress.Proxy, _ *egress.Client) { p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p, at, w := start(t, host(s), egress.Config{})
			other := p.Open(everything)
			c := p.Open(egress.Judge{Host: func(ctx context.Context, host string, port int) error {
				if host == "judged.test" {
					return waits(ctx)
				}
				return nil
			}, Address: func(ctx context.Context, addr netip.Addr, port int) (bool, error) {
				if port == 99 {
					return false, waits(ctx)
				}
				return false, nil
			}})
			secret := authorization(c.URL(at))
			var answers []*bufio.Reader
			for _, line := range []string{"GET http://judged.test/", "CONNECT judged.test:1", "CONNECT example.com:99", "GET http://example.com/"} {
				_, answer := ask(t, at, line+" HTTP/1.1\r\nHost: x\r\n"+secret+"\r\n")
				<-entered
				answers = append(answers, answer)
			}
			_, answer := ask(t, at, "CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n"+secret+"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
			<-entered
			end(p, c)
			for i, answer := range append(answers, answer) {
				io.Copy(io.Discard, answer)
				t.Log(i, "ended")
			}
			if name == "proxy" {
				if conn, err := net.Dial("tcp", at); err == nil {
					conn.Close()
					t.Error("the proxy still listens")
				}
				if p.Open(everything).Close(); p.Serve(newPipes()) != nil {
					t.Error("serving after the end is an error")
				}
				return
			}
			w.mu.Lock()
			w.to = host(origin(t, hello))
			w.mu.Unlock()
			if code, _ := status(t, at, authorization(other.URL(at)), "GET http://example.com/"); code != http.StatusOK {
				t.Errorf("somebody else gets %d", code)
			}
		})
	}
}
