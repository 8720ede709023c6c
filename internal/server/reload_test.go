// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// signed makes a certificate and its key, in PEM. It vouches for itself.
func signed(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// mounted is a directory as Kubernetes mounts a Secret: links through ..data, which is
// swapped as a whole.
type mounted struct {
	t       *testing.T
	dir     string
	version int
}

func (m *mounted) swap(files map[string]string) {
	m.t.Helper()
	m.version++
	name := "..version" + string(rune('a'+m.version))
	if err := os.Mkdir(filepath.Join(m.dir, name), 0o700); err != nil {
		m.t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(m.dir, name, file), []byte(text), 0o600); err != nil {
			m.t.Fatal(err)
		}
		os.Symlink("..data/"+file, filepath.Join(m.dir, file)) // the first time
	}
	if err := os.Symlink(name, filepath.Join(m.dir, "..tmp")); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(m.dir, "..tmp"), filepath.Join(m.dir, "..data")); err != nil {
		m.t.Fatal(err)
	}
}

// TestReloadOfAccess: tokens, certificates and CAs change while the server runs, and files
// that are wrong change nothing and are told.
func TestReloadOfAccess(t *testing.T) {
	t.Parallel()
	m := &mounted{t: t, dir: t.TempDir()}
	first, firstKey := signed(t, "first")
	second, secondKey := signed(t, "second")
	client, clientKey := signed(t, "runtime")
	alice, bob := auth.NewSecret(), auth.NewSecret()
	line := func(name, secret string) string {
		return auth.Token{Principal: auth.Principal{Name: name, Roles: auth.Agent}, Secret: secret}.Line() + "\n"
	}
	files := map[string]string{"tls.crt": string(first), "tls.key": string(firstKey), "ca.crt": string(first), "tokens": line("alice", alice)}
	m.swap(files)
	at := func(name string) string { return filepath.Join(m.dir, name) }

	c := config.Default()
	c.Sandbox.Helper = sandboxtest.Helper()
	c.Sessions.Workspace, c.Sessions.WorkspaceRoot = t.TempDir(), t.TempDir()
	c.TLS = config.TLS{Certificate: at("tls.crt"), Key: at("tls.key")}
	c.Authentication.TokenFile, c.Authentication.Certificates.CA = at("tokens"), at("ca.crt")
	c.Audit.File = filepath.Join(t.TempDir(), "audit")
	core, logs := observer.New(zapcore.InfoLevel)
	logger, metrics := zap.New(core), prometheus.NewRegistry()
	access, err := c.Access()
	if err != nil {
		t.Fatal(err)
	}
	server, err := newWith(access, auth.Local.Name, c, nil, logger, metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ctx, stop := context.WithCancel(t.Context())
	watchAccess(ctx, c, access, metrics, logger, server.Reloaded)
	t.Cleanup(func() {
		stop()
		ShutDown(server, 0)
		<-served
	})
	if c.MaxMode() != c.Sessions.Mode {
		t.Errorf("callers may have mode %s", c.MaxMode())
	}

	// who returns whom the server takes a caller for, on a connection of its own.
	who := func(trust []byte, token string, certificate ...[]byte) (string, error) {
		config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
		config.RootCAs.AppendCertsFromPEM(trust)
		if len(certificate) > 0 {
			pair, err := tls.X509KeyPair(certificate[0], certificate[1])
			if err != nil {
				t.Fatal(err)
			}
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		conn, err := grpc.NewClient("passthrough:"+listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		info, err := pb.NewToolServiceClient(conn).GetServerInfo(ctx, new(pb.GetServerInfoRequest))
		return info.GetPrincipal(), err
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not come to be that %s; log: %v", what, logs.All())
			}
		}
	}
	is := func(name string, trust []byte, token string, certificate ...[]byte) {
		t.Helper()
		until(name+" gets in", func() bool { got, err := who(trust, token, certificate...); return err == nil && got == name })
	}
	failures := func(what string) bool {
		return strings.Contains(metricsText(t, metrics), `toolserver_reloads_total{result="failed",what="`+what+`"} 1`)
	}
	is("alice", first, alice)
	if _, err := who(first, bob); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("bob: %v", err)
	}
	if _, err := who(first, "", client, clientKey); status.Code(err) != codes.Unavailable {
		t.Fatalf("a certificate of nobody who vouches: %v", err)
	}

	// Bob is added, the certificate replaced and another CA trusted, with one swap.
	files["tokens"] = line("alice", alice) + line("bob", bob)
	files["tls.crt"], files["tls.key"], files["ca.crt"] = string(second), string(secondKey), string(client)
	m.swap(files)
	is("bob", second, bob)
	is("CN=runtime", second, "", client, clientKey)
	if _, err := who(first, bob); status.Code(err) != codes.Unavailable {
		t.Errorf("the old certificate still serves: %v", err)
	}

	// The files are emptied and broken: nothing changes, and everybody is told.
	files["tokens"], files["tls.key"] = "", string(firstKey)
	m.swap(files)
	until("tokens fail", func() bool { return failures("tokens") })
	until("certificates fail", func() bool { return failures("certificates") })
	is("alice", second, alice)
	is("CN=runtime", second, "", client, clientKey)
	for _, says := range []string{"has no token", "do not belong together"} {
		if !strings.Contains(logText(logs), says) {
			t.Errorf("the log does not say %q: %s", says, logText(logs))
		}
	}
	// Alice goes.
	files["tokens"], files["tls.key"] = line("bob", bob), string(secondKey)
	m.swap(files)
	until("alice is out", func() bool { _, err := who(second, alice); return status.Code(err) == codes.Unauthenticated })
	is("bob", second, bob)
	for _, record := range []string{
		`"rule":"tokens","by":"server","outcome":"succeeded"`, `"rule":"certificates","by":"server","outcome":"succeeded"`,
		`"step":"reloaded","rule":"tokens","reason":`, `"step":"reloaded","rule":"certificates","reason":`,
	} {
		until("the audit log has "+record, func() bool {
			text, err := os.ReadFile(c.Audit.File)
			return err == nil && strings.Contains(string(text), record)
		})
	}
	if text := logText(logs); strings.Contains(text, alice) || strings.Contains(text, "PRIVATE") {
		t.Errorf("a secret is in the log: %s", text)
	}
}

func logText(logs *observer.ObservedLogs) string {
	var text strings.Builder
	for _, line := range logs.All() {
		text.WriteString(line.Message)
		for _, field := range line.Context {
			if err, ok := field.Interface.(error); ok {
				text.WriteString(" " + err.Error())
			}
			text.WriteString(" " + field.String)
		}
		text.WriteString("\n")
	}
	return text.String()
}
