// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"os"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
)

// TestExampleFile: the example that operators copy is the policy that is built
// in.
func TestExampleFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != policy.BuiltinText() {
		t.Error("deploy/policy.yaml is not the built-in policy: copy internal/policy/default.yaml there")
	}
}
