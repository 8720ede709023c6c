// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/trace"
)

const (
	theirTrace = "0af7651916cd43dd8448eb211c80319c"
	theirSpan  = "b7ad6b7169203331"
	sampled    = "00-" + theirTrace + "-" + theirSpan + "-01"
	notSampled = "00-" + theirTrace + "-" + theirSpan + "-00"
)

// kept keeps what a tracer exports.
type kept struct {
	mu      sync.Mutex
	batches [][]string // names of spans
	spans   []*trace.Span
	lost    []string
	err     error         // of every export
	takes   time.Duration // an export
}

func (k *kept) config() trace.Config {
	return trace.Config{
		Export: func(ctx context.Context, spans []*trace.Span) error {
			select {
			case <-time.After(k.takes):
			case <-ctx.Done():
				return ctx.Err()
			}
			var names []string
			for _, s := range spans {
				names = append(names, s.Name)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			k.batches, k.spans = append(k.batches, names), append(k.spans, spans...)
			return k.err
		},
		Lost: func(err error) { k.lost = append(k.lost, err.Error()) },
	}
}

// count returns how many batches have been exported.
func (k *kept) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.batches)
}

func TestParents(t *testing.T) {
	for _, test := range []struct {
		name, header string
		follows      bool
		exported     bool
	}{
		{"none", "", false, true},
		{"sampled", sampled, true, true},
		{"not sampled", notSampled, true, false},
		{"other flags", "00-" + theirTrace + "-" + theirSpan + "-03", true, true},
		{"a later version", "01-" + theirTrace + "-" + theirSpan + "-01-more", true, true},
		{"a later version without more", "cc-" + theirTrace + "-" + theirSpan + "-00", true, false},
		{"too long", sampled + "-more", false, true},
		{"too long without a dash", "01-" + theirTrace + "-" + theirSpan + "-01more", false, true},
		{"too short", sampled[:54], false, true},
		{"no version", "ff-" + theirTrace + "-" + theirSpan + "-01", false, true},
		{"capitals", strings.ToUpper(sampled), false, true},
		{"not hexadecimal", "00-" + strings.Repeat("g", 32) + "-" + theirSpan + "-01", false, true},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + theirSpan + "-01", false, true},
		{"no span", "00-" + theirTrace + "-" + strings.Repeat("0", 16) + "-01", false, true},
		{"no dashes", strings.ReplaceAll(sampled, "-", "0"), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var k kept
			tracer := trace.New(k.config())
			span := tracer.Start("call", test.header, "a=1,b=2")
			span.Set("key", "value")
			id := span.Trace()
			span.Finish("")
			if err := tracer.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if (id == theirTrace) != test.follows || len(id) != 32 || id == strings.Repeat("0", 32) {
				t.Errorf("trace %s", id)
			}
			if got := len(k.spans) == 1; got != test.exported {
				t.Fatalf("exported: %v, want %v", got, test.exported)
			}
			if !test.exported {
				return
			}
			got := k.spans[0]
			if (got.Parent != [8]byte{}) != test.follows || (got.State == "a=1,b=2") != test.follows {
				t.Errorf("parent %x, state %q", got.Parent, got.State)
			}
			if !slices.Equal(got.Attributes, []trace.Attribute{{Key: "key", Value: "value"}}) || got.ID == [8]byte{} || got.End.Before(got.Begin) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestStatesThatCannotBePassedOn(t *testing.T) {
	var k kept
	tracer := trace.New(k.config())
	for _, state := range []string{strings.Repeat("x", 513), "a=\n", "a=é"} {
		tracer.Start("call", sampled, state).Finish("")
	}
	tracer.Shutdown(t.Context())
	if len(k.spans) != 3 {
		t.Fatalf("%d spans, want 3", len(k.spans))
	}
	for _, span := range k.spans {
		if span.State != "" {
			t.Errorf("state %q", span.State)
		}
	}
}

func TestSamplers(t *testing.T) {
	for _, test := range []struct {
		name             string
		sampler          trace.Sampler
		own, on, off     bool
		ownMore, ownLess int // of 1,000 traces that begin here
	}{
		{"as the caller says", trace.Sampler{}, true, true, false, 1000, 1000},
		{"as the caller says, or not", trace.Sampler{Skip: 1}, false, true, false, 0, 0},
		{"all", trace.Sampler{IgnoreCaller: true}, true, true, true, 1000, 1000},
		{"none", trace.Sampler{Skip: 1, IgnoreCaller: true}, false, false, false, 0, 0},
		{"some", trace.Sampler{Skip: 0.75}, true, true, false, 100, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			var k kept
			config := k.config()
			config.Sampler = test.sampler
			tracer := trace.New(config)
			for range 1000 {
				tracer.Start("own", "", "").Finish("")
			}
			tracer.Start("on", sampled, "").Finish("")
			tracer.Start("off", notSampled, "").Finish("")
			tracer.Shutdown(t.Context())
			count := make(map[string]int)
			for _, span := range k.spans {
				count[span.Name]++
			}
			if n := count["own"]; n < test.ownMore || n > test.ownLess {
				t.Errorf("%d of 1,000 traces, want %d to %d", n, test.ownMore, test.ownLess)
			}
			if count["on"] == 1 != test.on || count["off"] == 1 != test.off {
				t.Errorf("of callers' traces %v", count)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		config := k.config()
		config.Batch, config.Delay = 2, time.Second
		tracer := trace.New(config)
		for _, name := range []string{"a", "b", "c"} {
			tracer.Start(name, "", "").Finish("")
		}
		synctest.Wait()
		if got := k.count(); got != 1 {
			t.Errorf("%d batches at once, want the full one", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := k.count(); got != 2 {
			t.Errorf("%d batches after the delay, want 2", got)
		}
		for _, name := range []string{"d", "e", "f"} {
			tracer.Start(name, "", "").Finish("")
		}
		if err := tracer.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		want := [][]string{{"a", "b"}, {"c"}, {"d", "e"}, {"f"}}
		if !slices.EqualFunc(k.batches, want, slices.Equal[[]string]) || len(k.lost) > 0 {
			t.Errorf("%v, lost %v, want %v", k.batches, k.lost, want)
		}
		tracer.Start("late", "", "").Finish("")
		if err := tracer.Shutdown(t.Context()); err != nil || len(k.spans) != 6 {
			t.Errorf("a second shutdown: %v, with %d spans", err, len(k.spans))
		}
	})
}

// TestSlowCollector proves that calls never wait for who takes their spans, and
// that it is told what was lost.
func TestSlowCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kept{takes: time.Hour}
		config := k.config()
		config.Batch, config.Queue, config.Timeout = 1, 3, time.Minute
		tracer := trace.New(config)
		begin := time.Now()
		tracer.Start("first", "", "").Finish("")
		synctest.Wait() // it is being exported
		for range 10 {
			tracer.Start("more", "", "").Finish("")
		}
		if time.Since(begin) > 0 {
			t.Error("a call has waited")
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if want := []string{"context deadline exceeded", "7 spans were dropped, for more than 3 waited"}; !slices.Equal(k.lost, want) {
			t.Errorf("lost %q, want %q", k.lost, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := tracer.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shut down with %v", err)
		}
	})
}

func TestNoTracer(t *testing.T) {
	var tracer *trace.Tracer
	span := tracer.Start("call", sampled, "")
	span.Set("key", "value")
	span.Finish("failed")
	if span != nil || span.Trace() != "" {
		t.Errorf("%v", span)
	}
}
