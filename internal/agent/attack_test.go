// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestPanic proves that what breaks a loop ends that loop, and not the server.
func TestPanic(t *testing.T) {
	w := newWorld(t, only(reviewer), tools.ModeAsk, func(int, *model.Request) answer { panic("an answer that nobody foresaw") })
	if _, end := w.run("agent", `{"prompt":"x"}`); end.GetFailure().GetCode() != "internal" || strings.Contains(text(end), "foresaw") {
		t.Error(end)
	}
}

// TestEndless proves that a model cannot have the server keep what it likes: neither many
// calls that cannot be read, nor calls of any size.
func TestEndless(t *testing.T) {
	broken := make([]toolcall.Broken, 100_000)
	for i := range broken {
		broken[i] = toolcall.Broken{Raw: "x", Message: strings.Repeat("It cannot be read. ", 10)}
	}
	large := []toolcall.Call{call("c", "read_file", `{"path":"`+strings.Repeat("a", 3<<20)+`"}`)}
	largest := 0
	w := newWorld(t, only(reviewer), tools.ModeAsk, func(turn int, r *model.Request) answer {
		largest = max(largest, len(r.Messages[len(r.Messages)-1].Text))
		if turn == 1 {
			return answer{broken: broken}
		}
		return answer{calls: large, stop: model.Calling}
	})
	events, end := w.run("agent", `{"prompt":"x"}`)
	if end.GetFailure().GetCode() != "conversation_limit" {
		t.Error(end)
	}
	if largest > 1<<20 || len(events) > 10_000 {
		t.Errorf("the model was told %d bytes at once, and the caller %d events", largest, len(events))
	}
}

// TestMasked proves that a secret that a model writes is told to nobody.
func TestMasked(t *testing.T) {
	w := newWorld(t, only(reviewer), tools.ModeAsk, says(answer{text: "It is " + secret + ".\n", calls: []toolcall.Call{call("c", "read_file", `{"path":"`+secret+`"}`)}, stop: model.Calling}))
	events, _ := w.run("agent", `{"prompt":"x"}`)
	for _, n := range nested(events) {
		if strings.Contains(n.GetText()+n.GetCall().GetInput(), secret) {
			t.Error(n)
		}
	}
}

// TestBudgetOfTenants proves that principals of two tenants with one name have two budgets.
func TestBudgetOfTenants(t *testing.T) {
	w := newWorld(t, only(reviewer), tools.ModeAsk, says(answer{text: "Done."}))
	whose := make(map[string]bool)
	for _, tenant := range []string{"", "acme", "other"} {
		conn, err := w.connect(auth.Principal{Name: "bot", Tenant: tenant, OnBehalfOf: "bot"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		w.use(conn)
		w.run("agent", `{"prompt":"x"}`)
		whose[w.model.asked[len(w.model.asked)-1].Principal] = true
	}
	if len(whose) != 3 {
		t.Errorf("budgets of %v", whose)
	}
}
