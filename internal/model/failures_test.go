// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// inBubble returns an endpoint of a server that is reached without a network, so that time
// is that of a synctest bubble.
func inBubble(t *testing.T, script modeltest.Script, format string, set func(*model.Spec)) (*model.Endpoint, *modeltest.Server) {
	t.Helper()
	server := modeltest.New(script)
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	serving := &http.Server{Handler: server}
	go serving.Serve(listener)
	spec := model.Spec{Name: "scripted", Format: format, URL: "http://127.0.0.1:1/v1", Model: "m-1", KeyFile: filepath.Join(t.TempDir(), "key")}
	if err := os.WriteFile(spec.KeyFile, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(&spec)
	}
	table, err := model.New(model.Config{spec}, model.Options{Dial: listener.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		table.Close()
		serving.Close()
	})
	e, err := table.Endpoint("scripted")
	if err != nil {
		t.Fatal(err)
	}
	return e, server
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// kindOf returns the kind of an error, and fails where a key is in it.
func kindOf(t *testing.T, err error) *model.Error {
	t.Helper()
	failure, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("%v is no *model.Error", err)
	}
	if strings.Contains(err.Error(), key) {
		t.Errorf("the key is in %q", err)
	}
	if !strings.HasPrefix(failure.Message, "The model scripted ") || !strings.HasSuffix(failure.Message, ".") {
		t.Errorf("%+v", failure)
	}
	return failure
}

// TestRefusals: what a provider refuses is told in words, and not tried again.
func TestRefusals(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		for _, test := range []struct {
			turn  modeltest.Turn
			set   func(*model.Spec, *modeltest.Server)
			kind  model.ErrorKind
			words string
		}{
			{set: func(s *model.Spec, _ *modeltest.Server) { writeFile(t, s.KeyFile, "sk-other") }, kind: model.Credentials, words: "key_file"},
			{set: func(s *model.Spec, _ *modeltest.Server) { s.KeyFile = "" }, kind: model.Credentials, words: "key_file"},
			{set: func(_ *model.Spec, m *modeltest.Server) { m.Models = []string{"m-2"} }, kind: model.UnknownModel, words: `"m-1"`},
			{set: func(s *model.Spec, m *modeltest.Server) { s.URL = m.Start().URL(format) + "/elsewhere" }, kind: model.Rejected, words: "url"},
			{set: func(s *model.Spec, _ *modeltest.Server) { s.Parameters = map[string]any{"temprature": 1} }, kind: model.Rejected, words: "temprature"},
			{set: func(s *model.Spec, _ *modeltest.Server) { s.ContextTokens = 10 }, kind: model.TooLarge, words: "10 tokens"},
			{turn: modeltest.Turn{Status: 400}, kind: model.TooLarge, words: "summary"},
			{turn: modeltest.Turn{Status: 413}, kind: model.TooLarge, words: "summary"},
			{turn: modeltest.Turn{Status: 402}, kind: model.OutOfBudget, words: "credit"},
			{turn: modeltest.Turn{Status: 403}, kind: model.Credentials, words: "key_env"},
			{turn: modeltest.Turn{Status: 422}, kind: model.Rejected, words: "422"},
			{turn: modeltest.Turn{Error: "invalid_request_error"}, kind: model.Rejected, words: "400"},
			{turn: modeltest.Turn{Raw: []byte("data: {\"type\":\"error\",\"error\":{\"code\":402,\"message\":\"no\"}}\n\n")}, kind: model.OutOfBudget, words: "credit"},
			{turn: modeltest.Turn{Raw: []byte("data: {\"type\":\n\ndata: {}\n\n")}, kind: model.Malformed, words: "no JSON"},
			{turn: modeltest.Turn{Raw: []byte("data: [1,2]\n\ndata: {}\n\n")}, kind: model.Malformed, words: "API"},
			{turn: modeltest.Turn{Raw: []byte("data: {\"hello\":\"you\"}\n\n")}, kind: model.Malformed, words: "hello"},
			{turn: modeltest.Turn{Raw: []byte("data: " + key + "\n\n")}, kind: model.Malformed, words: "[key]"},
			{turn: modeltest.Turn{Raw: []byte("<html>"), Kind: "text/html"}, kind: model.Malformed, words: "text/html"},
			{turn: modeltest.Turn{Raw: []byte("{not json"), Kind: "application/json"}, kind: model.Malformed, words: "not json"},
			{turn: modeltest.Turn{Raw: modeltest.Nothing, Kind: "application/json"}, kind: model.Malformed, words: "empty"},
		} {
			server := scripted(t, modeltest.Sequence(test.turn))
			e := endpoint(t, server, format, func(s *model.Spec) {
				if test.set != nil {
					test.set(s, server)
				}
			})
			h, answer, err := ask(t.Context(), e, requestOf("one two three four five six seven eight nine ten eleven twelve"))
			failure := kindOf(t, err)
			if failure.Kind != test.kind || !strings.Contains(failure.Message, test.words) || failure.Partial || h.text != "" || answer.Stop != "" {
				t.Errorf("%+v: %+v", test.turn, failure)
			}
			if n := len(server.Requests()); n > 1 {
				t.Errorf("%+v: asked %d times", test.turn, n)
			}
		}
	})
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRetries: what may pass is tried again after a while: as long as the provider says, or
// longer each time.
func TestRetries(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		for _, fault := range []modeltest.Turn{
			{Status: 429}, {Status: 408}, {Status: 500}, {Status: 502}, {Status: 529}, {Cut: -1}, {Text: "lost", Cut: 10},
			{Raw: modeltest.Nothing}, {Error: "overloaded_error"}, {Error: "rate_limit_error"},
		} {
			synctest.Test(t, func(t *testing.T) {
				e, server := inBubble(t, modeltest.Sequence(fault, fault, fault, modeltest.Turn{Text: "at last"}), format, nil)
				began := time.Now()
				h, answer, err := ask(t.Context(), e, requestOf("go"))
				if err != nil || h.text != "at last" || answer.Stop != model.Ended {
					t.Errorf("%+v: heard %+v, %+v, %v", fault, h, answer, err)
				}
				if took := time.Since(began); took < 3500*time.Millisecond || took > 6*time.Second {
					t.Errorf("%+v: it took %s", fault, took)
				}
				if n := len(server.Requests()); n != 4 {
					t.Errorf("%+v: asked %d times", fault, n)
				}
			})
		}
	})
}

// TestRetryAfter: the provider says when.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		header func() string
		wait   time.Duration
	}{
		{func() string { return "20" }, 20 * time.Second},
		{func() string { return "0.25" }, 500 * time.Millisecond},
		{func() string { return time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat) }, 29 * time.Second},
		{func() string { return "soon" }, 500 * time.Millisecond},
		{func() string { return "-5" }, 500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := inBubble(t, modeltest.Sequence(modeltest.Turn{Status: 429, RetryAfter: test.header()}, modeltest.Turn{Text: "ok"}), "anthropic", nil)
			began := time.Now()
			if _, _, err := ask(t.Context(), e, requestOf("go")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < test.wait || took > test.wait+2*time.Second {
				t.Errorf("%q: it took %s", test.header(), took)
			}
		})
	}
	// For what is too far away nobody waits, and whoever asks is told.
	synctest.Test(t, func(t *testing.T) {
		e, server := inBubble(t, modeltest.Sequence(modeltest.Turn{Status: 429, RetryAfter: "300"}), "openai", nil)
		began := time.Now()
		_, _, err := ask(t.Context(), e, requestOf("go"))
		failure := kindOf(t, err)
		if failure.Kind != model.RateLimited || failure.Retry.Sub(began) != 5*time.Minute || time.Since(began) > time.Second || len(server.Requests()) != 1 {
			t.Errorf("%+v after %s", failure, time.Since(began))
		}
	})
}

// TestRetriesEnd: not for ever.
func TestRetriesEnd(t *testing.T) {
	for name, test := range map[string]struct {
		turn  modeltest.Turn
		kind  model.ErrorKind
		asked int
	}{
		"rate":     {modeltest.Turn{Status: 429, RetryAfter: "1"}, model.RateLimited, 3},
		"overload": {modeltest.Turn{Status: 529}, model.Overloaded, 3},
		"cut":      {modeltest.Turn{Cut: -1}, model.Unreachable, 3},
		"nothing":  {modeltest.Turn{Raw: modeltest.Nothing}, model.BrokeOff, 3},
		"idle":     {modeltest.Turn{First: modeltest.Hang}, model.Slow, 3},
		"hang":     {modeltest.Turn{Then: modeltest.Hang}, model.Slow, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, server := inBubble(t, func(*modeltest.Request) modeltest.Turn { return test.turn }, "openai",
					func(s *model.Spec) { s.Attempts = 3 })
				_, _, err := ask(t.Context(), e, requestOf("go"))
				if failure := kindOf(t, err); failure.Kind != test.kind || failure.Partial {
					t.Errorf("%+v", failure)
				}
				if n := len(server.Requests()); n != test.asked {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// TestTimeouts: a provider that only keeps the connection alive does not hold a request for
// ever.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drip := make(chan struct{})
		e, _ := inBubble(t, modeltest.Sequence(modeltest.Turn{Text: "so", Then: func(ctx context.Context) {
			defer close(drip)
			<-ctx.Done()
		}}), "anthropic", func(s *model.Spec) { s.IdleTimeout, s.Timeout = time.Hour, time.Minute })
		began := time.Now()
		h, answer, err := ask(t.Context(), e, requestOf("go"))
		if failure := kindOf(t, err); failure.Kind != model.Slow || !failure.Partial || !strings.Contains(failure.Message, "1m0s") || time.Since(began) != time.Minute {
			t.Errorf("%+v after %s", failure, time.Since(began))
		}
		if h.text != "so" || answer.Usage.Input == 0 {
			t.Errorf("heard %+v, %+v", h, answer)
		}
		<-drip
	})
}

// TestPauses: a model may think for as long as something comes now and then.
func TestPauses(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		synctest.Test(t, func(t *testing.T) {
			think := func(context.Context) { time.Sleep(90 * time.Second) }
			e, _ := inBubble(t, modeltest.Sequence(modeltest.Turn{Text: "well", First: think, Then: think}), format,
				func(s *model.Spec) { s.IdleTimeout, s.Attempts = 2*time.Minute, 1 })
			if h, _, err := ask(t.Context(), e, requestOf("go")); err != nil || h.text != "well" {
				t.Errorf("heard %+v, %v", h, err)
			}
		})
	})
}

// TestBreakOff: what ends in the middle is an error that says so, and is not begun anew, for
// something was handed over.
func TestBreakOff(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		for _, test := range []struct {
			turn modeltest.Turn
			kind model.ErrorKind
		}{
			{modeltest.Turn{Text: strings.Repeat("many words ", 50), Cut: 3000}, model.BrokeOff},
			{modeltest.Turn{Text: "some words", Error: "overloaded_error"}, model.Overloaded},
			{modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("now", struct{}{})}, Error: "api_error"}, model.Overloaded},
		} {
			server := scripted(t, modeltest.Sequence(test.turn))
			h, answer, err := ask(t.Context(), endpoint(t, server, format, nil), requestOf("go"))
			failure := kindOf(t, err)
			if failure.Kind != test.kind || !failure.Partial || h.text == "" && h.calls == nil || answer.Usage.Input == 0 || answer.Usage.Output < 2 || !answer.Usage.Estimated {
				t.Errorf("%+v: heard %+v, %+v, %+v", test.turn, h, answer, failure)
			}
			if n := len(server.Requests()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		}
	})
}

// TestFlood: a model that answers a gibibyte costs what an answer may cost.
func TestFlood(t *testing.T) {
	endless := []byte("data: " + strings.Repeat("x", 8<<20))
	bothFormats(t, func(t *testing.T, format string) {
		for name, turn := range map[string]modeltest.Turn{
			"text":    {Flood: 1 << 30},
			"event":   {Raw: endless},
			"message": {Raw: endless, Kind: "application/json"},
		} {
			server := scripted(t, modeltest.Sequence(turn))
			e := endpoint(t, server, format, func(s *model.Spec) { s.MaxAnswer = 8 << 20 })
			taken := 0
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := e.Ask(t.Context(), requestOf("go"), func(p toolcall.Piece) {
				if text, ok := p.(toolcall.Text); ok {
					taken += len(text)
				}
			})
			runtime.GC()
			runtime.ReadMemStats(&after)
			if failure := kindOf(t, err); failure.Kind != model.TooMuch || failure.Partial != (name == "text") {
				t.Errorf("%s: %+v", name, failure)
			}
			if taken > 8<<20 {
				t.Errorf("%s: %d bytes were handed over", name, taken)
			}
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
				t.Errorf("%s: %d bytes are kept", name, grown)
			}
		}
	})
}

// TestUnreachable: nobody is there, or nobody may be reached.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	listener.Close()
	server := scripted(t, modeltest.Sequence())
	e := endpoint(t, server, "openai", func(s *model.Spec) { s.URL, s.Attempts = "http://"+at, 1 })
	_, _, err = ask(t.Context(), e, requestOf("go"))
	if failure := kindOf(t, err); failure.Kind != model.Unreachable || !strings.Contains(failure.Message, "url") {
		t.Errorf("%+v", failure)
	}
	if failure := kindOf(t, e.Probe(t.Context())); failure.Kind != model.Unreachable {
		t.Errorf("%+v", failure)
	}
}

// TestRedirects: a key goes to no other address than the operator's.
func TestRedirects(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		var elsewhere atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				elsewhere.Add(1)
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}))
		defer server.Close()
		e := endpoint(t, scripted(t, nil), format, func(s *model.Spec) { s.URL = server.URL })
		_, _, err := ask(t.Context(), e, requestOf("go"))
		for _, err := range []error{err, e.Probe(t.Context())} {
			if failure := kindOf(t, err); failure.Kind != model.Unreachable || !strings.Contains(failure.Message, "redirects") {
				t.Errorf("%+v", failure)
			}
		}
		if elsewhere.Load() != 0 {
			t.Error("the redirect was followed")
		}
	})
}

// TestProbe: the key is tried without asking the model anything.
func TestProbe(t *testing.T) {
	bothFormats(t, func(t *testing.T, format string) {
		server := scripted(t, modeltest.Sequence())
		if err := endpoint(t, server, format, nil).Probe(t.Context()); err != nil {
			t.Error(err)
		}
		e := endpoint(t, server, format, func(s *model.Spec) { writeFile(t, s.KeyFile, "sk-other") })
		if failure := kindOf(t, e.Probe(t.Context())); failure.Kind != model.Credentials {
			t.Errorf("%+v", failure)
		}
		if n := len(server.Requests()); n != 0 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

// TestKeys: a key that is replaced counts at once; one in a variable works, and one that is
// gone is told.
func TestKeys(t *testing.T) {
	server := scripted(t, func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: "x"} })
	var file string
	e := endpoint(t, server, "openai", func(s *model.Spec) { file = s.KeyFile; writeFile(t, file, "sk-old") })
	_, _, err := ask(t.Context(), e, requestOf("go"))
	if failure := kindOf(t, err); failure.Kind != model.Credentials {
		t.Errorf("%+v", failure)
	}
	writeFile(t, file, key)
	if _, _, err := ask(t.Context(), e, requestOf("go")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, _, err = ask(t.Context(), e, requestOf("go"))
	if failure := kindOf(t, err); failure.Kind != model.Credentials || !strings.Contains(failure.Message, "key_file") {
		t.Errorf("%+v", failure)
	}
	t.Setenv("MODEL_KEY", key)
	e = endpoint(t, server, "anthropic", func(s *model.Spec) { s.KeyFile, s.KeyEnv = "", "MODEL_KEY" })
	if _, _, err := ask(t.Context(), e, requestOf("go")); err != nil {
		t.Error(err)
	}
}

// TestBudgets: what is used up begins anew with the day, for all and for each principal.
func TestBudgets(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*model.Spec)
		each bool
	}{
		"tokens":         {func(s *model.Spec) { s.Day.Tokens = 2000 }, false},
		"dollars":        {func(s *model.Spec) { s.Day.Dollars = 0.002 }, false},
		"tokens, each":   {func(s *model.Spec) { s.DayPrincipal.Tokens = 2000 }, true},
		"dollars of one": {func(s *model.Spec) { s.DayPrincipal.Dollars = 0.002 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, server := inBubble(t, func(*modeltest.Request) modeltest.Turn {
					return modeltest.Turn{Text: "x", Usage: model.Usage{Input: 900, Output: 100}}
				}, "anthropic", func(s *model.Spec) {
					s.Prices = model.Prices{Input: 1, Output: 1}
					test.set(s)
				})
				request := func(who string) error {
					r := requestOf("go")
					r.Principal = who
					_, _, err := ask(t.Context(), e, r)
					return err
				}
				for range 2 {
					if err := request("alice"); err != nil {
						t.Fatal(err)
					}
				}
				failure := kindOf(t, request("alice"))
				midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
				if failure.Kind != model.OutOfBudget || !failure.Retry.Equal(midnight) || !strings.Contains(failure.Message, "used") {
					t.Errorf("%+v", failure)
				}
				if err := request("bob"); (err == nil) != test.each {
					t.Errorf("bob: %v", err)
				}
				time.Sleep(time.Until(midnight))
				if err := request("alice"); err != nil {
					t.Errorf("the next day: %v", err)
				}
				if n, want := len(server.Requests()), map[bool]int{true: 4, false: 3}[test.each]; n != want {
					t.Errorf("asked %d times, want %d", n, want)
				}
			})
		})
	}
}

// TestBudgetOfFailures: what was never asked costs nothing; what broke off does.
func TestBudgetOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn atomic.Pointer[modeltest.Turn]
		e, _ := inBubble(t, func(*modeltest.Request) modeltest.Turn { return *turn.Load() }, "openai",
			func(s *model.Spec) { s.Day.Tokens, s.Attempts = 1000, 1 })
		fail := func(with modeltest.Turn) *model.Error {
			turn.Store(&with)
			_, _, err := ask(t.Context(), e, requestOf("go"))
			return kindOf(t, err)
		}
		for range 100 {
			if failure := fail(modeltest.Turn{Status: 500}); failure.Kind != model.Overloaded {
				t.Fatalf("%+v", failure)
			}
		}
		for range 2 {
			if failure := fail(modeltest.Turn{Text: strings.Repeat("many words ", 1000), Error: "server_error"}); failure.Kind == model.OutOfBudget {
				return
			}
		}
		t.Error("what broke off costs nothing")
	})
}

// TestCheck finds what is wrong in a table.
func TestCheck(t *testing.T) {
	good := model.Spec{Name: "a", Format: "openai", Model: "m"}
	for want, set := range map[string]func(*model.Spec){
		"models[0].name":              func(s *model.Spec) { s.Name = "A b" },
		"models[0].format":            func(s *model.Spec) { s.Format = "gemini" },
		"models[0].model":             func(s *model.Spec) { s.Model = "" },
		"models[0].url":               func(s *model.Spec) { s.URL = "ftp://x" },
		"models[0].url query":         func(s *model.Spec) { s.URL = "https://x/?a=b" },
		"models[0].url clear":         func(s *model.Spec) { s.URL, s.KeyEnv = "http://models.example/", "PATH" },
		"models[0].key_file":          func(s *model.Spec) { s.KeyFile = "/no/such/file" },
		"models[0].key_env":           func(s *model.Spec) { s.KeyEnv = "NO_SUCH_VARIABLE" },
		"models[0].key_env two":       func(s *model.Spec) { s.KeyEnv, s.KeyFile = "PATH", "/x" },
		"models[0].dialect":           func(s *model.Spec) { s.Dialect = "anthropic" },
		"models[0].headers.X-Api-Key": func(s *model.Spec) { s.Headers = map[string]string{"X-Api-Key": "k"} },
		"models[0].headers.a b":       func(s *model.Spec) { s.Headers = map[string]string{"a b": "k"} },
		"models[0].parameters.stream": func(s *model.Spec) { s.Parameters = map[string]any{"stream": false} },
		"models[0].proxy":             func(s *model.Spec) { s.Proxy = "http://x" },
		"models[0].max_tokens":        func(s *model.Spec) { s.MaxTokens = -1 },
		"models[0].timeout":           func(s *model.Spec) { s.Timeout = -1 },
		"models[0].idle_timeout":      func(s *model.Spec) { s.IdleTimeout = time.Millisecond },
		"models[0].attempts":          func(s *model.Spec) { s.Attempts = 100 },
		"models[0].concurrent":        func(s *model.Spec) { s.Concurrent = -1 },
		"models[0].max_answer":        func(s *model.Spec) { s.MaxAnswer = 1 },
		"models[0].day.tokens":        func(s *model.Spec) { s.Day.Tokens = -1 },
		"models[0].prices":            func(s *model.Spec) { s.Day.Dollars = 1 },
		"models[0].context_tokens":    func(s *model.Spec) { s.ContextTokens = -1 },
	} {
		spec := good
		set(&spec)
		found := ""
		model.Config{spec}.Check(func(key, format string, args ...any) { found += key + " " + fmt.Sprintf(format, args...) + "\n" })
		key, _, _ := strings.Cut(want, " ")
		if strings.Contains(want, "a b") {
			key = want
		}
		if strings.Count(found, "\n") != 1 || !strings.HasPrefix(found, key+" ") {
			t.Errorf("want a fault of %s, and there is %q", want, found)
		}
	}
	var found []string
	model.Config{good, good}.Check(func(key, format string, args ...any) { found = append(found, key) })
	if len(found) != 1 || found[0] != "models[1].name" {
		t.Errorf("%v", found)
	}
	for text, ok := range map[string]bool{"0.25": true, "3": true, "-1": false, "NaN": false, "1e300": false, "much": false} {
		if err := new(model.Dollars).UnmarshalText([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
