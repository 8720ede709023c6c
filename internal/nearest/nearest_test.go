// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package nearest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/nearest"
)

func TestNearest(t *testing.T) {
	known := []string{"path", "paths", "limit", "timeout_ms", "file_path", "n"}
	tests := []struct {
		name string
		want []string
	}{
		{"Path", []string{"path"}},
		{"PATHS", []string{"paths"}},
		{"patsh", []string{"path", "paths"}},
		{"pathe", []string{"path", "paths"}},
		{"ptah", []string{"path"}},
		{"limt", []string{"limit"}},
		{"limits", []string{"limit"}},
		{"timeoutMs", []string{"timeout_ms"}},
		{"timeout", []string{"timeout_ms"}},
		{"filePath", []string{"file_path"}},
		{"m", nil},
		{"", nil},
		{"colour", nil},
		{"päth", []string{"path"}},
		{strings.Repeat("path", 1<<18), nil},
	}
	for _, test := range tests {
		if got := nearest.Names(test.name, known); !slices.Equal(got, test.want) {
			t.Errorf("Names(%.20q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNearestGivesAtMostThree(t *testing.T) {
	got := nearest.Names("items", []string{"itemxy", "itemx", "itemy", "item", "itemz"})
	if want := []string{"itemx", "itemy", "item"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
