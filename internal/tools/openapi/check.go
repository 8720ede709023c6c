// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/source"
)

// Check finds everything that is wrong, with the key of each.
func (c Config) Check(fault func(key, format string, args ...any)) {
	names := make(map[string]bool)
	for i, spec := range c {
		spec.check(func(key, format string, args ...any) {
			fault(fmt.Sprintf("openapi[%d]%s", i, key), format, args...)
		})
		if names[spec.Name] {
			fault(fmt.Sprintf("openapi[%d].name", i), "there is an API named %s already", spec.Name)
		}
		names[spec.Name] = true
	}
}

// Wrong returns what is wrong with the documents of APIs that lie in files or in the
// configuration. Those at addresses are not asked for.
func (c Config) Wrong(ctx context.Context) (wrong []string) {
	for _, spec := range c {
		if spec.URL != "" {
			continue
		}
		at := "openapi " + spec.Name + ": "
		if spec.File != "" {
			at += spec.File + ": "
		}
		tell := func(text string) { wrong = append(wrong, at+text) }
		s := New(spec, tell)
		var now state
		_, err := s.refresh(ctx, &now)
		if err == nil {
			_, err = s.build(ctx, now.text)
		}
		if err != nil {
			tell(err.Error())
		}
	}
	return wrong
}

func (s *Spec) check(fault func(key, format string, args ...any)) {
	if err := source.CheckName(s.Name); err != nil {
		fault(".name", "%v", err)
	}
	given := 0
	for _, text := range []string{s.File, s.URL, s.Document} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		fault("", "want one of file, url and document, and there are %d", given)
	}
	if s.File != "" {
		if _, err := os.Stat(s.File); err != nil {
			fault(".file", "%v", err)
		}
	}
	if s.URL != "" {
		checkAddress(s.URL, false, func(format string, args ...any) { fault(".url", format, args...) })
	}
	if s.Proxy != "" {
		if err := egress.CheckProxy(s.Proxy); err != nil {
			fault(".proxy", "%v", err)
		}
	}
	if s.ExternalRefs && s.Document != "" {
		fault(".external_refs", "a document that is written here has no place that references could begin at")
	}
	clear := s.Auth.Type != "" && !s.ClearText
	switch s.BaseURL {
	case "":
		fault(".base_url", `is missing: want where calls go, such as https://api.example.com/v2, or "document" to go where the document says`)
	case fromDocument:
		if s.Auth.Type != "" {
			fault(".base_url", "is said by the document, and there is auth: credentials go where you say, so write the address here")
		}
	default:
		checkAddress(s.BaseURL, clear, func(format string, args ...any) { fault(".base_url", format, args...) })
	}
	for key, patterns := range map[string][]string{"tags": s.Select.Tags, "operations": s.Select.Operations, "methods": s.Select.Methods, "paths": s.Select.Paths} {
		for i, pattern := range patterns {
			if _, err := glob.CompileWord(pattern); err != nil {
				fault(fmt.Sprintf(".select.%s[%d]", key, i), "%q %v", pattern, err)
			}
		}
	}
	for i := range s.Says {
		if err := s.Says[i].Check(); err != nil {
			fault(fmt.Sprintf(".says[%d]", i), "%v", err)
		}
	}
	for name, value := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			fault(".headers."+name, "is no header that can be sent")
		} else if isOwn(name) {
			fault(".headers."+name, "is set by the server itself; credentials belong to auth")
		}
	}
	s.Auth.check(clear, func(key, format string, args ...any) { fault(".auth"+key, format, args...) })
	if s.Timeout < 0 || s.Timeout > time.Hour {
		fault(".timeout", "%s is out of bounds: want up to 1h", s.Timeout)
	}
	if s.MaxResponse > 256<<20 {
		fault(".max_response", "%s is out of bounds: want up to 256 MiB", s.MaxResponse)
	}
	if s.Refresh != 0 && (s.Refresh < time.Second || s.Refresh > 24*time.Hour) {
		fault(".refresh", "%s is out of bounds: want 1s to 24h", s.Refresh)
	}
}

// checkAddress finds what is wrong with an address. With credentials, it must be
// encrypted or stay on this machine.
func checkAddress(text string, credentials bool, fault func(format string, args ...any)) {
	u, err := url.Parse(text)
	if err != nil {
		fault("is no address: want one such as https://api.example.com/v2")
		return
	}
	if _, err := egress.Named(u); err != nil {
		fault("%v", err)
		return
	}
	if u.Fragment != "" || u.RawQuery != "" && credentials {
		fault("has a query or fragment: want the address alone")
	}
	if credentials && u.Scheme == "http" && !egress.IsHere(u.Hostname()) {
		fault("http to %s sends credentials in the clear: want https, or say clear_text: true", u.Hostname())
	}
}

// isOwn reports whether a header is one that neither documents nor operators set: the
// server does, or the protocol.
func isOwn(name string) bool {
	return slices.Contains([]string{"accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host",
		"keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
		// What makes another method, or another path, of a request.
		"x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"}, strings.ToLower(name))
}

func (a *Auth) check(clear bool, fault func(key, format string, args ...any)) {
	file := func(key, name string) {
		if name == "" {
			fault("."+key, "is missing: want a file with the secret in it")
		} else if _, err := readSecret(name); err != nil {
			fault("."+key, "%v", err)
		}
	}
	type field struct{ key, value string }
	fields := []field{{"token_file", a.TokenFile}, {"username", a.Username}, {"password_file", a.PasswordFile}, {"header", a.Header}, {"query", a.Query},
		{"cookie", a.Cookie}, {"token_url", a.TokenURL}, {"client_id", a.ClientID}, {"client_secret_file", a.ClientSecretFile}}
	var has []string
	switch a.Type {
	case "":
	case "bearer":
		has = []string{"token_file"}
		file("token_file", a.TokenFile)
	case "basic":
		has = []string{"username", "password_file"}
		file("password_file", a.PasswordFile)
	case "api_key":
		has = []string{"token_file", "header", "query", "cookie"}
		file("token_file", a.TokenFile)
		given := slices.DeleteFunc([]string{a.Header, a.Query, a.Cookie}, func(s string) bool { return s == "" })
		if len(given) != 1 || !httpguts.ValidHeaderFieldName(given[0]) {
			fault("", "an API key goes into one of header, query and cookie: want the name that it has there")
		}
	case "client_credentials":
		has = []string{"token_url", "client_id", "client_secret_file"}
		file("client_secret_file", a.ClientSecretFile)
		checkAddress(a.TokenURL, clear, func(format string, args ...any) { fault(".token_url", format, args...) })
		if a.ClientID == "" {
			fault(".client_id", "is missing")
		}
	default:
		fault(".type", "%q is none: want bearer, basic, api_key or client_credentials", a.Type)
		return
	}
	for _, f := range fields {
		if f.value != "" && !slices.Contains(has, f.key) {
			fault("."+f.key, "is not for type %q", a.Type)
		}
	}
}
