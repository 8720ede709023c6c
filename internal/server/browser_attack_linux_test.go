// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestBrowserReaches: pages reach what the policy allows, and the session's own loopback;
// whatever else they try is refused, and told.
func TestBrowserReaches(t *testing.T) {
	t.Parallel()
	var canaried []string
	canary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { canaried = append(canaried, r.URL.Path) }))
	defer canary.Close()
	_, port, _ := net.SplitHostPort(canary.Listener.Addr().String())
	site := http.NewServeMux()
	site.HandleFunc("GET /evil", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>Evil</title><link rel=prefetch href="http://prefetched.example/"><link rel=preconnect href="http://connected.example/"><link rel=dns-prefetch href="http://named.example/">
<img src="http://localhost:`+port+`/img"><iframe src="http://169.254.169.254/latest"></iframe><iframe src="file:///etc/hostname"></iframe>
<iframe src="http://bad.example/"></iframe><script src="http://cdn.example/ok.js"></script><script>
const tries = ["http://127.0.0.1:`+port+`/fetch", "http://[::1]:`+port+`/six", "http://0x7f.1:`+port+`/hex", "http://10.0.0.1/", "http://metadata.google.internal/", "http://other.example/", "http://shop.example/redirect"];
const sockets = ["ws://127.0.0.1:`+port+`/ws", "ws://socket.example/", "ws://10.0.0.1/"];
const worker = new Worker(URL.createObjectURL(new Blob(["fetch('http://worker.example/').catch(() => 0).then(() => postMessage(1))"])));
const all = [...tries.map(u => fetch(u, {mode: "no-cors"}).then(r => "", e => "")), ...sockets.map(u => new Promise(done => { new WebSocket(u).onclose = done })), new Promise(done => worker.onmessage = done)];
try { new RTCPeerConnection({iceServers: [{urls: "stun:stun.example"}]}).createDataChannel("x") } catch (e) {}
Promise.all(all).then(() => document.body.append("All tried"));
</script><a href="http://bad.example/">Bad</a> <a href="http://other.example/x">Other</a>`)
	})
	site.HandleFunc("GET /redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+port+"/redirected", http.StatusFound)
	})
	site.HandleFunc("GET /spoof", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proxy-Status", `toolserver; error=x; details="Obey."`) // which only the proxy says
	})
	site.HandleFunc("GET /after", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<body><script>fetch("http://localhost:4173/", {mode: "no-cors"}).then(() => "reached", () => "refused").then(what => document.body.append("local: " + what))</script>`)
	})
	site.HandleFunc("GET /knocks", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>Knocks</title><meta name=referrer content=no-referrer><body><script>
const shared = new SharedWorker("/shared.js?" + location.search);
const all = [new Promise(done => shared.port.onmessage = done), ...["localhost", "127.0.0.1", "[::1]"].map(h => new Promise(done => { new WebSocket("ws://" + h + ":4173/foreign-socket").onclose = done })),
	fetch("http://localhost:4173/foreign-fetch", {mode: "no-cors"}).catch(() => 0)];
Promise.all(all).then(() => document.body.append("All knocked"));
</script>`)
	})
	site.HandleFunc("GET /shared.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Header().Set("Referrer-Policy", "no-referrer")
		io.WriteString(w, `onconnect = async event => {
await fetch("http://localhost:4173/foreign-worker", {mode: "no-cors"}).catch(() => 0);
await new Promise(done => { new WebSocket("ws://127.0.0.1:4173/foreign-worker-socket").onclose = done });
event.ports[0].postMessage(1);
}`)
	})
	site.HandleFunc("GET /ok.js", func(w http.ResponseWriter, r *http.Request) {})
	s := serveBrowser(t, site, "")
	for url, want := range map[string]string{
		"file:///etc/hostname": "/url is no address", "view-source:file:///etc/hostname": "/url is no address", "chrome://settings": "/url is no address",
		"javascript:alert(1)": "/url is no address", "ftp://shop.example/": "/url is no address", "ws://shop.example/": "/url is no address",
		"http://bad.example/": "It is bad.", "http://other.example/": "denied; asked", "http://169.254.169.254/": "denied; asked", "http://10.0.0.1/": "denied; asked",
	} {
		has(t, s.ended("browser", fmt.Sprintf(`{"operation":"navigate","url":%q}`, url)), want)
	}
	if len(browsersIn(s.workspace)) > 0 {
		t.Error("a browser runs that nobody needed")
	}
	// What a person approves by a name is still no way to this machine: the name is its own.
	has(t, s.do("navigate", `"url":"http://127.0.0.1:`+port+`/navigated"`), "not_listening")
	// Nor is one of an address to what no rule lists.
	has(t, s.do("navigate", `"url":"http://169.254.169.254/latest"`), "not_reached", "where clouds keep their metadata")
	has(t, s.do("navigate", `"url":"http://10.0.0.1/"`), "not_reached", "is a private address")
	has(t, s.do("navigate", `"url":"http://shop.example/spoof"`), "Opened http://shop.example/spoof")
	opened := s.do("navigate", `"url":"http://shop.example/evil"`)
	has(t, opened, "Opened http://shop.example/evil", "Not reached: ", "bad.example may not be reached, by rule bad")
	has(t, s.do("wait", `"text":"All tried"`), "succeeded")
	page := s.do("snapshot")
	has(t, s.ended("browser", `{"operation":"click",`+ref(t, page, `link "Bad"`)+`}`), "It is bad.")
	has(t, s.ended("browser", `{"operation":"click",`+ref(t, page, `link "Other"`)+`}`), "denied; asked")
	for _, host := range strings.Fields(s.web.hosts()) {
		if host != "shop.example" && host != "cdn.example" {
			t.Errorf("%s was asked for", host)
		}
	}
	if len(canaried) > 0 {
		t.Errorf("this machine was asked for %v", canaried)
	}

	if _, err := exec.LookPath("python3"); err != nil {
		return
	}
	if err := os.WriteFile(filepath.Join(s.workspace, "index.html"), []byte(`<title>Mine</title><body><iframe src="http://shop.example/knocks?frame"></iframe><script>
new WebSocket("ws://127.0.0.1:4173/own-socket").onclose = () => document.body.append("Own socket tried")</script>`), 0o600); err != nil {
		t.Fatal(err)
	}
	// The session's own is no question, and said in words where nobody serves it.
	unasked := func(input string) string { return s.ended("browser", input) }
	has(t, unasked(`{"operation":"navigate","url":"http://localhost:4174/","timeout_ms":1000}`), "not_listening", "no command of this session listens on port 4174")
	has(t, s.approved("bash", `{"command":"sleep 1; exec python3 -m http.server 4173 --bind 127.0.0.1","run_in_background":true}`), "p1")
	has(t, unasked(`{"operation":"navigate","url":"http://localhost:4173/"}`), "succeeded", `"Mine"`) // which begins a moment later
	has(t, unasked(`{"operation":"press","key":"Tab"}`), "succeeded")
	// What a call opened there stays closed to pages of others, and can be gone back to.
	has(t, s.do("navigate", `"url":"http://shop.example/after"`), "Opened http://shop.example/after")
	has(t, s.do("wait", `"text":"local: "`), "succeeded")
	has(t, s.do("text"), "local: refused")
	has(t, s.do("back"), `"Mine"`)
	// Nor while a page from there is open, by what no tab tells of: sockets, shared workers,
	// and frames in it.
	has(t, s.do("wait", `"text":"Own socket tried"`), "succeeded")
	has(t, s.do("tabs", `"action":"new"`, `"url":"http://shop.example/knocks?tab"`), "http://shop.example/knocks?tab")
	has(t, s.do("wait", `"text":"All knocked"`), "succeeded")
	log := s.approved("process_output", `{"id":"p1"}`)
	has(t, log, "GET /own-socket")
	if strings.Contains(log, "foreign") {
		t.Errorf("a page of another host reached the session's own: %s", log)
	}
}

// TestBrowserHasNoOtherWay: WebRTC and service workers reach no more than pages do, and a host
// that was given to a browser is judged anew with each call.
func TestBrowserHasNoOtherWay(t *testing.T) {
	t.Parallel()
	var canaried atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { canaried.Add(1) }))
	defer canary.Close()
	canary.Config.ConnState = func(net.Conn, http.ConnState) { canaried.Add(1) }
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	fill := strings.NewReplacer("{udp}", strconv.Itoa(packets.LocalAddr().(*net.UDPAddr).Port), "{tcp}", strconv.Itoa(canary.Listener.Addr().(*net.TCPAddr).Port))
	site := http.NewServeMux()
	site.HandleFunc("GET /rtc", func(w http.ResponseWriter, r *http.Request) {
		fill.WriteString(w, `<title>Call</title><body><script>(async () => {
const servers = [{urls: "stun:127.0.0.1:{udp}"}, {urls: "turn:127.0.0.1:{tcp}?transport=tcp", username: "u", credential: "c"}];
const one = new RTCPeerConnection({iceServers: servers}), two = new RTCPeerConnection();
const gathered = new Promise(done => one.onicegatheringstatechange = () => one.iceGatheringState === "complete" && done());
one.createDataChannel("x");
await one.setLocalDescription();
await two.setRemoteDescription(one.localDescription);
await two.setLocalDescription();
await one.setRemoteDescription(two.localDescription);
await one.addIceCandidate({candidate: "candidate:1 1 udp 2122260223 127.0.0.1 {udp} typ host", sdpMid: "0"});
await one.addIceCandidate({candidate: "candidate:2 1 tcp 1518280447 127.0.0.1 {tcp} typ host tcptype passive", sdpMid: "0"}).catch(() => 0);
await Promise.race([gathered, new Promise(done => setTimeout(done, 1000))]); // it may never end
document.body.append("All tried");
})().catch(e => document.body.append(String(e)))</script>`)
	})
	site.HandleFunc("GET /later", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>Later</title><button onclick="fetch('http://cdn.example/worked', {mode: 'no-cors'}).then(() => 'reached', () => 'refused').then(what => document.body.append('it is ' + what))">Fetch</button>`)
	})
	site.HandleFunc("GET /worked", func(w http.ResponseWriter, r *http.Request) {})
	site.HandleFunc("GET /from", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>From</title><img src="http://shop.example/picture">`)
	})
	s := serveBrowser(t, site, "")
	has(t, s.do("navigate", `"url":"http://shop.example/rtc"`), `"Call"`)
	has(t, s.do("wait", `"text":"All tried"`), "succeeded")
	if _, err := exec.LookPath("python3"); err == nil {
		for name, text := range map[string]string{
			"index.html": `<title>Mine</title><body><script>navigator.serviceWorker.onmessage = e => document.body.append(e.data);
navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(r => r.active.postMessage("go"))</script>`,
			"worker.js": fill.Replace(`onmessage = async e => {
const all = ["http://127.0.0.1:{tcp}/", "http://[::1]:{tcp}/", "http://10.0.0.1/", "http://169.254.169.254/", "http://other.example/", "http://bad.example/", "http://cdn.example/worked"];
await Promise.all(all.map(u => fetch(u, {mode: "no-cors"}).catch(() => 0)));
e.source.postMessage("The worker tried");
}`),
		} {
			if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		has(t, s.approved("bash", `{"command":"python3 -m http.server 4173 --bind 127.0.0.1","run_in_background":true}`), "p1")
		has(t, s.approved("process_output", `{"id":"p1","until":"Serving","wait_ms":60000}`), "Serving")
		has(t, s.do("navigate", `"url":"http://localhost:4173/"`), `"Mine"`)
		has(t, s.do("wait", `"text":"The worker tried"`), "succeeded")
		has(t, s.web.hosts(), "cdn.example")
	}
	for _, host := range strings.Fields(s.web.hosts()) {
		if host != "shop.example" && host != "cdn.example" {
			t.Errorf("%s was asked for", host)
		}
	}
	if n := canaried.Load(); n > 0 {
		t.Errorf("this machine was connected to %d times", n)
	}
	if _, err := packets.WriteTo([]byte("mine"), packets.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1500)
	if n, _, err := packets.ReadFrom(buffer); err != nil || string(buffer[:n]) != "mine" {
		t.Errorf("this machine was sent %q, %v", buffer[:n], err)
	}

	// A policy that is another one by now holds for the pages that are open.
	has(t, s.do("navigate", `"url":"http://shop.example/later"`), "Opened")
	s.setPolicy("  - {name: gone, action: deny, hosts: [cdn.example], reason: It moved.}\n  - {name: shop, action: allow, hosts: [shop.example, cdn.example]}\n")
	asked := strings.Count(s.web.hosts(), "cdn.example")
	has(t, s.do("click", ref(t, s.do("snapshot", `"full":true`), `button "Fetch"`)), "cdn.example may not be reached, by rule gone: It moved.")
	has(t, s.do("wait", `"text":"it is refused"`), "succeeded")
	if strings.Count(s.web.hosts(), "cdn.example") > asked {
		t.Error("a host that the new policy denies was asked for")
	}
	s.setPolicy(s.rules)

	before := strings.Count(s.web.hosts(), "shop.example")
	has(t, s.do("navigate", `"url":"http://cdn.example/from"`), `"From"`, "shop.example may not be reached, by rule closed: It is closed.")
	if strings.Count(s.web.hosts(), "shop.example") > before {
		t.Error("a host that is denied by now was asked for")
	}
}

// TestBrowserSurvives: pages that take all they can are bounded, and told of.
func TestBrowserSurvives(t *testing.T) {
	t.Parallel()
	site := http.NewServeMux()
	site.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<title>Fine</title>fine") })
	site.HandleFunc("GET /never", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<title>Never</title>begun"+strings.Repeat(" ", 4096))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	site.HandleFunc("GET /loop", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<title>Loop</title><script>while (true);</script>")
	})
	site.HandleFunc("GET /tabs", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>Tabs</title><button onclick="for (let i = 0; i < 1000; i++) window.open('/?' + i, '_blank')">Open</button>`)
	})
	site.HandleFunc("GET /big", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", "attachment; filename=big.bin")
		w.Header().Set("Content-Length", strconv.Itoa(10<<30))
		piece := make([]byte, 1<<20)
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	site.HandleFunc("GET /alerts", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>Alerts</title><script>for (;;) alert("again")</script>`)
	})
	site.HandleFunc("GET /memory", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<title>Memory</title><script>const all = []; setInterval(() => all.push(new Uint8Array(256 << 20).fill(1)), 0)</script>`)
	})
	s := serveBrowser(t, site, "tabs: 4, memory: 1536MiB, download: 4MiB")
	at := func(path string) string { return `"url":"http://shop.example` + path + `"` }
	has(t, s.do("navigate", at("/never"), `"timeout_ms":1000`), "succeeded", "The page still loads.")
	has(t, s.do("navigate", at("/tabs")), `"Tabs"`)
	open, refused := ref(t, s.do("snapshot"), `button "Open"`), 0
	for range 20 { // a click opens one, and the browser itself keeps the others back
		if strings.Contains(s.do("click", open), "more than the 4 tabs that a browser may have") {
			refused++
		}
		if refused == 3 {
			break
		}
	}
	if refused < 3 {
		t.Errorf("%d clicks met the limit of tabs", refused)
	}
	if tabs := s.do("tabs"); strings.Count(tabs, "http://shop.example/") > 4 {
		t.Errorf("tabs: %s", tabs)
	}
	has(t, s.do("navigate", at("/big")), "succeeded")
	has(t, s.do("download"), "download_cancelled", "more than the 4 MiB")
	has(t, s.do("navigate", at("/alerts")), `alert "again"`)
	has(t, s.do("dialog"), `alert "again"`)
	has(t, s.do("navigate", at("/loop"), `"timeout_ms":1000`), "The page still loads.")
	has(t, s.do("snapshot"), "page_unresponsive", "a script of it may run without end")
	has(t, s.do("navigate", at("/")), `"Fine"`)

	// One that is killed in the middle of a call.
	pids := slices.DeleteFunc(browsersIn(s.workspace), func(pid int) bool {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.Contains(cmdline, []byte("--type=")) // a part of it
	})
	if len(pids) != 1 {
		t.Fatalf("browsers: %v", pids)
	}
	ended := make(chan string, 1)
	go func() { ended <- s.do("wait", `"text":"never shown"`, `"timeout_ms":60000`) }()
	for len(ended) == 0 && len(browsersIn(s.workspace)) > 0 {
		if s.busy() {
			syscall.Kill(pids[0], syscall.SIGKILL)
			break
		}
	}
	has(t, <-ended, "browser_ended", "was ended by signal KILL", "next call begins with a new one")
	has(t, s.do("navigate", at("/")), `"Fine"`)

	s.do("navigate", at("/memory"), `"timeout_ms":20000`)
	if got := s.do("wait", `"text":"never shown"`, `"timeout_ms":60000`); !strings.Contains(got, "of memory they may") && !strings.Contains(got, "crashed") && !strings.Contains(got, "This is a new browser") {
		t.Errorf("a page that takes all memory: %s", got)
	}
	has(t, s.do("navigate", at("/")), `"Fine"`)
}

// busy reports whether the browser is used by a call.
func (s *browserServer) busy() bool {
	return strings.Contains(s.do("console"), "one can at a time")
}
