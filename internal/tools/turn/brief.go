// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed brief.md
var briefDoc string

//go:embed brief_help.md
var briefHelp string

const (
	briefsDocument = "briefs"
	maxBriefs      = 20
	maxBrief       = 32768 // characters
)

// briefs is the document.
type briefs struct {
	Briefs []brief `json:"briefs"`
}

type brief struct {
	Title string   `json:"title"`
	Text  string   `json:"text"`
	Files []string `json:"files,omitempty"`
}

type briefInput struct {
	Title  string   `json:"title,omitempty" check:"max=200"`
	Text   string   `json:"text,omitempty" check:"max=32768" jsonschema:"Markdown: goal, what is done, what is open"`
	Files  []string `json:"files,omitempty" check:"max=50" jsonschema:"that belong to it"`
	Append bool     `json:"append,omitempty" jsonschema:"add the text to the note"`
	Remove bool     `json:"remove,omitempty" jsonschema:"remove the note"`
}

// Check finds what the schema cannot tell.
func (in briefInput) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	if strings.TrimSpace(in.Title) == "" && (in.Title != "" || in.Text != "" || in.Remove || in.Append || len(in.Files) > 0) {
		wrong("/title", "is required: which note")
	}
	if in.Text == "" && (in.Append || len(in.Files) > 0) {
		wrong("/text", "is required: what the note says")
	}
	if in.Remove && in.Text != "" {
		wrong("/remove", "and text do not go together")
	}
	return problems
}

// Brief returns the tool that keeps hand-over notes.
func Brief() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:        "brief",
			Label:       "Hand-over notes",
			Summary:     "Write, show or list hand-over notes of the session.",
			Description: briefDoc,
			Help:        briefHelp,
			Category:    category,
			Level:       tools.ReadOnly,
			Examples: []tools.Example{
				{Summary: "What there is", Input: json.RawMessage(`{}`)},
				{Summary: "Hand over", Input: json.RawMessage(`{"title":"Parser","text":"Done: the lexer, with tests.\nOpen: errors have no lines yet.","files":["lexer.go"]}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in briefInput, out tools.Sink) (tools.Result, error) {
			if in.Text == "" && !in.Remove {
				all, err := load[briefs](env, briefsDocument)
				if err != nil {
					return tools.Result{}, err
				}
				return all.show(env, in.Title)
			}
			verb := ""
			all, err := change(env, briefsDocument, func(all *briefs) (err error) {
				verb, err = all.write(in)
				return err
			})
			if err != nil {
				return tools.Result{}, err
			}
			said := fmt.Sprintf("%s the note %q", verb, line(in.Title))
			out.Emit(tools.Progress{Message: said})
			return tools.Detailed(fmt.Sprintf("%s. Notes by now: %d.\n", said, len(all.Briefs)), all.details())
		})
}

func (b briefs) empty() bool { return len(b.Briefs) == 0 }

func (b *briefs) index(title string) int {
	return slices.IndexFunc(b.Briefs, func(one brief) bool { return strings.EqualFold(one.Title, line(title)) })
}

func (b *briefs) unknown(title, what string) error {
	var titles []string
	for _, one := range b.Briefs {
		titles = append(titles, fmt.Sprintf("%q", one.Title))
	}
	return tools.Failf("no_such_note", "%sThere is no note %.200q. %s", what, title, known(titles))
}

// write does what an input asks for, and returns what that was.
func (b *briefs) write(in briefInput) (verb string, err error) {
	i := b.index(in.Title)
	switch {
	case in.Remove && i < 0:
		return "", b.unknown(in.Title, "Nothing was changed. ")
	case in.Remove:
		b.Briefs = slices.Delete(b.Briefs, i, i+1)
		return "Removed", nil
	case i < 0 && len(b.Briefs) >= maxBriefs:
		return "", tools.Failf("too_many_notes", "Nothing was changed: there are %d notes, as many as a session has. Remove one, or add to one with append.", maxBriefs)
	case i < 0:
		b.Briefs = append(b.Briefs, brief{line(in.Title), in.Text, in.Files})
		return "Wrote", nil
	}
	one := &b.Briefs[i]
	if !in.Append {
		*one = brief{line(in.Title), in.Text, in.Files}
		return "Replaced", nil
	}
	text := strings.TrimRight(one.Text, "\n") + "\n\n" + in.Text
	if utf8.RuneCountInString(text) > maxBrief {
		return "", tools.Failf("note_too_long", "Nothing was changed: with this the note would have %d characters, and at most it has %d. Replace it by a shorter one.", utf8.RuneCountInString(text), maxBrief)
	}
	one.Text = text
	for _, file := range in.Files {
		if !slices.Contains(one.Files, file) {
			one.Files = append(one.Files, file)
		}
	}
	return "Added to", nil
}

// show returns one note, or what there is.
func (b *briefs) show(env tools.Env, title string) (tools.Result, error) {
	if title == "" {
		if b.empty() {
			return tools.Detailed("There are no notes.\n", b.details())
		}
		var text strings.Builder
		for _, one := range b.Briefs {
			first, _, _ := strings.Cut(strings.TrimSpace(one.Text), "\n")
			fmt.Fprintf(&text, "%q, %d characters: %.120s\n", one.Title, utf8.RuneCountInString(one.Text), first)
		}
		return tools.Detailed(text.String(), b.details())
	}
	i := b.index(title)
	if i < 0 {
		return tools.Result{}, b.unknown(title, "")
	}
	one := b.Briefs[i]
	text := "# " + one.Title + "\n\n" + one.Text + "\n"
	if len(one.Files) > 0 {
		text += "\nFiles: " + strings.Join(one.Files, ", ") + "\n"
	}
	result, err := tools.Detailed("", one)
	result.Content = env.Begin(text, "note.md")
	return result, err
}

// details is what a runtime is told: which notes there are.
func (b *briefs) details() any {
	titles := []string{}
	for _, one := range b.Briefs {
		titles = append(titles, one.Title)
	}
	return map[string]any{"titles": titles}
}
