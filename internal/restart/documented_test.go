// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/state/statetest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

// documentedNode returns the options of a node as docs/state.md has them, without TLS and routes, which
// differ with the machines.
func documentedNode(t *testing.T) *server.Options {
	t.Helper()
	page, err := os.ReadFile("../../docs/state.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "For each server:\n\n```\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/state.md has no configuration of a server")
	}
	text = regexp.MustCompile(`(?m)^(tls|cluster) .*$`).ReplaceAllString(text, "")
	text = strings.NewReplacer("user: ...", "user: documented", "password: ...", "password: secret", "store_dir: /data", "store_dir: "+t.TempDir()).Replace(text)
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return options
}

// TestDocumentedAccount: with the account and the limits that docs/state.md has, a server starts, runs
// calls, and has room for the logs of as many tenants as may have one.
func TestDocumentedAccount(t *testing.T) {
	t.Parallel()
	cluster := statetest.NewCluster(t, 3, func(o *server.Options) {
		documented := documentedNode(t)
		o.Accounts, o.Users = documented.Accounts, documented.Users
		o.SyncAlways, o.MaxPayload, o.PingInterval, o.MaxPingsOut = documented.SyncAlways, documented.MaxPayload, documented.PingInterval, documented.MaxPingsOut
		o.JetStreamMaxStore = 16 << 30
	})
	url := strings.ReplaceAll(cluster.URL(), "nats://", "nats://documented:secret@")
	file := filepath.Join(t.TempDir(), "toolserver.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, replicaConfiguration, t.TempDir(), url, freeAddress(t), freeAddress(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	program := sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_CONFIG="+file)
	for _, tenant := range []string{"agent", "acme"} {
		agent := connect(t, program.Address, tenant)
		agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
		if _, end := agent.end("s", "", "bash", `{"command": "echo hello > file"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("%s: %v", tenant, end)
		}
	}
	engine, err := state.Open(t.Context(), state.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for n := range 31 { // beside that of the default tenant and acme's
		if _, err := engine.Log(t.Context(), state.Space{Name: fmt.Sprint("history_", n), MaxBytes: 64 << 20}); err != nil {
			t.Fatalf("log %d: %v", n, err)
		}
	}
}
