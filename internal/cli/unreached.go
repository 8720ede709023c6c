// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/endpoint"
)

// schemes are what people write before an address that no gRPC address has, and
// whether it asks for encryption.
var schemes = map[string]bool{
	"http": false, "https": true, "grpc": false, "grpcs": true, "h2c": false, "tcp": false, "tls": true,
}

// checkTarget says what is wrong with an address to talk to.
func checkTarget(address string) error {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return endpoint.Check(address)
	}
	encrypted, wrong := schemes[strings.ToLower(scheme)]
	if !wrong {
		return nil // one that gRPC knows, or says that it does not
	}
	rest, _, _ = strings.Cut(rest, "/")
	if rest == "" {
		rest = "HOST:PORT"
	} else if _, _, err := net.SplitHostPort(rest); err != nil {
		rest += ":PORT"
	}
	right := rest
	if encrypted {
		right += " --tls"
	}
	return fmt.Errorf("%q: an address is host:port, without %s:// and without a path: use --address %s", address, scheme, right)
}

// An unreached is the failure of a call that did not reach the server, or that
// the server had no time for. Its reason is looked for when it is message.
type unreached struct {
	err error // a status
	to  *Target
}

func (e *unreached) Error() string              { return e.err.Error() }
func (e *unreached) Unwrap() error              { return e.err }
func (e *unreached) GRPCStatus() *status.Status { return status.Convert(e.err) }

// wrap makes an unreached of a failure, where it is one.
func (t *Target) wrap(err error) error {
	if status.Code(err) != codes.Unavailable {
		return err
	}
	return &unreached{err, t}
}

// wrapping returns the options that have every failure wrapped.
func (t *Target) wrapping() []grpc.DialOption {
	unary := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		return t.wrap(invoke(ctx, method, request, reply, conn, options...))
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, options...)
		if err != nil {
			return nil, t.wrap(err)
		}
		return &wrappedStream{s, t}, nil
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

type wrappedStream struct {
	grpc.ClientStream
	to *Target
}

func (s *wrappedStream) RecvMsg(message any) error { return s.to.wrap(s.ClientStream.RecvMsg(message)) }

// probeTime is how long the reason of a failure is looked for.
const probeTime = 3 * time.Second

// text tells why the server was not reached and what to change. It connects once
// more to find out.
func (e *unreached) text() string {
	message := status.Convert(e.err).Message()
	why, hint := e.to.probe()
	switch {
	case why == "" && !strings.HasPrefix(message, "connection error"):
		return "the server at " + e.to.address + " takes no calls: " + message
	case why == "":
		return "the server cannot be reached at " + e.to.address + ": " + message
	}
	return "the server cannot be reached: " + why + ".\n" + hint
}

// probe connects as a call does, and returns what is in the way; nothing where
// nothing is, or nobody can tell.
func (t *Target) probe() (why, hint string) {
	network, address, ok := t.socket()
	if !ok {
		return "", ""
	}
	conn, err := net.DialTimeout(network, address, probeTime)
	if err != nil {
		return t.unconnected(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(probeTime))
	if !t.encrypted() {
		// Whoever answers a greeting of TLS speaks it; the certificate does not matter.
		err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake()
		if err == nil {
			return t.address + " speaks TLS, and this connection is not encrypted",
				"Add --tls; and --ca FILE if its certificate is one that you made yourself."
		}
		return t.overHTTP(err)
	}
	host, _, _ := net.SplitHostPort(address)
	config, err := t.tlsConfig()
	if err != nil {
		return "", ""
	}
	config.ServerName, config.NextProtos = host, []string{"h2"}
	return t.unencrypted(tls.Client(conn, config).Handshake())
}

// socket returns what to connect to; false for addresses that only gRPC can
// resolve, or that are reached through a proxy.
func (t *Target) socket() (network, address string, ok bool) {
	if path, ok := strings.CutPrefix(t.address, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//"), true
	}
	proxied := cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy")) != "" && !endpoint.IsLocal(t.address)
	return "tcp", t.address, !proxied && !strings.Contains(t.address, "://")
}

// unconnected explains that there is no connection.
func (t *Target) unconnected(err error) (why, hint string) {
	missing, ok := errors.AsType[*net.DNSError](err)
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case ok:
		return fmt.Sprintf("the name %s is unknown (%s)", missing.Name, missing.Err), "Check the host in --address or TOOLSERVER_ADDRESS."
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "nothing listens at " + t.address,
			"Start a server there with 'toolserver serve', or name another with --address or TOOLSERVER_ADDRESS."
	case errors.Is(err, syscall.EACCES):
		return "this user may not open " + t.address, "Run as a user who may, or name another server with --address or TOOLSERVER_ADDRESS."
	case timeout != nil && timeout.Timeout():
		return fmt.Sprintf("%s does not answer within %s", t.address, probeTime), "Check host, port and firewall."
	}
	return err.Error(), "Check --address or TOOLSERVER_ADDRESS."
}

// overHTTP explains that an HTTP server answers to a greeting of TLS; nothing where none does.
func (t *Target) overHTTP(err error) (why, hint string) {
	if reply, ok := errors.AsType[tls.RecordHeaderError](err); !ok || string(reply.RecordHeader[:]) != "HTTP/" {
		return "", ""
	}
	return "an HTTP server answers at " + t.address,
		"gRPC is served on another port, which is 8665 unless the server was told otherwise: name it with --address or TOOLSERVER_ADDRESS."
}

// unencrypted explains why TLS fails; nothing where it does not.
func (t *Target) unencrypted(err error) (why, hint string) {
	if err == nil {
		return "", ""
	}
	if why, hint := t.overHTTP(err); why != "" {
		return why, hint
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return t.address + " does not speak TLS", "Leave out --tls and --ca; add --plaintext if a token is to be sent all the same."
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another name: " + wrong.Error(), "Use a name in --address that the certificate has."
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "nobody here trusts who signed the certificate of " + t.address, "Name the file with the certificate of its signer with --ca FILE."
	}
	if wrong, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "the certificate of " + t.address + " is not valid: " + wrong.Error(), "Renew it on the server."
	}
	return "TLS fails with " + t.address + ": " + err.Error(), "Check that it is a toolserver with TLS that listens there."
}
