// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// anExecution returns one with an event of every kind, and its end.
func anExecution(mask func(string) string) (*Execution, []Event, *Finished) {
	at := time.Unix(1_000_000, 5).UTC()
	judged := []policy.Judged{{Effect: tools.Effect{Kind: tools.WritesPath, Path: "secret/x", Argv: []string{"a", "secret"}}, Verdict: policy.Verdict{Action: policy.Allow, Rule: "r"}}}
	x := &Execution{
		ID: "x", number: 1<<runShift + 7, Created: at, executor: &Executor{config: Config{Mask: mask}},
		Order: Order{
			Session: session.Ref{Owner: "acme\x00alice", ID: "s", Epoch: 9}, CallID: "c", Tool: "t", Digest: [32]byte{1, 2}, Purpose: "a secret",
			Verdict: policy.Verdict{Action: policy.Ask, Rule: "rule"}, Access: &tools.Access{Write: []string{"."}}, Effects: &Effects{Judged: judged, More: 2}, Timeout: time.Minute,
		},
	}
	bodies := []Body{
		Accepted{SessionID: "s", CallID: "c", Tool: "t", Access: &tools.Access{}},
		ApprovalRequested{&approval.Question{ID: "q", Digest: [32]byte{3}, Effects: judged, Preview: tools.Preview{Kind: tools.PreviewText, Text: "the secret"}, Tiers: []policy.Tier{{Kind: policy.TierCommand, Label: "curl secret *", Pattern: "curl secret"}}}},
		ApprovalResolved{"q", approval.Answer{
			Kind: approval.AllowAlways, By: "bob", Comment: "a secret", Answers: []tools.Answer{{Text: "secret"}},
			Grant: &policy.Grant{ID: "g", Action: policy.Allow, Tier: policy.Tier{Kind: policy.TierCommand, Label: "curl secret *", Pattern: "curl secret"}},
		}},
		Started{}, Output{Stream: tools.Stdout, Offset: 3, Data: []byte{0, 255, 'x'}}, Progress{Message: "half", Done: 1, Total: 2},
		Partial{Content: []tools.Content{tools.Text("part")}}, UserMessage{Message: "hello", Attachments: []tools.Attachment{{Path: "p"}}}, Nested{1, 2, 3},
	}
	var events []Event
	for i, body := range bodies {
		events = append(events, Event{Seq: uint64(i + 1), Time: at, Body: body})
	}
	return x, events, &Finished{
		Outcome: Failed, Failure: &Failure{Code: "c", Problems: []tools.Problem{{Message: "m"}}}, Cancelled: &Cancellation{By: "b"}, Hooks: []hook.Run{{Hook: "h", Point: hook.BeforeCall, Detail: "for the operator"}},
		Result: tools.Result{
			Content: []tools.Content{tools.Text("text"), tools.JSON(`{"a" : 1.0}`), tools.Image{MediaType: "image/png", Data: []byte{1}}, tools.Artifact{URI: "artifact:x", Size: 3}},
			Details: json.RawMessage(`{"d":1}`), Exit: &tools.Exit{Reason: tools.Exited, Code: 3}, Usage: &tools.Usage{MaxRSS: 1}, Warnings: []string{"w"},
		},
		Waited: 1, Ran: 2, OutputBytes: 3, Tokens: 4, TotalBytes: 6, KeptBytes: 5,
	}
}

// TestRecord: what is read of a record is what was stored, without secrets.
func TestRecord(t *testing.T) {
	x, events, end := anExecution(nil)
	stored := recordOf(x, stageEnded)
	stored.ended(events, end, x.Created, 10, nil)
	text, err := stored.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRecord(text)
	if err != nil {
		t.Fatal(err)
	}
	e := &Executor{ids: newIDs(newIDKey())}
	again := e.restore(got)
	end.Hooks[0].Detail = ""
	want := append(events, Event{Seq: 10, Time: x.Created, Body: *end})
	for i := range want {
		if i >= len(again.log.events) || !reflect.DeepEqual(again.log.events[i], want[i]) {
			t.Fatalf("event %d of %d differs:\n%+v\nwant\n%+v", i+1, len(again.log.events), again.log.events[i], want[i])
		}
	}
	if o := again.Order; o.Session != x.Order.Session || o.Digest != x.Order.Digest || o.Verdict != x.Order.Verdict || !reflect.DeepEqual(o.Effects, x.Order.Effects) {
		t.Errorf("%+v, want %+v", o, x.Order)
	}
	if n, tag, ok := e.ids.number(again.ID); !ok || n != x.number || tag != tagOf(x.Order.Session.Owner) {
		t.Errorf("its id is %s", again.ID)
	}

	x, events, end = anExecution(func(text string) string { return strings.ReplaceAll(text, "secret", "***") })
	stored = recordOf(x, stageEnded)
	stored.ended(events, end, x.Created, 10, x.executor.config.Mask)
	if text, err := stored.encode(); err != nil || bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte("for the operator")) {
		t.Errorf("a secret is stored: %s, %v", text, err)
	}
	if x.Order.Effects.Judged[0].Effect.Path != "secret/x" {
		t.Error("the execution itself was masked")
	}
}

// TestRecordsOfOtherVersions: a record with fields that are not known is read, and one of a
// later version is not.
func TestRecordsOfOtherVersions(t *testing.T) {
	if r, err := decodeRecord([]byte(`{"v":1,"n":5,"stage":"runs","tool":"t","later":{"x":1}}`)); err != nil || r.Number != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	for text, want := range map[string]error{`{"v":2,"n":5}`: errNewer, `{"v":1,"stage":"ended","outcome":99}`: nil, `{`: nil, "\x1f\x8bno": nil} {
		if _, err := decodeRecord([]byte(text)); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRecordHasRoom: results of any size make a record that can be stored; what has no room
// is told to be missing.
func TestRecordHasRoom(t *testing.T) {
	noise := make([]byte, state.MaxValue)
	rand.Read(noise)
	for name, test := range map[string]struct {
		content tools.Content
		kept    bool
	}{
		"text":  {tools.Text(strings.Repeat("much text ", state.MaxValue/5)), true},
		"noise": {tools.Image{Data: noise}, false},
	} {
		x, events, end := anExecution(nil)
		end.Result.Content = []tools.Content{test.content}
		stored := recordOf(x, stageEnded)
		stored.ended(events, end, x.Created, 10, nil)
		text, err := stored.encode()
		if err != nil || len(text) > maxRecord {
			t.Fatalf("%s: %d bytes, %v", name, len(text), err)
		}
		got, err := decodeRecord(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.End.TooLarge == test.kept {
			t.Fatalf("%s: %v, %v", name, got.End, err)
		}
		finished, _ := (&Executor{ids: newIDs(newIDKey())}).restore(got).Finished()
		if lost := finished.LostResult != nil; lost == test.kept {
			t.Errorf("%s: %+v", name, finished)
		}
	}
}
