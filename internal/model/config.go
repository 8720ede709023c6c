// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// Config is the operator's table of endpoints. The first is for those who name none.
type Config []Spec

// A Spec is one endpoint.
type Spec struct {
	Name   string `yaml:"name"`   // that agents are given
	Format string `yaml:"format"` // anthropic or openai
	URL    string `yaml:"url"`    // the base, as the clients of the providers have it; empty: that of the provider
	Model  string `yaml:"model"`  // as the provider names it

	// The key is in a file, which is read for every request, or in a variable.
	KeyFile string `yaml:"key_file"`
	KeyEnv  string `yaml:"key_env"`

	// Dialect is how calls are written by a model whose provider has no tool calling: a
	// dialect of text. Empty: as the format has them.
	Dialect string `yaml:"dialect"`

	MaxTokens int `yaml:"max_tokens"` // of an answer; 8192

	// MaxCompletionTokens sends the bound under that name, as newer models of OpenAI want.
	MaxCompletionTokens bool `yaml:"max_completion_tokens"`

	// ContextTokens is what a conversation may have; one that is surely larger is not sent.
	// Zero: the provider says so.
	ContextTokens int `yaml:"context_tokens"`

	Headers    map[string]string `yaml:"headers"`    // sent with every request; no secrets
	Parameters map[string]any    `yaml:"parameters"` // of every request, such as temperature

	Timeout     time.Duration `yaml:"timeout"`      // of a request with all that it is tried; 10 min
	IdleTimeout time.Duration `yaml:"idle_timeout"` // how long nothing may come; 2 min
	Attempts    int           `yaml:"attempts"`     // how often a request is sent; 5
	Concurrent  int           `yaml:"concurrent"`   // requests at once; others wait; 16
	MaxAnswer   size.Bytes    `yaml:"max_answer"`   // bytes of an answer as it is sent; 64 MiB

	Prices       Prices `yaml:"prices"`
	Day          Budget `yaml:"day"`
	DayPrincipal Budget `yaml:"day_principal"` // of each principal

	ClearText bool   `yaml:"clear_text"` // the key may go to other machines by http
	Proxy     string `yaml:"proxy"`      // of the operator, as host:port
}

// Prices are dollars for a million tokens.
type Prices struct {
	Input      Dollars `yaml:"input"`
	Cached     Dollars `yaml:"cached"`      // read from a cache; 0: as Input
	CacheWrite Dollars `yaml:"cache_write"` // written to a cache; 0: as Input
	Output     Dollars `yaml:"output"`
}

// Dollars is an amount of money.
type Dollars float64

// UnmarshalText reads an amount such as 0.25.
func (d *Dollars) UnmarshalText(text []byte) error {
	amount, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(amount) || amount < 0 || amount > 1e9 {
		return fmt.Errorf("%q is no amount of dollars: want one such as 2.50", text)
	}
	*d = Dollars(amount)
	return nil
}

func (d Dollars) String() string { return strconv.FormatFloat(float64(d), 'f', -1, 64) }

func (s Spec) withDefaults() Spec {
	if f := formats[s.Format]; f != nil {
		s.URL = cmp.Or(s.URL, f.url)
	}
	s.MaxTokens = cmp.Or(s.MaxTokens, 8192)
	s.Timeout = cmp.Or(s.Timeout, 10*time.Minute)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, 2*time.Minute)
	s.Attempts = cmp.Or(s.Attempts, 5)
	s.Concurrent = cmp.Or(s.Concurrent, 16)
	s.MaxAnswer = cmp.Or(s.MaxAnswer, 64<<20)
	return s
}

// Names returns the names of the endpoints.
func (c Config) Names() (names []string) {
	for _, s := range c {
		names = append(names, s.Name)
	}
	return names
}

// Files returns the files with keys in them.
func (c Config) Files() (files []string) {
	for _, s := range c {
		if s.KeyFile != "" {
			files = append(files, s.KeyFile)
		}
	}
	return files
}

// Variables returns the variables with keys in them.
func (c Config) Variables() (names []string) {
	for _, s := range c {
		if s.KeyEnv != "" {
			names = append(names, s.KeyEnv)
		}
	}
	return names
}

// Keys returns the keys that can be read.
func (c Config) Keys() (keys []string) {
	for _, s := range c {
		if key, err := s.key(); err == nil && key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// key returns the key; "" where the endpoint has none.
func (s *Spec) key() (string, error) {
	var text, where string
	switch {
	case s.KeyFile != "":
		where = s.KeyFile
		info, err := os.Stat(where)
		if err != nil {
			return "", err
		}
		if info.Size() > 64<<10 {
			return "", fmt.Errorf("%s has %d bytes: want a key of at most 64 KiB", where, info.Size())
		}
		data, err := os.ReadFile(where)
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(string(data))
	case s.KeyEnv != "":
		where = "the variable " + s.KeyEnv
		text = strings.TrimSpace(os.Getenv(s.KeyEnv))
	default:
		return "", nil
	}
	if text == "" {
		return "", fmt.Errorf("%s is empty", where)
	}
	if !httpguts.ValidHeaderFieldValue(text) {
		return "", fmt.Errorf("%s has characters in it that no key has", where)
	}
	return text, nil
}

var isName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`).MatchString

// Check finds everything that is wrong, with the key of each.
func (c Config) Check(fault func(key, format string, args ...any)) {
	names := make(map[string]bool)
	for i, spec := range c {
		spec.check(func(key, format string, args ...any) { fault(fmt.Sprintf("models[%d].%s", i, key), format, args...) })
		if names[spec.Name] {
			fault(fmt.Sprintf("models[%d].name", i), "there is a model named %s already", spec.Name)
		}
		names[spec.Name] = true
	}
}

func (s *Spec) check(fault func(key, format string, args ...any)) {
	if !isName(s.Name) {
		fault("name", "%.80q is no name: want small letters, digits, dots, dashes and underscores, at most 64", s.Name)
	}
	if formats[s.Format] == nil {
		fault("format", "%q is none: want anthropic or openai", s.Format)
	}
	if s.Model == "" {
		fault("model", "is missing: want the name that the provider has for the model")
	}
	full := s.withDefaults()
	if full.URL == "" { // which the format would say
	} else if u, err := url.Parse(full.URL); err != nil {
		fault("url", "is no address: want one such as https://api.example.com/v1")
	} else if _, err := egress.Named(u); err != nil {
		fault("url", "%v", err)
	} else if u.RawQuery != "" || u.Fragment != "" {
		fault("url", "has a query or fragment: want the base of the API alone")
	} else if s.KeyFile+s.KeyEnv != "" && u.Scheme == "http" && !s.ClearText && !egress.IsHere(u.Hostname()) {
		fault("url", "http to %s sends the key in the clear: want https, or say clear_text: true", u.Hostname())
	}
	switch {
	case s.KeyFile != "" && s.KeyEnv != "":
		fault("key_env", "there is key_file already: want one of the two")
	case s.KeyFile != "":
		if _, err := s.key(); err != nil {
			fault("key_file", "%v", err)
		}
	default:
		if _, err := s.key(); err != nil {
			fault("key_env", "%v", err)
		}
	}
	if d, err := toolcall.Named(s.Dialect); s.Dialect != "" && (err != nil || !d.Text) {
		fault("dialect", "%.64q is no dialect of text: want one of %s, or none", s.Dialect, strings.Join(textDialects(), ", "))
	}
	for name, value := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			fault("headers."+name, "is no header that can be sent")
		} else if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			fault("headers."+name, "is set by the server itself; a key belongs to key_file or key_env")
		}
	}
	for name := range s.Parameters {
		if slices.Contains(ownParameters, name) {
			fault("parameters."+name, "is set by the server itself")
		}
	}
	if s.Proxy != "" {
		if err := egress.CheckProxy(s.Proxy); err != nil {
			fault("proxy", "%v", err)
		}
	}
	within(fault, "max_tokens", full.MaxTokens, 1, 10_000_000)
	within(fault, "context_tokens", full.ContextTokens, 0, 1_000_000_000)
	within(fault, "timeout", full.Timeout, time.Second, 24*time.Hour)
	within(fault, "idle_timeout", full.IdleTimeout, time.Second, 24*time.Hour)
	within(fault, "attempts", full.Attempts, 1, 20)
	within(fault, "concurrent", full.Concurrent, 1, 10_000)
	within(fault, "max_answer", full.MaxAnswer, 64<<10, 1<<30)
	within(fault, "day.tokens", s.Day.Tokens, 0, math.MaxInt)
	within(fault, "day_principal.tokens", s.DayPrincipal.Tokens, 0, math.MaxInt)
	if s.Day.Dollars+s.DayPrincipal.Dollars > 0 && s.Prices.Input+s.Prices.Output == 0 {
		fault("prices", "there is a budget in dollars, and no prices: want input and output, in dollars for a million tokens")
	}
}

var (
	ownHeaders    = []string{"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Expect", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Api-Key"}
	ownParameters = []string{"model", "messages", "system", "tools", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "thinking"}
)

func textDialects() (names []string) {
	for _, d := range toolcall.Dialects {
		if d.Text {
			names = append(names, d.Name)
		}
	}
	return names
}

func within[T cmp.Ordered](fault func(key, format string, args ...any), key string, value, least, most T) {
	if value < least || value > most {
		fault(key, "%v is out of bounds: want %v to %v", value, least, most)
	}
}
