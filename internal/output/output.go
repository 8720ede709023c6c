// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package output is what happens to the bytes a command writes before they
// leave the server: secrets are masked in the stream ([Masker]), and what a
// model reads is cut to a window ([Window]) and made plain ([Clean]).
package output
