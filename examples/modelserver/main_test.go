// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	turns, err := read("script.json")
	if err != nil || len(turns) != 2 || len(turns[0].Calls) != 1 || string(turns[0].Calls[0].Input) != `{"path": "."}` {
		t.Errorf("%+v, %v", turns, err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.json")
	if err := os.WriteFile(wrong, []byte(`[{"txt": "x"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{wrong, "none.json"} {
		if _, err := read(file); err == nil {
			t.Errorf("%s is a script", file)
		}
	}
}
