// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// An operation is one method of one path, and how an input becomes a request of it.
type operation struct {
	source *Source
	base   *url.URL
	name   string // of its tool, with the namespace
	method string
	path   string // as the document has it, with {names}
	params []param
	body   *body // nil where there is none
	says   source.Says
}

// bodyKey is the key of an input that has the body.
const bodyKey = "body"

// tool makes the tool of an operation, or tells why there is none.
func (s *Source) tool(c, results *converter, base *url.URL, method, path string, item *openapi3.PathItem) (tools.Tool, error) {
	described := item.Operations()[method]
	own := ownName(s.spec.Name, described.OperationID, method, path)
	op := &operation{
		source: s, base: base, method: method, path: path,
		name: s.spec.Name + tools.NamespaceMark + own, says: s.saysOf(own, method),
	}
	c.external, results.external = "", ""
	whole, refs, err := op.input(c, item, described)
	if err != nil {
		return nil, err
	}
	var text json.RawMessage
	for _, most := range []int{400, 40, 4} { // what refers to itself in many ways is checked less far
		var input json.RawMessage
		var checked *schema.Schema
		if input, err = c.complete(whole, refs, maxInputSchema, most); err != nil {
			return nil, err
		}
		if checked, err = schema.Object(input, true); err == nil {
			text = checked.Text
			break
		}
	}
	result := results.result(described)
	switch {
	case err != nil:
		return nil, err
	case c.external != "" || results.external != "":
		return nil, fmt.Errorf("it refers to %.200q: %s", c.external+results.external, onlyWith)
	}
	compiled := sync.OnceValues(func() (*schema.Schema, error) { return schema.Object(text, true) }) // once it is used: it is large
	host, err := egress.Named(base)
	if err != nil {
		return nil, err
	}
	reaches := tools.Effect{Kind: tools.ReachesHost, Host: base.Hostname(), Configured: true}
	reaches.Port, _ = strconv.Atoi(host[strings.LastIndexByte(host, ':')+1:])
	reaches.Host = strings.ToLower(strings.TrimSuffix(reaches.Host, "."))
	spec := tools.Spec{
		Name: own, Label: brief(described.Summary, 80), Category: s.spec.Name, Kind: tools.OpenAPI, Server: s.spec.Name,
		ConcurrencySafe: isSafe(method), Dangerous: method == http.MethodDelete, DefaultTimeout: s.spec.Timeout + timeoutRoom,
	}
	op.says.Level(&spec)
	op.describe(&spec, described)
	spec.ResultSchema = result
	return tools.NewForeign(tools.Foreign{
		Spec:   spec,
		Schema: text,
		Check: func(input json.RawMessage) (json.RawMessage, error) {
			schema, err := compiled()
			if err != nil {
				return nil, err
			}
			if input, err = schema.Check(input); err != nil {
				return nil, err
			}
			_, err = op.address(valuesOf(input))
			return input, err
		},
		Effects: func(env tools.Env, input json.RawMessage) []tools.Effect {
			effects := append([]tools.Effect{reaches}, op.says.Effects(env, op.name, input)...)
			return append(effects, env.Reads(op.body.files(valuesOf(input)[bodyKey])...)...)
		},
		Run: op.run,
		Preview: func(_ context.Context, _ tools.Env, input json.RawMessage) tools.Preview {
			values := valuesOf(input)
			text := op.method + " "
			if request, err := op.address(values); err == nil {
				text += request.URL.String()
			}
			if sent, ok := values[bodyKey]; ok && op.body != nil {
				shown, _ := json.MarshalIndent(sent, "", "  ")
				text += "\n\n" + string(shown)
			}
			return tools.Preview{Kind: tools.PreviewText, Text: "```\n" + strings.ReplaceAll(text, "```", "` ` `") + "\n```"}
		},
	}), nil
}

// valuesOf returns the keys of an input that was checked.
func valuesOf(input json.RawMessage) map[string]any {
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	if decoder.Decode(&values) != nil {
		return nil
	}
	return values
}

// ownName returns the name of a tool within its source: the id of the operation, or its
// method and path. What is too long for models ends in a digest.
func ownName(namespace, id, method, path string) string {
	name, err := source.OwnName(id)
	if err != nil {
		name = strings.Trim(spelled(strings.NewReplacer("{", "", "}", "").Replace(strings.ToLower(method)+path), "-"), "_")
	}
	if most := 64 - len(namespace) - len(tools.NamespaceMark); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = name[:most-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return name
}

// spelled returns a text with _ for whatever is no letter of English, no digit, and none of
// others.
func spelled(text, others string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(others, r) {
			return r
		}
		return '_'
	}, text)
}

// describe tells a model what the operation does, in the words of the document.
func (op *operation) describe(spec *tools.Spec, described *openapi3.Operation) {
	where := op.method + " " + strings.TrimSuffix(op.base.String(), "/") + op.path
	summary, _, _ := strings.Cut(brief(cmp.Or(described.Summary, described.Description, where), 200), "\n")
	spec.Summary = strings.TrimSpace(summary)
	parts := []string{brief(described.Summary, 300), brief(described.Description, 3000)}
	if described.Deprecated {
		parts = append(parts, "Deprecated.")
	}
	if parts[0] == parts[1] {
		parts = parts[1:]
	}
	spec.Description = strings.Join(slices.DeleteFunc(append(parts, where), func(s string) bool { return s == "" }), "\n\n")
}

// input returns the schema of the input and what it refers to, and notes how it becomes a
// request.
func (op *operation) input(c *converter, item *openapi3.PathItem, described *openapi3.Operation) (whole map[string]any, refs []string, err error) {
	if !strings.HasPrefix(op.path, "/") {
		return nil, nil, errors.New("the path does not begin with /")
	}
	properties, names := map[string]any{}, []any{}
	for _, p := range parametersOf(item, described) {
		if op.hides(c, p) {
			if p.In == openapi3.ParameterInPath {
				return nil, nil, fmt.Errorf("parameter %s is a credential in a path", p.Name)
			}
			continue
		}
		one, err := newParam(p)
		if err != nil {
			return nil, nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		one.key = freeKey(p.Name, p.In, properties)
		described := c.schema(p.Schema, &refs)
		if one.json {
			for _, media := range p.Content {
				described = c.schema(media.Schema, &refs)
			}
		}
		if text := brief(p.Description, maxNote); text != "" {
			described["description"] = text
		}
		properties[one.key] = described
		if p.Required || p.In == openapi3.ParameterInPath {
			names = append(names, one.key)
		}
		op.params = append(op.params, one)
	}
	for _, part := range templateOf(op.path) {
		if part.name != "" && !slices.ContainsFunc(op.params, func(p param) bool { return p.in == openapi3.ParameterInPath && p.name == part.name }) {
			return nil, nil, fmt.Errorf("the path has {%s} in it, and there is no such parameter", part.name)
		}
	}
	if described.RequestBody != nil && described.RequestBody.Value != nil && op.method != http.MethodHead {
		request := described.RequestBody.Value
		var property map[string]any
		if op.body, property = newBody(c, request, &refs); op.body != nil {
			properties[bodyKey] = property
			if request.Required {
				names = append(names, bodyKey)
			}
		}
	}
	whole = map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(names) > 0 {
		whole["required"] = names
	}
	return whole, refs, nil
}

// hides reports whether a parameter is not for models: the server sets it, the operator
// does, or the document says that it is a credential.
func (op *operation) hides(c *converter, p *openapi3.Parameter) bool {
	spec := &op.source.spec
	if spec.Auth.hides(p.In, p.Name) {
		return true
	}
	if p.In == openapi3.ParameterInHeader {
		for name := range spec.Headers {
			if strings.EqualFold(name, p.Name) {
				return true
			}
		}
		if isOwn(p.Name) {
			return true
		}
	}
	components, _ := c.whole["components"].(map[string]any)
	schemes, _ := components["securitySchemes"].(map[string]any)
	for _, scheme := range schemes {
		one, _ := scheme.(map[string]any)
		if name, _ := one["name"].(string); one["type"] == "apiKey" && one["in"] == p.In && strings.EqualFold(name, p.Name) {
			return true
		}
	}
	return false
}

// parametersOf returns the parameters of an operation: its own come before those of its
// path.
func parametersOf(item *openapi3.PathItem, op *openapi3.Operation) []*openapi3.Parameter {
	var list []*openapi3.Parameter
	for _, ref := range slices.Concat(op.Parameters, item.Parameters) {
		if ref == nil || ref.Value == nil {
			continue
		}
		if p := ref.Value; !slices.ContainsFunc(list, func(other *openapi3.Parameter) bool { return other.In == p.In && other.Name == p.Name }) {
			list = append(list, p)
		}
	}
	return list
}

// freeKey returns the key of a parameter in an input, in letters that model providers
// take and that no other parameter has.
func freeKey(name, in string, taken map[string]any) string {
	key := strings.Trim(spelled(name, ".-"), "_")
	key = cmp.Or(key[:min(len(key), 48)], in)
	base := key
	for i := 1; ; i++ {
		if _, ok := taken[key]; !ok && key != bodyKey {
			return key
		}
		if key = base + "_" + in; i > 1 {
			key += strconv.Itoa(i)
		}
	}
}

// result returns the schema of what the operation returns when it succeeds; nil where
// that is no JSON.
func (c *converter) result(op *openapi3.Operation) json.RawMessage {
	if op.Responses == nil {
		return nil
	}
	responses := op.Responses.Map()
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		response := responses[status]
		if !strings.HasPrefix(status, "2") || response == nil || response.Value == nil {
			continue
		}
		for _, media := range slices.Sorted(maps.Keys(response.Value.Content)) {
			if content := response.Value.Content[media]; isJSON(media) && content != nil && content.Schema != nil {
				var refs []string
				text, err := c.complete(c.schema(content.Schema, &refs), refs, maxResultSchema, 100)
				if err != nil || len(text) > 2*maxResultSchema {
					return nil
				}
				return text
			}
		}
	}
	return nil
}
