// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func shapeOf[In any]() *shape { return newShape(reflect.TypeFor[In]()) }

type tree struct {
	Children []tree `json:"children"`
}

type Page struct {
	Limit int `json:"limit,omitempty" check:"min=1"`
}

func TestShapeRefuses(t *testing.T) {
	tests := []struct {
		name string
		make func() *shape
		want string
	}{
		{"a string", shapeOf[string], "input type string is neither a struct nor a map"},
		{"a pointer", shapeOf[*Page], "input type *tools.Page is neither a struct nor a map"},
		{"raw JSON", shapeOf[json.RawMessage], "neither a struct nor a map"},
		{"any", shapeOf[struct {
			X any `json:"x"`
		}], "X: interface {} has no JSON schema"},
		{"any as an input", shapeOf[any], "interface {} has no JSON schema"},
		{"a channel in a list", shapeOf[struct {
			X []chan int `json:"x"`
		}], "X[]: chan int has no JSON schema"},
		{"an array", shapeOf[struct {
			X [2]int `json:"x"`
		}], "[2]int has no JSON schema"},
		{"bytes", shapeOf[struct {
			X []byte `json:"x"`
		}], "use a string"},
		{"int keys", shapeOf[map[int]string], "the keys of map[int]string are not strings"},
		{"a time", shapeOf[struct {
			X time.Time `json:"x"`
		}], "X: time.Time decodes itself"},
		{"a level", shapeOf[struct {
			X Level `json:"x"`
		}], "X: tools.Level decodes itself"},
		{"json.Number", shapeOf[struct {
			X json.Number `json:"x"`
		}], "json.Number decodes itself"},
		{"a recursive type", shapeOf[tree], "tools.tree.Children[]: tools.tree contains itself"},
		{"pointer to pointer", shapeOf[struct {
			X **int `json:"x"`
		}], "points to a pointer"},
		{"embedded pointer", shapeOf[struct{ *Page }], "Page: an embedded *tools.Page needs a json tag"},
		{"two of a name", shapeOf[struct {
			Page
			X int `json:"limit"`
		}], `X: another field has the name "limit"`},
		{"option string", shapeOf[struct {
			X int `json:"x,string"`
		}], `the option "string"`},
		{"check word", shapeOf[struct {
			X int `json:"x" check:"default=1"`
		}], `the check tag has "default=1": want min=N, max=N, enum=a|b or numeral`},
		{"empty check", shapeOf[struct {
			X int `json:"x" check:""`
		}], `the check tag has ""`},
		{"bound word", shapeOf[struct {
			X int `json:"x" check:"min=one"`
		}], `the bound "one"`},
		{"NaN", shapeOf[struct {
			X float64 `json:"x" check:"min=NaN"`
		}], `the bound "NaN"`},
		{"large bound", shapeOf[struct {
			X int `json:"x" check:"max=9007199254740992"`
		}], "at most 2^53"},
		{"fraction of an integer", shapeOf[struct {
			X int `json:"x" check:"max=1.5"`
		}], `the bound "1.5", which no int can have`},
		{"negative length", shapeOf[struct {
			X string `json:"x" check:"max=-1"`
		}], `the bound "-1", which no string can have`},
		{"bounds of a bool", shapeOf[struct {
			X bool `json:"x" check:"max=1"`
		}], "min= and max= do not limit bool"},
		{"nothing left", shapeOf[struct {
			X int `json:"x" check:"min=3,max=2"`
		}], "allows nothing"},
		{"below zero", shapeOf[struct {
			X uint `json:"x" check:"max=-1"`
		}], "allows nothing"},
		{"enum of integers", shapeOf[struct {
			X int `json:"x" check:"enum=1|2"`
		}], "enum= limits strings, not int"},
		{"enum with repeats", shapeOf[struct {
			X string `json:"x" check:"enum=a|b|a"`
		}], `lists "a" twice`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "tools: input type ") || !strings.Contains(got, test.want) {
					t.Errorf("panic: %s\nwant %q in it", got, test.want)
				}
			}()
			test.make()
		})
	}
}

func TestShapeFindsFields(t *testing.T) {
	s := shapeOf[commandInput]()
	for want, f := range s.fields {
		for next := range len(s.fields) + 1 {
			if got := s.find(f.name, next); got != want {
				t.Errorf("find(%q, %d) = %d, want %d", f.name, next, got, want)
			}
		}
	}
	if got := s.find("Command", 0); got != -1 {
		t.Errorf("a case variant was found at %d", got)
	}
}
