// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// identityFigure is figure 15: toolserver that wants a certificate and a token, beside
// toolserver that wants neither and does not encrypt.
func identityFigure(ctx context.Context, h *harness) ([]row, error) {
	var all []*server
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	start := func(begin func(context.Context) (*server, error)) (*server, error) {
		s, err := begin(ctx)
		if err == nil {
			all = append(all, s)
		}
		return s, err
	}
	proven, err := start(func(ctx context.Context) (*server, error) { return h.startEncrypted(ctx, true) })
	if err != nil {
		return nil, err
	}
	var yardsticks [2][2]*server // plain and encrypted, each twice
	for i := range 2 {
		if yardsticks[0][i], err = start(h.startSubject); err != nil {
			return nil, err
		}
		if yardsticks[1][i], err = start(func(ctx context.Context) (*server, error) { return h.startEncrypted(ctx, false) }); err != nil {
			return nil, err
		}
	}
	var duels []*duel
	var groups []group
	for i, yardstick := range []string{"toolserver without", "toolserver with TLS alone"} {
		for _, n := range h.plan.concurrency {
			d := &duel{name: fmt.Sprintf("ExecuteTool with mTLS and a token, %d at once (bare: %s)", n, yardstick), workers: n}
			side := func(s *server) func(context.Context) (slice, error) {
				call := noop(s, work.Noop, false)
				return func(ctx context.Context) (slice, error) {
					sample, err := load(ctx, s, call, d.workers, h.plan.slice)
					h.foreign = append(h.foreign, sample.foreign)
					return sample, err
				}
			}
			duels = append(duels, d)
			groups = append(groups, d.entrants(side(proven), side(yardsticks[i][0]), side(yardsticks[i][1])))
		}
	}
	if err := interleave(ctx, h.plan.warmups, groups...); err != nil {
		return nil, err
	}
	for _, d := range duels {
		d.sides.forget()
	}
	if err := interleave(ctx, h.plan.rounds, groups...); err != nil {
		return nil, err
	}
	var rows []row
	for i, d := range duels {
		wanted := ratioAtLeast(0.9)
		if i >= len(h.plan.concurrency) { // it shows how much of that are the checks
			wanted = target{}
		}
		rows = append(rows,
			d.row(d.name, "calls/s", rateOf, wanted),
			d.row(d.name+": server CPU", "µs/call", cpuOf, target{}))
	}
	return rows, nil
}

// benchToken is the token that the calls of the figure carry.
const benchToken = "tsk_bench-bench-bench-bench-bench-bench-bench"

// startEncrypted starts toolserver with a certificate. Where callers have to prove who
// they are, it wants a certificate of them and a token, and the connection has both.
func (b *binaries) startEncrypted(ctx context.Context, proven bool) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "identity-")
	if err != nil {
		return nil, err
	}
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	serverPair, err := authority.issue("localhost")
	if err != nil {
		return nil, err
	}
	clientPair, err := authority.issue("bench")
	if err != nil {
		return nil, err
	}
	config := "tls: {certificate: server.pem, key: server.key}\n"
	if proven {
		config += "authentication: {token_file: tokens, certificates: {ca: ca.pem, required: true}}\n"
	}
	digest := sha256.Sum256([]byte(benchToken))
	for name, text := range map[string][]byte{
		"ca.pem": authority.pem, "server.pem": serverPair.certificate, "server.key": serverPair.key,
		"tokens":      []byte("sha256:" + hex.EncodeToString(digest[:]) + " roles=agent name=bench\n"),
		"config.yaml": []byte(config),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	command := b.command(b.subject, "serve", "--config", "config.yaml", "--listen", anyPort, "--admin", "off")
	command.Dir = dir
	s, err := b.start(ctx, command)
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	secure.RootCAs.AppendCertsFromPEM(authority.pem)
	var options []grpc.DialOption
	if proven {
		pair, err := tls.X509KeyPair(clientPair.certificate, clientPair.key)
		if err != nil {
			s.stop()
			return nil, err
		}
		secure.Certificates = []tls.Certificate{pair}
		options = append(options, grpc.WithPerRPCCredentials(bearer(benchToken)))
	}
	address := s.conn.Target()
	s.conn.Close() // which was never used
	s.conn, err = grpc.NewClient(address, append(options, grpc.WithTransportCredentials(credentials.NewTLS(secure)))...)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.client = pb.NewToolServiceClient(s.conn)
	return s, nil
}

// bearer is a token that goes with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }

// authority vouches for certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

type keyPair struct{ certificate, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := templateOf("bench CA")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

func (a *authority) issue(name string) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template := templateOf(name)
	template.DNSNames = []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, certErr := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	text, keyErr := x509.MarshalPKCS8PrivateKey(key)
	return keyPair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}),
	}, errors.Join(certErr, keyErr)
}

func templateOf(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}
