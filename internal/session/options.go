// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// Exposed names the settings that calls of a session may know, and those that they may
// change, too. The zero value has none.
type Exposed struct {
	Show []string `yaml:"show"`
	Set  []string `yaml:"set"`
}

// DefaultExposed is what calls may know and change where an operator says nothing.
func DefaultExposed() Exposed {
	return Exposed{Show: optionNames(), Set: []string{"active_tools", "answer", "edit_errors", "mode"}}
}

// Check returns what is wrong with the names.
func (e Exposed) Check() error {
	for _, name := range slices.Concat(e.Show, e.Set) {
		if optionNamed(name) == nil {
			return fmt.Errorf("%.64q is no setting: want some of %s", name, strings.Join(optionNames(), ", "))
		}
	}
	for _, name := range e.Set {
		if optionNamed(name).set == nil {
			return fmt.Errorf("%s cannot be set by calls", name)
		}
	}
	return nil
}

// An option is a setting that calls may know. What set makes of settings never permits
// more than they do; whether the operator permits it is looked at afterwards, as for
// everybody. A nil set means that calls cannot.
type option struct {
	name, about string
	value       func(*Settings) string
	set         func(s *Settings, text string) error
}

var options = []option{
	{"active_tools", "how many tools are active beside those that always are: 1 to " + strconv.Itoa(maxActive),
		func(s *Settings) string { return strconv.Itoa(s.Activation.Limit) },
		func(s *Settings, text string) (err error) {
			if s.Activation.Limit, err = strconv.Atoi(text); err == nil && s.Activation.Limit < 1 {
				err = fmt.Errorf("want at least 1")
			}
			return err
		}},
	{"answer", `how long answers may be: a number of characters, or of tokens, such as "12000 tokens"`,
		func(s *Settings) string { return s.Answer.String() },
		func(s *Settings, text string) error { return s.Answer.UnmarshalText([]byte(text)) }},
	{"call_order", "which calls run at the same time: free, or safe for one after the other but for those that only read",
		func(s *Settings) string {
			if s.Ordered {
				return "safe"
			}
			return "free"
		},
		func(s *Settings, text string) error {
			if text != "safe" && text != "free" {
				return fmt.Errorf("want free or safe")
			}
			s.Ordered = text == "safe"
			return nil
		}},
	{"edit_errors", "how long edits may wait to be told the new errors of the files they change, such as 3s; off: they are not told",
		func(s *Settings) string {
			if s.EditErrors <= 0 {
				return "off"
			}
			return s.EditErrors.String()
		},
		func(s *Settings, text string) (err error) {
			if s.EditErrors = NoEditErrors; text == "off" {
				return nil
			}
			if s.EditErrors, err = time.ParseDuration(text); err != nil || s.EditErrors <= 0 || s.EditErrors > MaxEditErrors {
				err = fmt.Errorf("want off, or a time of at most %s, such as 3s", MaxEditErrors)
			}
			return err
		}},
	{"idle_ttl", "how long the session is kept unused",
		func(s *Settings) string {
			if s.IdleTTL == Forever {
				return "forever"
			}
			return s.IdleTTL.String()
		}, nil},
	{"level", "how much the session is trusted; it can only be lowered",
		func(s *Settings) string { return s.Level.String() },
		func(s *Settings, text string) error {
			was := s.Level
			if err := s.Level.UnmarshalText([]byte(text)); err != nil {
				return err
			}
			return onlyDown(s.Level > was, was)
		}},
	{"mode", "what happens with calls that change something: ask, allow, accept_edits or plan; it can only become one that permits less",
		func(s *Settings) string { return s.Mode.String() },
		func(s *Settings, text string) error {
			was := s.Mode
			if err := s.Mode.UnmarshalText([]byte(text)); err != nil {
				return err
			}
			if s.Mode == tools.ModeDeny {
				return fmt.Errorf("in mode deny no call runs, not even one that changes it back")
			}
			return onlyDown(s.Mode.Above(was), was)
		}},
	{"network", "how far commands reach: none, loopback, hosts or open; it can only be lowered",
		func(s *Settings) string { return s.Network.String() },
		func(s *Settings, text string) error {
			was := s.Network
			if err := s.Network.UnmarshalText([]byte(text)); err != nil {
				return err
			}
			return onlyDown(s.Network > was, was)
		}},
	{"persona", "the agent system whose tools are shown, such as claude-code; none: those of this server",
		func(s *Settings) string {
			if s.Persona == "" {
				return "none"
			}
			return s.Persona
		},
		func(s *Settings, text string) error {
			if s.Persona = text; text == "none" {
				s.Persona = ""
			}
			return nil
		}},
}

func onlyDown(up bool, was fmt.Stringer) error {
	if up {
		return fmt.Errorf("it is %s, and calls can only lower it: whoever made the session can raise it", was)
	}
	return nil
}

func optionNames() (names []string) {
	for i := range options {
		names = append(names, options[i].name)
	}
	return names
}

func optionNamed(name string) *option {
	i := slices.IndexFunc(options, func(o option) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return &options[i]
}

// Options returns the settings that calls of the session may know and change.
func (s *Session) Options() tools.Settings { return exposed{s} }

// exposed is what the operator exposes of the settings of a session.
type exposed struct{ of *Session }

func (e exposed) All() (list []tools.Setting) {
	table, now := e.of.store.config.Exposed, e.of.Settings()
	for i := range options {
		o := &options[i]
		set := slices.Contains(table.Set, o.name)
		if set || slices.Contains(table.Show, o.name) {
			list = append(list, tools.Setting{Name: o.name, Value: o.value(now), About: o.about, Settable: set && o.set != nil})
		}
	}
	return list
}

func (e exposed) Set(name, text string) error {
	o, store := optionNamed(name), e.of.store
	if o == nil || o.set == nil || !slices.Contains(store.config.Exposed.Set, name) {
		may := "none"
		if set := store.config.Exposed.Set; len(set) > 0 {
			may = strings.Join(set, ", ")
		}
		return tools.Failf("not_settable", "Nothing was changed: %.64q is no setting that calls may change. They may change: %s.", name, may)
	}
	err := store.update(e.of, func(s *Settings) error { return o.set(s, strings.TrimSpace(text)) })
	if err != nil {
		return tools.Failf("wrong_setting", "Nothing was changed: %s: %v.", name, err)
	}
	return nil
}
