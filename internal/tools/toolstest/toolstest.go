// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package toolstest checks what every tool promises, and helps the tests of
// tools: somewhere to run a call, and something that keeps what it reports.
package toolstest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Test checks the contract of a tool: its spec is complete, its input schema is
// that of testdata/NAME.schema.json in the package under test, its examples
// work, and no input makes it do anything but refuse. With UPDATE_GOLDEN=1 in
// the environment the file is written instead.
func Test(t *testing.T, tool tools.Tool) {
	t.Helper()
	env := Env(t, nil)
	t.Run("spec", func(t *testing.T) { testSpec(t, tool) })
	t.Run("schema", func(t *testing.T) { testSchema(t, tool) })
	t.Run("keys", func(t *testing.T) { testKeys(t, tool) })
	t.Run("examples", func(t *testing.T) { testExamples(t, tool, env) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, tool, env) })
	t.Run("spellings", func(t *testing.T) { testSpellings(t, tool, env) })
	t.Run("concurrency", func(t *testing.T) { testConcurrency(t, tool, env) })
}

func testSpec(t *testing.T, tool tools.Tool) {
	spec := tool.Spec()
	if !reflect.DeepEqual(spec, tool.Spec()) {
		t.Error("the spec changes")
	}
	// A registry judges the name, the level and whether names repeat.
	if err := new(tools.Registry).Replace("test", tool); err != nil {
		t.Error(err)
	}
	summary := spec.Summary
	if strings.ContainsAny(summary, "\r\n") || summary != strings.TrimSpace(summary) || !strings.HasSuffix(summary, ".") {
		t.Errorf("summary %q: want one line that ends with a period", summary)
	}
	for _, field := range []struct{ name, text string }{
		{"description", spec.Description}, {"label", spec.Label}, {"category", spec.Category},
	} {
		if strings.TrimSpace(field.text) == "" {
			t.Errorf("no %s", field.name)
		}
		if !utf8.ValidString(field.text) {
			t.Errorf("the %s is not valid UTF-8", field.name)
		}
	}
	for _, alias := range spec.Aliases {
		if alias == "" || strings.ContainsAny(alias, " \t\r\n*?[]\\@") {
			t.Errorf("alias %q cannot be told from a pattern", alias)
		}
	}
	if spec.DefaultTimeout < 0 {
		t.Errorf("default timeout %s", spec.DefaultTimeout)
	}
	if spec.ResultSchema != nil {
		if _, err := compile(spec.ResultSchema); err != nil {
			t.Errorf("result schema: %v", err)
		}
	}
}

// testKeys finds other names of keys that mean nothing, or something else.
func testKeys(t *testing.T, tool tools.Tool) {
	type object struct {
		Properties map[string]json.RawMessage
		Items      struct{ Properties map[string]json.RawMessage }
	}
	read := func(text string) (schema object) {
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		return schema
	}
	seen := make(map[string]bool)
	for _, key := range tool.Spec().Keys {
		properties := read(string(tool.InputSchema())).Properties
		if key.In != "" {
			within := read(cmp.Or(string(properties[key.In]), "{}"))
			if properties = within.Properties; properties == nil {
				properties = within.Items.Properties
			}
		}
		if properties[key.Name] == nil || properties[key.Other] != nil || seen[key.In+"/"+key.Other] {
			t.Errorf("%s cannot be another name of %s", key.Other, key.Name)
		}
		seen[key.In+"/"+key.Other] = true
	}
}

func testSchema(t *testing.T, tool tools.Tool) {
	schema := tool.InputSchema()
	if _, err := compile(schema); err != nil {
		t.Errorf("input schema: %v", err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, schema, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	golden := filepath.Join("testdata", tool.Spec().Name+".schema.json")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v: make it with UPDATE_GOLDEN=1", err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the schema is not that of %s: if it is meant to be, run with UPDATE_GOLDEN=1\ngot\n%s\nwant\n%s", golden, got.Bytes(), want)
	}
}

// denyLoader refuses to load schemas from elsewhere.
type denyLoader struct{}

func (denyLoader) Load(url string) (any, error) { return nil, errors.New("not allowed: " + url) }

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(denyLoader{})
	if err := compiler.AddResource("schema.json", document); err != nil {
		return nil, err
	}
	return compiler.Compile("schema.json")
}

func testExamples(t *testing.T, tool tools.Tool, env tools.Env) {
	schema, err := compile(tool.InputSchema())
	if err != nil {
		t.Skip("there is no schema to hold them against")
	}
	if len(tool.Spec().Examples) == 0 {
		t.Error("no example")
	}
	for _, example := range tool.Spec().Examples {
		if example.Summary == "" || strings.Contains(example.Summary, "\n") {
			t.Errorf("%s: summary %q: want one line", example.Input, example.Summary)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(example.Input))
		if err != nil {
			t.Errorf("%s: %v", example.Input, err)
			continue
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s does not fit the schema: %v", example.Input, err)
		}
		if _, err := decode(tool, env, string(example.Input)); err != nil {
			t.Errorf("%s does not decode: %v", example.Input, err)
		}
	}
}

// hostile are inputs that no tool takes.
func hostile(tool tools.Tool) map[string]string {
	inputs := map[string]string{
		"no JSON":           `path=README.md`,
		"half an object":    `{"a":`,
		"half a string":     `{"a`,
		"half an escape":    `{"a\u12`,
		"two values":        `{} {}`,
		"an array":          `[]`,
		"an array of it":    `[{}]`,
		"a string":          `"text"`,
		"an array, quoted":  `"[]"`,
		"a number":          `7`,
		"null":              `null`,
		"NUL":               "\x00",
		"invalid UTF-8":     "{\"\xff\":1}",
		"unknown key":       `{"no such key":1}`,
		"a pointer for key": `{"~1/\n":1}`,
		"many objects":      strings.Repeat(`{"a":`, 100_000),
		"many arrays":       strings.Repeat(`[`, 100_000),
		"deep and complete": `{"a":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}`,
		"many unknown keys": `{"` + strings.Repeat(`a":1,"`, 10_000) + `a":1}`,
		"a long key":        `{"` + strings.Repeat("k", 1<<20) + `":1}`,
		"a long number":     `{"n":` + strings.Repeat("9", 1<<20) + `}`,
		"3 MiB":             `{"a":"` + strings.Repeat("x", 3<<20) + `"}`,
	}
	// What works, with something that does not beside it.
	for i, example := range tool.Spec().Examples {
		members, ok := strings.CutPrefix(strings.TrimSpace(string(example.Input)), "{")
		if !ok || strings.HasPrefix(strings.TrimSpace(members), "}") {
			continue
		}
		inputs[fmt.Sprintf("example %d and an unknown key", i)] = `{"no such key":1,` + members
		inputs[fmt.Sprintf("example %d twice", i)] = strings.TrimSuffix(strings.TrimSpace(string(example.Input)), "}") + "," + members
		inputs[fmt.Sprintf("example %d and a deep key", i)] = `{"a":` + strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100) + "," + members
	}
	return inputs
}

func testRefusals(t *testing.T, tool tools.Tool, env tools.Env) {
	for name, input := range hostile(tool) {
		t.Run(name, func(t *testing.T) {
			_, err := decode(tool, env, input)
			wrong, ok := errors.AsType[*tools.InputError](err)
			if !ok {
				t.Fatalf("%.100q gives %v, want a *tools.InputError", input, err)
			}
			if n := len(wrong.Problems); n == 0 || n > 100 {
				t.Errorf("%d problems", n)
			}
			for _, problem := range wrong.Problems {
				text := problem.String()
				if problem.Message == "" || len(text) > 10_000 || !utf8.ValidString(text) || strings.Contains(problem.Message, "\n") {
					t.Errorf("%.200q is not readable: want a line of valid UTF-8 that is not too long", text)
				}
				if problem.Pointer != "" && problem.Pointer[0] != '/' {
					t.Errorf("%.100q is no JSON pointer", problem.Pointer)
				}
			}
		})
	}
	if _, err := decode(tool, env, ""); err != nil {
		if _, ok := errors.AsType[*tools.InputError](err); !ok {
			t.Errorf("no input gives %v, want a call or a *tools.InputError", err)
		}
	}
}

// decode decodes an input twice and returns its effects, which must be the
// same. A panic is an error.
func decode(tool tools.Tool, env tools.Env, input string) (effects []tools.Effect, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	first, err := tool.Decode(&env, json.RawMessage(input))
	again, errAgain := tool.Decode(&env, json.RawMessage(input))
	if fmt.Sprint(err) != fmt.Sprint(errAgain) {
		return nil, fmt.Errorf("one input, two answers: %v, then %v", err, errAgain)
	}
	if err != nil {
		return nil, err
	}
	if shown, ok := first.(tools.Previewer); ok {
		if preview := shown.Preview(context.Background()); preview.Kind < tools.PreviewText || preview.Kind > tools.PreviewCommand || preview.Text == "" {
			return nil, fmt.Errorf("preview %+v shows nothing", preview)
		}
	}
	effects = first.Effects()
	if again := again.Effects(); !reflect.DeepEqual(effects, again) {
		return nil, fmt.Errorf("one input, two effects: %v, then %v", effects, again)
	}
	if again := first.Effects(); !reflect.DeepEqual(effects, again) {
		return nil, fmt.Errorf("one call, two effects: %v, then %v", effects, again)
	}
	for _, effect := range effects {
		if effect.Kind < tools.ReadsPath || effect.Kind > tools.ChangesMode {
			return nil, fmt.Errorf("effect %+v has no verb", effect)
		}
	}
	return effects, nil
}

func testConcurrency(t *testing.T, tool tools.Tool, env tools.Env) {
	var group sync.WaitGroup
	for range 4 {
		for _, example := range tool.Spec().Examples {
			group.Go(func() {
				if _, err := decode(tool, env, string(example.Input)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
}

const (
	// guard is how long a call that was told to stop may take. It is reached by
	// a call that does not stop at all, never by a slow machine.
	guard = 10 * time.Second

	// silence is after how long a call that reports nothing is told to stop.
	silence = 20 * time.Millisecond
)

// errStop is the cause of what StopsSoon cancels.
var errStop = errors.New("stopped by toolstest")

// StopsSoon checks that a call ends, with an error, when its context does: once
// it is cancelled before it runs and once with its first report, or while it
// runs if it has nothing to report. The call must be a long one.
func StopsSoon(t *testing.T, tool tools.Tool, input string, env tools.Env) {
	t.Helper()
	for _, atOnce := range []bool{true, false} {
		call, err := tool.Decode(&env, json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
		defer cancel(nil)
		if atOnce {
			cancel(errStop)
		}
		quiet := time.AfterFunc(silence, func() { cancel(errStop) })
		defer quiet.Stop()
		done := make(chan error, 1)
		go func() {
			_, err := call.Run(ctx, RightsOf(call), sinkFunc(func(tools.Report) { cancel(errStop) }))
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("cancelled at once: %t: the call ended without an error", atOnce)
			}
		case <-time.After(guard):
			t.Fatalf("cancelled at once: %t: after %s the call has not ended", atOnce, guard)
		}
	}
}

type sinkFunc func(tools.Report)

func (f sinkFunc) Emit(r tools.Report) { f(r) }

// Ask reports nothing and waits for an answer that never comes.
func (f sinkFunc) Ask(ctx context.Context, _ []tools.Question) ([]tools.Answer, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Listen is of no use: nobody sends anything.
func (f sinkFunc) Listen(context.Context, func(context.Context, tools.Input) (int, error)) (stop func()) {
	return func() {}
}

// Messages is of no use: nobody says anything.
func (f sinkFunc) Messages() <-chan string { return nil }

// Execution is nobody's.
func (f sinkFunc) Execution() string { return "" }

// Env returns a place to run calls in: a new workspace with these files, by
// slash-separated name.
func Env(t testing.TB, files map[string]string) tools.Env {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	session := NewSession(tools.ModeAsk)
	session.private = t.TempDir()
	ws, err := workspace.Config{Trace: session.touched}.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	changes := history.New(history.Config{Dir: t.TempDir()})
	t.Cleanup(func() {
		session.Close()
		changes.Close()
		ws.Close()
	})
	return tools.Env{SessionID: "test", CallID: "1", Workspace: ws, Session: session, Changes: changes, Documents: new(Documents)}
}

// Run runs one call to its end. An input that does not decode ends the test. In
// an env that Env made, a call that touches what it did not declare fails it.
func Run(t *testing.T, tool tools.Tool, env tools.Env, input string) (tools.Result, []tools.Report, error) {
	t.Helper()
	call, err := tool.Decode(&env, json.RawMessage(input))
	if err != nil {
		t.Fatalf("%.100s: %v", input, err)
	}
	effects := call.Effects()
	session, traced := env.Session.(*Session)
	if traced {
		session.begin()
	}
	var recorder Recorder
	result, err := call.Run(t.Context(), RightsOf(call), &recorder)
	if traced {
		for _, problem := range undeclared(effects, session.end()) {
			t.Errorf("%s %.100s: %s", tool.Spec().Name, input, problem)
		}
	}
	return result, recorder.Reports(), err
}

// Text returns the texts of a result.
func Text(result tools.Result) string {
	var b strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(tools.Text); ok {
			b.WriteString(string(text))
		}
	}
	return b.String()
}

// RightsOf returns what the commands of a call have where no policy judges it: a
// call that only reads can write nothing, any other what is the session's own.
func RightsOf(call tools.Call) tools.Rights {
	for _, e := range call.Effects() {
		if e.Unclear != "" || e.Kind != tools.ReadsPath && !(e.Kind == tools.RunsProgram && e.ReadOnly) {
			return tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
		}
	}
	return tools.Rights{}
}

// goesOn is what comes before the call that gets what an answer left out.
var goesOn = regexp.MustCompile(`(?:go on with|read it with|read them with) (\w+) (\{)`)

// GoOn returns the last call that a text names to get what was left out; none where
// it names none.
func GoOn(text string) (tool, input string) {
	found := goesOn.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return "", ""
	}
	at := found[len(found)-1]
	var raw json.RawMessage
	if err := json.NewDecoder(strings.NewReader(text[at[4]:])).Decode(&raw); err != nil {
		return "", ""
	}
	return text[at[2]:at[3]], string(raw)
}
