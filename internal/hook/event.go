// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// An Event is what a hook is told, as one JSON object. Keys without a meaning at a point
// are left out.
type Event struct {
	Hook  string `json:"hook"`
	Point Point  `json:"point"`

	SessionID   string `json:"session_id"`
	Principal   string `json:"principal,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	OnBehalfOf  string `json:"on_behalf_of,omitempty"`
	Workspace   string `json:"workspace,omitempty"`
	Mode        string `json:"mode,omitempty"`
	CallID      string `json:"call_id,omitempty"`
	ExecutionID string `json:"execution_id,omitempty"`
	Tool        string `json:"tool,omitempty"`
	CalledAs    string `json:"called_as,omitempty"`
	Purpose     string `json:"purpose,omitempty"`

	// Input is the input in its canonical form, of a call that has not ended.
	Input json.RawMessage `json:"input,omitempty"`

	// Effects are what the call would touch, and MoreEffects how many are left out.
	Effects     []EventEffect `json:"effects,omitempty"`
	MoreEffects int           `json:"more_effects,omitempty"`

	// Verdict is what was decided, or why a call was denied.
	Verdict *Verdict `json:"verdict,omitempty"`

	// Result is what came of a call.
	Result *Result `json:"result,omitempty"`

	// Paths are files of the workspace that the call changed, made or removed, and
	// MorePaths how many are left out.
	Paths     []string `json:"paths,omitempty"`
	MorePaths int      `json:"more_paths,omitempty"`

	// Update is what a tool reports.
	Update *Update `json:"update,omitempty"`

	// Preview is what a person is shown.
	Preview string `json:"preview,omitempty"`

	// Reason is why a session ended.
	Reason string `json:"reason,omitempty"`
}

// EventEffect is one effect of a call, as an event has it.
type EventEffect struct {
	Kind    string   `json:"kind"` // reads, writes, runs, reaches
	Path    string   `json:"path,omitempty"`
	Argv    []string `json:"argv,omitempty"` // with unknownWord for what only running it would tell
	Host    string   `json:"host,omitempty"`
	Port    int      `json:"port,omitempty"`
	Unclear string   `json:"unclear,omitempty"`
}

// Verdict is what a policy said.
type Verdict struct {
	Action string `json:"action"`
	Rule   string `json:"rule"`
	Reason string `json:"reason,omitempty"`
}

// Result is what came of a call.
type Result struct {
	Outcome  string          `json:"outcome"`
	Text     string          `json:"text,omitempty"`
	Details  json.RawMessage `json:"details,omitempty"`
	Failure  string          `json:"failure,omitempty"` // its code
	ExitCode *int            `json:"exit_code,omitempty"`
}

// Update is what a tool reports while it runs.
type Update struct {
	Kind   string  `json:"kind"` // progress, output, partial_result, user_message
	Text   string  `json:"text,omitempty"`
	Stream string  `json:"stream,omitempty"` // of output
	Done   float64 `json:"done,omitempty"`   // of progress
	Total  float64 `json:"total,omitempty"`
}

// maxListed is how many effects and paths an event lists.
const maxListed = 1000

// unknownWord stands for words of a command that only running it would tell.
const unknownWord = "…"

// TellEffects sets the effects of an event; more are left out already.
func (e *Event) TellEffects(effects []tools.Effect, more int) {
	e.Effects, e.MoreEffects = nil, more
	for i := range effects {
		effect := &effects[i]
		kind := verbOf(effect.Kind)
		switch {
		case kind == "":
		case len(e.Effects) == maxListed:
			e.MoreEffects++
		default:
			e.Effects = append(e.Effects, EventEffect{
				Kind: kind, Path: effect.Path, Argv: argvOf(effect.Argv), Host: effect.Host, Port: effect.Port, Unclear: effect.Unclear,
			})
		}
	}
}

// argvOf returns the words of a command for an event.
func argvOf(argv []string) []string {
	list := slices.Clone(argv)
	for i, word := range list {
		if word == tools.UnknownWord {
			list[i] = unknownWord
		}
	}
	return list
}

// TellPaths sets the paths of an event.
func (e *Event) TellPaths(paths []string) {
	if e.MorePaths = max(0, len(paths)-maxListed); e.MorePaths > 0 {
		paths = paths[:maxListed]
	}
	e.Paths = paths
}

// text returns the event as JSON. An encoder writes it, so that nothing in a call can
// pretend to be another part of it.
func (e *Event) text() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e)
	return b.Bytes(), err
}

// An Answer is what a hook says. The zero value lets things pass.
type Answer struct {
	Block   *Reason  `json:"block,omitempty" jsonschema:"the call does not run"`
	Ask     *Reason  `json:"ask,omitempty" jsonschema:"a person is asked"`
	Rewrite *Rewrite `json:"rewrite,omitempty" jsonschema:"the call runs with another input"`

	// Context is text for the model.
	Context string `json:"context,omitempty" jsonschema:"text for the model"`

	// Suppress keeps an update from everybody.
	Suppress bool `json:"suppress,omitempty" jsonschema:"the update is dropped"`
}

// Reason is why a hook blocks or asks, for the model and for people.
type Reason struct {
	Reason string `json:"reason" jsonschema:"why"`
}

// Rewrite is another input for the tool.
type Rewrite struct {
	Input json.RawMessage `json:"input" jsonschema:"the whole input"`
}

// answers reads answers as strictly as the server reads inputs: unknown, duplicate and
// case-variant keys are errors.
var answers = tools.New[Answer](tools.Spec{Name: "hook_answer"}, nil, nil)

// allowed are the keys that an answer may have at a point.
var allowed = map[Point]Answer{
	BeforeCall:   {Block: &Reason{}, Ask: &Reason{}, Rewrite: &Rewrite{}, Context: "yes"},
	AfterCall:    {Block: &Reason{}, Context: "yes"},
	FileChanged:  {Context: "yes"},
	BeforeUpdate: {Suppress: true},
}

// parseAnswer reads what a hook answers at a point. At points whose findings become part
// of a result, text that is no JSON object is such a finding.
func parseAnswer(point Point, text string) (a Answer, err error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return a, nil
	case text[0] != '{' && (point == AfterCall || point == FileChanged):
		a.Context = text
		return a, nil
	case text[0] != '{':
		return a, fmt.Errorf("it answered %.80q: want nothing, or one JSON object", text)
	}
	call, err := answers.Decode(&tools.Env{}, json.RawMessage(text))
	if err != nil {
		return a, fmt.Errorf("its answer is not valid: %s", oneLine(err))
	}
	if err := json.Unmarshal(call.Input(), &a); err != nil {
		return a, fmt.Errorf("its answer is not valid: %s", oneLine(err))
	}
	return a, a.check(point)
}

// check returns why the answer means nothing at a point.
func (a *Answer) check(point Point) error {
	may := allowed[point]
	for _, key := range []struct {
		name     string
		has, may bool
	}{
		{"block", a.Block != nil, may.Block != nil}, {"ask", a.Ask != nil, may.Ask != nil}, {"rewrite", a.Rewrite != nil, may.Rewrite != nil},
		{"context", a.Context != "", may.Context != ""}, {"suppress", a.Suppress, may.Suppress},
	} {
		if key.has && !key.may {
			return fmt.Errorf("its answer has %s, which means nothing at %s", key.name, point)
		}
	}
	switch {
	case a.Block != nil && (a.Ask != nil || a.Rewrite != nil):
		return errors.New("its answer has block and something else: want one of them")
	case a.Block != nil && strings.TrimSpace(a.Block.Reason) == "", a.Ask != nil && strings.TrimSpace(a.Ask.Reason) == "":
		return errors.New("its answer has no reason: the model, or the person who is asked, has to know")
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
