// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// ca is one that vouches for certificates.
type ca struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newCA(t *testing.T, name string) *ca {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c := &ca{t: t}
	c.certificate, c.key = c.issue(template)
	return c
}

// issue makes a certificate, valid for a day around now unless it says otherwise.
func (c *ca) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, signer := c.certificate, c.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		c.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	return certificate, key
}

func (c *ca) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw})
}

// pair issues a certificate and returns it and its key in PEM.
func (c *ca) pair(template *x509.Certificate) (certificate, key []byte) {
	c.t.Helper()
	made, private := c.issue(template)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		c.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func serverTemplate() *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

func clientTemplate(name string, ids ...string) *x509.Certificate {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, id := range ids {
		uri, err := url.Parse(id)
		if err != nil {
			panic(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	return template
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTLSFiles: a file that is wrong is named, with what is wrong with it.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	root := newCA(t, "root")
	at := func(name string, text []byte) string { return write(t, filepath.Join(dir, name), text) }
	certificate, key := root.pair(serverTemplate())
	_, otherKey := root.pair(serverTemplate())
	past, future := serverTemplate(), serverTemplate()
	past.NotBefore, past.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	future.NotBefore = time.Now().Add(time.Hour)
	pastCertificate, pastKey := root.pair(past)
	futureCertificate, futureKey := root.pair(future)
	good := auth.TLSFiles{Certificate: at("good.pem", certificate), Key: at("good.key", key), ClientCA: at("ca.pem", root.pem())}
	opened, err := auth.OpenTLS(good)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(opened.Expires()); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("expires in %s", left)
	}
	for name, test := range map[string]struct {
		change func(*auth.TLSFiles)
		says   string
	}{
		"no certificate":       {func(f *auth.TLSFiles) { f.Certificate = filepath.Join(dir, "nix") }, "certificate: open "},
		"no key":               {func(f *auth.TLSFiles) { f.Key = filepath.Join(dir, "nix") }, "key: open "},
		"no CA":                {func(f *auth.TLSFiles) { f.ClientCA = filepath.Join(dir, "nix") }, "client_ca: open "},
		"empty certificate":    {func(f *auth.TLSFiles) { f.Certificate = at("empty", nil) }, "empty is empty"},
		"certificate not PEM":  {func(f *auth.TLSFiles) { f.Certificate = at("der", root.certificate.Raw) }, "der has no CERTIFICATE in PEM: want a block that begins with -----BEGIN CERTIFICATE-----"},
		"certificate is a key": {func(f *auth.TLSFiles) { f.Certificate = f.Key }, "good.key has no CERTIFICATE in PEM"},
		"key is a certificate": {func(f *auth.TLSFiles) { f.Key = f.Certificate }, "good.pem has no PRIVATE KEY in PEM"},
		"key of another":       {func(f *auth.TLSFiles) { f.Key = at("other.key", otherKey) }, "do not belong together"},
		"cut":                  {func(f *auth.TLSFiles) { f.Certificate = at("cut", certificate[:len(certificate)/2]) }, "has no CERTIFICATE in PEM"},
		"key with a password": {func(f *auth.TLSFiles) {
			f.Key = at("locked", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"}))
		}, "key with a password"},
		"expired": {func(f *auth.TLSFiles) { f.Certificate, f.Key = at("past", pastCertificate), at("past.key", pastKey) }, "past expired at "},
		"not yet": {func(f *auth.TLSFiles) {
			f.Certificate, f.Key = at("later", futureCertificate), at("later.key", futureKey)
		}, "later is not valid before "},
		"CA is no certificate": {func(f *auth.TLSFiles) { f.ClientCA = f.Key }, "client_ca: "},
		"one of the CAs is bad": {func(f *auth.TLSFiles) {
			f.ClientCA = at("bad", append(root.pem(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})...))
		}, "bad: x509"},
	} {
		t.Run(name, func(t *testing.T) {
			files := good
			test.change(&files)
			if _, err := auth.OpenTLS(files); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}

// handshake connects over a pipe and returns what the server knows of the connection.
func handshake(t *testing.T, opened *auth.TLS, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", listener.Addr().String(), client)
		if err == nil {
			conn.Read(make([]byte, 1)) // until the server hangs up
			conn.Close()
		}
		done <- err
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server := tls.Server(conn, opened.Config())
	err = server.Handshake()
	state := server.ConnectionState()
	conn.Close()
	if dialErr := <-done; err == nil && dialErr != nil {
		err = dialErr
	}
	return state, err
}

func clientWith(t *testing.T, trusts *ca, certificate, key []byte) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}, ServerName: "localhost"}
	config.RootCAs.AddCert(trusts.certificate)
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		// Also where the server asks for one of another CA.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}

// TestCertificates: who somebody is is in the certificate, as long as that is valid and
// somebody vouches for it.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	root, callers, others := newCA(t, "root"), newCA(t, "callers"), newCA(t, "others")
	certificate, key := root.pair(serverTemplate())
	files := auth.TLSFiles{
		Certificate: write(t, filepath.Join(dir, "tls.crt"), certificate), Key: write(t, filepath.Join(dir, "tls.key"), key),
		ClientCA: write(t, filepath.Join(dir, "ca.crt"), callers.pem()),
	}
	opened, err := auth.OpenTLS(files)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := auth.NewBindings([]auth.Binding{{Name: "spiffe://example.org/ops/*", Roles: auth.Operator, Tenant: "acme"}, {Name: "spiffe://example.org/ops/all", Roles: auth.Viewer, Tenant: "*"}}, auth.Agent)
	if err != nil {
		t.Fatal(err)
	}
	chain := &auth.Chain{Tokens: newTokens(t), Certificates: auth.NewCertificates(opened, rules)}
	connect := func(template *x509.Certificate) auth.Credentials {
		t.Helper()
		client := clientWith(t, root, nil, nil)
		if template != nil {
			made, private := callers.pair(template)
			client = clientWith(t, root, made, private)
		}
		state, err := handshake(t, opened, client)
		if err != nil {
			t.Fatal(err)
		}
		if state.Version != tls.VersionTLS13 {
			t.Errorf("version %x", state.Version)
		}
		return auth.Credentials{TLS: &state}
	}
	for name, test := range map[string]struct {
		template *x509.Certificate
		want     auth.Principal
		says     string
	}{
		"subject":      {clientTemplate("alice"), auth.Principal{Name: "CN=alice", Roles: auth.Agent}, ""},
		"SPIFFE":       {clientTemplate("alice", "https://example.org", "spiffe://example.org/ops/x"), auth.Principal{Name: "spiffe://example.org/ops/x", Roles: auth.Operator, Tenant: "acme"}, ""},
		"all tenants":  {clientTemplate("root", "spiffe://example.org/ops/all"), auth.Principal{Name: "spiffe://example.org/ops/all", Roles: auth.Operator | auth.Viewer, Tenant: "acme", AllTenants: auth.Viewer}, ""},
		"two ids":      {clientTemplate("alice", "spiffe://a/x", "spiffe://a/y"), auth.Principal{}, "two SPIFFE ids"},
		"no id":        {clientTemplate("alice", "spiffe://a/x?y"), auth.Principal{}, "SPIFFE id that is none"},
		"nobody":       {clientTemplate(""), auth.Principal{}, "names nobody"},
		"none":         {nil, auth.Principal{}, "connect with a client certificate, or send"},
		"long":         {clientTemplate("a", "spiffe://a/"+strings.Repeat("x", 300)), auth.Principal{}, "1 to 256 bytes"},
		"like a local": {clientTemplate("local"), auth.Principal{Name: "CN=local", Roles: auth.Agent}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chain.Authenticate(t.Context(), connect(test.template))
			if test.says != "" {
				refused(t, err, "", test.says)
			} else if err != nil || got != test.want {
				t.Errorf("%+v, %v: want %+v", got, err, test.want)
			}
		})
	}
	// A token says who calls where there is one, and a wrong one is not made good by a
	// certificate.
	both := connect(clientTemplate("alice"))
	both.Authorization = bearer(rootSecret).Authorization
	if got, err := chain.Authenticate(t.Context(), both); err != nil || got.Name != "root" {
		t.Errorf("%+v, %v", got, err)
	}
	both.Authorization = bearer("nobody-has-this-one").Authorization
	_, err = chain.Authenticate(t.Context(), both)
	refused(t, err, "nobody-has-this-one", "unknown token")

	// A certificate of the wrong CA, an expired one, and an old version do not connect.
	wrong, wrongKey := others.pair(clientTemplate("alice"))
	if _, err := handshake(t, opened, clientWith(t, root, wrong, wrongKey)); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a certificate of another CA: %v", err)
	}
	past := clientTemplate("alice")
	past.NotAfter = time.Now().Add(-time.Second)
	expired, expiredKey := callers.pair(past)
	if _, err := handshake(t, opened, clientWith(t, root, expired, expiredKey)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired certificate: %v", err)
	}
	old := clientWith(t, root, nil, nil)
	old.MaxVersion = tls.VersionTLS12
	if _, err := handshake(t, opened, old); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("TLS 1.2: %v", err)
	}

	// The CA is replaced while connections are open: the next call is refused, with a
	// token as well.
	alice := connect(clientTemplate("alice"))
	write(t, files.ClientCA, append(others.pem(), callers.pem()...))
	if err := opened.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Authenticate(t.Context(), alice); err != nil {
		t.Errorf("both CAs are trusted: %v", err)
	}
	if _, err := handshake(t, opened, clientWith(t, root, wrong, wrongKey)); err != nil {
		t.Errorf("a certificate of the new CA: %v", err)
	}
	write(t, files.ClientCA, others.pem())
	if err := opened.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, header := range [][]string{nil, bearer(rootSecret).Authorization} {
		alice.Authorization = header
		for range 2 { // found out, and remembered
			_, err = chain.Authenticate(t.Context(), alice)
			refused(t, err, "", "no CA that this server trusts any more")
		}
	}
	write(t, files.ClientCA, []byte("broken"))
	if err := opened.Reload(); err == nil {
		t.Error("a broken CA was taken")
	}
	if _, err := handshake(t, opened, clientWith(t, root, wrong, wrongKey)); err != nil {
		t.Errorf("after a file that was refused: %v", err)
	}

	// Whoever must have a certificate does not connect without one.
	write(t, files.ClientCA, callers.pem())
	files.RequireClient = true
	strict, err := auth.OpenTLS(files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handshake(t, strict, clientWith(t, root, nil, nil)); err == nil {
		t.Error("connected without a certificate")
	}
}

// TestExpiredOnTheWay: a certificate that expires while its connection is open is refused
// at the next call.
func TestExpiredOnTheWay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		root := newCA(t, "root")
		certificate, key := root.pair(serverTemplate())
		opened, err := auth.OpenTLS(auth.TLSFiles{
			Certificate: write(t, filepath.Join(dir, "c"), certificate), Key: write(t, filepath.Join(dir, "k"), key), ClientCA: write(t, filepath.Join(dir, "ca"), root.pem()),
		})
		if err != nil {
			t.Fatal(err)
		}
		rules, err := auth.NewBindings(nil, auth.Agent)
		if err != nil {
			t.Fatal(err)
		}
		template := clientTemplate("alice")
		template.NotAfter = time.Now().Add(time.Minute)
		leaf, _ := root.issue(template)
		shown := auth.Credentials{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, root.certificate}}}}
		chain := &auth.Chain{Certificates: auth.NewCertificates(opened, rules)}
		if _, err := chain.Authenticate(t.Context(), shown); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		_, err = chain.Authenticate(t.Context(), shown)
		refused(t, err, "", "expired at", "connect with another")
	})
}
