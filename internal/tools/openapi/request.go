// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"golang.org/x/net/http/httpguts"

	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// A param is a key of an input that goes into the path, the query, a header or a cookie.
type param struct {
	key, name, in string
	style         string
	explode       bool
	json          bool // its value is written as JSON
}

func newParam(p *openapi3.Parameter) (param, error) {
	one := param{name: p.Name, in: p.In, json: p.Schema == nil && len(p.Content) > 0}
	method, err := p.SerializationMethod()
	if err != nil {
		return one, err
	}
	one.style, one.explode = method.Style, method.Explode
	if p.In == openapi3.ParameterInHeader && !httpguts.ValidHeaderFieldName(p.Name) {
		return one, errors.New("is no name of a header")
	}
	return one, nil
}

// A pair is one key of a query or form with its value.
type pair struct{ name, value string }

// pairs writes a value as a query or form has it.
func (p *param) pairs(value any) []pair {
	if p.json {
		return []pair{{p.name, jsonOf(value)}}
	}
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		if p.style == openapi3.SerializationDeepObject {
			return deep(p.name, v)
		}
		texts := textsOf(v)
		if p.explode {
			list := make([]pair, len(texts))
			for i, text := range texts {
				list[i] = pair{p.name, text}
			}
			return list
		}
		between := map[string]string{openapi3.SerializationSpaceDelimited: " ", openapi3.SerializationPipeDelimited: "|"}[p.style]
		return []pair{{p.name, strings.Join(texts, cmp.Or(between, ","))}}
	case map[string]any:
		if p.style == openapi3.SerializationDeepObject {
			return deep(p.name, v)
		}
		var list []pair
		var flat []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list, flat = append(list, pair{name, textOf(v[name])}), append(flat, name, textOf(v[name]))
		}
		if p.explode {
			return list
		}
		return []pair{{p.name, strings.Join(flat, ",")}}
	}
	return []pair{{p.name, textOf(value)}}
}

// deep writes what is in objects and lists as name[key], as far as it goes.
func deep(name string, value any) (list []pair) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, deep(name+"["+key+"]", v[key])...)
		}
	case []any:
		for i, item := range v {
			list = append(list, deep(name+"["+strconv.Itoa(i)+"]", item)...)
		}
	default:
		list = append(list, pair{name, textOf(v)})
	}
	return list
}

// plain writes a value as a path, header or cookie has it; escape is for each of its parts.
func (p *param) plain(value any, escape func(string) string) string {
	if p.json {
		return escape(jsonOf(value))
	}
	// before begins the whole, between separates its parts; each part of a list may repeat
	// the name of the parameter, and a single value always does where a list would.
	before, between, named := "", ",", ""
	switch p.style {
	case openapi3.SerializationLabel:
		before = "."
	case openapi3.SerializationMatrix:
		before, named = ";", escape(p.name)+"="
	}
	if p.explode && before != "" {
		between = before
	}
	var parts []string
	switch v := value.(type) {
	case []any:
		for i, text := range textsOf(v) {
			if text = escape(text); i == 0 || p.explode {
				text = named + text
			}
			parts = append(parts, text)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := escape(textOf(v[name])); p.explode {
				parts = append(parts, escape(name)+"="+text)
			} else {
				parts = append(parts, escape(name), text)
			}
		}
		if !p.explode {
			before += named
		}
	default:
		text := escape(textOf(value))
		if text == "" {
			return ""
		}
		return before + named + text
	}
	if len(parts) == 0 {
		return ""
	}
	return before + strings.Join(parts, between)
}

// textOf writes one value.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case nil:
		return ""
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return jsonOf(value)
}

func textsOf(list []any) []string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = textOf(item)
	}
	return texts
}

func jsonOf(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// templatePart is a piece of a path: a text, or the name of a parameter.
type templatePart struct{ text, name string }

func templateOf(path string) (parts []templatePart) {
	for path != "" {
		text, rest, found := strings.Cut(path, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return append(parts, templatePart{text: path})
		}
		parts = append(parts, templatePart{text: text}, templatePart{name: name})
		path = after
	}
	return parts
}

// escapeSegment writes a text as one segment of a path, or a part of one.
func escapeSegment(text string) string {
	return strings.NewReplacer("+", "%2B", "=", "%3D", ";", "%3B", ",", "%2C", "&", "%26", "$", "%24", ":", "%3A", "@", "%40").Replace(url.PathEscape(text))
}

// address returns the request of an input, without body and credentials. An error is an
// [*tools.InputError].
func (op *operation) address(values map[string]any) (*http.Request, error) {
	wrong := new(tools.InputError)
	problem := func(p *param, text string) {
		wrong.Problems = append(wrong.Problems, tools.Problem{Pointer: "/" + p.key, Message: text})
	}
	header := make(http.Header)
	inPath := make(map[string]*param)
	var query []string
	for i := range op.params {
		p := &op.params[i]
		value, given := values[p.key]
		switch {
		case p.in == openapi3.ParameterInPath:
			inPath[p.name] = p
		case !given || value == nil:
		case p.in == openapi3.ParameterInQuery:
			for _, one := range p.pairs(value) {
				query = append(query, url.QueryEscape(one.name)+"="+url.QueryEscape(one.value))
			}
		case p.in == openapi3.ParameterInHeader:
			text := p.plain(value, func(s string) string { return s })
			if !httpguts.ValidHeaderFieldValue(text) {
				problem(p, "has line breaks or control characters in it, which a header cannot have")
				continue
			}
			header.Set(p.name, text)
		case p.in == openapi3.ParameterInCookie:
			header.Add("Cookie", url.QueryEscape(p.name)+"="+p.plain(value, url.QueryEscape))
		}
	}
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header.Set("Cookie", strings.Join(cookies, "; "))
	}
	escaped := strings.TrimSuffix(op.base.EscapedPath(), "/")
	for _, part := range templateOf(op.path) {
		if part.name == "" {
			escaped += (&url.URL{Path: part.text}).EscapedPath()
			continue
		}
		p := inPath[part.name]
		text := p.plain(values[p.key], escapeSegment)
		if text == "" {
			problem(p, "must not be empty: it is a part of the path")
		}
		escaped += text
	}
	// A server or a proxy may take an escaped dot for a dot, and an escaped slash for a
	// slash.
	plain, err := url.PathUnescape(escaped)
	for segment := range strings.FieldsFuncSeq(plain, func(c rune) bool { return c == '/' || c == '\\' }) {
		if err != nil || segment == "." || segment == ".." {
			wrong.Problems = append(wrong.Problems, tools.Problem{Message: "the path would have " + strconv.Quote(segment) + " in it, which leads elsewhere"})
		}
	}
	if len(wrong.Problems) > 0 {
		return nil, wrong
	}
	u := *op.base
	u.RawPath = escaped
	u.Path, _ = url.PathUnescape(escaped)
	u.RawQuery = strings.Join(query, "&")
	return &http.Request{Method: op.method, URL: &u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

// A body is how the key body of an input is sent.
type body struct {
	mediaType string
	kind      bodyKind
	fields    map[string]field // of forms
}

type bodyKind int

const (
	jsonBody bodyKind = iota
	formBody
	multipartBody
	textBody
	fileBody // the bytes of a file
)

// field is one of a form.
type field struct {
	param
	file      bool
	mediaType string
}

const maxUpload = 64 << 20

const ofWorkspace = "Path of a file in the workspace: its bytes are sent."

// newBody returns how a body is sent, and its schema; nil where there is none.
func newBody(c *converter, request *openapi3.RequestBody, refs *[]string) (*body, map[string]any) {
	mediaType, content := chooseMedia(request.Content)
	if content == nil {
		return nil, nil
	}
	b := &body{mediaType: mediaType}
	property := c.schema(content.Schema, refs)
	switch plain := strings.ToLower(mediaType); {
	case isJSON(mediaType) || plain == "*/*":
		b.kind = jsonBody
		if plain == "*/*" {
			b.mediaType = "application/json"
		}
	case plain == "application/x-www-form-urlencoded" || plain == "multipart/form-data":
		b.kind = formBody
		if plain == "multipart/form-data" {
			b.kind = multipartBody
		}
		property = b.form(c, content, refs)
	case strings.HasPrefix(plain, "text/") || strings.HasSuffix(plain, "xml") || strings.HasSuffix(plain, "yaml"):
		b.kind, property = textBody, map[string]any{"type": "string", "description": "Sent as it is, as " + mediaType + "."}
	default:
		b.kind, property = fileBody, map[string]any{"type": "string", "description": ofWorkspace}
		if strings.Contains(mediaType, "*") {
			b.mediaType = "application/octet-stream"
		}
	}
	if text := brief(request.Description, maxNote); text != "" && b.kind == jsonBody {
		if _, said := property["description"]; !said {
			property["description"] = text
		}
	}
	return b, property
}

// chooseMedia returns the media type in which a body is sent: JSON where there is a choice.
func chooseMedia(content openapi3.Content) (string, *openapi3.MediaType) {
	rank := func(mediaType string) int {
		switch plain, _, _ := strings.Cut(strings.ToLower(mediaType), ";"); {
		case plain == "application/json":
			return 0
		case isJSON(plain):
			return 1
		case plain == "application/x-www-form-urlencoded":
			return 2
		case plain == "multipart/form-data":
			return 3
		case strings.HasPrefix(plain, "text/"):
			return 4
		}
		return 5
	}
	names := slices.SortedFunc(maps.Keys(content), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		if content[name] != nil {
			return name, content[name]
		}
	}
	return "", nil
}

// form notes the fields of a form, and returns its schema.
func (b *body) form(c *converter, content *openapi3.MediaType, refs *[]string) map[string]any {
	b.fields = make(map[string]field)
	raw := c.resolved(c.raw(content.Schema))
	property, _ := c.convert(raw, refs, 0).(map[string]any)
	properties, _ := property["properties"].(map[string]any)
	fields, _ := raw["properties"].(map[string]any)
	for name, value := range fields {
		f := field{param: param{name: name, in: openapi3.ParameterInQuery, style: openapi3.SerializationForm, explode: true}}
		if encoding := content.Encoding[name]; encoding != nil {
			f.style = cmp.Or(encoding.Style, f.style)
			f.mediaType = encoding.ContentType
			if encoding.Explode != nil {
				f.explode = *encoding.Explode
			}
		}
		schema := c.resolved(value)
		note, _ := schema["description"].(string)
		note = strings.TrimSpace(brief(note, maxNote) + " " + ofWorkspace)
		switch {
		case b.kind != multipartBody || properties[name] == nil:
		case isFile(schema):
			f.file = true
			properties[name] = map[string]any{"type": "string", "description": note}
		case isFile(c.resolved(schema["items"])):
			f.file = true
			properties[name] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": note}
		}
		b.fields[name] = f
	}
	return property
}

// isFile reports whether a field of a form is a file.
func isFile(schema map[string]any) bool {
	mediaType, _ := schema["contentMediaType"].(string)
	return schema["format"] == "binary" || mediaType != "" && schema["contentEncoding"] == nil && !isJSON(mediaType)
}

func isJSON(mediaType string) bool {
	plain, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	plain = strings.TrimSpace(plain)
	return plain == "application/json" || strings.HasSuffix(plain, "+json") || plain == "text/json"
}

// files returns the names of files of the workspace that a body sends.
func (b *body) files(value any) (names []string) {
	if b == nil {
		return nil
	}
	add := func(value any) {
		switch v := value.(type) {
		case string:
			names = append(names, v)
		case []any:
			names = append(names, textsOf(v)...)
		}
	}
	switch v := value.(type) {
	case string:
		if b.kind == fileBody {
			add(v)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if b.fields[name].file {
				add(v[name])
			}
		}
	}
	return names
}

// encode writes a body as it is sent.
func (b *body) encode(env tools.Env, value any) (text []byte, mediaType string, err error) {
	switch b.kind {
	case textBody:
		return []byte(textOf(value)), b.mediaType, nil
	case fileBody:
		text, err := contentOf(env, textOf(value))
		return text, b.mediaType, err
	case formBody:
		var pairs []string
		b.each(value, func(f field, value any) error {
			for _, one := range f.pairs(value) {
				pairs = append(pairs, url.QueryEscape(one.name)+"="+url.QueryEscape(one.value))
			}
			return nil
		})
		return []byte(strings.Join(pairs, "&")), b.mediaType, nil
	case multipartBody:
		var out bytes.Buffer
		writer := multipart.NewWriter(&out)
		err := b.each(value, func(f field, value any) error { return f.write(env, writer, value) })
		if err == nil {
			err = writer.Close()
		}
		if err == nil && out.Len() > maxUpload {
			err = tools.Failf("too_large", "The files have more than %s together: send fewer at a time.", size.Bytes(maxUpload))
		}
		return out.Bytes(), writer.FormDataContentType(), err
	}
	text, err = json.Marshal(value)
	return text, b.mediaType, err
}

// each calls f with the fields of a form that an input has, in the order of their names.
func (b *body) each(value any, f func(field, any) error) error {
	object, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one, known := b.fields[name]
		if !known {
			one = field{param: param{name: name, style: openapi3.SerializationForm, explode: true}}
		}
		if err := f(one, object[name]); err != nil {
			return err
		}
	}
	return nil
}

// write writes a field of a form with files.
func (f *field) write(env tools.Env, to *multipart.Writer, value any) error {
	values, isList := value.([]any)
	if !isList {
		values = []any{value}
	}
	for _, value := range values {
		header := make(textproto.MIMEHeader)
		disposition := map[string]string{"name": f.name}
		text := []byte(textOf(value))
		mediaType := f.mediaType
		if f.file {
			var err error
			if text, err = contentOf(env, textOf(value)); err != nil {
				return err
			}
			disposition["filename"] = path.Base(textOf(value))
			mediaType = cmp.Or(mediaType, mime.TypeByExtension(path.Ext(textOf(value))), "application/octet-stream")
		} else if _, isObject := value.(map[string]any); isObject {
			mediaType = "application/json"
		}
		header.Set("Content-Disposition", mime.FormatMediaType("form-data", disposition))
		if mediaType != "" && httpguts.ValidHeaderFieldValue(mediaType) {
			header.Set("Content-Type", mediaType)
		}
		part, err := to.CreatePart(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// contentOf reads a file of the workspace that was judged.
func contentOf(env tools.Env, name string) ([]byte, error) {
	file, err := env.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxUpload+1))
	if err == nil && len(data) > maxUpload {
		err = tools.Failf("too_large", "%s has more than %s, which is the most that is sent.", name, size.Bytes(maxUpload))
	}
	return data, err
}
