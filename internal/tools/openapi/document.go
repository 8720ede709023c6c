// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// methods are those whose operations become tools.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// build returns the tools of a document.
func (s *Source) build(ctx context.Context, text []byte) ([]tools.Tool, error) {
	if len(text) > maxDocument {
		return nil, fmt.Errorf("the document has %s: at most %s", size.Bytes(len(text)), size.Bytes(maxDocument))
	}
	var err error
	if s.spec.ExternalRefs {
		if text, err = s.internalize(ctx, text); err != nil {
			return nil, err
		}
	}
	part, err := s.reduce(text)
	if err != nil {
		return nil, err
	}
	doc, err := load(ctx, part.text)
	if err != nil {
		return nil, err
	}
	base, err := s.base(doc)
	if err != nil {
		return nil, err
	}
	type selected struct {
		path, method string
		item         *openapi3.PathItem
	}
	var list []selected
	paths := doc.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path]
		if item == nil {
			continue
		}
		for _, method := range methods {
			if op := item.Operations()[method]; op != nil && s.spec.Select.has(method, path, op.OperationID, op.Tags) {
				list = append(list, selected{path, method, item})
			}
		}
	}
	switch {
	case len(list) > maxOperations:
		return nil, fmt.Errorf("%d operations are selected: at most %d; choose some by select, with tags, operations, methods or paths", len(list), maxOperations)
	case len(list) == 0:
		return nil, errors.New("no operation of the document is selected")
	}
	inputs, results := newConverter(part, false), newConverter(part, true)
	var offered []tools.Tool
	var refused []string
	for _, one := range list {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		tool, err := s.tool(inputs, results, base, one.method, one.path, one.item)
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s %s: %v", one.method, one.path, err))
			continue
		}
		offered = append(offered, tool)
	}
	if n := len(refused); n > 0 {
		s.notice(fmt.Sprintf("%d of %d operations cannot be used: %s", n, len(list), brief(strings.Join(refused[:min(n, 10)], "; "), 4000)))
	}
	if len(offered) == 0 {
		return nil, fmt.Errorf("no operation can be used: %s", refused[0])
	}
	return offered, nil
}

// load reads a document that refers to nothing but itself.
func load(ctx context.Context, text []byte) (doc *openapi3.T, err error) {
	defer recovered(&err)
	loader := openapi3.NewLoader()
	loader.Context = ctx
	doc, err = loader.LoadFromData(text)
	switch {
	case err != nil && strings.Contains(err.Error(), "disallowed external reference"):
		return nil, fmt.Errorf("%w: %s", err, onlyWith)
	case err != nil:
		return nil, fmt.Errorf("the document is no OpenAPI: %w", err)
	}
	return doc, nil
}

const onlyWith = "references to other documents are followed only with external_refs: true"

// recovered makes an error of a panic in a library, on a text of anybody's.
func recovered(err *error) {
	if failed := recover(); failed != nil {
		*err = fmt.Errorf("the document cannot be read: %v", failed)
	}
}

// internalize returns a document that has in it what it referred to elsewhere.
func (s *Source) internalize(ctx context.Context, text []byte) (_ []byte, err error) {
	defer recovered(&err)
	from := &url.URL{Path: filepath.ToSlash(s.spec.File)}
	if s.spec.URL != "" {
		if from, err = url.Parse(s.spec.URL); err != nil {
			return nil, err
		}
	}
	left := maxDocument - len(text)
	loader := openapi3.NewLoader()
	loader.Context, loader.IsExternalRefsAllowed = ctx, true
	loader.ReadFromURIFunc = func(_ *openapi3.Loader, at *url.URL) ([]byte, error) {
		part, err := s.external(ctx, at, int64(left))
		left -= len(part)
		return part, err
	}
	doc, err := loader.LoadFromDataWithPath(text, from)
	if err != nil {
		return nil, fmt.Errorf("the document is no OpenAPI: %w", err)
	}
	doc.InternalizeRefs(ctx, nil)
	return doc.MarshalJSON()
}

// external reads another document that this one refers to: a file below its directory,
// or an address of its host.
func (s *Source) external(ctx context.Context, at *url.URL, most int64) ([]byte, error) {
	if s.spec.URL != "" {
		from, err := url.Parse(s.spec.URL)
		if err != nil || at.Scheme != from.Scheme || at.Host != from.Host {
			return nil, fmt.Errorf("%s is refused: a document may refer to others of its own host, %s", at.Redacted(), from.Host)
		}
		text, err := s.fetch(ctx, at.String(), nil)
		if err == nil && int64(len(text)) > most {
			err = fmt.Errorf("the document and what it refers to have more than %s", size.Bytes(maxDocument))
		}
		return text, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(s.spec.File))
	if err != nil {
		return nil, err
	}
	file, err := filepath.EvalSymlinks(filepath.FromSlash(at.Path))
	if below, relErr := filepath.Rel(dir, file); at.Scheme != "" || at.Host != "" || err != nil || relErr != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("%s is refused: a document may refer to files below %s", at.Redacted(), dir)
	}
	return readFile(file, most)
}

// base returns where calls go.
func (s *Source) base(doc *openapi3.T) (*url.URL, error) {
	if s.spec.BaseURL != fromDocument {
		return url.Parse(s.spec.BaseURL)
	}
	if len(doc.Servers) == 0 {
		return nil, errors.New("the document names no server: say base_url")
	}
	text := doc.Servers[0].URL
	for name, variable := range doc.Servers[0].Variables {
		if variable != nil {
			text = strings.ReplaceAll(text, "{"+name+"}", variable.Default)
		}
	}
	base, err := url.Parse(text)
	if err == nil && s.spec.URL != "" {
		if from, err := url.Parse(s.spec.URL); err == nil {
			base = from.ResolveReference(base)
		}
	}
	if err != nil || base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || strings.ContainsAny(text, "{}") {
		return nil, fmt.Errorf("the first server of the document, %.200q, is no address with https: say base_url", text)
	}
	return base, nil
}
