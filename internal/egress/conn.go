// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net"
	"time"
)

// An idleConn is a connection to a host. It fails when nothing was read or
// written for a time.
type idleConn struct {
	net.Conn
	idle time.Duration
}

func (c *idleConn) Read(b []byte) (int, error) {
	c.SetDeadline(time.Now().Add(c.idle))
	return c.Conn.Read(b)
}

// Write gives a Read that waits for the answer its time, too.
func (c *idleConn) Write(b []byte) (int, error) {
	c.SetDeadline(time.Now().Add(c.idle))
	return c.Conn.Write(b)
}

// An acceptedConn is a connection of a client. Writing fails when the client
// reads nothing for a time. Reading may last: net/http sets its deadlines, and in
// a tunnel the host is silent, too, when the client is.
type acceptedConn struct {
	net.Conn
	proxy *Proxy
}

func (c *acceptedConn) Write(b []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.proxy.config.IdleTime))
	return c.Conn.Write(b)
}

func (c *acceptedConn) Close() error {
	c.proxy.mu.Lock()
	delete(c.proxy.accepted, c)
	c.proxy.mu.Unlock()
	return c.Conn.Close()
}

// closeWrite tells the other end that nothing more is written. A connection that
// cannot say so is closed.
func closeWrite(conn net.Conn) {
	inner := conn
	switch c := conn.(type) {
	case *idleConn:
		inner = c.Conn
	case *acceptedConn:
		inner = c.Conn
	}
	if half, ok := inner.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	} else {
		conn.Close()
	}
}

// A boundedListener closes connections that are too many.
type boundedListener struct {
	net.Listener
	proxy *Proxy
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if accepted := l.proxy.accept(conn); accepted != nil {
			return accepted, nil
		}
		conn.Close()
	}
}

// accept returns a connection that was counted; nil if there are too many.
func (p *Proxy) accept(conn net.Conn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.accepted) >= p.config.MaxAccepted {
		return nil
	}
	c := &acceptedConn{conn, p}
	p.accepted[c] = struct{}{}
	return c
}
