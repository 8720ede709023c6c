// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package openapi makes tools of the operations that OpenAPI documents describe. Where
// they go, and with which credentials, is the operator's to say: a document describes
// inputs and results, and nothing in it, or in what a model writes, leads elsewhere.
package openapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is the section "openapi" of the configuration.
type Config []Spec

// Spec is one API, whose operations become tools.
type Spec struct {
	// Name is the namespace of the tools.
	Name string `yaml:"name"`

	// File, URL and Document are where the document is, as JSON or YAML: one of them.
	File     string `yaml:"file"`
	URL      string `yaml:"url"`
	Document string `yaml:"document"`

	// BaseURL is where calls go. "document" has them go where the first server of the
	// document says, which must be https and public.
	BaseURL string `yaml:"base_url"`

	// Proxy is the host:port of a proxy through which hosts are reached.
	Proxy string `yaml:"proxy"`

	Select Select `yaml:"select"`
	Auth   Auth   `yaml:"auth"`

	// Says is what the operator says of tools; the first entry counts that names one.
	Says []source.Says `yaml:"says"`

	// Headers are sent with every call. They are no secrets.
	Headers map[string]string `yaml:"headers"`

	// Timeout is how long a call may take; 30 seconds. MaxResponse is how much of an
	// answer is read, when it is unpacked; 8 MiB. Refresh is how often the document at URL is
	// asked for again; 5 minutes.
	Timeout     time.Duration `yaml:"timeout"`
	MaxResponse size.Bytes    `yaml:"max_response"`
	Refresh     time.Duration `yaml:"refresh"`

	// ExternalRefs has references to other documents followed: to files below the
	// directory of File, or to addresses of the host of URL.
	ExternalRefs bool `yaml:"external_refs"`

	// ClearText has credentials sent by http to other machines.
	ClearText bool `yaml:"clear_text"`
}

// Select chooses operations: those that match one pattern of each list that is there.
type Select struct {
	Tags       []string `yaml:"tags"`
	Operations []string `yaml:"operations"` // by operationId
	Methods    []string `yaml:"methods"`
	Paths      []string `yaml:"paths"` // as in the document, such as /pets/*
}

// Defaults and bounds.
const (
	defaultTimeout     = 30 * time.Second
	defaultMaxResponse = size.Bytes(8 << 20)
	defaultRefresh     = 5 * time.Minute

	fromDocument  = "document" // as a base URL
	maxDocument   = 32 << 20   // bytes, of all parts together
	maxOperations = 2000       // that are selected
	checkInterval = time.Second
)

func (s Spec) withDefaults() Spec {
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	s.MaxResponse = cmp.Or(s.MaxResponse, defaultMaxResponse)
	s.Refresh = cmp.Or(s.Refresh, defaultRefresh)
	return s
}

// A Source offers the operations of one API.
type Source struct {
	spec   Spec
	client *http.Client
	auth   *authorizer
	notice func(text string)
}

var _ source.Detailed = (*Source)(nil)

// Detail tells where the API is.
func (s *Source) Detail() source.Detail {
	at := s.spec.BaseURL
	if at == fromDocument {
		at = "as its document says: " + cmp.Or(s.spec.URL, s.spec.File, "(in the configuration)")
	}
	return source.Detail{At: at}
}

// New returns the source of an API, whose configuration was checked. notice is told, for
// an operator, what of a document could not be used; it may be nil.
func New(spec Spec, notice func(text string)) *Source {
	if notice == nil {
		notice = func(string) {}
	}
	s := &Source{spec: spec.withDefaults(), notice: notice}
	dialer := &egress.Dialer{Others: spec.BaseURL == fromDocument, Upstream: spec.Proxy}
	for _, address := range []string{spec.URL, spec.BaseURL, spec.Auth.TokenURL} {
		if u, err := url.Parse(address); err == nil && address != "" {
			if host, err := egress.Named(u); err == nil {
				dialer.Named = append(dialer.Named, host)
			}
		}
	}
	s.client = &http.Client{Transport: dialer.Transport(), CheckRedirect: sameHost}
	s.auth = newAuthorizer(spec.Auth, s.client)
	return s
}

// sameHost follows what leads to another path of the same host, for a call that reads.
func sameHost(next *http.Request, via []*http.Request) error {
	from := via[0]
	if len(via) > 5 || !isSafe(from.Method) || next.URL.Scheme != from.URL.Scheme || !strings.EqualFold(next.URL.Host, from.URL.Host) {
		return http.ErrUseLastResponse
	}
	return nil
}

func (s *Source) Name() string     { return s.spec.Name }
func (s *Source) Kind() tools.Kind { return tools.OpenAPI }

// Serve offers the operations of the document, again whenever it has changed. A change
// for the worse leaves those before in force.
func (s *Source) Serve(ctx context.Context, offer func([]tools.Tool)) error {
	defer s.client.CloseIdleConnections()
	var now state
	changed, err := s.refresh(ctx, &now)
	if err != nil {
		return err
	}
	interval := checkInterval
	if s.spec.URL != "" {
		interval = s.spec.Refresh
	}
	served := false
	for {
		if changed {
			list, err := s.build(ctx, now.text)
			now.text = nil // which may be large
			switch {
			case err == nil:
				offer(list)
				served = true
			case !served:
				return err
			default:
				s.notice("the document has changed and cannot be used, so what it was before stays: " + err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
		if changed, err = s.refresh(ctx, &now); err != nil && ctx.Err() == nil {
			if text := err.Error(); text != now.reported { // once
				now.reported = text
				s.notice("the document cannot be read, so what it was before stays: " + text)
			}
		}
	}
}

// state is what is known of a document.
type state struct {
	text     []byte
	file     os.FileInfo
	etag     string
	digest   [sha256.Size]byte
	reported string
}

// refresh reads the document where it may have changed, and reports whether it has.
func (s *Source) refresh(ctx context.Context, now *state) (changed bool, err error) {
	text := []byte(s.spec.Document)
	switch {
	case s.spec.File != "":
		info, err := os.Stat(s.spec.File)
		if err != nil {
			return false, err
		}
		if now.file != nil && os.SameFile(info, now.file) && info.ModTime().Equal(now.file.ModTime()) && info.Size() == now.file.Size() {
			return false, nil
		}
		if text, err = readFile(s.spec.File, maxDocument); err != nil {
			return false, err
		}
		now.file = info
	case s.spec.URL != "":
		if text, err = s.fetch(ctx, s.spec.URL, now); err != nil || text == nil {
			return false, err
		}
	}
	digest := sha256.Sum256(text)
	if digest == now.digest {
		return false, nil
	}
	now.text, now.digest, now.reported = text, digest, ""
	return true, nil
}

func readFile(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(file, most)
}

func readBounded(from io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("the document has more than %s", size.Bytes(most))
	}
	return text, err
}

// fetch returns the document at an address; nil where it is the same as before. No
// credentials are sent: they are for calls.
func (s *Source) fetch(ctx context.Context, address string, now *state) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	if now != nil && now.etag != "" {
		request.Header.Set("If-None-Match", now.etag)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified && now != nil:
		return nil, nil
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered with status %d", request.URL.Host, response.StatusCode)
	}
	text, err := readBounded(response.Body, maxDocument)
	if err == nil && now != nil {
		now.etag = response.Header.Get("ETag")
	}
	return text, err
}

const userAgent = "toolserver"

// withoutAddress returns an error of a request without its address, which may carry a
// credential.
func withoutAddress(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// matches reports whether a pattern of a list matches a word; an empty list matches all.
func matches(patterns []string, words ...string) bool {
	for _, pattern := range patterns {
		compiled, err := glob.CompileWord(pattern)
		if err != nil {
			continue // which was told when the configuration was read
		}
		for _, word := range words {
			if compiled.Match(word) {
				return true
			}
		}
	}
	return len(patterns) == 0
}

// has reports whether an operation is selected.
func (s *Select) has(method, path, id string, tags []string) bool {
	return matches(s.Tags, tags...) && matches(s.Operations, id) && matches(lower(s.Methods), strings.ToLower(method)) && matches(s.Paths, path)
}

func lower(words []string) []string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = strings.ToLower(word)
	}
	return list
}

// saysOf returns what the operator says of a tool; that of a method that only reads is
// that it does.
func (s *Source) saysOf(name, method string) source.Says {
	says := source.About(s.spec.Says, name)
	says.ReadOnly = says.ReadOnly || isSafe(method)
	return says
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func isIdempotent(method string) bool {
	return isSafe(method) || method == http.MethodPut || method == http.MethodDelete
}
