// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

// fakeServer has the test program be a language server.
const fakeServer = "fake-language-server"

func serveFake([]string) {}
