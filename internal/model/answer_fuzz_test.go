// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/toolserver/toolserver/internal/toolcall"
)

// FuzzAnswers: whatever an endpoint sends, reading it ends, with calls that are JSON objects
// and have an id, with a usage that can be, and with an error in words or with none.
func FuzzAnswers(f *testing.F) {
	f.Add(true, false, []byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1e99}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"now\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add(false, false, []byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\",\"tool_calls\":[{\"function\":{\"name\":\"now\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-5,\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\ndata: [DONE]\n\n"))
	f.Add(false, false, []byte("data: {\"error\":\"no\"}\r\n\r\n"))
	f.Add(false, true, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"<tool_call>\\n{\\\"name\\\":\\\"now\\\"}\\n</tool_call>\"}}]}\n\ndata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, isAnthropic, inText bool, text []byte) {
		spec := Spec{Name: "x", Format: "openai", Model: "m", Prices: Prices{Input: 1, Cached: 2, Output: 3}}
		if isAnthropic {
			spec.Format = "anthropic"
		}
		if inText {
			spec.Dialect = "hermes"
		}
		e, err := newEndpoint(spec.withDefaults(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.newReading(&Request{Tools: []toolcall.Tool{{Name: "now"}}}, func(p toolcall.Piece) {
			if c, ok := p.(toolcall.Call); ok && (c.ID == "" || !json.Valid(c.Input) || c.Input[0] != '{') {
				t.Errorf("%+v", c)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		r.begun = true
		if err = r.read(&http.Response{Header: http.Header{}}, bytes.NewReader(text)); err == nil && r.stop == "" {
			t.Error("it did not stop")
		}
		if u := r.count(10); u.Input < 0 || u.Cached < 0 || u.Cached > u.Input || u.Output < 0 || u.Dollars < 0 {
			t.Errorf("used %+v", u)
		}
		if failure := new(Error); err != nil && (!errors.As(e.explain(t.Context(), err, r), &failure) || failure.Message == "") {
			t.Errorf("%v is not explained", err)
		}
	})
}
