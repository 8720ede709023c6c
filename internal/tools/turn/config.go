// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed config.md
var configDoc string

type configInput struct {
	Setting string          `json:"setting,omitempty" check:"max=64"`
	Value   json.RawMessage `json:"value,omitempty" jsonschema:"a text, number or truth"`
}

// Check finds what the schema cannot tell.
func (in configInput) Check() (problems []tools.Problem) {
	if in.Setting == "" && len(in.Value) > 0 {
		problems = append(problems, tools.Problem{Pointer: "/setting", Message: "is required: which one has this value"})
	}
	if len(in.Value) > 0 && (len(in.Value) > 1000 || bytes.ContainsAny(in.Value[:1], "{[n")) {
		problems = append(problems, tools.Problem{Pointer: "/value", Message: "want a short text, a number or a truth"})
	}
	return problems
}

// text returns the value as it is written in a configuration.
func (in configInput) text() string {
	var text string
	if json.Unmarshal(in.Value, &text) == nil {
		return strings.TrimSpace(text)
	}
	return string(in.Value)
}

// Config returns the tool that shows and changes settings of the session.
func Config() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:        "config",
			Aliases:     []string{"Config"},
			Keys:        []tools.Key{{Other: "key", Name: "setting"}},
			Label:       "Settings",
			Summary:     "Show settings of the session, or change one.",
			Description: configDoc,
			Category:    category,
			Level:       tools.ReadOnly,
			Examples: []tools.Example{
				{Summary: "All", Input: json.RawMessage(`{}`)},
				{Summary: "Shorter answers", Input: json.RawMessage(`{"setting":"answer","value":"12000 tokens"}`)},
			},
		},
		func(env tools.Env, in configInput) []tools.Effect {
			var mode tools.Mode
			if in.Setting != "mode" || len(in.Value) == 0 || mode.UnmarshalText([]byte(in.text())) != nil || env.Session == nil || mode.Above(env.Session.Mode()) {
				return nil // nothing is changed: nobody need be asked about what is refused
			}
			return changesMode(mode)
		},
		func(_ context.Context, env tools.Env, in configInput, _ tools.Sink) (tools.Result, error) {
			if env.Settings == nil {
				return tools.Result{}, tools.Failf("no_settings", "There are no settings here that calls may know.")
			}
			if len(in.Value) > 0 {
				if err := env.Settings.Set(in.Setting, in.text()); err != nil {
					return tools.Result{}, err
				}
			}
			return settings(env.Settings.All(), in)
		})
}

// settings tells what an input asks for.
func settings(all []tools.Setting, in configInput) (tools.Result, error) {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	values := make(map[string]string)
	if in.Setting != "" {
		i := slices.Index(names, in.Setting)
		if i < 0 {
			return tools.Result{}, tools.Failf("no_such_setting", "There is no setting %.64q that calls may know. %s", in.Setting, known(names))
		}
		all = all[i : i+1]
	}
	var b strings.Builder
	for _, s := range all {
		values[s.Name] = s.Value
		if in.Setting != "" && len(in.Value) > 0 {
			fmt.Fprintf(&b, "%s is %s now.\n", s.Name, s.Value)
			continue
		}
		fmt.Fprintf(&b, "%s: %s (%s", s.Name, s.Value, s.About)
		if !s.Settable {
			b.WriteString("; cannot be changed here")
		}
		b.WriteString(")\n")
	}
	if len(all) == 0 {
		b.WriteString("There are no settings here that calls may know.\n")
	}
	return tools.Detailed(b.String(), map[string]any{"settings": values})
}
