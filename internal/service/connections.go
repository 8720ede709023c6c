// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// connections are those that clients have opened and nobody has closed yet. A
// shutdown closes the quiet ones: gRPC would wait for a client that does not
// answer its ping, and for one that has sent nothing since it connected.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
}

// watch returns a listener whose connections are known to c.
func (c *connections) watch(listener net.Listener) net.Listener {
	return &watchedListener{listener, c}
}

type watchedListener struct {
	net.Listener
	connections *connections
}

func (l *watchedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &connection{Conn: accepted, connections: l.connections}
	l.connections.mu.Lock()
	defer l.connections.mu.Unlock()
	if l.connections.open == nil {
		l.connections.open = make(map[*connection]struct{})
	}
	l.connections.open[conn] = struct{}{}
	return conn, nil
}

// closeQuiet closes connections that nothing went through since the last call.
// The first call closes those that nothing ever went through.
func (c *connections) closeQuiet() {
	c.close(func(conn *connection) bool {
		before := conn.seen
		conn.seen = conn.moves.Load()
		return conn.seen == before && !conn.writing.Load()
	})
}

// closeAll closes every connection.
func (c *connections) closeAll() { c.close(func(*connection) bool { return true }) }

func (c *connections) close(which func(*connection) bool) {
	var chosen []*connection
	c.mu.Lock()
	for conn := range c.open {
		if which(conn) {
			chosen = append(chosen, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range chosen {
		conn.Close()
	}
}

// A connection counts what goes through it.
type connection struct {
	net.Conn
	connections *connections
	moves       atomic.Uint64 // reads and writes that moved something
	writing     atomic.Bool
	seen        uint64 // moves at the last look; guarded by connections.mu
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.moves.Add(1)
	}
	return n, err
}

// Write is called by one goroutine at a time.
func (c *connection) Write(p []byte) (int, error) {
	c.writing.Store(true)
	n, err := c.Conn.Write(p)
	c.moves.Add(1)
	c.writing.Store(false)
	return n, err
}

func (c *connection) Close() error {
	c.connections.mu.Lock()
	delete(c.connections.open, c)
	c.connections.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn is for channelz, which shows the options of sockets.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if conn, ok := c.Conn.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
