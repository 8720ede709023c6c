// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package site keeps web pages of other sites from a server that speaks HTTP: browsers send
// what a page tells them to, from inside of networks that the page itself cannot reach.
package site

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A Filter knows by which names a server is reached, and which pages may use it.
type Filter struct {
	// Hosts are the names that clients reach the server by, beside localhost and
	// addresses. None are all, unless Open.
	Hosts []string

	// Origins are the pages, beside those of the server itself, whose scripts may send
	// requests, such as "https://console.example".
	Origins []string

	// Open says that callers need not prove who they are.
	Open bool
}

// Check returns why a request may have been sent by a page of another site: by its origin,
// or by a name that such a site has led here (DNS rebinding).
func (f *Filter) Check(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(strings.ToLower(host), "[]")
	_, notAddress := netip.ParseAddr(host)
	known := notAddress == nil || host == "localhost" || slices.Contains(f.Hosts, host) || len(f.Hosts) == 0 && !f.Open
	if !known {
		return fmt.Errorf("the host %.64q is not one of this server: want localhost, an address, or a name in http.hosts of its configuration", host)
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 || len(origins) == 1 && slices.Contains(f.Origins, origins[0]) {
		return nil
	}
	at, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || at.Host != r.Host || (at.Scheme == "https") != (r.TLS != nil) {
		return fmt.Errorf("the origin %.64q is another site: want none, that of this server, or one in http.origins of its configuration", origins[0])
	}
	return nil
}
