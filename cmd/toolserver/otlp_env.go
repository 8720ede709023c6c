// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
)

// otlpConfig is where spans go, and how.
type otlpConfig struct {
	target  string      // as gRPC knows it
	tls     *tls.Config // nil: clear text
	headers metadata.MD
	timeout time.Duration // of one batch, with all attempts; 0: none
	gzip    bool
}

// otlpVariable returns a value of OTLP and the variable it is from. The one for
// traces wins over the one for everything.
func otlpVariable(name string) (variable, value string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		variable = prefix + name
		if value = strings.TrimSpace(os.Getenv(variable)); value != "" {
			break
		}
	}
	return variable, value
}

// otlpFromEnv reads the OTEL_EXPORTER_OTLP variables. What it cannot read is an
// error that names the variable, whether it would have been of use or not.
func otlpFromEnv() (otlpConfig, error) {
	c := otlpConfig{timeout: 10 * time.Second}
	var err error
	if variable, value := otlpVariable("TIMEOUT"); value != "" {
		ms, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return c, fmt.Errorf("%s=%s: want milliseconds", variable, value)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	switch variable, value := otlpVariable("COMPRESSION"); value {
	case "gzip":
		c.gzip = true
	case "", "none":
	default:
		return c, fmt.Errorf("%s=%s: want gzip or none", variable, value)
	}
	variable, value := otlpVariable("HEADERS")
	if c.headers, err = otlpHeaders(value); err != nil {
		return c, fmt.Errorf("%s: %w", variable, err)
	}
	certificates, err := otlpTLS()
	if err != nil {
		return c, err
	}
	plain := false
	switch variable, value := otlpVariable("INSECURE"); strings.ToLower(value) {
	case "true":
		plain = true
	case "", "false":
	default:
		return c, fmt.Errorf("%s=%s: want true or false", variable, value)
	}
	variable, value = otlpVariable("ENDPOINT")
	c.target, plain, err = otlpEndpoint(cmp.Or(value, "http://localhost:4317"), plain)
	if err != nil {
		return c, fmt.Errorf("%s: %w", variable, err)
	}
	if !plain {
		c.tls = certificates
	}
	return c, nil
}

// otlpEndpoint returns the target that an endpoint means, and whether spans go
// there in clear text. That is up to its scheme; plain is for one without.
func otlpEndpoint(endpoint string, plain bool) (string, bool, error) {
	if path, ok := socketPath(endpoint); ok {
		return "unix:" + path, true, checkAddress(endpoint)
	}
	scheme, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, rest = "", endpoint
	}
	port := "4317"
	switch strings.ToLower(scheme) {
	case "":
	case "http":
		plain = true
	case "https":
		plain, port = false, "443" // as in any URL
	default:
		return "", false, errors.New("want http://host:port, https://host:port, host:port or unix:/path")
	}
	u, err := url.Parse("//" + rest)
	if err != nil || u.Hostname() == "" {
		return "", false, errors.New("want a host and a port")
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", false, errors.New("want nothing but a host and a port: over gRPC there is no path, and secrets are headers")
	}
	target := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return target, plain, checkAddress(target)
}

// otlpHeaders reads a list such as "api-key=secret,tenant=a%20b". Its errors
// show nothing of it: any part of a list that is wrong may be the secret.
func otlpHeaders(list string) (metadata.MD, error) {
	headers := make(metadata.MD)
	for i, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("header %d: want key=value", i+1)
		}
		key = strings.ToLower(strings.TrimSpace(key))
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || key == "" || strings.HasPrefix(key, "grpc-") {
			return nil, fmt.Errorf("header %d: its key cannot be one in gRPC", i+1)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("header %d: its value is not percent-encoded", i+1)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, fmt.Errorf("header %d: its value is not printable ASCII", i+1)
		}
		headers.Set(key, value)
	}
	return headers, nil
}

// otlpTLS returns how to secure a connection: whom to trust and who to be.
func otlpTLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if variable, path := otlpVariable("CERTIFICATE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate", variable, path)
		}
	}
	ofCertificate, certificate := otlpVariable("CLIENT_CERTIFICATE")
	ofKey, key := otlpVariable("CLIENT_KEY")
	switch {
	case certificate == "" && key == "":
	case certificate == "" || key == "":
		return nil, fmt.Errorf("%s and %s belong together: set both, or neither", ofCertificate, ofKey)
	default:
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", ofCertificate, ofKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
