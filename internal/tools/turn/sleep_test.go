// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

func TestSleep(t *testing.T) {
	for _, test := range []struct {
		ms         int
		least, top int // how many reports there may be
		want       string
	}{
		{0, 0, 0, "Waited 0s."},
		{1, 1, 1, "Waited 1ms."},
		{99, 1, 1, "Waited 99ms."},
		{250, 3, 3, "Waited 250ms."},
		{3000, 20, 110, "Waited 3s."},
		{60_000, 90, 110, "Waited 1m0s."},
		{600_000, 90, 130, "Waited 10m0s."},
	} {
		t.Run(fmt.Sprint(test.ms), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				result, reports, err := toolstest.Run(t, turn.Sleep(), tools.Env{}, fmt.Sprintf(`{"duration_ms":%d}`, test.ms))
				if got := time.Since(begin); err != nil || got != time.Duration(test.ms)*time.Millisecond {
					t.Errorf("it took %s: %v", got, err)
				}
				if got := toolstest.Text(result); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
				if n := len(reports); n < test.least || n > test.top {
					t.Errorf("%d reports, want %d to %d", n, test.least, test.top)
				}
				before := -1.0
				for _, report := range reports {
					p, ok := report.(tools.Progress)
					if !ok || p.Done <= before || p.Done >= p.Total || p.Total != float64(test.ms) || p.Unit != "ms" {
						t.Fatalf("after %v: %+v", before, report)
					}
					before = p.Done
				}
			})
		})
	}
}

func TestSleepBounds(t *testing.T) {
	for _, input := range []string{`{}`, `{"duration_ms":-1}`, `{"duration_ms":600001}`, `{"duration_ms":1e99}`, `{"duration_ms":"5"}`, `{"duration_ms":1.5}`} {
		if _, err := turn.Sleep().Decode(&tools.Env{}, json.RawMessage(input)); err == nil {
			t.Errorf("%s is taken", input)
		}
	}
	call, err := turn.Sleep().Decode(&tools.Env{}, json.RawMessage(`{"duration_ms":600000}`))
	if err != nil || len(call.Effects()) != 0 {
		t.Errorf("ten minutes: %v, effects %v", err, call.Effects())
	}
	if longest := turn.Sleep().Spec().DefaultTimeout; longest <= 10*time.Minute {
		t.Errorf("the timeout of %s ends a sleep that is allowed", longest)
	}
}

// TestSleepIsCut cancels sleeps: the result tells how much of it was waited.
func TestSleepIsCut(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  string
	}{
		{0, "Waited 0s of 1m0s."},
		{time.Millisecond, "Waited 1ms of 1m0s."},
		{1234 * time.Millisecond, "Waited 1.234s of 1m0s."},
		{time.Minute - time.Nanosecond, "Waited 1m0s of 1m0s."},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.after == 0 {
					cancel(cause)
				} else {
					time.AfterFunc(test.after, func() { cancel(cause) })
				}
				call, err := turn.Sleep().Decode(&tools.Env{}, json.RawMessage(`{"duration_ms":60000}`))
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				result, err := call.Run(ctx, tools.Rights{}, new(toolstest.Recorder))
				if !errors.Is(err, cause) || time.Since(begin) != test.after {
					t.Errorf("after %s: %v, want the cause after %s", time.Since(begin), err, test.after)
				}
				if got := toolstest.Text(result); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			})
		})
	}
}

func TestSleepStops(t *testing.T) {
	toolstest.StopsSoon(t, turn.Sleep(), `{"duration_ms":600000}`, tools.Env{})
}

// TestSleepHears: a message of the client ends a sleep, which tells it to the model.
func TestSleepHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &toolstest.Recorder{Said: make(chan string, 1)}
		time.AfterFunc(2*time.Second, func() { out.Said <- "the build is done" })
		call, err := turn.Sleep().Decode(&tools.Env{}, json.RawMessage(`{"duration_ms":60000}`))
		if err != nil {
			t.Fatal(err)
		}
		result, err := call.Run(t.Context(), tools.Rights{}, out)
		if want := "Waited 2s of 1m0s, until this message came: the build is done"; err != nil || toolstest.Text(result) != want {
			t.Errorf("%q, %v", toolstest.Text(result), err)
		}
	})
}
