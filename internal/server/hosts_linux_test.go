// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestCommandsNameAddresses: a command that names a private address reaches it only where a
// rule lists the address. One about all hosts does not, nor does a person who approves it.
func TestCommandsNameAddresses(t *testing.T) {
	t.Parallel()
	needs(t, "curl")
	for rule, want := range map[string]string{
		"{name: all, action: allow, hosts: ['*']}": "", "{name: other, action: allow, hosts: [example.com]}": "",
		"{name: listed, action: allow, hosts: [169.254.169.254]}": "169.254.169.254",
	} {
		web := newWeb(t, http.NotFoundHandler()) // the operator's proxy, so that nothing leaves the machine
		policy := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(policy, []byte("version: 1\nrules:\n  - "+rule+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := serveConfined(t, ", network: hosts, max_network: hosts, proxy: "+web.listener.Addr().String(), "policy: {file: "+policy+"}\n")
		end := s.approved("bash", `{"command":"curl -s http://169.254.169.254/latest/meta-data/"}`)
		if got := web.hosts(); got != want {
			t.Errorf("%s: %q was reached: %s", rule, got, end)
		}
		if want == "" {
			has(t, end, "where clouds keep their metadata")
		}
	}
}
