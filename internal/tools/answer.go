// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// Count returns a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// How much text an answer has, in characters. They are counted as the bytes of
// UTF-8: a character beyond ASCII counts as two to four, as it does in tokens.
const (
	MinAnswer        = 1_000
	DefaultAnswer    = 50_000
	DefaultMaxAnswer = 400_000

	// TokenCharacters is how many characters of room a token takes.
	TokenCharacters = 4
)

// A Measure says how much of the room of an answer a text takes: a character for each
// byte or, where answers are bounded in tokens, [TokenCharacters] for each token. The zero
// Measure counts bytes.
type Measure struct {
	Family string // of the model that reads the answer, see [toolcall.FamilyNamed]
	Tokens bool   // answers are bounded in tokens
}

// Of returns how much room a text takes.
func (m Measure) Of(text string) int {
	if !m.Tokens {
		return len(text)
	}
	return m.Cost(text) * TokenCharacters
}

// Cost returns about how many tokens a text costs the model.
func (m Measure) Cost(text string) int { return toolcall.FamilyNamed(m.Family).Tokens(text) }

// prefix returns how many bytes of a text take at most so much room.
func (m Measure) prefix(text string, room int) int {
	if !m.Tokens {
		return min(len(text), room)
	}
	return min(room, toolcall.FamilyNamed(m.Family).Prefix(text, room/TokenCharacters))
}

// A Budget is how much text the answer to a model has at most, in one of two
// units. The zero Budget leaves it to somebody else.
type Budget struct{ Characters, Tokens int }

// Size returns the room that the budget gives; 0 for the zero Budget.
func (b Budget) Size() int { return max(b.Characters, b.Tokens*TokenCharacters) }

// BudgetOf returns the budget that gives a room.
func BudgetOf(room int, m Measure) Budget {
	if m.Tokens {
		return Budget{Tokens: room / TokenCharacters}
	}
	return Budget{Characters: room}
}

// Check returns why the budget is none, where most characters are allowed. The zero
// Budget is one.
func (b Budget) Check(most int) error {
	if b == (Budget{}) {
		return nil
	}
	if b.Characters != 0 && b.Tokens != 0 {
		return fmt.Errorf("an answer is bounded in characters or in tokens: give one of them")
	}
	n, unit, least := b.Characters, "characters", MinAnswer
	if b.Tokens != 0 {
		n, unit, least, most = b.Tokens, "tokens", MinAnswer/TokenCharacters, most/TokenCharacters
	}
	if n < least || n > most {
		return fmt.Errorf("an answer of %d %s is out of range: want %d to %d; leave it out for the default", n, unit, least, most)
	}
	return nil
}

// MarshalText writes the budget as UnmarshalText reads it; the zero Budget cannot be read.
func (b Budget) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a number of characters or of tokens.
func (b *Budget) UnmarshalText(text []byte) error {
	number, unit, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.ParseInt(number, 10, 32)
	unit = strings.TrimSpace(unit)
	switch {
	case err != nil || n <= 0:
	case unit == "" || unit == "characters":
		*b = Budget{Characters: int(n)}
		return nil
	case unit == "tokens":
		*b = Budget{Tokens: int(n)}
		return nil
	}
	return fmt.Errorf(`%q does not say how long an answer is: want a number of characters, or of tokens, such as "50000" or "12000 tokens"`, text)
}

// String writes the budget as UnmarshalText reads it.
func (b Budget) String() string {
	if b.Tokens > 0 {
		return strconv.Itoa(b.Tokens) + " tokens"
	}
	return strconv.Itoa(b.Characters)
}

// answer returns how much room the answer of a call has.
func (e Env) answer() int { return cmp.Or(e.Answer, DefaultAnswer) }

// Shown returns how many bytes of what a call found it shows: all that its answer
// has room for, but for notes below. Where answers are bounded in tokens they may take more
// room than that: see [Spec.Pages].
func (e Env) Shown() int {
	n := e.answer()
	return n - n/25 - 360
}

// Words name tools and keys as the model of a session knows them. The zero value has
// our own names.
type Words struct{ Names }

// Names knows what another system calls our tools and keys. The methods report false
// where it has nothing for them.
type Names interface {
	Tool(tool string) (name string, ok bool)
	Key(tool, key string) (name string, ok bool)

	// Call returns the text of a call that becomes one of ours.
	Call(tool string, input []byte) (call string, ok bool)
}

// Tool returns the name of a tool of ours.
func (w Words) Tool(tool string) string {
	if w.Names != nil {
		if name, ok := w.Names.Tool(tool); ok {
			return name
		}
	}
	return tool
}

// Key returns the name of a key of a tool of ours.
func (w Words) Key(tool, key string) string {
	if name, ok := w.HasKey(tool, key); ok {
		return name
	}
	return key
}

// Keys is Key for one tool.
func (w Words) Keys(tool string) func(key string) string {
	return func(key string) string { return w.Key(tool, key) }
}

// HasKey is Key. It reports false where the model knows no such key.
func (w Words) HasKey(tool, key string) (string, bool) {
	if w.Names != nil {
		return w.Names.Key(tool, key)
	}
	return key, true
}

// GoOn returns how a model makes a call: the name of the tool and its input.
func (w Words) GoOn(tool string, input any) string {
	if w.Names != nil {
		text, err := json.Marshal(input)
		if call, ok := w.Call(tool, text); ok && err == nil {
			return call
		}
	}
	return Written(tool, input)
}

// Written returns the name of a tool and its input as JSON text.
func Written(tool string, input any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(input); err != nil { // inputs came from JSON
		panic(err)
	}
	return tool + " " + strings.TrimSuffix(text.String(), "\n")
}

// reading is the part of an input of read_file that reads lines of an artifact.
type reading struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty"`
	Column int    `json:"column,omitempty"`
	Limit  uint64 `json:"limit,omitempty"`
}

// ReadOn returns the call that reads what a window left out of what is kept as an
// artifact.
func (w Words) ReadOn(a Artifact, gap output.Gap) string {
	r := reading{Path: a.URI, Offset: gap.Line}
	if gap.Column > 1 {
		r.Column = gap.Column
	}
	if gap.Whole {
		r.Limit = gap.Lines
	}
	text := "read them with "
	if gap.Lines == 0 {
		text = "read it with "
	}
	text += w.GoOn("read_file", r)
	if a.Incomplete != "" {
		text += fmt.Sprintf(", as far as it is kept, which is %s: %s", output.Size(a.Size), a.Incomplete)
	}
	return text
}

// Begin returns the beginning of a text, as much as an answer shows. What is left
// out is kept as an artifact with this name, and a last line says how to read it.
func (e Env) Begin(text, name string) []Content {
	limit := e.Shown()
	if e.Measure.Of(text) <= limit {
		return []Content{Text(text)}
	}
	window := output.NewBeginning(e.Measure.prefix(text, limit))
	window.Write([]byte(text))
	var kept Content
	shown := window.Text(func(gap output.Gap) string {
		artifact, ok := e.Keep(name, text)
		if !ok {
			return "this server keeps no more of it: ask for less at once"
		}
		kept = artifact
		return e.Words.ReadOn(artifact, gap)
	})
	if kept == nil {
		return []Content{Text(shown)}
	}
	return []Content{Text(shown), kept}
}

// Keep keeps a text as an artifact. It reports false where none are kept.
func (e Env) Keep(name, text string) (Artifact, bool) {
	if e.Artifacts == nil {
		return Artifact{}, false
	}
	writer, err := e.Artifacts.Create(name, "text/plain; charset=utf-8")
	if err != nil {
		return Artifact{}, false
	}
	writer.Write([]byte(text))
	return writer.Close(), true
}

// Share returns an Env whose answer has one of n equal parts of this one.
func (e Env) Share(n int) Env {
	e.Answer = max(e.answer()/n, MinAnswer)
	return e
}

// Less returns an Env whose answer has so much less room than this one.
func (e Env) Less(n int) Env {
	e.Answer = max(e.answer()-n, MinAnswer/2)
	return e
}

// Fit has the text of a result keep to the budget of the call, whatever its tool made of it:
// the rest is kept as an artifact with the name of the tool.
func (e Env) Fit(tool string, r *Result) {
	if e.room(r) <= e.answer() {
		return
	}
	var whole strings.Builder
	var rest []Content
	for _, c := range r.Content {
		if text, ok := c.(Text); ok {
			whole.WriteString(string(text))
		} else {
			rest = append(rest, c)
		}
	}
	r.Content = append(e.Begin(whole.String(), tool+".txt"), rest...)
}

// room returns how much room the text of a result takes.
func (e *Env) room(r *Result) (size int) {
	for _, c := range r.Content {
		if text, ok := c.(Text); ok {
			size += e.Measure.Of(string(text))
		}
	}
	return size
}
