// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

// Analyse is Effects without the net that catches panics.
var Analyse = analyse
