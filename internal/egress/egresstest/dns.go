// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package egresstest has what tests of names and addresses share.
package egresstest

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// ServeDNS is a DNS server on loopback, at address, until the test ends. It asks of each
// name which IPv4 address it has at that moment.
func ServeDNS(t testing.TB, addressOf func(name string) netip.Addr) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-served
	})
	go func() {
		defer close(served)
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
				continue
			}
			question := message.Questions[0]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: message.ID, Response: true, Authoritative: true}, Questions: message.Questions}
			if question.Type == dnsmessage.TypeA {
				reply.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: addressOf(question.Name.String()).As4()},
				}}
			}
			if packed, err := reply.Pack(); err == nil {
				conn.WriteTo(packed, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}
