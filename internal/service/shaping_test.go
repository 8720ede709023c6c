// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// answering returns a tool that answers with what it is given, and declares a schema of it.
func answering(name, schema string) tools.Tool {
	type input struct {
		Text string          `json:"text,omitempty" jsonschema:"text of the answer"`
		Data json.RawMessage `json:"data,omitempty" jsonschema:"JSON of the answer"`
		Fail bool            `json:"fail,omitempty" jsonschema:"fails with the text"`
	}
	spec := tools.Spec{Name: name, Summary: "Answers.", Description: "Answers.", Category: "test", Level: tools.ReadOnly, ConcurrencySafe: true}
	if schema != "" {
		spec.ResultSchema = json.RawMessage(schema)
	}
	return tools.New(spec, nil, func(_ context.Context, _ tools.Env, in input, out tools.Sink) (tools.Result, error) {
		var r tools.Result
		if in.Text != "" {
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte(in.Text)})
			r = tools.TextResult(in.Text)
		}
		if in.Data != nil {
			r.Content = append(r.Content, tools.JSON(in.Data))
		}
		if in.Fail {
			return tools.Result{}, tools.Failf("failed", "%s", in.Text)
		}
		r.Details = json.RawMessage(`{"only":"for the runtime"}`)
		return r, nil
	})
}

func withAnswering(schema string) func(*service.Config) {
	return func(c *service.Config) {
		if err := c.Registry.Replace("test answers", answering("answering", schema)); err != nil {
			panic(err)
		}
	}
}

// TestInvisibleCharacters: a model reads nothing that a person would not see; what was
// written is in the output.
func TestInvisibleCharacters(t *testing.T) {
	c := serve(t, withAnswering("")).dial("")
	const raw, plain = "safe\u200b text\U000e0049\U000e0047 \u202e👩\u200d👧", "safe text 👩\u200d👧"
	for _, fail := range []string{"false", "true"} {
		events, err := c.call(asJSON("answering", `{"text":"`+raw+`","fail":`+fail+`}`))
		if err != nil {
			t.Fatal(err)
		}
		end := events[len(events)-1].GetFinished()
		if got := text(end); !strings.Contains(got, plain) || strings.ContainsAny(got, "\u200b\u202e\U000e0049") {
			t.Errorf("the model reads %+q", got)
		}
		if fail == "false" && !strings.Contains(text(end), "(Invisible characters were left out: 4.)") {
			t.Errorf("it is not told: %q", text(end))
		}
		if fail == "true" && strings.ContainsAny(end.GetFailure().GetMessage(), "\u200b\u202e") {
			t.Errorf("the failure says %+q", end.GetFailure().GetMessage())
		}
		var written string
		for _, event := range events {
			written += string(event.GetOutput().GetData())
		}
		if written != raw {
			t.Errorf("the output has %+q", written)
		}
	}
}

// TestResultSchema: a result that is not what its tool declares is a failure of the tool,
// and its content is kept. Details are for the runtime alone.
func TestResultSchema(t *testing.T) {
	c := serve(t, withAnswering(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)).dial("")
	for input, says := range map[string]string{
		`{"data":{"n":1}}`:          "",
		`{"data":{"n":"one"}}`:      "result schema",
		`{"data":[1]}`:              "result schema",
		`{"text":"no JSON at all"}`: "without JSON",
	} {
		end := c.run(asJSON("answering", input))
		if says == "" {
			if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || strings.Contains(text(end), "runtime") || !strings.Contains(end.GetDetailsJson(), "runtime") {
				t.Errorf("%s: %v", input, end)
			}
			continue
		}
		if end.GetFailure().GetCode() != "result_schema" || !strings.Contains(end.GetFailure().GetMessage(), says) || len(end.GetContent()) < 2 {
			t.Errorf("%s: %v", input, end)
		}
	}
	var doubling strings.Builder // with each of its definitions: to check it would never end
	doubling.WriteString(`{"$ref":"#/$defs/a0","$defs":{"a60":true`)
	for i := range 60 {
		fmt.Fprintf(&doubling, `,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}
	doubling.WriteString(`}}`)
	for _, schema := range []string{`{"type":"nonsense"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"http://127.0.0.1:1/x"}`, doubling.String()} {
		c := serve(t, withAnswering(schema)).dial("")
		if end := c.run(asJSON("answering", `{"data":{"n":1}}`)); end.GetFailure().GetCode() != "result_schema" || strings.Contains(text(end), "root:") {
			t.Errorf("%s: %v", schema, end)
		}
	}
}

// TestInvisibleCharactersOfJSON: in JSON they are escaped, which means the same and is seen.
func TestInvisibleCharactersOfJSON(t *testing.T) {
	c := serve(t, withAnswering("")).dial("")
	events, err := c.call(asJSON("answering", `{"data":{"a":"safe`+"\u200b text\U000e0049 👩\u200d👧"+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := string(events[len(events)-1].GetFinished().GetContent()[0].GetJson())
	if want := `{"a":"safe\u200b text\udb40\udc49 👩` + "\u200d" + `👧"}`; got != want {
		t.Errorf("%+q, want %+q", got, want)
	}
}

// TestBatchBudgetOfJSON: JSON counts for the budget of a batch, and what has no room is left
// out.
func TestBatchBudgetOfJSON(t *testing.T) {
	c := serve(t, withAnswering("")).dial("")
	long := `{"data":{"a":"` + strings.Repeat("x", 3000) + `"}}`
	b := c.batch(&pb.BatchStart{
		Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL, Answer: &pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: 4000}},
	})
	b.call("", "answering", long)
	b.call("", "answering", long)
	b.end()
	total, cut := 0, 0
	for _, end := range b.results() {
		for _, content := range end.GetContent() {
			total += len(content.GetJson())
		}
		cut += int(end.GetTruncation().GetTotalBytes() - end.GetTruncation().GetKeptBytes())
	}
	if total == 0 || total > 4000 || cut < 3000 {
		t.Errorf("%d bytes of JSON, and %d left out", total, cut)
	}
}
