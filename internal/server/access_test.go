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
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
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

// testIssuer signs tokens, tells its keys over HTTPS, and reviews tokens as a cluster does.
type testIssuer struct {
	*httptest.Server
	t  *testing.T
	ca string

	mu   sync.Mutex
	keys []jose.JSONWebKey
	down bool
	pods map[string]string // account by token
}

func newTestIssuer(t *testing.T) *testIssuer {
	i := &testIssuer{t: t, pods: make(map[string]string)}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	i.ca = filepath.Join(t.TempDir(), "issuer.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	if err := os.WriteFile(i.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *testIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case r.URL.Path == "/keys":
		var set jose.JSONWebKeySet
		for _, key := range i.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		json.NewEncoder(w).Encode(set)
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review struct{ Spec struct{ Token string } }
		json.NewDecoder(r.Body).Decode(&review)
		status := map[string]any{}
		if account := i.pods[review.Spec.Token]; account != "" {
			status = map[string]any{"authenticated": true, "user": map[string]any{"username": account}, "audiences": []string{"toolserver"}}
		}
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status})
	default:
		http.NotFound(w, r)
	}
}

func (i *testIssuer) set(down bool, keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down, i.keys = down, keys
}

func (i *testIssuer) key(id string) jose.JSONWebKey {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
}

func (i *testIssuer) sign(key jose.JSONWebKey, over map[string]any) string {
	i.t.Helper()
	claims := map[string]any{"iss": i.URL, "sub": "alice", "aud": "toolserver", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range over {
		claims[name] = value
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// wire is a server over TLS, with its own certificate to trust.
type wire struct {
	t       *testing.T
	address string
	trust   []byte
	metrics *prometheus.Registry
}

// serveTLS serves a configuration, whose files are watched.
func serveTLS(t *testing.T, change func(*config.Config)) *wire {
	t.Helper()
	certificate, key := signed(t, "server")
	dir := t.TempDir()
	c := config.Default()
	c.Sandbox.Helper = sandboxtest.Helper()
	c.Sessions.Workspace, c.Sessions.WorkspaceRoot = t.TempDir(), t.TempDir()
	c.TLS = config.TLS{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	writeFile(t, c.TLS.Certificate, string(certificate))
	writeFile(t, c.TLS.Key, string(key))
	change(c)
	access, err := c.Access()
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, trust: certificate, metrics: prometheus.NewRegistry()}
	server, err := newWith(access, auth.Local.Name, c, nil, zap.NewNop(), w.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ctx, stop := context.WithCancel(t.Context())
	watchAccess(ctx, c, access, w.metrics, zap.NewNop(), server.Reloaded)
	t.Cleanup(func() {
		stop()
		ShutDown(server, 0)
		<-served
	})
	return w
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dial connects, with a certificate and its key where they are given.
func (w *wire) dial(certificate ...[]byte) *grpc.ClientConn {
	w.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(w.trust)
	if len(certificate) > 0 {
		pair, err := tls.X509KeyPair(certificate[0], certificate[1])
		if err != nil {
			w.t.Fatal(err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	conn, err := grpc.NewClient("passthrough:"+w.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// who returns whom the server takes a caller with these authorization headers for.
func who(t *testing.T, conn *grpc.ClientConn, authorization ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, value := range authorization {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
	}
	info, err := pb.NewToolServiceClient(conn).GetServerInfo(ctx, new(pb.GetServerInfoRequest))
	return info.GetPrincipal(), err
}

// TestTokensOverTheWire sends tokens of every kind through gRPC over TLS to a server that
// asks a real issuer and a real cluster.
func TestTokensOverTheWire(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	first, second, strange := i.key("one"), i.key("two"), i.key("one")
	i.set(true) // nobody is there when the server starts
	static := auth.NewSecret()
	w := serveTLS(t, func(c *config.Config) {
		c.Authentication.TokenFile = filepath.Join(t.TempDir(), "tokens")
		writeFile(t, c.Authentication.TokenFile, auth.Token{Principal: auth.Principal{Name: "carol", Roles: auth.Agent}, Secret: static}.Line())
		own := filepath.Join(t.TempDir(), "own")
		writeFile(t, own, "own-token")
		c.Authentication.OIDC = []config.OIDC{{Issuer: i.URL, Audiences: []string{"toolserver"}, CA: i.ca}}
		c.Authentication.Kubernetes = config.Kubernetes{TokenReview: true, APIServer: i.URL, TokenFile: own, CA: i.ca, Audiences: []string{"toolserver"}}
		c.Authentication.Roles = []auth.Roles{auth.Agent}
	})
	conn := w.dial()
	good := i.sign(first, nil)
	check := func(name string, code codes.Code, want string, authorization ...string) {
		t.Helper()
		got, err := who(t, conn, authorization...)
		switch {
		case code == codes.OK && (err != nil || got != want):
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		case code != codes.OK && (status.Code(err) != code || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s with %q", name, err, code, want)
		}
	}
	check("no issuer at start", codes.Unavailable, "does not answer", "Bearer "+good)
	check("a static token meanwhile", codes.OK, "carol", "Bearer "+static)
	i.set(false, first)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := who(t, conn, "Bearer "+good); err == nil {
			break
		} else if status.Code(err) != codes.Unavailable || time.Now().After(deadline) {
			t.Fatalf("once the issuer is there: %v", err)
		}
	}

	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	sign := func(over map[string]any) string { return "Bearer " + i.sign(first, over) }
	for name, test := range map[string]struct {
		authorization []string
		code          codes.Code
		want          string
	}{
		"good":          {[]string{"Bearer " + good}, codes.OK, "oidc:alice"},
		"expired":       {[]string{sign(map[string]any{"exp": now.Add(-time.Hour).Unix()})}, codes.Unauthenticated, "expired at"},
		"not yet valid": {[]string{sign(map[string]any{"nbf": now.Add(time.Hour).Unix()})}, codes.Unauthenticated, "not valid before"},
		"audience":      {[]string{sign(map[string]any{"aud": "other"})}, codes.Unauthenticated, "another audience"},
		"alg none":      {[]string{"Bearer " + encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."}, codes.Unauthenticated, "cannot be taken"},
		"unsigned":      {[]string{"Bearer " + parts[0] + "." + parts[1] + "."}, codes.Unauthenticated, "not signed"},
		"other key":     {[]string{"Bearer " + i.sign(strange, nil)}, codes.Unauthenticated, "not signed"},
		"truncated":     {[]string{"Bearer " + good[:len(good)-20]}, codes.Unauthenticated, "not signed"},
		"half":          {[]string{"Bearer " + good[:len(parts[0])+10]}, codes.Unauthenticated, "unknown token"},
		"two headers":   {[]string{"Bearer " + good, "Bearer " + static}, codes.Unauthenticated, "2 authorization headers"},
		"twice":         {[]string{"Bearer " + good, "Bearer " + good}, codes.Unauthenticated, "2 authorization headers"},
		"none":          {nil, codes.Unauthenticated, "no credentials"},
		"other scheme":  {[]string{"Basic " + good}, codes.Unauthenticated, "Bearer"},
	} {
		check(name, test.code, test.want, test.authorization...)
	}
	if _, err := who(t, conn, sign(map[string]any{"x": strings.Repeat("x", 20_000)})); err == nil { // the transport may refuse it first
		t.Error("a huge token is taken")
	}

	// The issuer has other keys; then it goes away.
	i.set(false, second)
	rotated := "Bearer " + i.sign(second, map[string]any{"sub": "bob"})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // it is not asked at once again
		if got, err := who(t, conn, rotated); err == nil && got == "oidc:bob" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after the keys were rotated: %v", err)
		}
	}
	check("the old key", codes.Unauthenticated, "not signed", "Bearer "+i.sign(first, map[string]any{"sub": "late"}))
	i.set(true)
	check("what is known", codes.OK, "oidc:bob", rotated)
	third := i.key("three")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := who(t, conn, "Bearer "+i.sign(third, nil)); status.Code(err) == codes.Unavailable {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("while the issuer is away: %v", err)
		}
	}
	check("a static token meanwhile", codes.OK, "carol", "Bearer "+static)

	// Tokens of a cluster.
	pod, gone := i.sign(first, map[string]any{"iss": "https://cluster"}), i.sign(first, map[string]any{"iss": "https://cluster", "sub": "gone"})
	check("the cluster is away", codes.Unavailable, "cluster", "Bearer "+pod)
	i.mu.Lock()
	i.pods[pod] = "system:serviceaccount:agents:runner"
	i.mu.Unlock()
	i.set(false, second)
	check("a pod", codes.OK, "system:serviceaccount:agents:runner", "Bearer "+pod)
	check("a pod that is gone", codes.Unauthenticated, "does not know the token", "Bearer "+gone)
}

// issued makes a certificate that a CA signed, valid for a while.
func issued(t *testing.T, name string, caPEM, caKeyPEM []byte, valid time.Duration) (certificate, key []byte) {
	t.Helper()
	ca, err := tls.X509KeyPair(caPEM, caKeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, &private.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// TestCertificatesOverTheWire: a certificate that expires, or whose CA goes, in the middle of
// a connection ends its streams and refuses its calls; one of a wrong CA does not connect.
func TestCertificatesOverTheWire(t *testing.T) {
	t.Parallel()
	ca, caKey := signed(t, "ca")
	other, otherKey := signed(t, "other")
	file := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, file, string(ca)+string(other))
	w := serveTLS(t, func(c *config.Config) { c.Authentication.Certificates.CA = file })
	strange, strangeKey := signed(t, "strange")
	if _, err := who(t, w.dial(strange, strangeKey)); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of the wrong CA: %v", err)
	}
	if _, err := who(t, w.dial()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("no certificate: %v", err)
	}
	shortCert, shortKey := issued(t, "short", ca, caKey, 3*time.Second)
	longCert, longKey := issued(t, "long", ca, caKey, time.Hour)
	lostCert, lostKey := issued(t, "lost", other, otherKey, time.Hour)
	streams := make(map[string]grpc.ServerStreamingClient[pb.WatchApprovalsResponse])
	conns := map[string]*grpc.ClientConn{"short": w.dial(shortCert, shortKey), "long": w.dial(longCert, longKey), "lost": w.dial(lostCert, lostKey)}
	for name, conn := range conns {
		if got, err := who(t, conn); err != nil || got != "CN="+name {
			t.Fatalf("%s is %q, %v", name, got, err)
		}
		stream, err := pb.NewApprovalServiceClient(conn).WatchApprovals(t.Context(), new(pb.WatchApprovalsRequest))
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		streams[name] = stream
	}
	writeFile(t, file, string(ca))
	for name, says := range map[string]string{"short": "expired at", "lost": "of no CA that this server trusts any more"} {
		if _, err := streams[name].Recv(); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), says) {
			t.Errorf("the stream of %s: %v", name, err)
		}
		if _, err := who(t, conns[name]); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), says) {
			t.Errorf("the next call of %s: %v", name, err)
		}
	}
	if got, err := who(t, conns["long"]); err != nil || got != "CN=long" {
		t.Errorf("%q, %v", got, err)
	}
}
