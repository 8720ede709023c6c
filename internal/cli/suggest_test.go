// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		use   string
		words []string
		want  string
	}{
		{"list", nil, ""},
		{"list", []string{"x"}, `"x" is one argument too many: want list`},
		{"allow ID", nil, "ID is missing: want allow ID"},
		{"allow ID", []string{"k3f9"}, ""},
		{"allow ID", []string{"k3f9", "--always"}, ""},
		{"allow ID", []string{"k3f9", "--always=2"}, ""},
		{"allow ID", []string{"k3f9", "--always", "2"}, `"2" is one argument too many: want allow ID; or do you mean --always=2?`},
		{"allow ID", []string{"k3f9", "2"}, `"2" is one argument too many: want allow ID`},
		{"cp SOURCE DESTINATION", []string{"a"}, "DESTINATION is missing: want cp SOURCE DESTINATION"},
		{"cp SOURCE DESTINATION", []string{"a", "b", "e1:"}, `"e1:" is one argument too many: want cp SOURCE DESTINATION`},
		{"show [EXECUTION]", nil, ""},
		{"show [EXECUTION]", []string{"a", "b"}, `"b" is one argument too many: want show [EXECUTION]`},
		{"answer ID ANSWER...", []string{"k3f9"}, "ANSWER is missing: want answer ID ANSWER..."},
		{"answer ID ANSWER...", []string{"k3f9", "a", "b", "c"}, ""},
		{"approve NAME [TOOL...]", []string{"a"}, ""},
		{"approve NAME [TOOL...]", []string{"a", "b", "c"}, ""},
	} {
		cmd := &cobra.Command{Use: test.use, Args: Arguments, Run: func(*cobra.Command, []string) {}, SilenceErrors: true, SilenceUsage: true}
		cmd.Flags().String("always", "", "")
		cmd.Flags().Lookup("always").NoOptDefVal = narrowest
		cmd.SetArgs(append([]string{}, test.words...))
		got := ""
		if err := cmd.Execute(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s, given %q: %q, want %q", test.use, test.words, got, test.want)
		}
	}
}
