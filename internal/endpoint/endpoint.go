// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint knows the addresses that servers listen on and clients connect
// to: host:port, or unix:/path.
package endpoint

import (
	"fmt"
	"net"
	"strings"
)

// Check reports an address nobody can listen on.
func Check(address string) error {
	if path, ok := SocketPath(address); ok {
		if path == "" || strings.HasPrefix(path, "@") || strings.ContainsRune(path, 0) {
			return fmt.Errorf("%q: want unix: and the path of a socket file", address)
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address: want host:port, such as 127.0.0.1:8665, or unix:/path", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: %q is not a port", address, port)
	}
	return nil
}

// SocketPath returns the path of a unix socket address.
func SocketPath(address string) (string, bool) {
	path, ok := strings.CutPrefix(address, "unix:")
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		path = rest
	}
	return path, ok
}

// IsLocal reports whether an address can be reached from this machine alone. A
// name counts as local only if it is localhost: others may lead anywhere.
func IsLocal(address string) bool {
	if _, ok := SocketPath(address); ok {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
