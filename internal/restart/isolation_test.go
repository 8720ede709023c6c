// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/toolserver/toolserver/sdk/sdktest"
)

const delegatingConfiguration = `
authentication:
  tokens:
    - {principal: agent, max_mode: allow, token: the-token-of-agent, on_behalf_of: ["user:*"]}
    - {principal: other, max_mode: allow, token: the-token-of-other, on_behalf_of: ["user:*"]}
    - {principal: agent, tenant: acme, max_mode: allow, token: the-token-of-acme, on_behalf_of: ["user:*"]}
sessions: {mode: allow}
state: {dir: %s}
`

// TestIsolation: what lasts of a principal, and of each user that it acts for, is not there for
// anybody else, whichever tool asks for it: not by name, not by search, and not in what is told
// of mistakes. What others keep under the same names is theirs.
func TestIsolation(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "toolserver.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, delegatingConfiguration, filepath.Join(t.TempDir(), "state")), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_CONFIG="+file), t, ""}
	as := func(token, user string) *caller {
		c := w.as(token)
		if user != "" {
			c.ctx = metadata.AppendToOutgoingContext(c.ctx, "toolserver-on-behalf-of", user)
		}
		return c
	}
	owner := as("agent", "user:ann")
	owner.say("", "memory_store", `{"key":"k","text":"the walrus sleeps","tags":["w"]}`)
	owner.say("", "knowledge_ingest", `{"name":"n","text":"The walrus eats clams."}`)
	owner.say("", "workflow_create", `{"name":"walrus","definition":"steps: [{id: a, wait: 1h}]"}`)
	_, began := owner.end("", "", "workflow_run", `{"name":"walrus","background":true}`)
	var run runStatus
	if json.Unmarshal([]byte(began.GetDetailsJson()), &run); run.Run == "" {
		t.Fatal(began)
	}
	owner.say("", "schedule_create", `{"name":"walrus","workflow":"walrus","every":"24h"}`)
	byRun := func(operation string) string { return fmt.Sprintf(`{"run":%q,"operation":%q}`, run.Run, operation) }
	for _, stranger := range []*caller{as("other", ""), as("other", "user:ann"), as("acme", "user:ann"), as("agent", ""), as("agent", "user:bob")} {
		for _, one := range [][3]string{
			{"memory_recall", `{"query":"walrus"}`, "Nothing is remembered"},
			{"memory_recall", `{"key":"k"}`, "Nothing is remembered"},
			{"memory_recall", `{"tags":["w"]}`, "Nothing is remembered"},
			{"memory_recall", `{}`, "Nothing is remembered"},
			{"memory_forget", `{"key":"k"}`, "not_found"},
			{"knowledge_search", `{"query":"walrus clams"}`, "Nothing was found"},
			{"knowledge_search", `{"query":"walrus","source":"n"}`, "not_found"},
			{"knowledge_ingest", `{"operation":"list"}`, "There are no sources"},
			{"knowledge_ingest", `{"operation":"remove","name":"n"}`, "not_found"},
			{"workflow_list", `{}`, "There are no workflows"},
			{"workflow_get", `{"name":"walrus"}`, "no_such_workflow"},
			{"workflow_update", `{"name":"walrus","definition":"steps: [{id: a, wait: 1s}]"}`, "no_such_workflow"},
			{"workflow_delete", `{"name":"walrus"}`, "no_such_workflow"},
			{"workflow_validate", `{"definition":"steps: [{id: a, workflow: walrus}]"}`, "there is no workflow"},
			{"workflow_run", `{"name":"walrus"}`, "no_such_workflow"},
			{"workflow_run", byRun("status"), "no_such_run"},
			{"workflow_run", byRun("cancel"), "no_such_run"},
			{"workflow_run", byRun("pause"), "no_such_run"},
			{"workflow_run", byRun("wait"), "no_such_run"},
			{"schedule_create", `{"name":"mine","workflow":"walrus","every":"24h"}`, "no_such_workflow"},
			{"schedule_list", `{}`, "There are no schedules"},
			{"schedule_list", `{"name":"walrus"}`, "no_such_schedule"},
			{"schedule_pause", `{"name":"walrus"}`, "no_such_schedule"},
			{"schedule_resume", `{"name":"walrus"}`, "no_such_schedule"},
			{"schedule_run_now", `{"name":"walrus"}`, "no_such_schedule"},
			{"schedule_delete", `{"name":"walrus"}`, "no_such_schedule"},
		} {
			_, end := stranger.end("", "", one[0], one[1])
			if told := end.GetFailure().GetCode() + textOf(end) + end.GetFailure().GetMessage(); !strings.Contains(told, one[2]) || strings.Contains(told, "clams") || strings.Contains(told, "sleeps") {
				t.Errorf("%s %s: %s, want %s", one[0], one[1], told, one[2])
			}
		}
		// The same names, in a namespace of its own.
		stranger.say("", "memory_store", `{"key":"k","text":"a seal"}`)
		stranger.say("", "memory_forget", `{"key":"k"}`)
		stranger.say("", "knowledge_ingest", `{"name":"n","text":"A seal."}`)
		stranger.say("", "knowledge_ingest", `{"operation":"remove","name":"n"}`)
		stranger.say("", "workflow_create", `{"name":"walrus","definition":"steps: [{id: b, wait: 1s}]"}`)
		stranger.say("", "workflow_delete", `{"name":"walrus"}`)
	}
	for _, one := range [][3]string{
		{"memory_recall", `{"key":"k"}`, "the walrus sleeps"}, {"knowledge_search", `{"query":"clams"}`, "eats clams"}, {"workflow_get", `{"name":"walrus"}`, "id: a, wait: 1h"},
		{"workflow_run", byRun("status"), "running"}, {"schedule_list", `{"name":"walrus"}`, "every 24h; next"},
	} {
		if text := owner.say("", one[0], one[1]); !strings.Contains(text, one[2]) {
			t.Errorf("what its owner has: %s %s: %s", one[0], one[1], text)
		}
	}
}
