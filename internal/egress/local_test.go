// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/egress"
)

// TestLocal: a client with a loopback of its own reaches that by its names, and by no name
// that only stands for it; an upstream proxy has no part in it.
func TestLocal(t *testing.T) {
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "own ", r.URL) }))
	defer own.Close()
	for _, upstream := range []string{"", "127.0.0.1:1"} {
		p, address, w := start(t, "127.0.0.1:1", egress.Config{Upstream: upstream})
		w.names["mine.example"] = []string{"127.0.0.1"}
		judge := everything
		var ports []uint16
		judge.Local = func(ctx context.Context, port uint16) (net.Conn, error) {
			ports = append(ports, port)
			return new(net.Dialer).DialContext(ctx, "tcp", own.Listener.Addr().String())
		}
		c := p.Open(judge)
		defer c.Close()
		for url, want := range map[string]string{
			"http://localhost:3000/a": "own /a", "http://127.0.0.1:3000/b": "own /b", "http://[::1]:3000/c": "own /c", "http://x.localhost:3000/d": "own /d",
			"http://mine.example:3000/": "", "http://0.0.0.0:3000/": "",
		} {
			response, err := through(t, c.URL(address)).Get(url)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if got := string(text); want != "" && got != want || want == "" && (strings.HasPrefix(got, "own") || response.StatusCode < 400) {
				t.Errorf("%s by way of %q: %s", url, upstream, got)
			}
		}
		if len(ports) != 4 || ports[0] != 3000 {
			t.Errorf("ports: %v", ports)
		}
	}
}
