// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

type settled struct {
	Pages string             `json:"pages,omitempty" check:"max=20,numeral"`
	Text  string             `json:"text,omitempty"`
	N     int                `json:"n,omitempty"`
	U     *uint              `json:"u,omitempty"`
	F     float64            `json:"f,omitempty"`
	B     bool               `json:"b,omitempty"`
	List  []int              `json:"list,omitempty"`
	Map   map[string]float64 `json:"map,omitempty"`
	Inner []settledInner     `json:"inner,omitempty"`
}

type settledInner struct {
	On   bool   `json:"on,omitempty"`
	Name string `json:"name,omitempty"`
}

func settledTool() tools.Tool {
	return tools.New(tools.Spec{Name: "settled"}, nil,
		func(context.Context, tools.Env, settled, tools.Sink) (tools.Result, error) {
			return tools.Result{}, nil
		})
}

func TestSettle(t *testing.T) {
	tool := settledTool()
	for _, test := range []struct{ input, want string }{
		{`{"n":"10"}`, `{"n":10}`},
		{`{ "n" : "-3" , "b" : "true" }`, `{ "n" : -3 , "b" : true }`},
		{`{"b":"False","f":"1.5","u":"7"}`, `{"b":false,"f":1.5,"u":7}`},
		{`{"n":"1e3","list":["1",2,"3"],"map":{"a":"0.5"}}`, `{"n":1e3,"list":[1,2,3],"map":{"a":0.5}}`},
		{`{"inner":[{"on":"true","name":"true"},{"name":"10"}]}`, `{"inner":[{"on":true,"name":"true"},{"name":"10"}]}`},
		{`{"n":"99999999999999999999"}`, `{"n":99999999999999999999}`}, // for the decoder to refuse
		// Whole numbers for a string that says so.
		{`{"pages":1}`, `{"pages":"1"}`}, {`{"pages" : 12 ,"n":3}`, `{"pages" : "12" ,"n":3}`}, {`{"pages":1.5}`, ""}, {`{"pages":1e3}`, ""},
		{`{"pages":"3"}`, ""}, {`{"text":1}`, ""}, {`{"pages":true}`, ""}, {`{"pages":01}`, ""}, {`{"pages":-}`, ""}, {`{"pages":1`, ""}, {`{"pages":[1]}`, ""},
		{`{"pages":99999999999999999999}`, `{"pages":"99999999999999999999"}`},
		// What was quoted once too often.
		{`"{\"n\":\"10\",\"text\":\"a\"}"`, `{"n":10,"text":"a"}`},
		{` "{\"n\": \"10\"}" `, ` {"n": 10} `},
		{`{"inner":"[{\"on\":\"true\",\"name\":\"true\"}]"}`, `{"inner":[{"on":true,"name":"true"}]}`},
		{`"{\"list\":\"[\\n\\\"1\\\"]\",\"b\":true}"`, "{\"list\":[\n1],\"b\":true}"},
		{`{"text":"{\"n\":\"10\"}"}`, ""}, {`{"list":"{\"n\":\"10\"}"}`, ""}, {`"{\"n\":10}"`, ""}, {`"\"{\\\"n\\\":\\\"10\\\"}\""`, ""},
		{`"{\"n\":\"10\""`, ""}, {`"{\"n\":\"10\"}]"`, ""}, {`"{\"n\":\"10\"}`, ""},
		// More than one reading, or none.
		{`{"text":"10","inner":[{"name":"true"}]}`, ""},
		{`{"n":"","b":""}`, ""}, {`{"n":"010"}`, ""}, {`{"n":"+1"}`, ""}, {`{"n":"0x10"}`, ""}, {`{"n":"10 "}`, ""}, {`{"n":"1,000"}`, ""},
		{`{"b":"1"}`, ""}, {`{"b":"yes"}`, ""}, {`{"n":"true"}`, ""}, {`{"f":"NaN"}`, ""}, {`{"n":"\u0031"}`, ""},
		{`{"unknown":"10"}`, ""}, {`{"list":"10"}`, ""}, {`{"n":10,"b":true}`, ""},
		// No input at all.
		{``, ""}, {`"10"`, ""}, {`{"n":"10"`, ""}, {`{"n":"10","n`, ""}, {`{"n":"10"]`, ""}, {"{\"n\":\"1\xff\"}", ""},
		{`{"n":` + strings.Repeat("[", 100_000), ""}, {`{"n":"10","text":"` + strings.Repeat("x", 3<<20) + `"}`, ""},
	} {
		want := test.want
		if want == "" {
			want = test.input
		}
		if got := string(tools.Settle(tool, []byte(test.input))); got != want {
			t.Errorf("%.80s\ngives %.80s\nwant  %.80s", test.input, got, want)
		}
	}
}

// FuzzSettle finds inputs that the schema refuses less for being settled, or that
// are settled twice.
func FuzzSettle(f *testing.F) {
	for _, seed := range []string{`{"n":"10"}`, `{"pages":1}`, `{"b":"true","list":["1"]}`, `{"map":{"a":"1"}}`, `{"n":"1"`, `{"n":"10","n":"2"}`, `"{\"n\":\"1\"}"`, `{"inner":"[{\"on\":\"true\"}]"}`} {
		f.Add([]byte(seed))
	}
	tool := settledTool()
	f.Fuzz(func(t *testing.T, input []byte) {
		once := tools.Settle(tool, input)
		if again := tools.Settle(tool, once); string(again) != string(once) {
			t.Errorf("%q becomes %q, then %q", input, once, again)
		}
		if _, err := tool.Decode(&tools.Env{}, input); err == nil && string(once) != string(input) {
			if _, err := tool.Decode(&tools.Env{}, once); err != nil {
				t.Errorf("%q was valid, and %q is not: %v", input, once, err)
			}
		}
	})
}
