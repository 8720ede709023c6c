// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build embedded

package server

import _ "embed"

// execImage is the program between the server and its commands, so that one
// file is all there is to install. make builds it first.
//
//go:embed toolserver-exec
var execImage []byte
