// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type readInput struct {
	Path    string            `json:"path" check:"min=1,max=10"`
	Limit   int               `json:"limit,omitempty" check:"min=1,max=100"`
	Offset  int64             `json:"offset,omitempty"`
	Size    uint64            `json:"size,omitempty"`
	Small   int8              `json:"small,omitempty"`
	Ratio   float64           `json:"ratio,omitempty" check:"max=1e3"`
	Ratio32 float32           `json:"ratio32,omitempty"`
	Mode    string            `json:"mode,omitempty" check:"enum=fg|bg"`
	Deep    bool              `json:"deep,omitempty"`
	Words   []string          `json:"words,omitempty" check:"max=2"`
	Env     map[string]string `json:"env,omitempty" check:"max=2"`
	Edits   []edit            `json:"edits,omitempty"`
	Edit    *edit             `json:"edit,omitempty"`
	Wait    *int              `json:"wait,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	hidden
}

func TestDecode(t *testing.T) {
	five := 5
	tests := []struct {
		name, input string
		want        readInput
	}{
		{"least", `{"path":"a"}`, readInput{Path: "a"}},
		{"white space", " \t\r\n{ \"path\" : \"a\" , \"limit\" : 7 }\n", readInput{Path: "a", Limit: 7}},
		{"any order", `{"limit":7,"deep":true,"path":"a"}`, readInput{Path: "a", Limit: 7, Deep: true}},
		{"false", `{"path":"a","deep":false}`, readInput{Path: "a"}},
		{"escapes", `{"path":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, readInput{Path: "\"\\/\b\f\n\r\té😀"}},
		{"UTF-8", `{"path":"é😀漢"}`, readInput{Path: "é😀漢"}},
		{"a replacement character", "{\"path\":\"\uFFFD\\ufffd\"}", readInput{Path: "\uFFFD\uFFFD"}},
		{"characters are counted, not bytes", `{"path":"😀😀😀😀😀😀😀😀😀😀"}`, readInput{Path: strings.Repeat("😀", 10)}},
		{"an escaped key", `{"p\u0061th":"a"}`, readInput{Path: "a"}},
		{"a key with slash and tilde", `{"path":"a","~/deep":"x"}`, readInput{Path: "a", hidden: hidden{Deep: "x"}}},
		{"integer as a fraction", `{"path":"a","limit":5.0}`, readInput{Path: "a", Limit: 5}},
		{"integer with an exponent", `{"path":"a","limit":1e2,"offset":-12.50E+3}`, readInput{Path: "a", Limit: 100, Offset: -12500}},
		{"integer with a negative exponent", `{"path":"a","limit":500e-1}`, readInput{Path: "a", Limit: 50}},
		{"zeros", `{"path":"a","offset":-0,"size":-0.0,"small":0e99999999999999999999,"ratio":-0}`, readInput{Path: "a"}},
		{"largest integers", `{"path":"a","offset":9223372036854775807,"size":18446744073709551615,"small":-128}`,
			readInput{Path: "a", Offset: 9223372036854775807, Size: 18446744073709551615, Small: -128}},
		{"smallest integer", `{"path":"a","offset":-9223372036854775808}`, readInput{Path: "a", Offset: -9223372036854775808}},
		{"an integer no float holds", `{"path":"a","offset":9007199254740993.0}`, readInput{Path: "a", Offset: 9007199254740993}},
		{"floats", `{"path":"a","ratio":1.5e-3,"ratio32":0.1}`, readInput{Path: "a", Ratio: 1.5e-3, Ratio32: 0.1}},
		{"a float too small to tell from 0", `{"path":"a","ratio":1e-999}`, readInput{Path: "a"}},
		{"list", `{"path":"a","words":["x","y"]}`, readInput{Path: "a", Words: []string{"x", "y"}}},
		{"empty list and map", `{"path":"a","words":[],"env":{}}`, readInput{Path: "a", Words: []string{}, Env: map[string]string{}}},
		{"map", `{"path":"a","env":{"A":"1","a":"2"}}`, readInput{Path: "a", Env: map[string]string{"A": "1", "a": "2"}}},
		{"structs", `{"path":"a","edits":[{"old":"x"},{"old":"y","new":"z"}],"edit":{"old":""}}`,
			readInput{Path: "a", Edits: []edit{{Old: "x"}, {Old: "y", New: "z"}}, Edit: &edit{}}},
		{"pointer", `{"path":"a","wait":5}`, readInput{Path: "a", Wait: &five}},
		{"null is absent", `{"path":"a","limit":null,"words":null,"env":null,"edit":null,"wait":null,"mode":null}`, readInput{Path: "a"}},
		{"raw", `{"path":"a","raw": {"x" : [1, 2.50, "\u0061"]} }`, readInput{Path: "a", Raw: json.RawMessage(`{"x" : [1, 2.50, "\u0061"]}`)}},
		{"raw null", `{"path":"a","raw":null}`, readInput{Path: "a", Raw: json.RawMessage(`null`)}},
		{"input as a string", `"{\"path\":\"a\"}"`, readInput{Path: "a"}},
		{"object as a string", `{"path":"a","edit":"{\"old\":\"\\u0061\"}"}`, readInput{Path: "a", Edit: &edit{Old: "a"}}},
		{"list as a string", `{"path":"a","words":" [\"x\"] "}`, readInput{Path: "a", Words: []string{"x"}}},
		{"map as a string", `{"path":"a","env":"{\"A\":\"1\"}"}`, readInput{Path: "a", Env: map[string]string{"A": "1"}}},
		{"strings in strings", `"{\"path\":\"a\",\"edits\":\"[{\\\"old\\\":\\\"x\\\"}]\"}"`, readInput{Path: "a", Edits: []edit{{Old: "x"}}}},
		{"a string that looks like JSON", `{"path":"{}"}`, readInput{Path: "{}"}},
	}
	s := shapeOf[readInput]()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got readInput
			if err := s.decode([]byte(test.input), &got); err != nil {
				t.Fatalf("%s: %v", test.input, err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", test.input, got, test.want)
			}
		})
	}
}

func TestDecodeProblems(t *testing.T) {
	long := strings.Repeat("é", 100)
	tests := []struct{ name, input, want string }{
		{"required", `{}`, `/path: is required`},
		{"nothing", ``, `/path: is required`},
		{"only white space", " \n", `/path: is required`},
		{"not null", `{"path":null}`, `/path: want a string, got null`},
		{"input null", `null`, `want an object, got null`},
		{"input list", `[{}]`, `want an object, got an array`},
		{"input number", `1`, `want an object, got 1`},
		{"unknown key", `{"path":"a","colour":1}`, `/colour: unknown key: want one of "path", "limit", "offset", "size", "small", "ratio", "ratio32", "mode", "deep", "words", "env", "edits", "edit", "wait", "raw", "~/deep"`},
		{"case variant", `{"Path":"a"}`, "/Path: unknown key, did you mean \"path\"?\n/path: is required"},
		{"near misses", `{"path":"a","editz":1}`, `/editz: unknown key, did you mean "edits" or "edit"?`},
		{"unknown key in a list", `{"path":"a","edits":[{"old":""},{"old":"","news":""}]}`, `/edits/1/news: unknown key, did you mean "new"?`},
		{"twice", `{"path":"a","path":"b"}`, `/path: key appears twice`},
		{"twice, spelled differently", `{"path":"a","p\u0061th":"b"}`, `/path: key appears twice`},
		{"twice in a map", `{"path":"a","env":{"A":"1","\u0041":"2"}}`, `/env/A: key appears twice`},
		{"twice in raw", `{"path":"a","raw":[{"x":1,"y":{"z":1,"z":2}}]}`, `/raw/0/y/z: key appears twice`},
		{"twice in an unknown key", `{"path":"a","colours":{"x":1,"x":2}}`, "/colours: unknown key: want one of *\n/colours/x: key appears twice"},
		{"pointer escapes", `{"path":"a","raw":{"a/b~c":{"":1,"":1}}}`, `/raw/a~1b~0c/: key appears twice`},
		{"string for an integer", `{"path":"a","limit":"ten"}`, `/limit: want an integer, got string "ten"`},
		{"fraction for an integer", `{"path":"a","limit":1.5,"offset":1e-1}`, "/limit: want an integer, got 1.5\n/offset: want an integer, got 1e-1"},
		{"bool for a string", `{"path":true}`, `/path: want a string, got true`},
		{"number for a bool", `{"path":"a","deep":1}`, `/deep: want true or false, got 1`},
		{"object for a list", `{"path":"a","words":{"a":[1]}}`, `/words: want an array, got an object`},
		{"list for an object", `{"path":"a","env":[1],"edit":[]}`, "/env: want an object, got an array\n/edit: want an object, got an array"},
		{"text for an object", `{"path":"a","edit":"x"}`, `/edit: want an object, got string "x"`},
		{"list in a string for an object", `{"path":"a","edit":"[]"}`, `/edit: want an object, got string "[]"`},
		{"input as a string in a string", `"\"{}\""`, `want an object, got string "\"{}\""`},
		{"wrong items", `{"path":"a","words":["x",2],"env":{"A":1}}`, "/words/1: want a string, got 2\n/env/A: want a string, got 1"},
		{"null item", `{"path":"a","words":[null]}`, `/words/0: want a string, got null`},
		{"long values are cut", `{"path":"a","mode":"` + long + `","` + long + `":1}`,
			`/mode: "` + long[:60] + `..." is not allowed: want one of "fg", "bg"` + "\n" + `/` + long[:60] + `...: unknown key: *`},
		{"too small", `{"path":"a","limit":0}`, `/limit: 0 is too small: the minimum is 1`},
		{"too big", `{"path":"a","limit":101,"ratio":1000.5}`, "/limit: 101 is too big: the maximum is 100\n/ratio: 1000.5 is too big: the maximum is 1000"},
		{"far too big", `{"path":"a","limit":1e400,"small":128,"ratio":1e400}`,
			"/limit: 1e400 is too big: the maximum is 100\n/small: 128 is too big: the maximum is 127\n/ratio: 1e400 is too big: the maximum is 1000"},
		{"65 bits", `{"path":"a","offset":9223372036854775808}`, `/offset: 9223372036854775808 does not fit a 64-bit integer`},
		{"65 bits below zero", `{"path":"a","offset":-9223372036854775809}`, `/offset: -9223372036854775809 does not fit a 64-bit integer`},
		{"many bits", `{"path":"a","offset":1e999999999999,"size":18446744073709551616}`,
			"/offset: 1e999999999999 does not fit a 64-bit integer\n/size: 18446744073709551616 does not fit an unsigned 64-bit integer"},
		{"below zero", `{"path":"a","size":-1}`, `/size: -1 is too small: the minimum is 0`},
		{"no float", `{"path":"a","ratio":-1e400,"ratio32":1e39}`,
			"/ratio: -1e400 does not fit a 64-bit floating-point number\n/ratio32: 1e39 does not fit a 32-bit floating-point number"},
		{"enum", `{"path":"a","mode":"fast"}`, `/mode: "fast" is not allowed: want one of "fg", "bg"`},
		{"empty text", `{"path":""}`, `/path: too few characters: 0, the minimum is 1`},
		{"long text", `{"path":"ééééééééééé"}`, `/path: too many characters: 11, the maximum is 10`},
		{"many items", `{"path":"a","words":["","","",""],"env":{"a":"","b":"","c":""}}`,
			"/words: too many items: 4, the maximum is 2\n/env: too many keys: 3, the maximum is 2"},
		{"everything at once", `{"limit":"x","mode":"y","edits":[{"new":1},{}],"Deep":true}`,
			"/limit: want an integer, got string \"x\"\n/mode: \"y\" is not allowed: want one of \"fg\", \"bg\"\n" +
				"/edits/0/new: want a string, got 1\n/edits/0/old: is required\n/edits/1/old: is required\n" +
				"/Deep: unknown key, did you mean \"deep\"?\n/path: is required"},
		{"NUL", `{"path":"a\u0000b"}`, `/path: the string "a\x00b" has a NUL character (\u0000): leave it out`},
		{"NUL in a key", `{"path":"a","env":{"a\u0000":"b"}}`, `/env: the string "a\x00" has a NUL character (\u0000): leave it out`},
		{"lone surrogate", `{"path":"\ud83dx"}`, `/path: the string "�x" has half of a surrogate pair (\ud83d): leave it out`},
		{"two high surrogates", `{"path":"\ud83d\ud83d"}`, `/path: the string "��" has half of a surrogate pair (\ud83d): leave it out`},
		{"low surrogate in raw", `{"path":"a","raw":["\ude00"]}`, `/raw/0: the string "�" has half of a surrogate pair (\ude00): leave it out`},
		{"problems in a string", `{"path":"a","edit":"{\"new\":1}"}`, "/edit/new: want a string, got 1\n/edit/old: is required"},
		{"bad syntax in a string", `{"path":"a","edit":"{\"old\":\"x\"","limit":0}`,
			"/edit: the string holds invalid JSON at line 1, byte 11 after `{\"old\":\"x\"`: want \",\" or \"}\", got the end\n/limit: 0 is too small: the minimum is 1"},
		{"more behind the JSON in a string", `{"path":"a","words":"[]]"}`,
			"/words: the string holds invalid JSON at line 1, byte 3 after `[]`: want nothing after the value, got `]`"},
	}
	s := shapeOf[readInput]()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := s.decode([]byte(test.input), new(readInput))
			if err == nil {
				t.Fatalf("%s was accepted", test.input)
			}
			if _, ok := errors.AsType[*InputError](err); !ok {
				t.Fatalf("the error is a %T", err)
			}
			if got := err.Error(); !matchLines(got, test.want) {
				t.Errorf("%s:\ngot\n%s\nwant\n%s", test.input, got, test.want)
			}
		})
	}
}

// matchLines compares line by line; a * at the end of a line stands for any
// text.
func matchLines(got, want string) bool {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(gotLines) != len(wantLines) {
		return false
	}
	for i, line := range wantLines {
		begin, open := strings.CutSuffix(line, "*")
		if gotLines[i] != line && !(open && strings.HasPrefix(gotLines[i], begin)) {
			return false
		}
	}
	return true
}

func TestDecodeSyntax(t *testing.T) {
	tests := []struct{ input, want string }{
		{`{`, "invalid JSON at line 1, byte 2 after `{`: want a key in double quotes, got the end"},
		{`{"path"`, "invalid JSON at line 1, byte 8 after `{\"path\"`: want \":\" after a key, got the end"},
		{`{"path":}`, "/path: invalid JSON at line 1, byte 9 after `{\"path\":`: want a JSON value, got `}`"},
		{`{"path":"a",}`, "invalid JSON at line 1, byte 13 after `{\"path\":\"a\",`: want a key in double quotes, got `}`"},
		{`{"path":"a"`, "invalid JSON at line 1, byte 12 after `{\"path\":\"a\"`: want \",\" or \"}\", got the end"},
		{`{"path":"a" "limit":1}`, "invalid JSON at line 1, byte 13 after `{\"path\":\"a\" `: want \",\" or \"}\", got `\"limit\":1}`"},
		{`{path:"a"}`, "invalid JSON at line 1, byte 2 after `{`: want a key in double quotes, got `path:\"a\"}`"},
		{`{'path':"a"}`, "invalid JSON at line 1, byte 2 after `{`: want a key in double quotes, got `'path':\"a\"...`"},
		{"{\n  \"path\": x\n}", "/path: invalid JSON at line 2, byte 11 after \"{\\n  \\\"path\\\": \": want a JSON value, got \"x\\n}\""},
		{`{"path":"a`, "/path: invalid JSON at line 1, byte 11 after `{\"path\":\"a`: want the closing quote of a string, got the end"},
		{`{"path":"a\`, "/path: invalid JSON at line 1, byte 11 after *"},
		{`{"path":"\u12"}`, "/path: invalid JSON at line 1, byte 10 after `{\"path\":\"`: want an escape, one of *"},
		{`{"path":"\u+123"}`, "/path: invalid JSON at line 1, byte 10 *"},
		{`{"path":"\x"}`, "/path: invalid JSON at line 1, byte 10 *"},
		{"{\"path\":\"a\nb\"}", "/path: invalid JSON at line 1, byte 11 after `{\"path\":\"a`: want control characters in a string to be escaped, such as \\n or \\t, got \"\\nb\\\"}\""},
		{"{\"path\":\"a\x00b\"}", "/path: invalid JSON at line 1, byte 11 after `{\"path\":\"a`: want control characters *"},
		{"{\"path\":\"a\x7fb\xff\"}", "/path: invalid JSON at line 1, byte 13 after \"{\\\"path\\\":\\\"a\\x7fb\": want valid UTF-8, got \"\\xff\\\"}\""},
		{"{\"path\":\"\xed\xa0\x80\"}", "/path: invalid JSON at line 1, byte 10 after `{\"path\":\"`: want valid UTF-8, *"},
		{"{\"path\":\"\xc0\x80\"}", "/path: invalid JSON at line 1, byte 10 after `{\"path\":\"`: want valid UTF-8, *"},
		{"{\"p\xff\":1}", "invalid JSON at line 1, byte 4 *"},
		{"{\xff}", "invalid JSON at line 1, byte 2 *"},
		{"\x00", "invalid JSON at line 1, byte 1: want a JSON value, got \"\\x00\""},
		{"\uFEFF{}", "invalid JSON at line 1, byte 1: want a JSON value, got *"},
		{`{"limit":01}`, "/limit: invalid JSON at line 1, byte 10 after `{\"limit\":`: want a number without leading zeros, got `01}`"},
		{`{"limit":-01}`, "/limit: invalid JSON *"},
		{`{"limit":+1}`, "/limit: invalid JSON at line 1, byte 10 after `{\"limit\":`: want a JSON value, got `+1}`"},
		{`{"limit":.5}`, "/limit: invalid JSON *"},
		{`{"limit":1.}`, "/limit: invalid JSON at line 1, byte 12 after `{\"limit\":1.`: want a digit, got `}`"},
		{`{"limit":1e}`, "/limit: invalid JSON *"},
		{`{"limit":1e+}`, "/limit: invalid JSON *"},
		{`{"limit":-}`, "/limit: invalid JSON *"},
		{`{"offset":0x10}`, "invalid JSON at line 1, byte 12 after `{\"offset\":0`: want \",\" or \"}\", got `x10}`"},
		{`{"ratio":NaN}`, "/ratio: invalid JSON at line 1, byte 10 after `{\"ratio\":`: want a JSON value, got `NaN}`"},
		{`{"ratio":Infinity}`, "/ratio: invalid JSON *"},
		{`{"ratio":-Infinity}`, "/ratio: invalid JSON *"},
		{`{"deep":True}`, "/deep: invalid JSON *"},
		{`{"deep":tru}`, "/deep: invalid JSON at line 1, byte 9 after `{\"deep\":`: want true, got `tru}`"},
		{`{"deep":truex}`, "invalid JSON *"},
		{`{"limit":nul}`, "/limit: invalid JSON at line 1, byte 10 after `{\"limit\":`: want null, got `nul}`"},
		{`{"words":["a",]}`, "/words/1: invalid JSON *"},
		{`{"words":[,"a"]}`, "/words/0: invalid JSON *"},
		{`{"words":["a" "b"]}`, "/words: invalid JSON at line 1, byte 15 after `{\"words\":[\"a\" `: want \",\" or \"]\", got `\"b\"]}`"},
		{`{"words":["a"}`, "/words: invalid JSON *"},
		{`{"raw":[1,[2,]]}`, "/raw/1/1: invalid JSON *"},
		{`{"path":"a"}{}`, "invalid JSON at line 1, byte 13 after `{\"path\":\"a\"}`: want nothing after the value, got `{}`"},
		{`{"path":"a"} x`, "invalid JSON *"},
		{`{"path":"a"}` + "\x00", "invalid JSON *"},
		{`{"path":"a" /* no */}`, "invalid JSON *"},
		{`{"limit":0,"mode":"x",}`, "/limit: 0 is too small: the minimum is 1\n/mode: \"x\" is not *\ninvalid JSON *"},
	}
	s := shapeOf[readInput]()
	for _, test := range tests {
		err := s.decode([]byte(test.input), new(readInput))
		if err == nil {
			t.Errorf("%q was accepted", test.input)
			continue
		}
		if got := err.Error(); !matchLines(got, test.want) {
			t.Errorf("%q:\ngot\n%s\nwant\n%s", test.input, got, test.want)
		}
	}
}

func TestDecodeKeepsFewProblems(t *testing.T) {
	input := `{"edits":[` + strings.Repeat(`{},`, 100_000) + `{}]}`
	err := shapeOf[readInput]().decode([]byte(input), new(readInput))
	bad, ok := errors.AsType[*InputError](err)
	if !ok || len(bad.Problems) != maxProblems+1 {
		t.Fatalf("got %v", err)
	}
	for i, p := range bad.Problems[:maxProblems] {
		if want := fmt.Sprintf("/edits/%d/old: is required", i); p.String() != want {
			t.Errorf("problem %d is %q, want %q", i, p, want)
		}
	}
	if want := "and more: correct these first"; bad.Problems[maxProblems].String() != want {
		t.Errorf("the last is %q, want %q", bad.Problems[maxProblems], want)
	}

	exactly := `{"path":"a","edits":[` + strings.Repeat(`{},`, maxProblems-1) + `{}]}`
	err = shapeOf[readInput]().decode([]byte(exactly), new(readInput))
	if got := strings.Count(err.Error(), "\n") + 1; got != maxProblems {
		t.Errorf("%d problems, want %d:\n%v", got, maxProblems, err)
	}
}

func TestDecodeDepth(t *testing.T) {
	s := shapeOf[readInput]()
	nested := func(levels int) string {
		return `{"path":"a","raw":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
	}
	if err := s.decode([]byte(nested(MaxDepth-1)), new(readInput)); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	want := "/raw" + strings.Repeat("/0", MaxDepth-1) + ": nested too deeply: the maximum is 64 levels of objects and arrays"
	if err := s.decode([]byte(nested(MaxDepth)), new(readInput)); err == nil || err.Error() != want {
		t.Errorf("%d levels: got %v, want %s", MaxDepth+1, err, want)
	}
	for _, deep := range []string{
		nested(20_000),
		strings.Repeat("[", 20_000),
		strings.Repeat(`{"raw":`, 20_000),
		`{"x":` + strings.Repeat(`{"x":`, 20_000),
		`{"words":` + strings.Repeat(`[`, 20_000),
	} {
		err := s.decode([]byte(deep), new(readInput))
		if err == nil || !strings.Contains(err.Error(), "nested too deeply") {
			t.Errorf("%.20s...: %.200v", deep, err)
		}
	}

	// A string does not begin the count anew.
	type input struct {
		Free map[string]json.RawMessage `json:"free"`
	}
	for levels, ok := range map[int]bool{MaxDepth - 2: true, MaxDepth - 1: false} {
		text := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		err := shapeOf[input]().decode([]byte(`{"free":"{\"x\":`+text+`}"}`), new(input))
		if (err == nil) != ok {
			t.Errorf("a string with %d levels: %v", levels+1, err)
		}
	}
}

func TestDecodeSize(t *testing.T) {
	s := shapeOf[map[string]json.RawMessage]()
	fits := []byte(`{"x":"` + strings.Repeat("a", MaxInputBytes-8) + `"}`)
	var got map[string]json.RawMessage
	if err := s.decode(fits, &got); err != nil || len(got["x"]) != MaxInputBytes-6 {
		t.Errorf("%d bytes: %v", len(fits), err)
	}
	want := "the input has 2097153 bytes: the maximum is 2097152"
	if err := s.decode(append(fits, ' '), &got); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDecodeOwnsWhatItReturns(t *testing.T) {
	for _, padding := range []int{0, maxSharedInput} {
		input := []byte(`{"path":"abc","env":{"key":"value"},"raw":[1]}` + strings.Repeat(" ", padding))
		var got readInput
		if err := shapeOf[readInput]().decode(input, &got); err != nil {
			t.Fatal(err)
		}
		clear(input)
		if got.Path != "abc" || got.Env["key"] != "value" || string(got.Raw) != "[1]" {
			t.Errorf("the value changed with the input: %+v", got)
		}
	}
}

func TestDecodeFreeForm(t *testing.T) {
	var got map[string]json.RawMessage
	if err := shapeOf[map[string]json.RawMessage]().decode([]byte(`{"a": [1], "b":null}`), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{"a": json.RawMessage("[1]"), "b": json.RawMessage("null")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := shapeOf[struct{}]().decode(nil, new(struct{})); err != nil {
		t.Errorf("no input for no fields: %v", err)
	}
	err := shapeOf[struct{}]().decode([]byte(`{"x":1}`), new(struct{}))
	if want := "/x: unknown key: this object takes no keys"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestDecodeTime feeds inputs that are slow to decode for a careless decoder.
func TestDecodeTime(t *testing.T) {
	keys := new(strings.Builder)
	for i := range 150_000 {
		fmt.Fprintf(keys, `"key%d":1,`, i)
	}
	s := shapeOf[readInput]()
	for name, input := range map[string]string{
		"many raw keys":     `{"path":"a","raw":{` + keys.String() + `"x":1}}`,
		"many unknown keys": `{` + keys.String() + `"path":"a"}`,
		"many map keys":     `{"path":"a","env":{` + keys.String() + `"x":1}}`,
		"a long number":     `{"path":"a","offset":1` + strings.Repeat("0", MaxInputBytes-100) + `}`,
		"a long fraction":   `{"path":"a","ratio":0.` + strings.Repeat("1", MaxInputBytes-100) + `}`,
		"many escapes":      `{"path":"` + strings.Repeat(`\u0000`, MaxInputBytes/6-10) + `"}`,
		"many long keys":    strings.Repeat(`{"raw":{"`+strings.Repeat("k", 30_000)+`":`, 31),
		"many items":        `{"path":"a","words":[` + strings.Repeat(`"",`, 500_000) + `""]}`,
	} {
		start := time.Now()
		err := s.decode([]byte(input), new(readInput))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		if err != nil && len(err.Error()) > 10_000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}
