// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package strictyaml_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/strictyaml"
)

type sample struct {
	Name  string            `yaml:"name"`
	Count int               `yaml:"count"`
	On    bool              `yaml:"on"`
	Wait  time.Duration     `yaml:"wait"`
	Tags  map[string]string `yaml:"tags"`
	Parts []part            `yaml:"parts"`
	Data  any               `yaml:"data"`
}

type part struct {
	Words []string `yaml:"words"`
}

func read(text string) (sample, error) {
	var s sample
	r := strictyaml.NewReader("f.yaml", "sample")
	r.Read([]byte(text), &s)
	return s, r.Err()
}

func TestRead(t *testing.T) {
	got, err := read(`
name: x
count: 3
on: true
wait: 2m
tags: {team: infra, "b": c}
parts:
  - words: [a, "b c"]
  - words: []
data: {n: 1, f: 1.5, s: text, t: true, z: null, l: [1, {k: v}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := sample{
		Name: "x", Count: 3, On: true, Wait: 2 * time.Minute,
		Tags:  map[string]string{"team": "infra", "b": "c"},
		Parts: []part{{Words: []string{"a", "b c"}}, {}},
		Data: map[string]any{
			"n": uint64(1), "f": 1.5, "s": "text", "t": true, "z": nil,
			"l": []any{uint64(1), map[string]any{"k": "v"}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
}

func TestEverythingWrongAtOnce(t *testing.T) {
	const text = `nme: x
count: many
tags: {a: b, a: c, d: [e]}
parts:
  - word: [a]
  - words: a
data: {k: 1, k: 2}
`
	const want = `the sample is not valid:
f.yaml:1: nme: unknown key; did you mean name?
f.yaml:2: count: "many" is not a whole number
f.yaml:3: tags.a: duplicate key: it is on line 3 already
f.yaml:3: tags.d: want a single value here
f.yaml:5: parts[0].word: unknown key; did you mean words?
f.yaml:6: parts[1].words: want a list here
f.yaml:7: data.k: duplicate key: it is on line 7 already`
	if _, err := read(text); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"name: x\ncount: 1\ntags: {a: b}\nparts: [{words: [a]}]\ndata: [1, 2.5, {a: ~}]\n",
		"name: |\n  x\nwait: 1h\non: yes\n",
		"a: &x {b: *x}\n<<: *x\n? [k]\n: v\n---\n!t c: d\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := read(string(text))
		if err != nil && strings.HasSuffix(err.Error(), ": ") {
			t.Errorf("a fault without a message: %v", err)
		}
	})
}
