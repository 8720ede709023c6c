// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestHosts has commands reach the hosts that their call was given, through the
// proxy of the server, and no others. Behind it is another proxy, on loopback, so
// that no packet leaves the machine.
func TestHosts(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	asked := make(chan string, 10)
	go func() {
		for {
			conn, err := upstream.Accept()
			if err != nil {
				return
			}
			go answer(conn, asked)
		}
	}()
	k := newKit(t, func(c *command.Config) {
		c.Network, c.Hosts.Upstream = tools.NetworkHosts, upstream.Addr().String()
	})
	const fetch = `curl -sS -m 10 http://given.example/ ; curl -sS -m 10 http://other.example/`
	given := tools.Rights{Confinement: tools.Named, Network: tools.NetworkNone, Hosts: []string{"given.example:80"}}
	text := k.runWith(given, fetch)
	if !strings.Contains(text, "hello from given.example") || strings.Contains(text, "hello from other.example") || !strings.Contains(text, "(Not reached: ") {
		t.Error(text)
	}
	if text := k.runWith(tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}, fetch); strings.Contains(text, "hello") {
		t.Errorf("without a host: %s", text)
	}
	close(asked)
	for host := range asked {
		if host, _, _ = strings.Cut(host, ":"); host != "given.example" {
			t.Errorf("%s was asked for", host)
		}
	}
}

// answer is a proxy that answers for every host itself.
func answer(conn net.Conn, asked chan<- string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	request, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	asked <- request.URL.Host
	if request.Method == http.MethodConnect {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
	}
	io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello from "+request.URL.Hostname()+"\n")
}
