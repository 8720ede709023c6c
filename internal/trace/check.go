// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trace

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
	"unicode/utf8"
)

// endpoint is where spans go.
type endpoint struct {
	http   bool   // rather than gRPC
	target string // a URL over HTTP; what gRPC dials otherwise
	plain  bool   // in clear text
}

// variable returns a value of OTLP and the variable it is from. The one for
// traces wins over the one for everything.
func variable(name string) (from, value string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		from = prefix + name
		if value = strings.TrimSpace(os.Getenv(from)); value != "" {
			break
		}
	}
	return from, value
}

// check returns where spans go. Every variable that cannot be read, whether it would
// have been of use or not, is an error that names it: the SDK and its exporters go on
// without it.
func check() (endpoint, error) {
	http, ofProtocol := checkProtocol()
	plain, ofPlain := checkInsecure()
	to, ofEndpoint := checkEndpoint(http, plain)
	if ofEndpoint == nil {
		ofEndpoint = checkScheme(http)
	}
	return to, errors.Join(checkExporter(), ofProtocol, checkSampler(), checkBatches(), checkResource(), checkCalls(), checkTLS(), ofPlain, ofEndpoint)
}

func checkExporter() error {
	if exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return fmt.Errorf("OTEL_TRACES_EXPORTER=%s: want otlp or none", exporter)
	}
	return nil
}

// checkProtocol reports whether spans go over HTTP.
func checkProtocol() (http bool, err error) {
	switch from, value := variable("PROTOCOL"); value {
	case "", "grpc":
		return false, nil
	case "http/protobuf":
		return true, nil
	default:
		return false, fmt.Errorf("%s=%s: want grpc or http/protobuf", from, value)
	}
}

// checkInsecure reports whether spans go in clear text where the endpoint does not tell.
func checkInsecure() (plain bool, err error) {
	switch from, value := variable("INSECURE"); strings.ToLower(value) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, fmt.Errorf("%s=%s: want true or false", from, value)
	}
}

func checkEndpoint(http, plain bool) (to endpoint, err error) {
	from, value := variable("ENDPOINT")
	to.http = http
	if http {
		to.target, to.plain, err = urlOf(value, strings.Contains(from, "_TRACES_"))
	} else {
		to.target, to.plain, err = targetOf(cmp.Or(value, "http://localhost:4317"), plain)
	}
	if err != nil {
		return to, fmt.Errorf("%s: %w", from, err)
	}
	return to, nil
}

// checkScheme looks whether anything says that spans go in clear text or do not: who
// leaves the scheme out seldom means TLS, which would be tried.
func checkScheme(http bool) error {
	from, value := variable("ENDPOINT")
	if _, said := variable("INSECURE"); http || said != "" || value == "" || strings.HasPrefix(value, "unix:") || strings.Contains(value, "://") {
		return nil
	}
	return fmt.Errorf("%s=%s: want http:// or https:// before it, or OTEL_EXPORTER_OTLP_INSECURE to be true or false", from, value)
}

// checkSampler looks at what chooses traces.
func checkSampler() error {
	const from = "OTEL_TRACES_SAMPLER"
	value := strings.ToLower(strings.TrimSpace(os.Getenv(from)))
	switch strings.TrimPrefix(value, "parentbased_") {
	case "always_on", "always_off":
	case "traceidratio":
		text := cmp.Or(strings.TrimSpace(os.Getenv(from+"_ARG")), "1")
		if share, err := strconv.ParseFloat(text, 64); err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("%s_ARG=%s: want a share from 0 to 1", from, text)
		}
	default:
		if value != "" {
			return fmt.Errorf("%s=%s: want always_on, always_off or traceidratio, also with parentbased_ before it", from, value)
		}
	}
	return nil
}

// checkBatches looks at how spans are gathered.
func checkBatches() (faults error) {
	for _, name := range []string{"SCHEDULE_DELAY", "EXPORT_TIMEOUT", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"} {
		text := os.Getenv("OTEL_BSP_" + name)
		if n, err := strconv.Atoi(text); text != "" && (err != nil || n < 1 || n > 10_000_000) {
			faults = errors.Join(faults, fmt.Errorf("OTEL_BSP_%s=%s: want a number from 1 to 10000000", name, text))
		}
	}
	return faults
}

// checkResource looks at what is told about this server.
func checkResource() error {
	const from = "OTEL_RESOURCE_ATTRIBUTES"
	for pair := range strings.SplitSeq(os.Getenv(from), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return fmt.Errorf("%s: %q: want key=value", from, pair)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || !utf8.ValidString(key+value) {
			return fmt.Errorf("%s: the value of %q is not percent-encoded UTF-8", from, key)
		}
	}
	if !utf8.ValidString(os.Getenv("OTEL_SERVICE_NAME")) {
		return errors.New("OTEL_SERVICE_NAME is not UTF-8")
	}
	return nil
}

// checkCalls looks at what each request to a collector has.
func checkCalls() (faults error) {
	if from, value := variable("TIMEOUT"); value != "" {
		if _, err := strconv.ParseUint(value, 10, 31); err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s=%s: want milliseconds", from, value))
		}
	}
	if from, value := variable("COMPRESSION"); value != "" && value != "gzip" && value != "none" {
		faults = errors.Join(faults, fmt.Errorf("%s=%s: want gzip or none", from, value))
	}
	from, value := variable("HEADERS")
	if err := checkHeaders(value); err != nil {
		faults = errors.Join(faults, fmt.Errorf("%s: %w", from, err))
	}
	return faults
}

// checkHeaders looks at a list such as "api-key=secret,tenant=a%20b". Its errors
// show nothing of it: any part of a list that is wrong may be the secret.
func checkHeaders(list string) error {
	for i, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("header %d: want key=value", i+1)
		}
		key = strings.ToLower(strings.TrimSpace(key))
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || key == "" || strings.HasPrefix(key, "grpc-") {
			return fmt.Errorf("header %d: its key cannot be one", i+1)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("header %d: its value is not percent-encoded", i+1)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("header %d: its value is not printable ASCII", i+1)
		}
	}
	return nil
}

// checkTLS looks at whom to trust and who to be.
func checkTLS() error {
	if from, path := variable("CERTIFICATE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: %s has no certificate", from, path)
		}
	}
	ofCertificate, certificate := variable("CLIENT_CERTIFICATE")
	ofKey, key := variable("CLIENT_KEY")
	switch {
	case certificate == "" && key == "":
		return nil
	case certificate == "" || key == "" || strings.Contains(ofCertificate, "_TRACES_") != strings.Contains(ofKey, "_TRACES_"):
		return fmt.Errorf("%s and %s belong together: set both, or neither", ofCertificate, ofKey)
	}
	if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
		return fmt.Errorf("%s and %s: %w", ofCertificate, ofKey, err)
	}
	return nil
}

// targetOf returns what gRPC dials for an endpoint, and whether spans go there in
// clear text. That is up to its scheme; plain is for one without.
func targetOf(endpoint string, plain bool) (string, bool, error) {
	if path, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if path == "" || strings.HasPrefix(path, "@") {
			return "", false, errors.New("want unix: and the path of a socket file")
		}
		return "unix:" + path, true, nil
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
	u, err := hostOf(rest)
	if err != nil {
		return "", false, err
	}
	if strings.Trim(u.Path, "/") != "" {
		return "", false, errors.New("want nothing but a host and a port: over gRPC there is no path")
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), plain, nil
}

// urlOf returns where requests go over HTTP, and whether in clear text. An endpoint
// for traces alone is that place, one for everything is above it.
func urlOf(endpoint string, forTraces bool) (string, bool, error) {
	scheme, rest, _ := strings.Cut(cmp.Or(endpoint, "http://localhost:4318"), "://")
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return "", false, errors.New("want http://host:port or https://host:port, with or without a path")
	}
	u, err := hostOf(rest)
	if err != nil {
		return "", false, err
	}
	u.Scheme = scheme
	if !forTraces {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), scheme == "http", nil
}

// hostOf reads what is behind the scheme of an endpoint. Its errors do not show it:
// there may be a password in it.
func hostOf(rest string) (*url.URL, error) {
	u, err := url.Parse("//" + rest)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("want a host and a port")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("want nothing but a host, a port and a path: secrets are headers")
	}
	if _, err := net.LookupPort("tcp", cmp.Or(u.Port(), "1")); err != nil {
		return nil, fmt.Errorf("%q is not a port", u.Port())
	}
	return u, nil
}
