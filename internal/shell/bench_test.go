// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/shell"
)

func BenchmarkEffects(b *testing.B) {
	for name, command := range map[string]string{
		"pipe":   "grep -rn TODO src | sort | head -20",
		"status": "git status --short",
		"script": "set -e; cd src && for f in a b c; do sed -n '1,5p' \"$f.go\" | tee out/$f; done; x=$(git rev-parse HEAD); echo \"$x\" > rev",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				shell.Effects(command, place)
			}
		})
	}
}
