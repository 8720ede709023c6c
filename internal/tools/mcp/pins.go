// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/wholefile"
)

// maxPins is how many tools of a server are remembered.
const maxPins = 10_000

// pins remember what the tools of a server were when somebody last looked at them, or
// when they were first seen.
type pins struct {
	file  string
	Tools map[string]pin `json:"tools"`
}

type pin struct {
	Digest      string    `json:"digest"` // of all that a model is told
	Schema      string    `json:"schema"` // of the schemas
	Description string    `json:"description,omitempty"`
	Since       time.Time `json:"since"`
}

// openPins reads the pins of a server. No file has none.
func openPins(file string) (*pins, error) {
	p := &pins{file: file}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("what was approved of its tools cannot be read, so none is offered; remove the file to approve all: %w", err)
	}
	if p.Tools == nil {
		p.Tools = make(map[string]pin)
	}
	return p, nil
}

func (p *pins) save() error {
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	return wholefile.Replace(p.file, text)
}

// pinOf returns what a tool is now.
func pinOf(tool *sdk.Tool) pin {
	schemas := digest(tool.InputSchema, tool.OutputSchema)
	return pin{
		Digest: digest(tool.Name, tool.Title, tool.Description, tool.Annotations, schemas),
		Schema: schemas, Description: output.Short(tool.Description, 1000), Since: time.Now().UTC(),
	}
}

func digest(parts ...any) string {
	text, _ := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
