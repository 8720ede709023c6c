// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"regexp"
	"sync"

	"github.com/toolserver/toolserver/internal/version"
)

//go:generate make -C ../.. generate
//go:embed openapi.swagger.json
var generated []byte

// wrapped is how the generator describes a message of a stream: as the gateway would wrap
// it, and [lines] does not. entitled is what it calls the whole; answers and definitions are
// where what it does not know is added.
var (
	wrapped     = regexp.MustCompile(`"type": "object",\s+"properties": \{\s+"result": \{\s+("\$ref": "[^"]+")\s+\}\s+\},\s+"title": "Stream result of [^"]+"`)
	entitled    = regexp.MustCompile(`"info": \{[^}]*\}`)
	answers     = []byte(`"responses": {`)
	definitions = []byte(`"definitions": {`)
)

// failed is what every request may be answered with, and errorSchema how that looks.
const (
	failed      = `"default": {"description": "It failed. A stream that has begun ends with such a line.", "schema": {"$ref": "#/definitions/Error"}},`
	errorSchema = `"Error": {"type": "object", "description": "Error is what was wrong.", "properties": {"error": {"type": "object", "required": ["code", "message"], "properties": {
  "code": {"type": "integer", "format": "int32", "description": "The code of gRPC, such as 3 for INVALID_ARGUMENT."},
  "message": {"type": "string", "description": "What was wrong, and what would be right."},
  "details": {"type": "array", "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "additionalProperties": {}}, "description": "More of it for programs, such as when to try again."}}}}},`
)

// document describes every path.
var document = sync.OnceValue(func() []byte {
	info, err := json.Marshal(map[string]string{
		"title": "toolserver", "version": version.Text(), "description": "Runs tools for AI agents. What holds for all paths is in docs/rest.md.",
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	text := wrapped.ReplaceAll(generated, []byte("$1"))
	text = entitled.ReplaceAllLiteral(text, append([]byte(`"info": `), info...))
	text = bytes.ReplaceAll(text, answers, append(bytes.Clone(answers), failed...))
	return bytes.Replace(text, definitions, append(bytes.Clone(definitions), errorSchema...), 1)
})
