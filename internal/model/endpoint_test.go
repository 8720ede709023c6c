// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
)

const key = "sk-test-0123456789abcdef"

var tools = []toolcall.Tool{
	{Name: "read_file", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
	{Name: "now", Description: "Tells the time.", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
}

// endpoint returns an endpoint of a server, which it starts, after set has changed its row of
// the table.
func endpoint(t *testing.T, server *modeltest.Server, format string, set func(*model.Spec)) *model.Endpoint {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := model.Spec{Name: "scripted", Format: format, Model: "m-1", KeyFile: file}
	if set != nil {
		set(&spec)
	}
	if spec.URL == "" {
		spec.URL = server.Start().URL(format)
	}
	config := model.Config{spec}
	config.Check(func(key, format string, args ...any) { t.Fatalf(key+": "+format, args...) })
	table, err := model.New(config, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	e, err := table.Endpoint("")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// scripted returns a server for [endpoint].
func scripted(t *testing.T, script modeltest.Script) *modeltest.Server {
	t.Helper()
	server := modeltest.New(script)
	t.Cleanup(server.Close)
	server.Key = key
	return server
}

// heard is what was handed over.
type heard struct {
	text   string
	calls  []toolcall.Call
	broken []toolcall.Broken
}

func ask(ctx context.Context, m model.Model, request *model.Request) (*heard, model.Answer, error) {
	h := new(heard)
	answer, err := m.Ask(ctx, request, func(p toolcall.Piece) {
		switch p := p.(type) {
		case toolcall.Text:
			h.text += string(p)
		case toolcall.Call:
			h.calls = append(h.calls, p)
		case toolcall.Broken:
			h.broken = append(h.broken, p)
		}
	})
	return h, answer, err
}

func requestOf(text string) *model.Request {
	return &model.Request{System: "You are terse.", Tools: tools, Messages: []model.Message{{Text: text}}}
}

// bothFormats runs a test for each format.
func bothFormats(t *testing.T, test func(t *testing.T, format string)) {
	for _, format := range []string{"anthropic", "openai"} {
		t.Run(format, func(t *testing.T) { test(t, format) })
	}
}

// TestConversation holds a conversation with calls, results and pictures, in pieces of all
// sizes, with a server that takes only what providers take.
func TestConversation(t *testing.T) {
	const text = "Ich schaue nach: “naïve” 日本語 🦀."
	bothFormats(t, func(t *testing.T, format string) {
		for _, pieces := range []int{0, 1, 3, 1000} {
			server := scripted(t, modeltest.Turns(
				modeltest.Turn{Text: text, Calls: []toolcall.Call{modeltest.Call("read_file", map[string]string{"path": "ü/日本.txt"}), modeltest.Call("now", struct{}{})},
					Usage: model.Usage{Input: 100, Cached: 40, Output: 20}},
				modeltest.Turn{Text: "It is noon.", Usage: model.Usage{Input: 150, Cached: 100, Output: 5}},
			))
			server.Pieces = pieces
			e := endpoint(t, server, format, func(s *model.Spec) {
				s.Prices = model.Prices{Input: 3, Cached: 1, Output: 10}
				s.MaxTokens = 777
			})
			request := requestOf("What is in the file, and what time is it?")
			h, answer, err := ask(t.Context(), e, request)
			if err != nil {
				t.Fatal(err)
			}
			if h.text != text || len(h.calls) != 2 || h.calls[0].Tool != "read_file" || string(h.calls[0].Input) != `{"path":"ü/日本.txt"}` || h.calls[1].ID == "" || h.broken != nil {
				t.Fatalf("pieces of %d: heard %+v", pieces, h)
			}
			want := model.Answer{Stop: model.Calling, Usage: model.Usage{Input: 100, Cached: 40, Output: 20, Dollars: (60*3 + 40*1 + 20*10) / 1e6}}
			if answer != want {
				t.Errorf("answer %+v, want %+v", answer, want)
			}
			request.Messages = append(request.Messages,
				model.Message{FromModel: true, Text: h.text, Calls: h.calls},
				model.Message{Text: "Well?", Results: []toolcall.Result{
					{CallID: h.calls[1].ID, Tool: "now", Content: []toolcall.Content{toolcall.Text("12:00"), toolcall.Image{MediaType: "image/png", Data: []byte("png")}}},
					{CallID: h.calls[0].ID, Tool: "read_file", Failed: true, Content: []toolcall.Content{toolcall.Text("no such file")}},
				}})
			h, answer, err = ask(t.Context(), e, request)
			if err != nil || h.text != "It is noon." || answer.Stop != model.Ended {
				t.Fatalf("heard %+v, %+v, %v", h, answer, err)
			}
			last := server.Requests()[1]
			if last.Model != "m-1" || last.System != "You are terse." || last.MaxTokens != 777 || len(last.Tools) != 2 || len(last.Messages) != 3 {
				t.Errorf("the model was asked %+v", last)
			}
			if got := last.Last(); len(got.Results) != 2 || got.Results[0].CallID != h1(request).ID || !got.Results[0].Failed || got.Results[1].Failed || !strings.HasSuffix(got.Text, "Well?") {
				t.Errorf("the model was told %+v", got)
			}
		}
	})
}

func h1(r *model.Request) toolcall.Call { return r.Messages[1].Calls[0] }

// TestCacheMarks: Anthropic is told what to keep, so that the next turn costs less.
func TestCacheMarks(t *testing.T) {
	server := scripted(t, modeltest.Turns(modeltest.Turn{Text: "one"}, modeltest.Turn{Text: "two"}, modeltest.Turn{Text: "three"}))
	e := endpoint(t, server, "anthropic", nil)
	request := requestOf("a")
	for range 3 {
		h, _, err := ask(t.Context(), e, request)
		if err != nil {
			t.Fatal(err)
		}
		request.Messages = append(request.Messages, model.Message{FromModel: true, Text: h.text}, model.Message{Text: "on"})
	}
	for i, want := range []int{2, 3, 3} {
		if got := strings.Count(string(server.Requests()[i].Body), `"cache_control":{"type":"ephemeral"}`); got != want {
			t.Errorf("request %d has %d marks, want %d: %s", i, got, want, server.Requests()[i].Body)
		}
	}
}

// TestCallsComeEarly: a call is handed over while the model goes on.
func TestCallsComeEarly(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		got := make(chan struct{})
		server := scripted(t, modeltest.Turns(modeltest.Turn{
			Calls: []toolcall.Call{modeltest.Call("now", struct{}{}), modeltest.Call("read_file", map[string]string{"path": "x"})},
			Then:  func(ctx context.Context) { <-got }, // the message does not end before
		}))
		calls := 0
		_, err := endpoint(t, server, format, nil).Ask(t.Context(), requestOf("go"), func(p toolcall.Piece) {
			if _, ok := p.(toolcall.Call); ok {
				if calls++; calls == 2 {
					close(got)
				}
			}
		})
		if err != nil || calls != 2 {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}

// TestUnsettledConversations: what loops leave behind is made into what providers take.
func TestUnsettledConversations(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		server := scripted(t, modeltest.Sequence(modeltest.Turn{Text: "ok"}))
		e := endpoint(t, server, format, nil)
		request := requestOf("first")
		request.Messages = append(request.Messages,
			model.Message{Text: "second"},
			model.Message{FromModel: true, Text: "  \n"},
			model.Message{Text: "third"},
			model.Message{FromModel: true, Calls: []toolcall.Call{{ID: "a b/1", Tool: "no such tool!", Input: json.RawMessage(`{"cut`)}, {ID: "2", Tool: "now"}}},
			model.Message{Results: []toolcall.Result{{CallID: "a b/1", Content: []toolcall.Content{toolcall.Text("there is none")}, Failed: true}}},
			model.Message{FromModel: true, Calls: []toolcall.Call{{ID: "3", Tool: "now", Input: json.RawMessage(`{}`)}}},
		)
		if _, _, err := ask(t.Context(), e, request); err != nil {
			t.Fatal(err, server.Refused())
		}
		messages := server.Requests()[0].Messages
		if len(messages) != 5 || messages[0].Text == "first" || len(messages[2].Results) != 2 || !messages[2].Results[1].Failed || len(messages[4].Results) != 1 {
			t.Errorf("the model was told %+v", messages)
		}
		for name, wrong := range map[string][]model.Message{
			"nothing":          nil,
			"begins":           {{FromModel: true, Text: "I"}},
			"foreign result":   {{Text: "x"}, {FromModel: true, Text: "y"}, {Results: []toolcall.Result{{CallID: "9"}}}},
			"calls told":       {{Text: "x", Calls: []toolcall.Call{{ID: "1", Tool: "now"}}}},
			"results of model": {{Text: "x"}, {FromModel: true, Text: "y", Results: []toolcall.Result{{CallID: "1"}}}},
		} {
			_, _, err := ask(t.Context(), e, &model.Request{Messages: wrong})
			if failure, ok := errors.AsType[*model.Error](err); !ok || failure.Kind != model.Rejected {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// TestTextDialects: a model whose provider has no tool calling writes calls in its text.
func TestTextDialects(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		for _, d := range toolcall.Dialects {
			if !d.Text {
				continue
			}
			call := toolcall.Call{Tool: "read_file", Input: json.RawMessage(`{"path":"a.txt"}`)}
			server := scripted(t, modeltest.Turns(
				modeltest.Turn{Text: string(d.Calls(tools, "Let me see.", []toolcall.Call{call}))},
				modeltest.Turn{Text: "Done."},
			))
			e := endpoint(t, server, format, func(s *model.Spec) { s.Dialect = d.Name })
			request := requestOf("Read a.txt")
			h, answer, err := ask(t.Context(), e, request)
			if err != nil {
				t.Fatal(d.Name, err)
			}
			if len(h.calls) != 1 || h.calls[0].ID == "" || h.calls[0].Tool != call.Tool || string(h.calls[0].Input) != string(call.Input) || answer.Stop != model.Calling {
				t.Fatalf("%s: heard %+v, %+v", d.Name, h, answer)
			}
			request.Messages = append(request.Messages, model.Message{FromModel: true, Text: h.text, Calls: h.calls},
				model.Message{Results: []toolcall.Result{{CallID: h.calls[0].ID, Tool: "read_file", Content: []toolcall.Content{toolcall.Text("content of a")}}}})
			h, answer, err = ask(t.Context(), e, request)
			if err != nil || h.text != "Done." || answer.Stop != model.Ended {
				t.Fatalf("%s: heard %+v, %+v, %v", d.Name, h, answer, err)
			}
			last := server.Requests()[1]
			if len(last.Tools) != 0 || !strings.Contains(last.System, "read_file") || !strings.Contains(last.Last().Text, "content of a") || !strings.Contains(last.Messages[1].Text, "a.txt") {
				t.Errorf("%s: the model was told %+v", d.Name, last)
			}
		}
	})
}

// TestUnknownTools: a call of a tool that there is not is handed over as such, unless
// somebody knows the tool.
func TestUnknownTools(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		server := scripted(t, modeltest.Sequence(
			modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("read_fil", struct{}{})}},
			modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("git_log", struct{}{})}}))
		e := endpoint(t, server, format, nil)
		h, answer, err := ask(t.Context(), e, requestOf("go"))
		if err != nil || len(h.calls) != 0 || len(h.broken) != 1 || h.broken[0].ID == "" || !strings.Contains(h.broken[0].Message, "read_file") || answer.Stop != model.Calling {
			t.Errorf("heard %+v, %+v, %v", h, answer, err)
		}
		request := requestOf("go")
		request.Accepts = func(name string) bool { return name == "git_log" }
		if h, _, err := ask(t.Context(), e, request); err != nil || len(h.calls) != 1 {
			t.Errorf("heard %+v, %v", h, err)
		}
	})
}

// TestCutCalls: a call that the bound of tokens cut off is not run.
func TestCutCalls(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		server := scripted(t, modeltest.Sequence(modeltest.Turn{Stop: model.TooLong,
			Calls: []toolcall.Call{{Tool: "read_file", Input: json.RawMessage(`{"path":"/etc/pas`)}}}))
		h, answer, err := ask(t.Context(), endpoint(t, server, format, nil), requestOf("go"))
		if err != nil || len(h.calls) != 0 || len(h.broken) != 1 || answer.Stop != model.TooLong {
			t.Errorf("heard %+v, %+v, %v", h, answer, err)
		}
	})
}

// TestStops: why a model stopped, and what it used where its provider does not say.
func TestStops(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		for _, stop := range []model.Stop{model.Ended, model.TooLong, model.Refused} {
			server := scripted(t, modeltest.Sequence(modeltest.Turn{Text: "some words", Stop: stop, NoUsage: true}))
			e := endpoint(t, server, format, nil)
			request := requestOf("go")
			_, answer, err := ask(t.Context(), e, request)
			if err != nil || answer.Stop != stop {
				t.Errorf("%s: %+v, %v", stop, answer, err)
			}
			if u := answer.Usage; !u.Estimated || u.Input != int64(e.Estimate(request)) || u.Output == 0 {
				t.Errorf("%s: used %+v", stop, u)
			}
		}
		server := scripted(t, modeltest.Sequence(modeltest.Turn{}))
		h, answer, err := ask(t.Context(), endpoint(t, server, format, nil), requestOf("go"))
		if err != nil || h.text != "" || answer.Stop != model.Ended {
			t.Errorf("a model that says nothing: %+v, %+v, %v", h, answer, err)
		}
	})
}

// TestWholeMessages: a provider that does not stream is understood as well.
func TestWholeMessages(t *testing.T) {
	for format, text := range map[string]string{
		"anthropic": `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"t1","name":"now","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":6}}`,
		"openai":    `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"t1","type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":6}}`,
	} {
		server := scripted(t, modeltest.Sequence(modeltest.Turn{Raw: []byte(text), Kind: "application/json"}))
		h, answer, err := ask(t.Context(), endpoint(t, server, format, nil), requestOf("go"))
		want := model.Answer{Stop: model.Calling, Usage: model.Usage{Input: 5, Output: 6}}
		if err != nil || h.text != "Hi" || len(h.calls) != 1 || answer != want {
			t.Errorf("%s: heard %+v, %+v, %v", format, h, answer, err)
		}
	}
}

// TestSettings: headers and parameters of the table are sent.
func TestSettings(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		server := scripted(t, modeltest.Sequence(modeltest.Turn{Text: "x"}))
		e := endpoint(t, server, format, func(s *model.Spec) {
			s.Headers = map[string]string{"X-Team": "blue"}
			s.Parameters = map[string]any{"temperature": 0.5}
			s.MaxTokens, s.MaxCompletionTokens = 9, true
		})
		if _, _, err := ask(t.Context(), e, requestOf("go")); err != nil {
			t.Fatal(err)
		}
		got := server.Requests()[0]
		if got.Header.Get("X-Team") != "blue" || !strings.Contains(string(got.Body), `"temperature":0.5`) || got.MaxTokens != 9 ||
			strings.Contains(string(got.Body), "max_completion_tokens") != (format == "openai") {
			t.Errorf("sent %v %s", got.Header, got.Body)
		}
	})
}

// TestTable: endpoints are found by their names.
func TestTable(t *testing.T) {
	table, err := model.New(model.Config{{Name: "small", Format: "openai", Model: "a"}, {Name: "large", Format: "anthropic", Model: "b"}}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := table.Endpoint(""); err != nil || first.Model() != "a" || !reflect.DeepEqual(table.Names(), []string{"small", "large"}) {
		t.Errorf("%v, %v", first, err)
	}
	if large, err := table.Endpoint("large"); err != nil || large.Model() != "b" {
		t.Errorf("%v, %v", large, err)
	}
	if _, err := table.Endpoint("lagre"); err == nil || !strings.Contains(err.Error(), "large") {
		t.Errorf("%v", err)
	}
	empty, err := model.New(nil, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.Endpoint("x"); err == nil || !strings.Contains(err.Error(), "no models") {
		t.Errorf("%v", err)
	}
}

// TestConcurrent: no more requests at once than the table says; who waits can go.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		e, server := inBubble(t, func(*modeltest.Request) modeltest.Turn {
			return modeltest.Turn{Text: "x", First: func(context.Context) { <-leave }}
		}, "openai", func(s *model.Spec) { s.Concurrent = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second := make(chan error, 1), make(chan error, 1)
		request := func(ctx context.Context, done chan error) {
			_, _, err := ask(ctx, e, requestOf("go"))
			done <- err
		}
		go request(t.Context(), first)
		synctest.Wait()
		go request(ctx, second)
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("the second got %v", err)
		}
		close(leave)
		if err := <-first; err != nil || len(server.Requests()) != 1 {
			t.Errorf("%v, %d requests", err, len(server.Requests()))
		}
	})
}

// TestCancelled: a caller that gives up gets its own reason, and the provider is left alone.
func TestCancelled(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		gone := make(chan struct{})
		server := scripted(t, modeltest.Sequence(modeltest.Turn{
			Text: "I", First: func(ctx context.Context) { context.AfterFunc(ctx, func() { close(gone) }) }, Then: modeltest.Hang,
		}))
		why := errors.New("the parent was stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		answer, err := endpoint(t, server, format, nil).Ask(ctx, requestOf("go"), func(toolcall.Piece) { cancel(why) })
		if !errors.Is(err, why) || answer.Usage.Input == 0 {
			t.Errorf("%+v, %v", answer, err)
		}
		<-gone
	})
}
