// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/tools"
)

// hostProxy is the way of one command to hosts: a proxy of the server, on the
// loopback of the session.
type hostProxy struct {
	client   *egress.Client
	listener net.Listener
}

// needsHosts reports whether rights let hosts be reached that are not on loopback.
func needsHosts(rights *tools.Rights) bool {
	return rights.Network == tools.NetworkHosts || rights.Network != tools.NetworkOpen && len(rights.Hosts) > 0
}

// openProxy opens the way to the hosts that a command may reach.
func (r *Runner) openProxy(judge egress.Judge) (*hostProxy, error) {
	space, err := r.space(false)
	if err != nil {
		return nil, err
	}
	listener, err := space.Listen()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		listener.Close()
		return nil, ErrSessionEnds
	}
	if r.proxy == nil {
		r.proxy = egress.New(r.all.config.Hosts)
	}
	proxy := r.proxy
	r.mu.Unlock()
	go proxy.Serve(listener)
	return &hostProxy{client: proxy.Open(judge), listener: listener}, nil
}

// withLoopback has a judge's clients reach the loopback of the session, where it has one
// of its own: otherwise that would be the server's.
func (r *Runner) withLoopback(judge egress.Judge) egress.Judge {
	if r.all.config.Sandbox.Namespaces() {
		judge.Local = func(ctx context.Context, port uint16) (net.Conn, error) {
			space, err := r.space(false)
			if err != nil {
				return nil, err
			}
			return space.Dial(ctx, port)
		}
	}
	return judge
}

func (o *hostProxy) port() uint16 { return uint16(o.listener.Addr().(*net.TCPAddr).Port) }

func (o *hostProxy) environ() []string { return o.client.Environ(o.listener.Addr().String()) }

// close ends all that goes through, and returns what was refused.
func (o *hostProxy) close() []string {
	o.client.Close() // waits for what is under way
	o.listener.Close()
	return o.client.Refused()
}

// judgeOf allows what a call was given, and what rules allow. Where there are rules, they
// alone open private addresses: one that a call names may be allowed by a rule about all
// hosts. Without rules it was the operator who named what is given.
func judgeOf(rights *tools.Rights, restrictions tools.Restrictions) egress.Judge {
	given := func(host string, port int) bool {
		return slices.Contains(rights.Hosts, net.JoinHostPort(host, strconv.Itoa(port))) ||
			slices.Contains(rights.Hosts, net.JoinHostPort(host, "0"))
	}
	return egress.Judge{
		Host: func(_ context.Context, host string, port int) error {
			if given(host, port) {
				return nil
			}
			if restrictions == nil {
				return errNoHosts
			}
			return restrictions.Reaches(host, port)
		},
		Address: func(_ context.Context, addr netip.Addr, port int) (listed bool, err error) {
			if restrictions == nil {
				return given(addr.String(), port), nil
			}
			return restrictions.ReachesAddress(addr, port)
		},
	}
}

var errNoHosts = tools.Failf("denied", "this host may not be reached")
