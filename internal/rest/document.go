// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	_ "embed"
	"regexp"
)

//go:generate make -C ../.. generate
//go:embed openapi.swagger.json
var generated []byte

// wrapped is how the generator describes a message of a stream: as the gateway would wrap
// it, and [lines] does not.
var wrapped = regexp.MustCompile(`"type": "object",\s+"properties": \{\s+"result": \{\s+("\$ref": "[^"]+")\s+\}\s+\},\s+"title": "Stream result of [^"]+"`)

// document describes every path.
var document = wrapped.ReplaceAll(generated, []byte("$1"))
