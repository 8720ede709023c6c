// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command child is the process that reads documents, for tests: built without
// the race detector, under which PDFium takes minutes to compile.
package main

import "github.com/toolserver/toolserver/internal/pdf"

func main() { pdf.Main() }
