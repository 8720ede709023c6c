// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oasdiff/yaml"
	yaml3 "github.com/oasdiff/yaml3"

	"github.com/toolserver/toolserver/internal/size"
)

// A reduced document is what the selected operations need of one. Most of a large one is
// examples, other operations, and schemas that refer to each other in circles: those are
// kept apart, as they are written.
type reduced struct {
	text    []byte         // JSON, with {"x-schema": n} in place of schemas
	schemas []any          // those
	whole   map[string]any // the document
}

// reduce reads a document.
func (s *Source) reduce(text []byte) (*reduced, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '{' {
		if err := checkAliases(text); err != nil {
			return nil, err
		}
		converted, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("the document is neither JSON nor YAML: %w", err)
		}
		text = converted
	}
	r := &reduction{seen: make(map[string]bool)}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&r.whole); err != nil {
		return nil, fmt.Errorf("the document is no OpenAPI: %w", err)
	}
	if version, _ := r.whole["openapi"].(string); !strings.HasPrefix(version, "3.") {
		return nil, fmt.Errorf(`the document is of version %.20q: want OpenAPI 3.0 or 3.1 in its key "openapi"`, version)
	}
	paths, err := s.selected(r.whole)
	if err != nil {
		return nil, err
	}
	kept := make(map[string]any)
	small := map[string]any{"openapi": r.whole["openapi"], "info": r.whole["info"], "servers": r.strip("", r.whole["servers"]),
		"paths": r.strip("paths", paths), "components": kept}
	components, _ := r.whole["components"].(map[string]any)
	if schemes, ok := components["securitySchemes"]; ok {
		kept["securitySchemes"] = r.strip("securitySchemes", schemes)
	}
	for ; len(r.refs) > 0; r.refs = r.refs[1:] {
		words := strings.Split(r.refs[0], "/")
		if len(words) != 4 || words[0] != "#" || words[1] != "components" {
			continue // which is told when it is loaded
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(words[3])
		group, _ := components[words[2]].(map[string]any)
		value, ok := group[name].(map[string]any)
		if !ok {
			continue
		}
		if _, alias := value["$ref"]; alias {
			if r.aliases++; r.aliases > maxAliases {
				return nil, fmt.Errorf("more than %d parts of the document are nothing but references to others", maxAliases)
			}
		}
		if kept[words[2]] == nil {
			kept[words[2]] = map[string]any{}
		}
		kept[words[2]].(map[string]any)[name] = r.strip("", value)
	}
	if r.text, err = json.Marshal(small); err == nil && len(r.text) > maxReduced {
		err = fmt.Errorf("the selected operations have %s of the document: at most %s; select fewer", size.Bytes(len(r.text)), size.Bytes(maxReduced))
	}
	return &r.reduced, err
}

// checkAliases returns an error for a document that is too large with what its aliases stand
// for, without writing that out.
func checkAliases(text []byte) error {
	if !bytes.Contains(text, []byte("*")) || !bytes.Contains(text, []byte("&")) {
		return nil
	}
	var doc yaml3.Node
	if err := yaml3.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("the document is neither JSON nor YAML: %w", err)
	}
	const most = 2 * maxDocument
	known := make(map[*yaml3.Node]int) // of anchors; most+1 while one is looked at, as it has no end
	var bytesOf func(*yaml3.Node) int
	bytesOf = func(n *yaml3.Node) (sum int) {
		if n.Alias != nil {
			n = n.Alias
		}
		if n.Anchor != "" {
			if size, ok := known[n]; ok {
				return size
			}
			known[n] = most + 1
			defer func() { known[n] = sum }()
		}
		sum = len(n.Value) + 2 // with quotes or brackets
		for _, inner := range n.Content {
			if sum += bytesOf(inner) + 1; sum > most {
				return most + 1
			}
		}
		return sum
	}
	if bytesOf(&doc) > most {
		return fmt.Errorf("the document has more than %s without its aliases", size.Bytes(most))
	}
	return nil
}

// Bounds of what is loaded of a document.
const (
	maxReduced = 16 << 20
	maxNesting = 64
	maxAliases = 100
)

// selected returns the paths of a document with the operations that are selected.
func (s *Source) selected(doc map[string]any) (map[string]any, error) {
	all, _ := doc["paths"].(map[string]any)
	paths, count := make(map[string]any), 0
	for path, value := range all {
		item, ok := value.(map[string]any)
		if !ok {
			continue
		}
		kept := make(map[string]any, len(item))
		has := item["$ref"] != nil // which is looked at later
		for word, value := range item {
			method := strings.ToUpper(word)
			if !slices.Contains(methods, method) {
				if word == "parameters" || word == "$ref" {
					kept[word] = value
				}
				continue
			}
			op, _ := value.(map[string]any)
			id, _ := op["operationId"].(string)
			var tags []string
			list, _ := op["tags"].([]any)
			for _, tag := range list {
				text, _ := tag.(string)
				tags = append(tags, text)
			}
			if op != nil && s.spec.Select.has(method, path, id, tags) {
				kept[word], has = op, true
				count++
			}
		}
		if has {
			paths[path] = kept
		}
	}
	switch {
	case count > maxOperations:
		return nil, fmt.Errorf("%d operations are selected: at most %d; choose some by select, with tags, operations, methods or paths", count, maxOperations)
	case len(paths) == 0:
		return nil, errors.New("no operation of the document is selected")
	}
	return paths, nil
}

// A reduction leaves out of a document what no tool needs, and notes what the rest refers
// to.
type reduction struct {
	reduced
	seen    map[string]bool
	refs    []string
	aliases int
	depth   int
}

// named are keys whose value has names of the document's own for keys.
var named = []string{"headers", "responses", "content", "paths", "encoding", "variables", "securitySchemes"}

func (r *reduction) strip(under string, value any) any {
	if r.depth++; r.depth > maxNesting {
		r.depth--
		return nil
	}
	defer func() { r.depth-- }()
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = r.strip("", item)
		}
		return list
	case map[string]any:
		names := slices.Contains(named, under)
		if ref, ok := v["$ref"].(string); ok && !names && !r.seen[ref] {
			r.seen[ref] = true
			r.refs = append(r.refs, ref)
		}
		to := make(map[string]any, len(v))
		for word, inner := range v {
			switch {
			case under == "responses":
				if strings.HasPrefix(word, "2") {
					to[word] = r.strip("", inner)
				}
			case names:
				to[word] = r.strip("", inner)
			case word == "schema":
				to[word] = map[string]any{schemaMark: len(r.schemas)}
				r.schemas = append(r.schemas, inner)
			case word == "example" || word == "examples" || word == "callbacks" || word == "links" || strings.HasPrefix(word, "x-"):
			default:
				to[word] = r.strip(word, inner)
			}
		}
		return to
	}
	return value
}

const schemaMark = "x-schema"
