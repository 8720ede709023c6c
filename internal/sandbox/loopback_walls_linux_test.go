// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// visited counts connections to somebody who is not of the session.
type visited struct {
	net.Listener
	count atomic.Int64
}

func listenFor(t testing.TB, network, address string) *visited {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	v := &visited{Listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			v.count.Add(1)
			conn.Close()
		}
	}()
	return v
}

func (v *visited) port() int { return v.Addr().(*net.TCPAddr).Port }

// TestLoopbackOfOthers tries to reach the machine, another session, and what lies
// beyond, in every way there is.
func TestLoopbackOfOthers(t *testing.T) {
	p, other := onLoopback(t), onLoopback(t)
	machine := []*visited{listenFor(t, "tcp", "127.0.0.1:0"), listenFor(t, "tcp", "0.0.0.0:0"), listenFor(t, "tcp", "[::1]:0"), listenFor(t, "tcp", ":0")}
	file := listenFor(t, "unix", filepath.Join(p.dir, "foreign"))
	outside := listenFor(t, "unix", filepath.Join(other.dir, "outside"))
	abstract := listenFor(t, "unix", "@toolserver-test-"+strconv.Itoa(os.Getpid()))

	process, r := other.start(t, python(`
s = tcp(("", 0)); u = socket.socket(socket.AF_UNIX); u.bind("other"); u.listen(); print(port(s), flush=True)
print(talk(s, socket.create_connection(s.getsockname())), flush=True)
time.sleep(300)`), sandbox.Limits{})
	defer r.Close()
	defer process.Kill()
	lines := bufio.NewReader(r)
	theirs, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := lines.ReadString('\n'); answer != "b'hello'\n" {
		t.Errorf("the other session does not reach itself: %s", answer)
	}
	var ports []string
	for _, m := range machine {
		ports = append(ports, strconv.Itoa(m.port()))
	}
	ports = append(ports, strings.TrimSpace(theirs))
	out, end := p.run(t, python(`
for port in `+strings.Join(ports, ", ")+`,:
	for host in "127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1":
		family = socket.AF_INET6 if ":" in host else socket.AF_INET
		for block in True, False:
			c = socket.socket(family); c.setblocking(block)
			print(fails(c.connect, (host, port)))
		c = socket.socket(family)
		try: c.sendto(b"x", socket.MSG_FASTOPEN, (host, port)); print("sent")
		except OSError as e: print(errno.errorcode[e.errno])
	# From a port of its own, and with one that it serves itself beside.
	c = socket.socket(); c.bind(("127.0.0.1", 0)); print(fails(c.connect, ("127.0.0.1", port)))
	try: s = tcp(("127.0.0.9", port))
	except OSError: pass # the machine has it on all addresses
	else: print(fails(socket.create_connection, ("127.0.0.1", port)))
for path in "foreign", "`+other.dir+`/other", "`+other.dir+`/outside", "\0toolserver-test-`+strconv.Itoa(os.Getpid())+`":
	print(fails(socket.socket(socket.AF_UNIX).connect, path))
print(fails(socket.socket(socket.AF_UNIX).bind, "\0mine"), fails(socket.socket(socket.AF_UNIX).bind, "`+other.dir+`/mine"), fails(socket.socket(socket.AF_UNIX).bind, "/tmp/mine"))
os.symlink("`+other.dir+`", "there"); print(fails(socket.socket(socket.AF_UNIX).bind, "there/mine"), fails(socket.socket(socket.AF_UNIX).connect, "there/outside"))
for family, kind, protocol in (2, 2, 0), (10, 2, 0), (2, 3, 6), (1, 2, 0), (1, 5, 0), (16, 3, 4), (17, 3, 0), (40, 1, 0), (2, 1, 262), (2, 1, 132):
	print(fails(socket.socket, family, kind, protocol))
c = socket.socket(); print(fails(c.setsockopt, 0, 4, b"\x83\x07\x04\x08\x08\x08\x08\x00"), fails(c.setsockopt, 1, 25, b"lo"))
c = socket.socket(socket.AF_INET6); print(fails(c.setsockopt, 41, 57, b"\0" * 24))
`), sandbox.Limits{})
	refusals := []string{"ECONNREFUSED", "EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT"}
	answers := strings.Fields(out)
	if len(answers) < 100 {
		t.Errorf("%s %+v", out, end)
	}
	for i, answer := range answers {
		if !slices.Contains(refusals, answer) {
			t.Errorf("answer %d: %s\n%s", i, answer, out)
		}
	}
	for _, v := range append(machine, file, outside, abstract) {
		if n := v.count.Load(); n != 0 {
			t.Errorf("%v: %d connections", v.Addr(), n)
		}
	}
	if _, err := os.Lstat(filepath.Join(other.dir, "mine")); err == nil {
		t.Error("there is a socket outside")
	}
}

// TestLoopbackProxy reaches the port that the server names, at one address.
func TestLoopbackProxy(t *testing.T) {
	proxy, other := listenFor(t, "tcp", ":0"), listenFor(t, "tcp", "127.0.0.1:0")
	p := newPlace(t, sandbox.Config{}, func(p *sandbox.Profile) {
		p.Network, p.ProxyPort = sandbox.NetworkLoopback, uint16(proxy.port())
	})
	out, end := p.run(t, python(fmt.Sprintf(`
print(*(fails(socket.create_connection, a) for a in (("127.0.0.1", %[1]d), ("::ffff:127.0.0.1", %[1]d), ("127.0.0.2", %[1]d), ("::1", %[1]d), ("127.0.0.1", %[2]d))))
`, proxy.port(), other.port())), sandbox.Limits{})
	if out != "done done ECONNREFUSED ECONNREFUSED ECONNREFUSED\n" {
		t.Errorf("%s %+v", out, end)
	}
}

// TestLoopbackRaces changes the address and the socket of a call while it is made,
// and gives up ports that others wait for.
func TestLoopbackRaces(t *testing.T) {
	p := onLoopback(t)
	machine := listenFor(t, "tcp", "0.0.0.0:0")
	file := listenFor(t, "unix", filepath.Join(p.dir, "foreign"))
	outside := t.TempDir()
	process, r := p.startJailed(t, "race", strconv.Itoa(machine.port()), outside)
	defer r.Close()
	lines := bufio.NewReader(r)
	said, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	// Who waits for the port of the session gets it now and then.
	port, err := strconv.Atoi(strings.TrimSpace(said))
	if err != nil {
		t.Fatal(said, err)
	}
	var stop atomic.Bool
	stopped := make(chan struct{})
	var bound, reached int
	go func() {
		defer close(stopped)
		for !stop.Load() {
			listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			if err != nil {
				continue
			}
			bound++
			listener.SetDeadline(time.Now().Add(2 * time.Millisecond))
			if conn, err := listener.Accept(); err == nil {
				reached++
				conn.Close()
			}
			listener.Close()
		}
	}()
	said, _ = lines.ReadString('\n')
	end, err := process.Wait()
	stop.Store(true)
	<-stopped
	t.Logf("%s; somebody else had the port %d times", strings.TrimSpace(said), bound)
	if err != nil || end.Code != 0 || said == "" {
		t.Errorf("%s %+v %v", said, end, err)
	}
	if machine, file := machine.count.Load(), file.count.Load(); machine+file != 0 || reached != 0 {
		t.Errorf("%d connections to the machine, %d to its file, %d to who has the port now", machine, file, reached)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%v was made outside", left)
	}
}

// raceFor is how long each of the races goes on.
const raceFor = 700 * time.Millisecond

// race is a command that connects while it changes what it connects, and to what.
func race(args []string) {
	foreign, err := strconv.Atoi(args[0])
	must(err)
	own, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		for {
			if conn, err := own.Accept(); err == nil {
				conn.Close()
			}
		}
	}()
	ownPort := own.Addr().(*net.TCPAddr).Port
	given, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	givenPort := given.Addr().(*net.TCPAddr).Port
	fmt.Println(givenPort)

	// The address changes.
	var stop atomic.Bool
	tcp := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 1}}
	ports := [2]uint16{uint16(ownPort)<<8 | uint16(ownPort)>>8, uint16(foreign)<<8 | uint16(foreign)>>8}
	go func() {
		for i := 0; !stop.Load(); i++ {
			(*atomic.Uint32)(unsafe.Pointer(&tcp)).Store(uint32(unix.AF_INET) | uint32(ports[i&1])<<16)
		}
	}()
	connected, tried := 0, 0
	for begin := time.Now(); time.Since(begin) < raceFor; tried++ {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&tcp)), unsafe.Sizeof(tcp)); errno == 0 {
			connected++
		}
		unix.Close(fd)
	}
	stop.Store(true)

	// The socket changes: to one of a pair, a file, and one that was made elsewhere.
	stop.Store(false)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	const number = 100
	go func() {
		for i := 0; !stop.Load(); i++ {
			fd, err := unix.Socket([...]int{unix.AF_INET, unix.AF_UNIX, unix.AF_INET6}[i%3], unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			must(err)
			unix.Dup3(fd, number, unix.O_CLOEXEC)
			unix.Close(fd)
			unix.Dup3(pair[0], number, unix.O_CLOEXEC)
		}
	}()
	for begin := time.Now(); time.Since(begin) < raceFor; tried++ {
		for _, to := range []unix.Sockaddr{
			&unix.SockaddrInet4{Port: ownPort, Addr: [4]byte{127, 0, 0, 1}}, &unix.SockaddrInet4{Port: foreign, Addr: [4]byte{127, 0, 0, 1}},
			&unix.SockaddrInet6{Port: foreign, Addr: [16]byte{15: 1}}, &unix.SockaddrUnix{Name: "foreign"},
		} {
			if unix.Connect(number, to) == nil {
				connected++
			}
		}
	}
	stop.Store(true)

	// The file changes: a directory is a link to one outside, now and then, and what
	// was bound is the socket of somebody else.
	stop.Store(false)
	must(os.MkdirAll("dir", 0o755))
	go func() {
		for !stop.Load() {
			os.Rename("dir", "away")
			os.Symlink(args[1], "dir")
			os.Remove("dir")
			os.Rename("away", "dir")
			os.Remove("dir/socket")
			os.Rename("foreign", "dir/socket")
			os.Rename("dir/socket", "foreign")
		}
	}()
	for begin := time.Now(); time.Since(begin) < raceFor; tried++ {
		listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		if unix.Bind(listener, &unix.SockaddrUnix{Name: "dir/socket"}) == nil && unix.Listen(listener, 9) == nil {
			for _, name := range []string{"dir/socket", "foreign"} {
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				must(err)
				if unix.Connect(fd, &unix.SockaddrUnix{Name: name}) == nil {
					connected++
				}
				unix.Close(fd)
			}
		}
		unix.Close(listener)
	}
	stop.Store(true)

	// The port is given up while it is connected to.
	stop.Store(false)
	go func() {
		for !stop.Load() {
			given.Close()
			time.Sleep(raceFor / 3) // others get it in time
			for given, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", givenPort)); err != nil && !stop.Load(); {
				given, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", givenPort))
			}
		}
	}()
	for begin := time.Now(); time.Since(begin) < raceFor; tried++ {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		if unix.Connect(fd, &unix.SockaddrInet4{Port: givenPort, Addr: [4]byte{127, 0, 0, 1}}) == nil {
			connected++
		}
		unix.Close(fd)
	}
	stop.Store(true)
	fmt.Printf("connected %d times of %d\n", connected, tried)
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestLoopbackLeaks makes many sockets and ends: the helper has no more files than
// before, and ports are free for others.
func TestLoopbackLeaks(t *testing.T) {
	before := helpers(t)
	p := onLoopback(t)
	p.run(t, python(`s = tcp(); socket.create_connection(s.getsockname())`), sandbox.Limits{})
	helper := slices.IndexFunc(helpers(t), func(pid int) bool { return !slices.Contains(before, pid) })
	if helper < 0 {
		t.Fatal("no helper")
	}
	files := func() int {
		all, err := os.ReadDir("/proc/" + strconv.Itoa(helpers(t)[helper]) + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		sockets := 0
		for _, file := range all {
			if link, _ := os.Readlink("/proc/" + strconv.Itoa(helpers(t)[helper]) + "/fd/" + file.Name()); strings.HasPrefix(link, "socket:") {
				sockets++
			}
		}
		return sockets
	}
	out, end := p.run(t, python(`
s = tcp(); print(port(s))
for i in range(300): talk(s, socket.create_connection(s.getsockname()))
for i in range(1200): socket.socket()
kept = [socket.socket() for i in range(700)]
for i in range(300): tcp().close()
u = [socket.socket(socket.AF_UNIX) for i in range(100)]
for i, x in enumerate(u): x.bind("leak%d" % i); x.listen()
listening = [tcp() for i in range(100)]
print(port(listening[0]))
b = socket.socket(); b.bind(("127.0.0.1", 0)); print(port(b))
`), sandbox.Limits{})
	ports := strings.Fields(out)
	if end.Code != 0 || len(ports) != 3 {
		t.Fatalf("%s %+v", out, end)
	}
	for _, port := range ports {
		for {
			listener, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err == nil {
				listener.Close()
				break
			}
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	const own = 2 // orders and requests
	for files() > own {
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkLoopback(b *testing.B) {
	for name, network := range map[string]sandbox.Network{"asked": sandbox.NetworkLoopback, "open": sandbox.NetworkOpen} {
		p := newPlace(b, sandbox.Config{}, func(p *sandbox.Profile) { p.Network = network })
		b.Run(name, func(b *testing.B) {
			out, end := p.runJailed(b, "connects", strconv.Itoa(b.N))
			if end.Code != 0 {
				b.Fatal(out)
			}
			took, err := time.ParseDuration(strings.TrimSpace(out))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/connect")
		})
	}
}

// connects connects and closes so many times.
func connects(args []string) {
	n, err := strconv.Atoi(args[0])
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		for {
			if conn, err := listener.Accept(); err == nil {
				conn.Close()
			}
		}
	}()
	begin := time.Now()
	for range n {
		conn, err := net.Dial("tcp", listener.Addr().String())
		must(err)
		conn.Close()
	}
	fmt.Println(time.Since(begin))
}
