// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/toolserver/toolserver/internal/tools"
)

// A hostPattern is a host, a domain, addresses, or everything, with a port or
// any.
type hostPattern struct {
	name   string       // example.com; .example.com for what is below it
	prefix netip.Prefix // instead of a name
	all    bool
	port   int // 0 is any
}

func compileHost(text string) (hostPattern, error) {
	var h hostPattern
	if prefix, err := netip.ParsePrefix(text); err == nil {
		h.prefix = prefix.Masked()
		return h, nil
	}
	if strings.Contains(text, "/") {
		return h, errors.New("has a / in it: want a host such as example.com, without scheme and path, or addresses such as 10.0.0.0/8")
	}
	name := text
	if host, port, err := net.SplitHostPort(text); err == nil {
		if h.port, err = strconv.Atoi(port); port != "*" && (err != nil || h.port < 1 || h.port > 65535) {
			return h, fmt.Errorf("has %q for a port: want 1 to 65535", port)
		}
		name = host
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		addr = addr.Unmap()
		h.prefix = netip.PrefixFrom(addr, addr.BitLen())
		return h, nil
	}
	if name == "*" {
		h.all = true
		return h, nil
	}
	h.name = strings.TrimPrefix(name, "*") // leaves a dot
	bare := strings.TrimPrefix(h.name, ".")
	if bare == "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "*") && !strings.HasPrefix(h.name, ".") {
		return h, errors.New("is no host: want example.com, *.example.com, an address such as 10.0.0.0/8, or *")
	}
	for _, c := range bare {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return h, fmt.Errorf("has %q in it: want a host such as example.com", c)
		}
	}
	return h, nil
}

// covers reports whether what is allowed is what is reached.
func (h *hostPattern) covers(e *tools.Effect) bool {
	if h.port != 0 && h.port != e.Port || e.Host == "" {
		return false
	}
	if h.prefix.IsValid() {
		addr, err := netip.ParseAddr(e.Host)
		return err == nil && addr.Zone() == "" && h.prefix.Contains(addr.Unmap())
	}
	return h.all || h.matchesName(strings.ToLower(e.Host))
}

// catches reports whether what is forbidden is, or could be, what is reached,
// however its name is spelled.
func (h *hostPattern) catches(e *tools.Effect) bool {
	if h.port != 0 && e.Port != 0 && h.port != e.Port {
		return false
	}
	host := foldHost(e.Host)
	if h.prefix.IsValid() {
		addr, ok := looseAddr(host)
		return ok && h.prefix.Contains(addr)
	}
	return h.all || h.matchesName(host)
}

func (h *hostPattern) matchesName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if strings.HasPrefix(h.name, ".") {
		return len(host) > len(h.name) && strings.HasSuffix(host, h.name)
	}
	return host == h.name
}

// foldHost returns the name a client would look up.
func foldHost(host string) string {
	host = strings.ToLower(norm.NFKC.String(host))
	return strings.ReplaceAll(host, "。", ".")
}

// looseAddr reads an address in all the ways that programs do: also as fewer
// than four numbers, in octal or hexadecimal.
func looseAddr(host string) (netip.Addr, bool) {
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.WithZone("").Unmap(), true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		base, digits := 10, part
		if rest, ok := strings.CutPrefix(part, "0x"); ok {
			base, digits = 16, rest
		} else if len(part) > 1 && part[0] == '0' {
			base, digits = 8, part[1:]
		}
		n, err := strconv.ParseUint(digits, base, 32)
		last := i == len(parts)-1
		room := uint64(1) << 8
		if last {
			room = 1 << (8 * (4 - i))
		}
		if err != nil || n >= room {
			return netip.Addr{}, false
		}
		if last {
			value = value<<(8*(4-i)) | n
		} else {
			value = value<<8 | n
		}
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(value)))), true
}
