// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// TLSFiles are the files that connections are encrypted with, in PEM.
type TLSFiles struct {
	Certificate, Key string

	// ClientCA has the certificates of those who vouch for callers; empty: callers
	// have no certificates.
	ClientCA string

	// RequireClient refuses connections without a certificate.
	RequireClient bool
}

// TLS encrypts connections with files that may change while it is used.
type TLS struct {
	files   TLSFiles
	current atomic.Pointer[tlsState]
}

// tlsState is what was read of the files at one time.
type tlsState struct {
	config     *tls.Config
	expires    time.Time
	clientCA   [sha256.Size]byte
	generation int // counts the changes of the client CAs
}

// OpenTLS reads the files. An error says which file is wrong, and how.
func OpenTLS(files TLSFiles) (*TLS, error) {
	t := &TLS{files: files}
	return t, t.Reload()
}

// Files returns the paths of the files.
func (t *TLS) Files() []string {
	return slices.DeleteFunc([]string{t.files.Certificate, t.files.Key, t.files.ClientCA}, func(path string) bool { return path == "" })
}

// Expires returns when the certificate in force expires.
func (t *TLS) Expires() time.Time { return t.current.Load().expires }

// Reload puts the files as they are now in force for new connections, as a whole or,
// with an error, not at all.
func (t *TLS) Reload() error {
	certificate, err := loadPair(t.files.Certificate, t.files.Key)
	if err != nil {
		return err
	}
	next := &tlsState{expires: certificate.Leaf.NotAfter}
	next.config = &tls.Config{
		Certificates: []tls.Certificate{*certificate},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		// A connection that is resumed would not be asked for its certificate again.
		SessionTicketsDisabled: true,
	}
	if t.files.ClientCA != "" {
		text, err := os.ReadFile(t.files.ClientCA)
		if err != nil {
			return fmt.Errorf("client_ca: %w", err)
		}
		next.clientCA = sha256.Sum256(text)
		if next.config.ClientCAs, err = loadCAs(t.files.ClientCA, text); err != nil {
			return fmt.Errorf("client_ca: %w", err)
		}
		next.config.ClientAuth = tls.VerifyClientCertIfGiven
		if t.files.RequireClient {
			next.config.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	if old := t.current.Load(); old != nil {
		next.generation = old.generation
		if old.clientCA != next.clientCA {
			next.generation++
		}
	}
	t.current.Store(next)
	return nil
}

// Config returns what a listener is configured with. It needs not be set again when
// files change.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2"},
		SessionTicketsDisabled: true,
		GetConfigForClient:     func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load().config, nil },
	}
}

// loadPair reads a certificate, with those that vouch for it, and its key.
func loadPair(certificateFile, keyFile string) (*tls.Certificate, error) {
	certificatePEM, err := os.ReadFile(certificateFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if err := checkPEM(certificateFile, certificatePEM, "CERTIFICATE"); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if err := checkPEM(keyFile, keyPEM, "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s do not belong together, or one of them is damaged: %w", certificateFile, keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("certificate: %s: %w", certificateFile, err)
		}
	}
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("certificate: %s expired at %s", certificateFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return nil, fmt.Errorf("certificate: %s is not valid before %s; it is %s by this machine's clock",
			certificateFile, pair.Leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}

// checkPEM returns what is wrong with a file whose first block should be of a type.
func checkPEM(file string, text []byte, types ...string) error {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if slices.Contains(types, block.Type) {
			return nil
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" {
			return fmt.Errorf("%s has a key with a password, which nobody could enter: take it off with openssl pkey", file)
		}
	}
	if len(text) == 0 {
		return fmt.Errorf("%s is empty", file)
	}
	return fmt.Errorf("%s has no %s in PEM: want a block that begins with -----BEGIN %s-----", file, types[0], types[0])
}

// loadCAs reads certificates to trust. Each must be one.
func loadCAs(file string, text []byte) (*x509.CertPool, error) {
	if err := checkPEM(file, text, "CERTIFICATE"); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return pool, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pool.AddCert(certificate)
	}
}

// Certificates knows principals by the certificates of their connections, which the
// handshake has verified.
type Certificates struct {
	tls   *TLS
	rules *Bindings
	again cache // certificates that were verified again, after the CAs changed
}

// NewCertificates returns an authenticator for the connections of t.
func NewCertificates(t *TLS, rules *Bindings) *Certificates {
	return &Certificates{tls: t, rules: rules}
}

// revalidate refuses a certificate that was good when the connection began, and is not
// any more: it has expired, or nobody vouches for it since a reload. A connection
// without one is fine.
func (c *Certificates) revalidate(state *tls.ConnectionState) error {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf, now := state.PeerCertificates[0], time.Now()
	if now.After(leaf.NotAfter) {
		return unauthenticated("the certificate of the connection expired at %s: connect with another", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	current := c.tls.current.Load()
	if current.generation == 0 {
		return nil
	}
	digest := Digest(sha256.Sum256(leaf.Raw))
	if known, ok := c.again.get(digest, now); ok && known.generation == current.generation {
		return known.err
	}
	options := x509.VerifyOptions{
		Roots: current.config.ClientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, other := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(other)
	}
	_, err := leaf.Verify(options)
	if err != nil {
		err = unauthenticated("the certificate of the connection is of no CA that this server trusts any more: connect with another")
	}
	c.again.put(digest, cached{err: err, generation: current.generation, until: leaf.NotAfter})
	return err
}

// principal returns whose connection it is.
func (c *Certificates) principal(state *tls.ConnectionState) (Principal, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return Principal{}, unauthenticated(`no credentials: connect with a client certificate, or send the header "authorization: Bearer TOKEN"`)
	}
	name, err := nameOf(state.PeerCertificates[0])
	if err != nil {
		return Principal{}, unauthenticated("%w", err)
	}
	return c.rules.principal(identity{name: name})
}

// nameOf returns the SPIFFE id of a certificate or, where it has none, its subject.
func nameOf(certificate *x509.Certificate) (string, error) {
	id := ""
	for _, uri := range certificate.URIs {
		if uri.Scheme != "spiffe" {
			continue
		}
		switch {
		case id != "":
			return "", errors.New("the certificate has two SPIFFE ids: want one")
		case uri.Host == "" || uri.User != nil || uri.Port() != "" || uri.RawQuery != "" || uri.Fragment != "":
			return "", errors.New("the certificate has a SPIFFE id that is none: want spiffe://trust-domain/path")
		}
		id = uri.String()
	}
	if id != "" {
		return id, nil
	}
	subject := certificate.Subject.String()
	if subject == "" {
		return "", errors.New("the certificate names nobody: it has neither a SPIFFE id nor a subject")
	}
	return subject, nil
}
