// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package pdftest reads PDF documents in tests, as the server does: in a process
// in the sandbox.
package pdftest

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// dir has the program and its cache, once there are; unless these are where the packages of
// one run share them, since the cache takes many seconds to make.
var dir string

// Main runs the tests of a package. It is called by TestMain.
func Main(m *testing.M) {
	code := sandboxtest.Run(m, func(string) {})
	if dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var build = sync.OnceValues(func() (*pdf.Reader, error) {
	var err error
	if dir, err = os.MkdirTemp("", "pdftest"); err != nil {
		return nil, err
	}
	program, err := programtest.Build(dir, "internal/pdf/pdftest/child")
	if err != nil {
		return nil, err
	}
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		return nil, err
	}
	return pdf.NewReader(pdf.Config{Sandbox: s, Cache: filepath.Join(cmp.Or(os.Getenv(programtest.Directory), dir), "pdf-cache"), Program: program}), nil
})

// Documents reads documents. The program that does is built for the first one.
type Documents struct{}

// Read is [pdf.Reader.Read].
func (Documents) Read(ctx context.Context, file *os.File, request pdf.Request, yield func(pdf.Page) bool) (int, error) {
	reader, err := build()
	if err != nil {
		return 0, err
	}
	return reader.Read(ctx, file, request, yield)
}
