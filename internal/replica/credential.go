// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"
)

// A Credential is what a replica proves itself with to others. It is made at every start
// and never leaves the process; its digest is in the state. So who may write the state is trusted,
// and nobody has to hand out certificates.
type Credential struct {
	certificate tls.Certificate
	Key         []byte // for Config
}

// NewCredential makes one for a run.
func NewCredential(run uint64) (*Credential, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: strconv.FormatUint(run, 10)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(100, 0, 0), // clocks differ, and its time is that of the process
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(der)
	return &Credential{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key[:]}, nil
}

// Server returns the TLS of the side that other replicas connect to: it takes members alone.
func (c *Credential) Server(find func(ctx context.Context, run uint64) (Member, bool)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.certificate}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2"},
		VerifyConnection: func(s tls.ConnectionState) error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // a handshake hands no context to this
			defer cancel()
			run, err := RunOf(s)
			if err != nil {
				return err
			}
			m, ok := find(ctx, run)
			if !ok || !shows(s, m.Key) {
				return fmt.Errorf("replica %d is not a member, or shows another key than it has", run)
			}
			return nil
		},
	}
}

// Client returns the TLS of the side that connects to a member.
func (c *Credential) Client(to Member) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.certificate}, NextProtos: []string{"h2"},
		InsecureSkipVerify: true, //nolint:gosec // the key is compared below, with the one in the state
		VerifyConnection: func(s tls.ConnectionState) error {
			if !shows(s, to.Key) {
				return fmt.Errorf("who answers at %s is not replica %d", to.Address, to.Run)
			}
			return nil
		},
	}
}

func shows(s tls.ConnectionState, key []byte) bool {
	if len(s.PeerCertificates) == 0 || len(key) != sha256.Size {
		return false
	}
	return sha256.Sum256(s.PeerCertificates[0].Raw) == [sha256.Size]byte(key)
}

// RunOf returns which replica a connection says that it is from.
func RunOf(s tls.ConnectionState) (uint64, error) {
	if len(s.PeerCertificates) == 0 {
		return 0, errors.New("it has no certificate")
	}
	run, err := strconv.ParseUint(s.PeerCertificates[0].Subject.CommonName, 10, 64)
	if err != nil {
		return 0, errors.New("it is not from a replica")
	}
	return run, nil
}
