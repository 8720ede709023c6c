// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !embedded

package server

// execImage is empty in a server that go built without make: it then is the
// program between itself and its commands, which costs a little more for each.
var execImage []byte
