// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/toolcall"
)

// TestTokens holds the estimates against public tokenizers: testdata/tokens.json has
// texts of this project that the weights were not fitted to, and sentences in seven other
// languages that they were, with what gpt-tokenizer 4.0.0
// (o200k_base), llama3-tokenizer-js 1.2.0, mistral-tokenizer-js 1.0.0 and
// @anthropic-ai/tokenizer 0.0.4 count.
func TestTokens(t *testing.T) {
	text, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var samples []map[string]any
	if err := json.Unmarshal(text, &samples); err != nil {
		t.Fatal(err)
	}
	for _, family := range toolcall.Families {
		var errors []float64
		worst := 0.0 // in other languages
		for _, sample := range samples {
			for tokenizer, counted := range sample {
				counted, ok := counted.(float64)
				if !ok || tokenizer != family.Name && family.Name != "any" {
					continue
				}
				estimate := float64(family.Tokens(sample["text"].(string)))
				wrong := math.Abs(estimate-counted) / counted * 100
				if sample["language"] == true {
					worst = max(worst, wrong)
				} else {
					errors = append(errors, wrong)
				}
			}
		}
		if len(errors) == 0 {
			if !strings.HasPrefix(family.Basis, "not measured") {
				t.Errorf("%s says that it was measured with %s", family.Name, family.Basis)
			}
			continue // there is no public tokenizer
		}
		slices.Sort(errors)
		at95 := errors[len(errors)*95/100]
		t.Logf("%s: median %.1f %%, 95 of 100 within %.1f %%; other languages within %.1f %%", family.Name, errors[len(errors)/2], at95, worst)
		if at95 > float64(family.Error) || worst > 60 && family.Name != "any" || worst > 90 {
			t.Errorf("%s: 95 of 100 are within %.1f %%, and %d %% is stated", family.Name, at95, family.Error)
		}
	}
	for text, want := range map[string]int{"": 0, " ": 1, "hello": 2} {
		if got := toolcall.AnyFamily().Tokens(text); got != want {
			t.Errorf("%q costs %d, want %d", text, got, want)
		}
	}
}

// TestCount: where a tokenizer is public it counts what another implementation of it does,
// for several at once, and nothing that would take long.
func TestCount(t *testing.T) {
	text, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var samples []struct {
		Text   string
		OpenAI int
	}
	if err := json.Unmarshal(text, &samples); err != nil {
		t.Fatal(err)
	}
	openAI, err := toolcall.Named("openai-responses")
	if err != nil {
		t.Fatal(err)
	}
	var counting sync.WaitGroup
	for range 4 {
		counting.Go(func() {
			for _, sample := range samples {
				if got, by, ok := openAI.Family().Count(sample.Text); !ok || got != sample.OpenAI || by != "o200k_base" {
					t.Errorf("%.60q has %d tokens by %s (%t), want %d", sample.Text, got, by, ok, sample.OpenAI)
				}
			}
		})
	}
	counting.Wait()
	if _, _, ok := openAI.Family().Count(strings.Repeat("a", toolcall.MaxCounted+1)); ok {
		t.Error("a text without bounds is counted")
	}
	if _, _, ok := toolcall.FamilyNamed("gemini").Count("a"); ok {
		t.Error("gemini has a tokenizer")
	}
}

// TestPrefix: a prefix is as long as its tokens allow.
func TestPrefix(t *testing.T) {
	text := strings.Repeat("func main() { fmt.Println(\"héllo, wörld 12345\") }\n日本", 20)
	for _, family := range toolcall.Families {
		for limit := range family.Tokens(text) + 2 {
			n := family.Prefix(text, limit)
			if family.Tokens(text[:n]) > limit || n < len(text) && family.Tokens(text[:n+1]) <= limit {
				t.Fatalf("%s: %d bytes for %d tokens: they cost %d", family.Name, n, limit, family.Tokens(text[:n]))
			}
		}
	}
}

func BenchmarkTokens(b *testing.B) {
	text := strings.Repeat("func main() { fmt.Println(\"hello, world 123\") }\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		toolcall.AnyFamily().Tokens(text)
	}
}
