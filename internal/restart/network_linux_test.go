// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/toolserver/toolserver/sdk/sdktest"
)

// A network has hosts, each in a network namespace of its own, on one bridge. Nothing of it can be
// seen from outside, or stays: the namespaces end with the test.
type network struct {
	t   *testing.T
	hub int // the namespace that has the bridge, and callers
}

// newNetwork makes a network without hosts.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t}
	n.hub = n.namespace()
	n.ip(n.hub, "link add br0 type bridge", "addr add 10.99.0.254/24 dev br0", "link set br0 up", "link set lo up")
	return n
}

// namespace makes a namespace, which lasts as long as its descriptor.
func (n *network) namespace() (fd int) {
	n.t.Helper()
	err := apart(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		if os.Getenv("CI") != "" {
			n.t.Fatal(err)
		}
		n.t.Skipf("no network namespaces can be made here: %v", err)
	}
	n.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// apart calls f on a thread that ends afterwards, with what f changed of it.
func apart(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// within calls f in a namespace. Processes that it starts and sockets that it makes stay there.
func within(namespace int, f func() error) error {
	return apart(func() error {
		if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// ip runs commands of the program ip in a namespace.
func (n *network) ip(namespace int, commands ...string) {
	n.t.Helper()
	if err := n.tryIP(namespace, commands...); err != nil {
		n.t.Error(err)
	}
}

func (n *network) tryIP(namespace int, commands ...string) error {
	return within(namespace, func() error {
		cmd := exec.Command("ip", "-force", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %q: %w: %s", commands, err, out)
		}
		return nil
	})
}

// A host is a place in a network with one process, which is started again whenever it ends, as an
// orchestrator does.
type host struct {
	*network
	name, address string
	namespace     int
	arguments     []string
	environment   []string

	mu      sync.Mutex
	change  *sync.Cond
	process *os.Process // nil where none runs
	held    bool        // it is not started now
	over    bool        // it is not started any more
	ended   chan struct{}
}

// host adds a host. Its process is started by resume.
func (n *network) host(name string, number int) *host {
	n.t.Helper()
	h := &host{network: n, name: name, address: fmt.Sprint("10.99.0.", number), namespace: n.namespace(), held: true, ended: make(chan struct{})}
	h.change = sync.NewCond(&h.mu)
	n.ip(n.hub, fmt.Sprintf("link add v%d type veth peer name eth0 netns /proc/%d/fd/%d", number, os.Getpid(), h.namespace), fmt.Sprintf("link set v%d master br0 up", number))
	n.ip(h.namespace, "addr add "+h.address+"/24 dev eth0", "link set eth0 up", "link set lo up")
	go h.keep()
	n.t.Cleanup(func() {
		h.mu.Lock()
		h.over = true
		h.change.Broadcast()
		h.mu.Unlock()
		h.signal(syscall.SIGKILL)
		<-h.ended
	})
	return h
}

func (h *host) keep() {
	defer close(h.ended)
	for {
		h.mu.Lock()
		for h.held && !h.over {
			h.change.Wait()
		}
		if h.over {
			h.mu.Unlock()
			return
		}
		cmd := exec.Command(h.arguments[0], h.arguments[1:]...)
		cmd.Env = append(os.Environ(), h.environment...)
		log := h.log()
		if log != nil {
			cmd.Stderr = log
		}
		err := within(h.namespace, cmd.Start)
		log.Close() // the process has it; there may be none
		h.process = cmd.Process
		h.change.Broadcast()
		h.mu.Unlock()
		if err != nil {
			h.t.Error(err)
			return
		}
		cmd.Wait()
		h.mu.Lock()
		h.process = nil
		h.change.Broadcast()
		h.mu.Unlock()
	}
}

// log is where what the process says goes: nowhere, unless somebody looks for a mistake and names
// a file in SDKTEST_LOG.
func (h *host) log() *os.File {
	name := os.Getenv("SDKTEST_LOG")
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name+"."+h.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Error(err)
	}
	return file
}

func (h *host) signal(s os.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.process != nil {
		h.process.Signal(s)
	}
}

// end ends the process with a signal, and returns when it has ended. It is started again by resume.
func (h *host) end(s os.Signal) {
	h.mu.Lock()
	h.held = true
	h.mu.Unlock()
	h.signal(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.process != nil {
		h.change.Wait()
	}
}

// resume has the process started whenever it does not run.
func (h *host) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = false
	h.change.Broadcast()
}

// deafen has what a host sends to others be lost, without a word to anybody: it goes to an address
// of the bridge that nobody has.
func (h *host) deafen(others ...*host) {
	h.t.Helper()
	var commands []string
	for _, other := range others {
		commands = append(commands, "neigh replace "+other.address+" lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
	}
	h.ip(h.namespace, commands...)
}

func (h *host) hear(others ...*host) {
	h.t.Helper()
	var commands []string
	for _, other := range others {
		commands = append(commands, "neigh del "+other.address+" dev eth0")
	}
	h.tryIP(h.namespace, commands...) // another fault that ended may have done it
}

// cut has two hosts hear nothing of each other; mend ends that.
func cut(a *host, others ...*host) {
	a.deafen(others...)
	for _, other := range others {
		other.deafen(a)
	}
}

func mend(a *host, others ...*host) {
	a.hear(others...)
	for _, other := range others {
		other.hear(a)
	}
}

// nodeVariable names the variable that makes a process of this program a node of the engine: it has
// the name, the directory and the addresses, its own first.
const nodeVariable = "RESTART_TEST_NODE"

// runNode is a node of the engine, set up as docs/state.md tells but for its account, which has no limits
// here.
func runNode(text string) error {
	parts := strings.Split(text, " ")
	options := &server.Options{
		ServerName: parts[0], Host: parts[2], Port: 4222, NoSigs: true, NoLog: true, JetStream: true, StoreDir: parts[1],
		JetStreamMaxStore: 16 << 30, JetStreamMaxMemory: 1 << 30, PingInterval: 5 * time.Second, MaxPingsOut: 2,
		Cluster: server.ClusterOpts{Name: "state", Host: parts[2], Port: 6222, PingInterval: 2 * time.Second},
	}
	for _, address := range parts[2:] {
		options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: address + ":6222"})
	}
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the node does not start")
	}
	s.WaitForShutdown()
	return errors.New("the node ended by itself")
}

// A partable is a fleet whose servers and nodes of the engine are hosts of a network.
type partable struct {
	t        *testing.T
	net      *network
	replicas []*host
	nodes    []*host
}

const partableConfiguration = `
listen: "%s:8665"
authentication:
  tokens:
    - {principal: agent, max_mode: allow, token: the-token-of-agent}
sessions: {workspace_root: %s}
executions: {retention: 2h} # the last question comes long after the first call
state: {engine: cluster, url: "%s", max_history: 2GiB}
replica: {listen: "%s:8668", lease: 3s}
`

// startPartable starts three nodes and three servers, which share a directory.
func startPartable(t *testing.T) *partable {
	t.Helper()
	f := &partable{t: t, net: newNetwork(t)}
	root, program := t.TempDir(), sdktest.Build(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var addresses, urls []string
	for i := range 3 {
		node := f.net.host(fmt.Sprint("n", i), 11+i)
		f.nodes = append(f.nodes, node)
		addresses, urls = append(addresses, node.address), append(urls, "nats://"+node.address+":4222")
	}
	for i, node := range f.nodes {
		node.arguments = []string{self}
		node.environment = []string{nodeVariable + "=" + strings.Join(append([]string{node.name, filepath.Join(t.TempDir(), "store"), node.address}, append(addresses[:i:i], addresses[i+1:]...)...), " ")}
		node.resume()
	}
	for i := range 3 {
		replica := f.net.host(fmt.Sprint("r", i), 1+i)
		file := filepath.Join(t.TempDir(), "toolserver.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, partableConfiguration, replica.address, root, strings.Join(urls, ","), replica.address), 0o600); err != nil {
			t.Fatal(err)
		}
		replica.arguments = []string{program, "serve", "--admin", "off"}
		replica.environment = []string{"TOOLSERVER_CONFIG=" + file, "XDG_STATE_HOME=" + t.TempDir()}
		replica.resume()
		f.replicas = append(f.replicas, replica)
	}
	return f
}

// at returns a caller of one of the servers.
func (f *partable) at(i int) *caller {
	f.t.Helper()
	return connect(f.t, "passthrough:///"+f.replicas[i].address+":8665", "agent", grpc.WithContextDialer(func(ctx context.Context, address string) (conn net.Conn, err error) {
		err = within(f.net.hub, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
			return err
		})
		return conn, err
	}), grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}, MinConnectTimeout: 2 * time.Second}))
}
