// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package statetest has clusters of the state engine for tests: all their servers are in
// the process of the test, and each can be stopped and started again.
package statetest

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Cluster is some servers on loopback ports.
type Cluster struct {
	t       testing.TB
	options []*server.Options
	servers []*server.Server // nil where one is stopped
}

// NewCluster starts servers that end with the test. change may be nil; it alters the
// options of each.
func NewCluster(t testing.TB, size int, change func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, servers: make([]*server.Server, size)}
	dir := t.TempDir()
	ports := freePorts(t, 2*size)
	clients, routes := ports[:size], ports[size:]
	var urls []*url.URL
	for _, port := range routes {
		urls = append(urls, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	for i := range size {
		o := &server.Options{
			ServerName: fmt.Sprint("n", i),
			Host:       "127.0.0.1", Port: clients[i],
			NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint("n", i)),
			JetStreamMaxStore: 8 << 30, JetStreamMaxMemory: 8 << 30,
		}
		if size > 1 {
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: routes[i]}
			o.Routes = urls
		}
		if change != nil {
			change(o)
		}
		c.options = append(c.options, o)
	}
	t.Cleanup(func() {
		for i := range size {
			c.Stop(i)
		}
	})
	for i := range size {
		c.Start(i)
	}
	c.ready()
	return c
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // once all are known, so that none is given twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// URL names all servers.
func (c *Cluster) URL() string {
	var urls []string
	for i := range c.options {
		urls = append(urls, c.Server(i))
	}
	return strings.Join(urls, ",")
}

// Server is the URL of one.
func (c *Cluster) Server(i int) string {
	return fmt.Sprint("nats://127.0.0.1:", c.options[i].Port)
}

// Start starts a server that is stopped.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		c.t.Fatalf("server %d of the cluster does not start", i)
	}
	c.servers[i] = s
}

// Stop stops a server in good order. Its data stays.
func (c *Cluster) Stop(i int) {
	if s := c.servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[i] = nil
	}
}

// ElectionTime is how long servers may take to elect a leader: each attempt takes them 4 to 9
// seconds, and some fail where the processor is busy, so it is long enough for many.
const ElectionTime = 5 * time.Minute

// ready waits for the cluster to have elected those who lead it.
func (c *Cluster) ready() {
	c.t.Helper()
	for i, s := range c.servers {
		c.until(fmt.Sprintf("server %d of the cluster becomes current", i), func() bool { return s.JetStreamIsCurrent() || len(c.servers) == 1 })
	}
}

// CaughtUp waits until all servers have what there is: as operators do before they stop the next
// one. Servers without entries of a stream elect nobody unless all of them are there.
func (c *Cluster) CaughtUp(streams ...string) {
	c.t.Helper()
	for i, s := range c.servers {
		for _, stream := range streams {
			c.until(fmt.Sprintf("server %d has %s", i, stream), func() bool {
				return s.JetStreamIsCurrent() && s.JetStreamIsStreamCurrent(server.DEFAULT_GLOBAL_ACCOUNT, stream)
			})
		}
	}
}

// until waits for something that an election comes before.
func (c *Cluster) until(what string, so func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(ElectionTime); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// Leader returns the server that leads a stream; bucket is the name of a space.
func (c *Cluster) Leader(bucket string) int {
	c.t.Helper()
	conn, err := nats.Connect(c.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		c.t.Fatal(err)
	}
	leader := -1
	c.until("bucket "+bucket+" has a leader", func() bool {
		if stream, err := js.Stream(c.t.Context(), "KV_ts-"+bucket); err == nil { // else it is just being elected
			leader = slices.IndexFunc(c.options, func(o *server.Options) bool { return o.ServerName == stream.CachedInfo().Cluster.Leader })
		}
		return leader >= 0
	})
	return leader
}
