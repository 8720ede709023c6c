// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What a cluster must have: messages with a time to live are of 2.11.
const (
	leastMajor   = 2
	leastMinor   = 11
	leastPayload = 1 << 20
)

// connect connects to a cluster.
func (e *engine) connect(options Options) error {
	e.replicas = cmp.Or(options.Replicas, defaultCluster)
	e.storage = jetstream.FileStorage
	if err := CheckURL(options.URL); err != nil {
		return err
	}
	o := append(e.watchConnection(),
		nats.Name("toolserver"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(5*time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // what cannot be sent now fails now
		nats.IgnoreAuthErrorAbort(),
		nats.Timeout(2*time.Second),
	)
	if options.Credentials != "" {
		o = append(o, nats.UserCredentials(options.Credentials))
	}
	if options.CA != "" {
		o = append(o, nats.RootCAs(options.CA))
	}
	if options.Cert != "" || options.CertKey != "" {
		o = append(o, nats.ClientCert(options.Cert, options.CertKey))
	}
	var err error
	e.conn, err = nats.Connect(options.URL, o...)
	if err != nil {
		return unreached(options.URL, err)
	}
	return nil
}

// CheckURL refuses what the client would try in vain.
func CheckURL(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return fmt.Errorf("the state's URL %s is not one of a NATS server: write nats://host:4222 or tls://host:4222, with commas between several", Redacted(one))
		}
	}
	return nil
}

// Redacted returns a list of URLs without the passwords in it.
func Redacted(list string) string {
	var clean []string
	for one := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			clean = append(clean, u.Redacted())
		} else {
			clean = append(clean, "(not a URL)")
		}
	}
	return strings.Join(clean, ",")
}

// unreached says why there is no connection, and what to look at.
func unreached(list string, err error) error {
	where := Redacted(list)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("%w: %s refuses the credentials (%v): look at the user in the URL or at the credentials file", ErrUnavailable, where, err)
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("%w: no NATS server answers at %s: look at the URL, and whether the servers run", ErrUnavailable, where)
	}
	return fmt.Errorf("%w: %s: %v", ErrUnavailable, where, err)
}

// suits refuses a cluster on which promises could not be kept.
func (e *engine) suits(ctx context.Context) error {
	version := e.conn.ConnectedServerVersion()
	if !recent(version) {
		return fmt.Errorf("the NATS server of the state is version %s: it takes %d.%d or later", version, leastMajor, leastMinor)
	}
	if got := e.conn.MaxPayload(); got < leastPayload {
		return fmt.Errorf("the NATS server of the state takes messages of %d bytes: set its max_payload to %d or more", got, leastPayload)
	}
	if e.replicas == 1 && e.conn.ConnectedClusterName() != "" {
		return errors.New("the state is in a cluster, and one replica of it would be lost with its server: set 3 replicas")
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := e.js.AccountInfo(short)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the NATS server of the state has no JetStream for this account: enable it (%v)", err)
	case err != nil:
		return e.failure(ctx, err)
	}
	return nil
}

func recent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	minor, minorErr := strconv.Atoi(parts[1])
	return err == nil && minorErr == nil && (major > leastMajor || major == leastMajor && minor >= leastMinor)
}
