// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// onLoopback returns the jail of a session of its own.
func onLoopback(t testing.TB) *place {
	t.Helper()
	return newPlace(t, sandbox.Config{}, func(p *sandbox.Profile) { p.Network = sandbox.NetworkLoopback })
}

// python is a program text; it has a few things that all of them need.
func python(text string) string {
	return "/usr/bin/python3 - <<'EOF'\n" + `
import array, asyncio, errno, os, socket, sys, threading, time
def tcp(address=("127.0.0.1", 0), family=socket.AF_INET):
	s = socket.socket(family); s.bind(address); s.listen(); return s
def port(s): return s.getsockname()[1]
def talk(s, c):
	a, _ = s.accept(); c.sendall(b"hello"); got = a.recv(5); c.close()
	return got + a.recv(1) # the end is seen at once
def fails(f, *args):
	try: f(*args)
	except OSError as e: return errno.errorcode[e.errno]
	return "done"
` + text + "\nEOF"
}

// TestLoopback does what programs do with a network of their own.
func TestLoopback(t *testing.T) {
	p := onLoopback(t)
	const wait = `port=; while [ -z "$port" ]; do sleep 0.02; port=$(grep -o 'port [0-9]*' log | grep -o '[0-9]*$'); done; `
	for name, test := range map[string]struct{ program, command, want string }{
		"http.server": {"curl", `rm -f log; echo page >page; /usr/bin/python3 -u -m http.server 0 >log 2>&1 & ` + wait +
			`curl -sS http://localhost:$port/page http://127.0.0.1:$port/page http://0.0.0.0:$port/page http://127.3.2.1:$port/page`, "page\npage\npage\npage\n"},
		"http.server on one address": {"curl", `rm -f log; echo page >page; /usr/bin/python3 -u -m http.server -b 127.0.0.1 0 >log 2>&1 & ` + wait +
			`curl -sS http://localhost:$port/page; curl -sS http://127.3.2.1:$port/page 2>&1 | grep -o 'Failed to connect'`, "page\nFailed to connect\n"},
		"node": {"node", `node -e '
			const s = require("http").createServer((_, r) => r.end("from node\n")).listen(0, async () => {
				const port = s.address().port
				for (const host of ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
					process.stdout.write(await (await fetch("http://" + host + ":" + port + "/")).text())
				require("os").networkInterfaces()
				process.exit()
			})'`, strings.Repeat("from node\n", 4)},
		"node by a file": {"node", `node -e '
			const net = require("net"), s = net.createServer(c => c.end("from a file")).listen("node.sock", () =>
				net.connect("node.sock").on("data", d => console.log(String(d), s.address())).on("end", () => process.exit()))'`, "from a file node.sock\n"},
		"asyncio": {"python3", python(`
async def serve(r, w): w.write((await r.readline()).upper()); w.close()
async def main():
	s = await asyncio.start_server(serve, "localhost", 0)
	u = await asyncio.start_unix_server(serve, "asyncio.sock")
	for c in [asyncio.open_connection(*s.sockets[0].getsockname()[:2]), asyncio.open_unix_connection("asyncio.sock")]:
		r, w = await c; w.write(b"hello\n"); print(await r.read())
asyncio.run(main())`), "b'HELLO\\n'\nb'HELLO\\n'\n"},
		"addresses": {"python3", python(`
s = tcp(("", 0)); p = port(s); print(s.getsockname()[0], talk(s, socket.create_connection(("127.0.0.1", p))))
s6 = tcp(("::", 0), socket.AF_INET6); print(s6.getsockname()[0])
for host in "127.0.0.1", "::1", "::", "0.0.0.0", "::ffff:127.0.0.1": print(talk(s6, socket.create_connection((host, port(s6)))))
only = socket.socket(socket.AF_INET6); only.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1); only.bind(("::", 0)); only.listen()
print(only.getsockname()[0], talk(only, socket.create_connection(("::1", port(only)))), fails(socket.create_connection, ("127.0.0.1", port(only))))
print(fails(tcp, ("192.0.2.2", 0)), fails(tcp, ("10.1.2.3", 0)), fails(socket.create_connection, ("10.1.2.3", 80)))
unbound = socket.socket(); unbound.listen(); print(unbound.getsockname()[0], talk(unbound, socket.create_connection(unbound.getsockname())))`),
			"127.0.0.1 b'hello'\n::ffff:127.0.0.1\n" + strings.Repeat("b'hello'\n", 5) + "::1 b'hello' ECONNREFUSED\nEADDRNOTAVAIL EADDRNOTAVAIL ENETUNREACH\n127.0.0.1 b'hello'\n"},
		"a port that was free": {"python3", python(`
s = socket.socket(); s.bind(("", 0)); p = port(s); s.close()
s = tcp(("127.0.0.1", p)); c = socket.create_connection(("127.0.0.1", p)); print(talk(s, c)); s.close()
print(fails(socket.create_connection, ("127.0.0.1", p)))
t = socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind(("127.0.0.1", p)); t.listen()
print(talk(t, socket.create_connection(("127.0.0.1", p))), fails(tcp, ("127.0.0.1", p)))`), "b'hello'\nECONNREFUSED\nb'hello' EADDRINUSE\n"},
		"again": {"python3", python(`
s = socket.socket(); s.bind(("127.0.0.1", 0)); p = port(s)
c = socket.socket(); print(fails(c.connect, ("127.0.0.1", p)), end=" "); s.listen(); print(fails(c.connect, ("127.0.0.1", p)), fails(c.connect, ("127.0.0.1", p)))
n = socket.socket(); n.setblocking(False); print(n.connect_ex(("127.0.0.1", p)) in (0, errno.EINPROGRESS)); time.sleep(.05)
print(n.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), n.connect_ex(("127.0.0.1", p)) == errno.EISCONN)
s.listen(); print(fails(c.bind, ("127.0.0.1", 0)), fails(c.listen))`),
			"ECONNREFUSED done EISCONN\nTrue\n0 True\nEINVAL EINVAL\n"},
		"processes": {"python3", python(`
s = socket.socket(); s.bind(("127.0.0.1", 0))
for _ in range(2): # each of them says that it listens
	if os.fork() == 0:
		s.listen(); a, _ = s.accept(); a.sendall(b"child"); os._exit(0)
time.sleep(.1)
print([socket.create_connection(s.getsockname()).recv(5) for _ in range(2)])
mine, theirs = socket.socketpair()
if os.fork() == 0: # one makes a socket for another
	t = socket.socket(); socket.send_fds(theirs, [b"x"], [t.fileno()]); os._exit(0)
_, fds, _, _ = socket.recv_fds(mine, 1, 1); os.wait()
t = socket.socket(fileno=fds[0]); t.bind(("127.0.0.1", 0)); t.listen(); print(talk(t, socket.create_connection(t.getsockname())))`),
			"[b'child', b'child']\nb'hello'\n"},
		"files": {"python3", python(`
os.mkdir("d"); os.chdir("d"); os.umask(0o077)
s = socket.socket(socket.AF_UNIX); s.bind("s ü@"); s.listen(); print(s.getsockname(), oct(os.stat("s ü@").st_mode))
def client(path): c = socket.socket(socket.AF_UNIX); c.connect(path); return c
os.symlink(os.path.abspath("s ü@"), "../link"); print(talk(s, client("s ü@")), talk(s, client("../link")))
os.rename("s ü@", "moved"); print(talk(s, client("moved")))
full = os.path.abspath("full"); f = socket.socket(socket.AF_UNIX); f.bind(full); print(f.getsockname() == full, fails(client, full)); f.listen(); print(talk(f, client(full)))
f.close(); print(fails(client, full), fails(client, "missing"), fails(client, "."), fails(f.__class__(socket.AF_UNIX).bind, full))
b = socket.socket(socket.AF_UNIX); b.bind("bound"); b.connect("moved"); print(talk(s, b))`),
			"s ü@ 0o140700\nb'hello' b'hello'\nb'hello'\nTrue ECONNREFUSED\nb'hello'\nECONNREFUSED ENOENT ECONNREFUSED EADDRINUSE\nb'hello'\n"},
		"waiting": {"python3", python(`
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(0) # there is room for one
first = socket.create_connection(s.getsockname())
more = [threading.Thread(target=lambda: socket.create_connection(s.getsockname()).close()) for _ in range(3)]
[m.start() for m in more]; time.sleep(.2)
for _ in range(4): s.accept()
[m.join() for m in more]; print("all")
u = socket.socket(socket.AF_UNIX); u.bind("waiting"); u.listen(0)
c = [socket.socket(socket.AF_UNIX) for _ in range(4)]; c[0].connect("waiting")
c[1].settimeout(0.1); print(fails(c[1].connect, "waiting") in ("EAGAIN", "done"))
t = threading.Thread(target=lambda: c[2].connect("waiting")); t.start(); time.sleep(.1)
for _ in range(2): u.accept()
t.join(5); print(t.is_alive())`), "all\nTrue\nFalse\n"},
		"perl": {"perl", `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die $@;
			$c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $s->sockport, Timeout => 5) or die $@; $a = $s->accept; print $c "hello\n"; $c->flush; print scalar <$a>'`, "hello\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(test.program); err != nil {
				t.Skip(err)
			}
			if out, end := p.run(t, test.command, sandbox.Limits{}); out != test.want {
				t.Errorf("%s%+v, want %s", out, end, test.want)
			}
		})
	}
	t.Run("Go", func(t *testing.T) {
		if out, end := p.runJailed(t, "serve"); out != "from Go\nfrom Go\nfrom Go\n" {
			t.Errorf("%s %+v", out, end)
		}
	})
}

// serveHere is a server and its client, as a command.
func serveHere([]string) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "from Go") })
	server := httptest.NewServer(page)
	get(server.Client(), server.URL)
	all, err := net.Listen("tcp", ":0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go http.Serve(all, page)
	get(http.DefaultClient, fmt.Sprintf("http://localhost:%d/", all.Addr().(*net.TCPAddr).Port))
	file, err := net.Listen("unix", "go.sock")
	if err != nil {
		fmt.Println(err)
		return
	}
	go http.Serve(file, page)
	get(&http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", file.Addr().String())
	}}}, "http://file/")
}

func get(client *http.Client, url string) {
	response, err := client.Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	fmt.Print(string(text))
}
