// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed ask_user.md
var askUserDoc string

//go:embed ask_user_help.md
var askUserHelp string

type askUserInput struct {
	Questions []askedQuestion `json:"questions" check:"min=1,max=8" jsonschema:"all at once"`
}

type askedQuestion struct {
	Question    string         `json:"question" check:"min=1,max=2000" jsonschema:"a full sentence"`
	Header      string         `json:"header,omitempty" check:"max=32" jsonschema:"a word or two"`
	Options     []answerOption `json:"options,omitempty" check:"min=2,max=20" jsonschema:"2 to 20; leave out for free text"`
	MultiSelect bool           `json:"multi_select,omitempty" jsonschema:"several may be chosen"`
	OptionsOnly bool           `json:"options_only,omitempty" jsonschema:"no answer in own words"`
}

type answerOption struct {
	Label       string `json:"label" check:"min=1,max=200" jsonschema:"in a few words"`
	Description string `json:"description,omitempty" check:"max=1000" jsonschema:"what choosing it means"`
}

// AskUser returns the tool that asks the user.
func AskUser() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "ask_user",
			Aliases:         []string{"AskUserQuestion", "AskUser"},
			Label:           "Ask the user",
			Summary:         "Ask the user one or more questions and hand back the answers.",
			Description:     askUserDoc,
			Help:            askUserHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "Free text", Input: json.RawMessage(`{"questions":[{"question":"What should the new command be called?"}]}`)},
				{Summary: "A choice", Input: json.RawMessage(`{"questions":[{"header":"Database","question":"Which database should the tests use?","options":[` +
					`{"label":"SQLite","description":"no server to start"},{"label":"PostgreSQL"}]}]}`)},
			},
		},
		nil,
		func(ctx context.Context, _ tools.Env, in askUserInput, out tools.Sink) (tools.Result, error) {
			questions, err := toAsk(in.Questions)
			if err != nil {
				return tools.Result{}, err
			}
			answers, err := out.Ask(ctx, questions)
			if err != nil {
				return tools.Result{}, err
			}
			return answered(questions, answers)
		})
}

// toAsk checks what the schema cannot tell.
func toAsk(asked []askedQuestion) ([]tools.Question, error) {
	questions := make([]tools.Question, len(asked))
	for i, q := range asked {
		if len(q.Options) == 0 && (q.OptionsOnly || q.MultiSelect) {
			return nil, tools.Failf("invalid_question", "Nobody was asked: question %d has no options to choose from.", i+1)
		}
		questions[i] = tools.Question{Header: q.Header, Text: q.Question, Multiple: q.MultiSelect, OptionsOnly: q.OptionsOnly}
		for _, o := range q.Options {
			if slices.ContainsFunc(questions[i].Options, func(other tools.Option) bool { return other.Label == o.Label }) {
				return nil, tools.Failf("invalid_question", "Nobody was asked: question %d has the option %q twice.", i+1, o.Label)
			}
			questions[i].Options = append(questions[i].Options, tools.Option(o))
		}
	}
	return questions, nil
}

// answered tells the answers: in words to the model, as data to the runtime.
func answered(questions []tools.Question, answers []tools.Answer) (tools.Result, error) {
	type pair struct {
		Question string `json:"question"`
		tools.Answer
	}
	var text strings.Builder
	pairs := make([]pair, len(answers))
	for i, answer := range answers {
		pairs[i] = pair{questions[i].Text, answer}
		if i > 0 {
			text.WriteString("\n")
		}
		text.WriteString(questions[i].Text + "\n")
		switch {
		case len(answer.Chosen) > 0:
			text.WriteString("Chosen: " + strings.Join(answer.Chosen, ", ") + "\n")
		case answer.Text == "":
			text.WriteString("Chosen: none of the options\n")
		}
		if answer.Text != "" {
			text.WriteString("Answer: " + answer.Text + "\n")
		}
	}
	return tools.Detailed(text.String(), map[string]any{"answers": pairs})
}
