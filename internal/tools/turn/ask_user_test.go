// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

// ask runs ask_user with somebody who gives these answers.
func ask(t *testing.T, input string, answers []tools.Answer, failure error) (asked []tools.Question, result tools.Result, err error) {
	t.Helper()
	call, err := turn.AskUser().Decode(&tools.Env{}, json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	recorder := &toolstest.Recorder{Answer: func(questions []tools.Question) ([]tools.Answer, error) {
		asked = questions
		return answers, failure
	}}
	result, err = call.Run(t.Context(), tools.Rights{}, recorder)
	return asked, result, err
}

func TestAskUser(t *testing.T) {
	asked, result, err := ask(t, `{"questions":[
		{"header":"DB","question":"Which database?","options":[{"label":"SQLite","description":"small"},{"label":"PostgreSQL"}]},
		{"question":"Which checks?","multi_select":true,"options_only":true,"options":[{"label":"lint"},{"label":"race"},{"label":"fuzz"}]},
		{"question":"Which else?","multi_select":true,"options":[{"label":"a"},{"label":"b"}]},
		{"question":"Why?"}]}`,
		[]tools.Answer{
			{Chosen: []string{"SQLite"}, Text: "in memory"}, {Chosen: []string{"race", "lint"}}, {}, {Text: "Because\nof \"it\"."},
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []tools.Question{
		{Header: "DB", Text: "Which database?", Options: []tools.Option{{Label: "SQLite", Description: "small"}, {Label: "PostgreSQL"}}},
		{Text: "Which checks?", Multiple: true, OptionsOnly: true, Options: []tools.Option{{Label: "lint"}, {Label: "race"}, {Label: "fuzz"}}},
		{Text: "Which else?", Multiple: true, Options: []tools.Option{{Label: "a"}, {Label: "b"}}},
		{Text: "Why?"},
	}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %+v", asked)
	}
	const text = "Which database?\nChosen: SQLite\nAnswer: in memory\n\nWhich checks?\nChosen: race, lint\n\n" +
		"Which else?\nChosen: none of the options\n\nWhy?\nAnswer: Because\nof \"it\".\n"
	if got := toolstest.Text(result); got != text {
		t.Errorf("%s\nwant\n%s", got, text)
	}
	const details = `{"answers":[{"question":"Which database?","chosen":["SQLite"],"text":"in memory"},` +
		`{"question":"Which checks?","chosen":["race","lint"]},{"question":"Which else?"},{"question":"Why?","text":"Because\nof \"it\"."}]}`
	if got := string(result.Details); got != details {
		t.Errorf("%s\nwant\n%s", got, details)
	}
}

func TestAskUserWithoutAnAnswer(t *testing.T) {
	declined := tools.Failf("declined", "bob declined to answer: later")
	if _, _, err := ask(t, `{"questions":[{"question":"Why?"}]}`, nil, declined); !errors.Is(err, declined) {
		t.Errorf("%v, want what the person said", err)
	}
	_, reports, err := toolstest.Run(t, turn.AskUser(), tools.Env{}, `{"questions":[{"question":"Why?"}]}`)
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "unanswered" || len(reports) != 0 {
		t.Errorf("%v, want unanswered", err)
	}
}

func TestAskUserChecks(t *testing.T) {
	for _, test := range []struct{ name, input, says string }{
		{"an option twice", `{"questions":[{"question":"x","options":[{"label":"a"},{"label":"b"},{"label":"a"}]}]}`, `option "a" twice`},
		{"only options, and none", `{"questions":[{"question":"x"},{"question":"y","options_only":true}]}`, "question 2 has no options"},
		{"several of none", `{"questions":[{"question":"x","multi_select":true}]}`, "question 1 has no options"},
	} {
		asked, _, err := ask(t, test.input, nil, nil)
		failure, ok := errors.AsType[*tools.Failure](err)
		if !ok || failure.Code != "invalid_question" || !strings.Contains(failure.Message, test.says) || asked != nil {
			t.Errorf("%s: %v, want %s", test.name, err, test.says)
		}
	}
	long := strings.Repeat("x", 2001)
	nine := strings.Repeat(`{"question":"x"},`, 8) + `{"question":"x"}`
	many := strings.Repeat(`{"label":"x"},`, 20) + `{"label":"x"}`
	for _, test := range []struct{ input, says string }{
		{`{}`, "/questions: is required"},
		{`{"questions":[]}`, "/questions: too few items"},
		{`{"questions":[` + nine + `]}`, "/questions: too many items: 9"},
		{`{"questions":[{"question":""}]}`, "/questions/0/question: too few characters"},
		{`{"questions":[{"question":"` + long + `"}]}`, "/questions/0/question: too many characters"},
		{`{"questions":[{"question":"x","header":"` + long + `"}]}`, "/questions/0/header: too many characters"},
		{`{"questions":[{"question":"x","options":[{"label":"only"}]}]}`, "/questions/0/options: too few items"},
		{`{"questions":[{"question":"x","options":[` + many + `]}]}`, "/questions/0/options: too many items: 21"},
		{`{"questions":[{"question":"x","options":["a","b"]}]}`, "/questions/0/options/0: want an object"},
		{`{"question":"x"}`, "/question: unknown key"},
	} {
		_, err := turn.AskUser().Decode(&tools.Env{}, json.RawMessage(test.input))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.60s: %v, want %q in it", test.input, err, test.says)
		}
	}
}

func TestAskUserStops(t *testing.T) {
	toolstest.StopsSoon(t, turn.AskUser(), `{"questions":[{"question":"Why?"}]}`, tools.Env{})
}
